// SPDX-License-Identifier: BSD-2-Clause
/* A program of a table of functions is refused, the others of it load; a table that lacks a function. */
#include "common.h"
#include "congestion.h"

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/before")
__u32 BPF_PROG(before, struct sock *sk)
{
	return 2;
}

SEC("struct_ops/wrong")
void BPF_PROG(wrong, struct sock *sk, __u32 ack, __u32 acked)
{
	*(volatile int *)(long)ack = 1; // refused: not-a-pointer
}

SEC("struct_ops/behind")
__u32 BPF_PROG(behind, struct sock *sk)
{
	return 2;
}

SEC(".struct_ops")
struct tcp_congestion_ops refused_in_part = { // attach blocked: struct-ops-program
	.ssthresh = (void *)before,
	.cong_avoid = (void *)wrong,
	.undo_cwnd = (void *)behind,
	.name = "rsn_in_part",
};

SEC(".struct_ops")
struct tcp_congestion_ops without_undo = { // attach refused: struct-ops-refused
	.ssthresh = (void *)before,
	.name = "rsn_no_undo",
};

SEC("raw_tp/sys_enter")
int beside_wrong(void *ctx)
{
	return 0;
}
