// SPDX-License-Identifier: BSD-2-Clause
/* crash WAY [FILE]: is killed by a signal in one of these ways. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

static void beyond_the_end(const char *name)
{
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	volatile char *data = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);

	if (ftruncate(file, 100) || data == MAP_FAILED)
		exit(1);
	(void)data[5000];
}

static void refused(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_chdir, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
	if (chdir("/"))
		exit(1);
}

int main(int count, char **words)
{
	const char *way = count > 1 ? words[1] : "";
	volatile int zero = 0;

	if (!strcmp(way, "null"))
		*(volatile int *)16;
	if (!strcmp(way, "constant"))
		*(volatile char *)"constant" = 1;
	if (!strcmp(way, "bus"))
		beyond_the_end(words[2]);
	if (!strcmp(way, "instruction"))
		__builtin_trap();
	if (!strcmp(way, "division"))
		return 5 / zero;
	if (!strcmp(way, "assertion"))
		assert(count == 99);
	if (!strcmp(way, "seccomp"))
		refused();
	if (!strcmp(way, "alarm")) {
		alarm(1);
		pause();
	}
	if (!strcmp(way, "spin"))
		for (;;)
			;
	return 0;
}
