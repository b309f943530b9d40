// SPDX-License-Identifier: BSD-2-Clause
/*
 * unprobed CASE: a system call that fails in a function of the kernel that has no trace point.
 * Exits with 1 if it failed as it should, with 2 if it did not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	struct open_how how = { .mode = 0644 };
	struct iovec empty[2000] = { 0 };
	int expected = EINVAL;
	long result = 0;

	if (!strcmp(name, "readv_count")) {
		result = syscall(SYS_readv, 0, empty, 2000);
	} else if (!strcmp(name, "openat2_mode")) {
		result = syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how));
	} else if (!strcmp(name, "key_address")) {
		result = syscall(SYS_add_key, (char *)1, "description", "payload", 7, -3);
		expected = EFAULT;
	}
	if (result >= 0 || errno != expected) {
		fprintf(stderr, "%s: %ld, errno %d\n", name, result, errno);
		return 2;
	}
	perror(name);
	return 1;
}
