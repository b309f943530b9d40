// SPDX-License-Identifier: BSD-2-Clause
/* Has a seccomp filter that answers mkdir(2) and mkdirat(2) with EPERM, and says so as programs do. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifdef SYS_mkdir
#define OTHER SYS_mkdir
#else
#define OTHER SYS_mkdirat
#endif

int main(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	char path[] = "/tmp/seccomp"; /* on the stack: nobody else brings a constant into memory */
	struct sock_fprog program = { sizeof(rules) / sizeof(*rules), rules };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 2;
	if (!mkdir(path, 0755))
		return 0;
	fprintf(stderr, "cannot make %s: %s\n", path, strerror(errno));
	return 1;
}
