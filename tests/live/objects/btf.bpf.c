// SPDX-License-Identifier: BSD-2-Clause
/* A map with more entries than BTF can say: the kernel refuses the BTF, and loads the rest. */
#include "common.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 0xffffffff);
	__type(key, __u32);
	__type(value, __u64);
} largest SEC(".maps"); // refused: map-too-large

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int without_map(void *ctx)
{
	return 0;
}
