// SPDX-License-Identifier: BSD-2-Clause
/* README's example. Linux 6.14 and later know that key 0 is in an array: they need no check. */
#include "common.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int count_enter(void *ctx)
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&calls, &key);

	*count += 1; // refused: pointer-or-null -6.13
	return 0;
}

SEC("raw_tp/sys_exit")
int count_exit(void *ctx) // refused: instruction-unknown -5.11
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&calls, &key);

	return count ? __sync_fetch_and_add(count, 1) : 0;
}
