// SPDX-License-Identifier: BSD-2-Clause
/* A table of functions with more in it than this kernel's has: the rest of the object loads. */
#include "common.h"

struct sock;
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	int no_such_member;
};

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/limit")
__u32 BPF_PROG(limit, struct sock *sk) // blocked: struct-ops-member
{
	return 2;
}

SEC(".struct_ops")
struct tcp_congestion_ops mistaken = { // refused: struct-ops-member
	.ssthresh = (void *)limit,
	.no_such_member = 4,
};

SEC("raw_tp/sys_enter")
int beside_table(void *ctx)
{
	return 0;
}
