// SPDX-License-Identifier: BSD-2-Clause
/* What the kernel of one architecture has, and that of another one has not. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

SEC("fentry/__x64_sys_bpf")
int call_of_x86(void *ctx)
{
	return 0; // refused: attach-target-missing on arm64
}

SEC("fentry/vfs_read")
int call_of_all(void *ctx)
{
	return 0;
}
