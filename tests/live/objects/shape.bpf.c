// SPDX-License-Identifier: BSD-2-Clause
/* Whether it loads depends on its read-only data. */
#include "common.h"

struct task_struct {
	int pid;
	int no_such_field;
} __attribute__((preserve_access_index));

const volatile bool is_modern = false;
const volatile __u32 rounds = 10;

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int by_switch(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (is_modern)
		return BPF_CORE_READ(task, no_such_field);
	return 0;
}

SEC("raw_tp/sys_enter")
int by_rounds(void *ctx)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < rounds; i++)
		sum += bpf_get_prandom_u32();
	return sum;
}
