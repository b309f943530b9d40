/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes in the basic blocks of functions: one tracefs event with many probes, distinguished by
 * their addresses. A hit in a thread with a session is stored in the ring of the call.
 */
#ifndef RSN_BLOCK_BPF_H
#define RSN_BLOCK_BPF_H

#include "probe.bpf.h"
#include "single_kprobe.bpf.h"

enum {
	REGISTERS_END = 256, /* all registers begin below; vmlinux.h has only part of the struct */
};

/* Returns the register of ctx at an offset. */
static __always_inline __u64 block_register(struct pt_regs *ctx, __u32 offset)
{
	__u64 value = 0;

	if (offset >= REGISTERS_END)
		return 0;
	bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + offset);
	return value;
}

#if defined(__TARGET_ARCH_arm64)
/* Whether a condition holds; the condition has the encoding of the instructions. */
static __always_inline bool block_holds(struct pt_regs *ctx, __u32 condition)
{
	enum {
		PSTATE = 264, /* in struct pt_regs: behind 31 registers, sp and pc */
	};
	bool n, z, c, v, holds;
	__u64 pstate = 0;

	bpf_probe_read_kernel(&pstate, sizeof(pstate), (void *)ctx + PSTATE);
	n = pstate >> 31 & 1;
	z = pstate >> 30 & 1;
	c = pstate >> 29 & 1;
	v = pstate >> 28 & 1;
	switch (condition >> 1) {
	case 0: /* eq */
		holds = z;
		break;
	case 1: /* hs */
		holds = c;
		break;
	case 2: /* mi */
		holds = n;
		break;
	case 3: /* vs */
		holds = v;
		break;
	case 4: /* hi */
		holds = c && !z;
		break;
	case 5: /* ge */
		holds = n == v;
		break;
	case 6: /* gt */
		holds = n == v && !z;
		break;
	default: /* always, in both spellings */
		return true;
	}
	return condition & 1 ? !holds : holds;
}
#else
static __always_inline bool block_holds(struct pt_regs *ctx, __u32 condition)
{
	return false;
}
#endif

/* Reads an operand; returns a negative errno if it cannot be read. */
static __noinline int block_operand(struct pt_regs *ctx, const struct path_operand *operand,
				    __u64 *value)
{
	__u64 address = operand->disp, size = operand->size;

	*value = 0;
	if (operand->kind == PATH_NONE)
		return 0;
	if (operand->base != PATH_NO_REGISTER)
		address += block_register(ctx, operand->base);
	if (operand->kind == PATH_REGISTER) {
		*value = address;
		return 0;
	}
	if (operand->index != PATH_NO_REGISTER)
		address += block_register(ctx, operand->index) * operand->scale;
	size = barrier_value(size);
	if (!size || size > sizeof(*value))
		return -1;
	return bpf_probe_read_kernel(value, size, (void *)address);
}

/* Returns the ring of the innermost call if that is a call of the probe's function. */
static __always_inline struct path_ring *block_ring(struct session *s, __u64 task, __u32 func_id)
{
	__u32 depth = s->depth - 1;
	struct path_rings *rings;
	struct path_ring *ring;
	struct rsn_slot *slot;

	if (depth >= RSN_MAX_DEPTH)
		return NULL;
	slot = slot_at(s, depth);
	if (slot->func_id != func_id)
		return NULL;
	if (path_room(s, task) == (__u32)PATH_NO_ROOM)
		return NULL;
	rings = path_rings_of(s);
	if (!rings)
		return NULL;
	ring = path_ring_at(rings, depth);
	if (ring->seq != slot->seq) {
		ring->taken = ring->seq > slot->seq;
		ring->cnt = 0;
	}
	ring->seq = slot->seq;
	return ring;
}

static __noinline int block_hit(struct pt_regs *ctx, struct session *s, __u64 task,
				struct path_probe *probe)
{
	struct path_ring *ring = block_ring(s, task, probe->func_id);
	__u64 left = 0, right = 0;
	struct rsn_hit *hit;

	if (!ring)
		return 0;
	hit = &ring->hits[ring->cnt & (RSN_PATH_HITS - 1)];
	hit->probe = probe->number;
	/* A conditional comparison has two numbers; the second is used if it compares. */
	if (probe->condition && block_holds(ctx, probe->condition - 1))
		hit->probe++;
	hit->unread = block_operand(ctx, &probe->left, &left) ? 1 : 0;
	if (block_operand(ctx, &probe->right, &right))
		hit->unread |= 2;
	if (probe->calls)
		hit->unread |= 4;
	hit->left = left;
	hit->right = right;
	ring->cnt++;
	return 0;
}

SEC("kprobe")
int rsn_block(struct pt_regs *ctx)
{
	__u64 address = PT_REGS_IP(ctx) - BREAKPOINT_SIZE, task;
	struct path_probe *probe;
	struct session *s;

	if (!ready)
		return 0;
	task = bpf_get_current_task();
	s = session_of(task);
	if (!s || !s->at_rest)
		return 0;
	probe = bpf_map_lookup_elem(&path_probes, &address);
	if (!probe)
		return 0;
	s->at_rest = false;
	barrier();
	if (!is_interrupt(s, task, stack_place(PT_REGS_SP(ctx)))) {
		misses_take(s);
		block_hit(ctx, s, task, probe);
		misses_note(s);
	}
	return session_leave(s);
}

#endif
