// SPDX-License-Identifier: BSD-2-Clause
/* What a program reads and writes is not what it may. */
#include "common.h"

struct entry {
	__u32 index;
	char text[60];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct padded {
	__u8 kind;
	__u64 value;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, struct padded);
	__type(value, __u64);
} table SEC(".maps");

char LICENSE[] SEC("license") = "GPL";

SEC("xdp")
int packet_unchecked(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data;

	return data[12] ? XDP_PASS : XDP_DROP; // refused: packet-bounds
}

SEC("xdp")
int packet_checked_short(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 12 > end)
		return XDP_DROP;
	return data[12] ? XDP_PASS : XDP_DROP; // refused: packet-bounds
}

SEC("xdp")
int packet_check_lost(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 14 > end)
		return XDP_DROP;
	if (bpf_xdp_adjust_head(ctx, 4))
		return XDP_DROP;
	return data[12] ? XDP_PASS : XDP_DROP; // refused: not-a-pointer
}

SEC("raw_tp/sys_enter")
int lookup_unchecked(void *ctx)
{
	struct padded key = {};
	__u64 *value = bpf_map_lookup_elem(&table, &key);

	return *value; // refused: pointer-or-null
}

SEC("raw_tp/sys_enter")
int kernel_pointer(void *ctx)
{
	__u64 *task = (void *)bpf_get_current_task();

	return task[3]; // refused: not-a-pointer
}

SEC("raw_tp/sys_enter")
int index_unbounded(void *ctx)
{
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);

	if (!entry)
		return 0;
	return entry->text[entry->index & 0xff]; // refused: map-bounds
}

SEC("raw_tp/sys_enter")
int index_negative(void *ctx)
{
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);
	int index;

	if (!entry)
		return 0;
	index = (int)entry->index;
	if (index > 50)
		return 0;
	return entry->text[index]; // refused: pointer-arithmetic-unbounded
}

SEC("raw_tp/sys_enter")
int pointer_sum_unbounded(void *ctx)
{
	__u64 at = bpf_ktime_get_ns();
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);

	if (!entry)
		return 0;
	return *((char *)entry + at); // refused: pointer-arithmetic-unbounded
}

SEC("raw_tp/sys_enter")
int size_unbounded(void *ctx)
{
	char buffer[32];
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);

	if (!entry)
		return 0;
	bpf_probe_read_kernel(buffer, (__u64)entry->index << 1, ctx); // refused: size-unbounded
	return buffer[0];
}

SEC("raw_tp/sys_enter")
int size_negative(void *ctx)
{
	char buffer[32];
	__u32 key = 0;
	struct entry *entry = bpf_map_lookup_elem(&entries, &key);
	__s64 size;

	if (!entry)
		return 0;
	size = (__s32)entry->index;
	if (size > 32)
		return 0;
	bpf_probe_read_kernel(buffer, size, ctx); // refused: size-unbounded
	return buffer[0];
}

SEC("raw_tp/sys_enter")
int padding_unset(void *ctx)
{
	struct padded key;
	__u64 value = 1;

	key.kind = 1;
	key.value = 2;
	bpf_map_update_elem(&table, &key, &value, 0);
	return 0;
}

SEC("raw_tp/sys_enter")
int stack_outside(void *ctx)
{
	char buffer[16] = {};

	bpf_probe_read_kernel(buffer, 24, ctx); // refused: stack-bounds
	return buffer[0];
}

SEC("xdp")
int field_unknown(struct xdp_md *ctx)
{
	return *(volatile __u32 *)((char *)ctx + 100); // refused: context-access
}

SEC("socket")
int field_not_for_type(struct __sk_buff *skb)
{
	return skb->tstamp != 0 && skb->data_meta; // refused: context-access
}

SEC("raw_tp/sys_enter")
int wrong_pointer(void *ctx)
{
	__u64 value = 0;

	bpf_map_lookup_elem((void *)&value, &value); // refused: argument-type
	return 0;
}

SEC("xdp")
int bounds_kept(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (data + 14 > end)
		return XDP_DROP;
	return data[12] ? XDP_PASS : XDP_DROP;
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int stack_unset(void)
{
	asm volatile("r1 = 0; *(u64 *)(r10 - 8) = r1; r2 = r10; r2 += -16;" // refused: stack-uninitialised -6.2
		     "r1 = %[table] ll; call %[lookup]; r0 = 0; exit" ::[table] "i"(&table),
		     [lookup] "i"(BPF_FUNC_map_lookup_elem));
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int stack_misaligned(void)
{
	asm volatile("r1 = 0; *(u64 *)(r10 - 9) = r1; r0 = 0; exit"); // refused: misaligned
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int pointer_multiplied(void)
{
	asm volatile("r1 *= 2; r0 = 0; exit"); // refused: pointer-arithmetic
}

SEC("raw_tp/sys_enter")
int lookup_passed_unchecked(void *ctx)
{
	struct padded key = {};
	__u64 *value = bpf_map_lookup_elem(&table, &key);

	bpf_map_update_elem(&table, &key, value, 0); // refused: pointer-or-null
	return 0;
}

SEC("raw_tp/sys_enter")
int map_of_another_type(void *ctx)
{
	bpf_ringbuf_output(&table, &(__u64){ 1 }, 8, 0); // refused: argument-type
	return 0;
}

SEC("tp_btf/task_newtask")
int struct_left(__u64 *ctx)
{
	return *(volatile __u64 *)(ctx[0] + 1000000); // refused: btf-access
}

SEC("tp_btf/task_newtask")
int argument_missing(__u64 *ctx)
{
	return ctx[7] != 0; // refused: context-access
}
