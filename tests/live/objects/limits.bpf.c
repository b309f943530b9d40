// SPDX-License-Identifier: BSD-2-Clause
/* More than the verifier is ready to follow. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int too_large(void *ctx) // refused: too-large
{
	__u64 sum = 0;

	for (int i = 0; i < 1000000; i++)
		sum += bpf_get_prandom_u32();
	return sum;
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int too_many_jumps(void)
{
	asm volatile(".rept 8300\n" // refused: too-many-jumps
		     "call %[random]\n"
		     "if r0 == 0 goto 1f\n"
		     ".endr\n"
		     "1: r0 = 0\n"
		     "exit" ::[random] "i"(BPF_FUNC_get_prandom_u32));
}
