/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of functions of a TCP congestion control, as far as objects here fill it. */
#pragma once

struct sock;
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};
