// SPDX-License-Identifier: BSD-2-Clause
/* Tables of functions that the kernel calls, and a map that is pinned by its name. */
#include "common.h"
#include "congestion.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pinned_by_name SEC(".maps");

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/threshold")
__u32 BPF_PROG(threshold, struct sock *sk)
{
	return 2;
}

SEC("struct_ops/avoid")
void BPF_PROG(avoid, struct sock *sk, __u32 ack, __u32 acked)
{
}

SEC("struct_ops/undo")
__u32 BPF_PROG(undo, struct sock *sk)
{
	return 2;
}

SEC(".struct_ops")
struct tcp_congestion_ops congestion = {
	.ssthresh = (void *)threshold,
	.cong_avoid = (void *)avoid,
	.undo_cwnd = (void *)undo,
	.name = "rsn_loaded",
};

SEC("raw_tp/sys_enter")
int uses_pinned(void *ctx)
{
	__u32 key = 1;

	return bpf_map_lookup_elem(&pinned_by_name, &key) != 0;
}
