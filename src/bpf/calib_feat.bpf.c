// SPDX-License-Identifier: BSD-2-Clause
/*
 * Programs with which the loader tries what libbpf's own probes cannot: whether a mechanism really
 * attaches. Only the program in question is loaded, and a refusal is the answer.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Loads without CONFIG_FPROBE, too; then the kernel refuses the link. */
SEC("kprobe.multi")
int feat_kprobe_multi(void *ctx)
{
	return 0;
}
