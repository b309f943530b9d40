// SPDX-License-Identifier: BSD-2-Clause
/* A section that no program type goes by. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

SEC("kprobes/vfs_read")
int section_mistyped(void *ctx)
{
	return 0; // refused: section-unknown
}

SEC("kprobe/vfs_read")
int section_right(void *ctx)
{
	return 0;
}
