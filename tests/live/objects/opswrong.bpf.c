// SPDX-License-Identifier: BSD-2-Clause
/* A program of a table of functions is refused, and libbpf loads those of a table together. */
#include "common.h"

struct sock;
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

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
__u32 BPF_PROG(behind, struct sock *sk) // blocked: struct-ops-program
{
	return 2;
}

SEC(".struct_ops")
struct tcp_congestion_ops refused_in_part = {
	.ssthresh = (void *)before,
	.cong_avoid = (void *)wrong,
	.undo_cwnd = (void *)behind,
	.name = "rsn_in_part",
};

SEC("raw_tp/sys_enter")
int beside_wrong(void *ctx)
{
	return 0;
}
