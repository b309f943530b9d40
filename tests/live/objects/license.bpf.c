// SPDX-License-Identifier: BSD-2-Clause
/* A license that keeps a helper away. */
#include "common.h"

char LICENSE[] SEC("license") = "Proprietary";

SEC("raw_tp/sys_enter")
int helper_for_gpl(void *ctx)
{
	char text[] = "hello";

	bpf_trace_printk(text, sizeof(text)); // refused: helper-gpl
	return 0;
}

SEC("raw_tp/sys_enter")
int helper_for_all(void *ctx)
{
	return bpf_get_prandom_u32();
}
