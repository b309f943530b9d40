// SPDX-License-Identifier: BSD-2-Clause
/*
 * callers N: main() calls outer_call(), which calls inner_call(), which makes an ioctl() call on a
 * pipe that fails; N times. Compile it with frame pointers.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static __attribute__((noinline)) long inner_call(int fd)
{
	long result;

	/* not through the C library, which has no frame pointers; naming the frame makes one */
#if defined(__x86_64__)
	register long arg __asm__("rdx") = 0;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(__NR_ioctl), "D"((long)fd), "S"(0x1234L), "r"(arg),
			   "r"(__builtin_frame_address(0))
			 : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = __NR_ioctl;
	register long arg0 __asm__("x0") = fd;
	register long arg1 __asm__("x1") = 0x1234;
	register long arg2 __asm__("x2") = 0;

	__asm__ volatile("svc 0"
			 : "+r"(arg0)
			 : "r"(number), "r"(arg1), "r"(arg2), "r"(__builtin_frame_address(0))
			 : "memory");
	result = arg0;
#endif
	return result;
}

static __attribute__((noinline)) long outer_call(int fd)
{
	return inner_call(fd) + 1;
}

int main(int argc, char **argv)
{
	int fds[2];
	long failed = 0;

	if (argc < 2 || pipe(fds))
		return 2;
	for (int i = 0; i < atoi(argv[1]); i++)
		failed += outer_call(fds[0]) < 0;
	if (argc > 2) /* stay until our mappings have been read */
		sleep(atoi(argv[2]));
	return failed == atoi(argv[1]) ? 0 : 1;
}
