// SPDX-License-Identifier: BSD-2-Clause
/* A table of functions that this kernel has no place for. */
#include "common.h"

struct no_such_ops {
	int (*first)(int value);
};

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops/first")
int BPF_PROG(first, int value) // blocked: struct-ops-missing
{
	return value;
}

SEC(".struct_ops")
struct no_such_ops operations = { // refused: struct-ops-missing
	.first = (void *)first,
};

SEC("raw_tp/sys_enter")
int without_table(void *ctx)
{
	return 0;
}
