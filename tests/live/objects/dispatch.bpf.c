// SPDX-License-Identifier: BSD-2-Clause
/* A program with a function that those of replace.bpf.c take the place of. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

__attribute__((noinline)) int replaced(struct xdp_md *ctx)
{
	volatile int result = XDP_PASS;

	return result;
}

SEC("xdp")
int dispatch(struct xdp_md *ctx)
{
	return replaced(ctx);
}
