// SPDX-License-Identifier: BSD-2-Clause
/* The way through a program is not one that ends, or not one the kernel follows. */
#include "common.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
__attribute__((naked)) int register_unset(void)
{
	asm volatile("r0 = r3; exit"); // refused: register-unset
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int register_after_call(void)
{
	asm volatile("r3 = 1; call %[ns]; r0 = r3; exit" ::[ns] "i"(BPF_FUNC_ktime_get_ns)); // refused: register-unset
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int unreachable(void)
{
	asm volatile("r0 = 0; exit; r0 = 1; exit"); // refused: unreachable
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int no_exit(void)
{
	asm volatile("r0 = 0; r1 = 1"); // refused: no-exit
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int endless(void)
{
	asm volatile("r0 = 0; again: goto again; exit"); // refused: unreachable
}

SEC("raw_tp/sys_enter")
int loop_unbounded(void *ctx)
{
	__u32 key = 0;
	volatile __u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		return 0;
	while (*count != 7) // refused: endless-loop
		bpf_get_prandom_u32();
	return 0;
}

static __attribute__((noinline)) int deeper(void *ctx)
{
	char buffer[300];

	bpf_probe_read_kernel(buffer, sizeof(buffer), ctx);
	return buffer[7];
}

/* Since 6.13 the JIT of x86-64 gives each function of a tracing program a stack of its own. */
SEC("raw_tp/sys_enter")
int stack_too_deep(void *ctx) // refused: stack-size -6.12
{
	char buffer[300];

	bpf_probe_read_kernel(buffer, sizeof(buffer), ctx);
	return buffer[9] + deeper(buffer);
}

SEC("cgroup_skb/egress")
int result_out_of_range(struct __sk_buff *skb)
{
	return 7; // refused: result-range
}

SEC("raw_tp/sys_enter")
int reference_kept(void *ctx)
{
	__u64 *event = bpf_ringbuf_reserve(&events, 8, 0);

	if (!event)
		return 0;
	*event = 1;
	return 0;
} // refused: reference-leak

__attribute__((noinline)) int global_sum(__u64 *value)
{
	return value ? *value : 0;
}

SEC("raw_tp/sys_enter")
int global_function(void *ctx) // refused: global-argument -5.11
{
	__u64 value = 3;

	return global_sum(&value);
}

SEC("raw_tp/sys_enter")
int loop_bounded(void *ctx)
{
	__u64 sum = 0;

	for (int i = 0; i < 100; i++)
		sum += bpf_get_prandom_u32();
	return sum;
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int jump_outside(void)
{
	asm volatile(".8byte 0x640005; r0 = 0; exit"); // refused: jump-outside
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int instruction_of_none(void)
{
	asm volatile("r0 = 0; .8byte 0x8f; exit"); // refused: instruction-unknown
}

/* Atomic operations that give the old value came with 5.12. */
SEC("raw_tp/sys_enter")
int atomic_of_5_12(void *ctx) // refused: instruction-unknown -5.11
{
	__u32 key = 0;
	__u64 *count = bpf_map_lookup_elem(&counts, &key);

	return count ? __sync_fetch_and_add(count, 1) : 0;
}

static int five(__u32 index, void *ctx);

/* bpf_loop() came with 5.17, functions that are passed on with 5.13. */
SEC("raw_tp/sys_enter")
int called_back(void *ctx)
{
	return bpf_loop(3, five, 0, 0); // refused: helper-unknown -5.16
}

static int five(__u32 index, void *ctx)
{
	return 5; // refused: result-range 5.17-
}
