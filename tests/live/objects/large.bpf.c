// SPDX-License-Identifier: BSD-2-Clause
/* More instructions than any kernel reads: it says E2BIG, and the verifier has no say. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int instructions_uncounted(void *ctx)
{
	asm volatile(".rept 1000001\nr0 = 0\n.endr" ::: "r0"); // refused: program-size
	return 0;
}
