/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shadow stack of a session: which traced calls run, which chain of failures they left behind,
 * and the kernel stacks that go with it.
 */
#ifndef RSN_SHADOW_BPF_H
#define RSN_SHADOW_BPF_H

#include "settings.bpf.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* A place in what a session logs. */
struct log_mark {
	__u32 bytes;
	__u32 events;
};

struct session {
	/* All up to `at_rest` is 0 when a session begins. */
	__u32 depth; /* traced calls running, those too deep for a slot included */
	__u32 max_depth;
	__u32 saved_from; /* first slot of the saved chain, 0: there is none */
	/* Calls running that an interrupt of the thread makes: their slots follow max_depth. */
	__u32 interrupt_depth;
	bool is_err; /* the last result that could tell was a failure */
	__u8 kstacks_bare; /* a bit for each kstack that the kernel gave nothing of */
	bool misses_shared; /* with other threads; see misses.bpf.h */
	bool interim_kept; /* `interims` has the saved chain as it was when it was saved */
	bool user_stack_sent;
	bool null_left_out; /* the saved chain was kept, and not a later one that returned NULL */
	__u16 kstack_cnt[2];
	__s16 branch_cnt[2]; /* branches kept with each kstack, or a negative errno; 0: none */
	struct log_mark log; /* what the log holds */
	struct log_mark log_sent; /* what it held before */
	bool at_rest; /* no program is at work on it; never for one that has no thread */
	__u8 kstack_now; /* which kstack belongs to the slots; the other one to the saved chain */
	__u64 place; /* in the table */
	__u32 saved_to;
	__u32 saved_parent; /* seq of the call that made the saved chain's first call */
	__u64 branches_taken; /* what branches_take() gave the program that is at work; 0: nothing */
	/* See misses.bpf.h: */
	__u64 switches; /* of the thread from its CPU, when the session began */
	__u64 misses; /* on miss_cpu, as far as they are accounted for */
	__u64 miss_at; /* where the first program's are counted there */
	__u32 miss_cpu;
	__u32 sp[RSN_MAX_DEPTH]; /* stack_place() at the entry of each running call */
	/* The record as it is sent: header, slots, and the kernel stack moved up behind them. */
	struct rsn_session rec;
	struct rsn_slot slots[RSN_MAX_DEPTH];
	/* The verifier takes saved[63] plus 63 slots for possible: kstack must follow. */
	struct rsn_slot saved[RSN_MAX_DEPTH];
	__u64 kstack[2][RSN_MAX_KSTACK];
	/* Only where keep_call_sites is set: */
	__u64 sites[RSN_MAX_DEPTH]; /* where each running call returns to */
	__u64 outer[RSN_MAX_KSTACK - RSN_MAX_DEPTH]; /* kernel stack at the first call's entry */
	__u32 outer_cnt;
	bool from_sites[2]; /* which kstack was put together of them */
	/* See path.bpf.h; they are of the session that began at path_ts. */
	__u32 path_room;
	__u64 path_ts;
};

/* One for each place of the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

/* v, of which the compiler assumes nothing from here on, so that a check of it survives. */
static __always_inline __u64 barrier_value(__u64 v)
{
	barrier_var(v);
	return v;
}

/* An index below RSN_MAX_DEPTH, bounded where the verifier sees it. */
static __always_inline __u64 slot_index(__u64 i)
{
	return barrier_value(i) & (RSN_MAX_DEPTH - 1);
}

static __always_inline struct rsn_slot *slot_at(struct session *s, __u64 i)
{
	return &s->slots[slot_index(i)];
}

static __always_inline __u32 cookie_func(__u64 cookie)
{
	return (__u32)cookie;
}

static __always_inline __u32 cookie_flags(__u64 cookie)
{
	return cookie >> 32;
}

/* The low half of a stack pointer, in units of 8 bytes; 0 stands for unknown. */
static __always_inline __u32 stack_place(__u32 sp)
{
	return sp >> 3;
}

/*
 * Where the stack is on which a trampoline or a raw tracepoint has put the program's context: below
 * the caller's frame and above the function's. The verifier takes half of a pointer for a number,
 * if the loader may see the kernel's memory.
 */
static __always_inline __u32 context_place(void *ctx)
{
	__u32 low = (__u64)ctx;

	asm volatile("%[low] = %[low]" : [low] "+w"(low));
	return stack_place(low);
}

/* Kernel stacks have so many places, and those of threads lie at multiples of it. */
const volatile __u32 stack_places = (16 << 10) / 8;

/* Whether two stack places are on the same stack: interrupts run on stacks of their own. */
static __always_inline bool same_stack(__u32 place, __u32 other)
{
	return (place ^ other) < stack_places;
}

/*
 * Whether the call whose entry was at `place` must have returned when func_id is entered at `now`:
 * the stack pointer is above the call's frame. Equal places are a tail call (the callee takes over
 * the caller's frame), but no function jumps to its own entry.
 */
static __always_inline bool has_returned(__u32 place, __u32 place_func, __u32 now, __u32 func_id)
{
	if (place > now) /* mostly: it is the caller, and goes on */
		return false;
	return same_stack(place, now) && (place < now || place_func == func_id);
}

/* Whether the saved chain was called by the last call of the chain in slots. */
static __always_inline bool chain_continues(struct session *s)
{
	const struct rsn_slot *last = slot_at(s, s->max_depth - 1);

	if (!s->saved_from || s->saved_from != s->max_depth || last->seq != s->saved_parent)
		return false;
	return !s->null_left_out ||
	       (__u32)last->result == (__u32)s->saved[slot_index(s->saved_from)].result;
}

/* Copies the saved chain over, or slots into it; from is never 0, so that cnt is below 64. */
static __always_inline void copy_chain(struct rsn_slot *to, const struct rsn_slot *from,
				       __u64 first, __u64 end)
{
	__u64 cnt = slot_index(end - first);

	first = slot_index(first);
	bpf_probe_read_kernel(to + first, cnt * sizeof(*to), from + first);
}

/*
 * Whether the saved chain is kept, and not one from slot `from` on that returned NULL. Its caller
 * still runs, and it returned an error's number: behind an error, in the clean-up, NULL is an
 * ordinary answer. If its caller then returns another error, it is not the reason.
 */
static __always_inline bool keeps_saved(struct session *s, __u32 from)
{
	return s->saved_from && s->saved_from <= from &&
	       slot_at(s, s->saved_from - 1)->seq == s->saved_parent && !slot_at(s, from)->result &&
	       s->saved[slot_index(s->saved_from)].result;
}

/*
 * Keeps the failed chain slots [depth, max_depth) from being overwritten. If it is what led to the
 * saved chain, it goes in front of that, whose kernel stack is the deeper one.
 */
static __noinline int save_chain(struct session *s)
{
	__u32 from = s->depth;
	bool continues;

	if (keeps_saved(s, from)) {
		s->null_left_out = true;
		return 0;
	}
	continues = chain_continues(s);
	s->null_left_out = false;
	if (!continues) {
		s->saved_to = s->max_depth;
		s->kstack_now ^= 1;
	}
	copy_chain(s->saved, s->slots, from, s->max_depth);
	s->saved_from = from;
	s->saved_parent = slot_at(s, from - 1)->seq;
	return 0;
}

/* The kernel cannot unwind behind a return probe (before 5.15): note where each call returns to. */
const volatile bool keep_call_sites = false;

/*
 * Makes a kernel stack of what was noted at the entries: where the running calls return to, and
 * what was above the first. Calls in between that are not traced are missing from it. Gives the
 * number of its entries.
 */
static __noinline __u32 stack_from_sites(struct session *s, __u64 *kstack)
{
#if defined(__TARGET_ARCH_arm64)
	const __u32 known = 1; /* outer begins with the first call itself; that it has no frame yet
				  hides where it returns to */
#else
	const __u32 known = 2; /* outer begins with the first call itself and where it returns to */
#endif
	__u64 depth = s->depth, outer = s->outer_cnt;

	if (depth > RSN_MAX_DEPTH)
		depth = RSN_MAX_DEPTH;
	for (int i = 0; i < RSN_MAX_DEPTH && i < depth; i++)
		kstack[i] = s->sites[slot_index(depth - 1 - i)];
	if (outer > known) {
		outer = barrier_value(outer - known) & (ARRAY_SIZE(s->outer) - 1);
		bpf_probe_read_kernel(&kstack[slot_index(depth - 1) + 1], outer * sizeof(__u64),
				      &s->outer[known]);
		depth += outer;
	}
	return depth;
}

/* Has the kernel unwind its stack from here; false where it gave no more than where it began. */
static __always_inline bool unwind_kstack(void *ctx, struct session *s, __u64 which)
{
	long bytes;

	which &= 1;
	bytes = bpf_get_stack(ctx, s->kstack[which], sizeof(s->kstack[which]), 0);
	s->kstack_cnt[which] = bytes > 0 ? bytes / sizeof(__u64) : 0;
	return bytes > (long)sizeof(__u64);
}

static __always_inline void take_kstack(void *ctx, struct session *s)
{
	__u64 now = s->kstack_now & 1;

	if (!emit_stack)
		return;
	s->from_sites[now] = false;
	s->kstacks_bare &= ~(1 << now);
	if (unwind_kstack(ctx, s, now)) {
#if defined(__TARGET_ARCH_arm64)
		/* what is unwound there begins with a program counter that nobody has set */
		if (keep_call_sites && !s->kstack[now][0] && s->depth <= RSN_MAX_DEPTH)
			s->kstack[now][0] = s->sites[slot_index(s->depth - 1)];
#endif
		return;
	}
	if (keep_call_sites) {
		s->kstack_cnt[now] = stack_from_sites(s, s->kstack[now]);
		s->from_sites[now] = true;
	} else {
		s->kstacks_bare |= 1 << now;
	}
}

/*
 * Takes bare kernel stacks again, at the return of a call further out. When a traced function ends
 * in a jump to another one, the return address of both is the same word, hooked twice. Linux 7.3
 * begins to unwind at what it finds there when the inner one returns: the outer one's hook, from
 * where it does not get on. The outer one returns right after, to the same place: its stack is the
 * one that was asked for. (Behind a hook that is not ours it is the next traced caller's.)
 */
static __noinline int retake_kstacks(void *ctx, struct session *s)
{
	for (__u32 which = 0; which < ARRAY_SIZE(s->kstack); which++)
		if (s->kstacks_bare & 1 << which && unwind_kstack(ctx, s, which))
			s->kstacks_bare &= ~(1 << which);
	return 0;
}

/* Forgets the running calls from `depth` on: their returns were missed. */
static __always_inline void drop_calls(struct session *s, __u32 depth)
{
	s->rec.lost_exits += s->depth - depth;
	s->depth = depth;
	s->max_depth = depth;
	s->is_err = false;
}

/* Drops the calls that must have returned before func_id is entered with this stack. */
static __noinline int drop_returned(struct session *s, __u32 place, __u32 func_id)
{
	__u32 kept = s->depth;

	for (int i = 0; i < RSN_MAX_DEPTH && kept; i++) {
		__u64 top = slot_index(kept - 1);

		if (!has_returned(s->sp[top], s->slots[top].func_id, place, func_id))
			break;
		kept--;
	}
	drop_calls(s, kept);
	return 0;
}

/* What a call is that is not on the stack of the session's first one. */
enum other_stack {
	STACK_OF_INTERRUPT, /* an interrupt of the thread makes it */
	STACK_OF_SESSION, /* it is like any other: an interrupt's stack may lie across our bounds */
	STACK_OF_NEXT, /* the interrupt whose call began the session must be over */
};

static __noinline int other_stack(struct session *s, __u64 task, __u32 place)
{
	struct task_struct *thread = (struct task_struct *)task;
	__u32 own = stack_place((__u64)BPF_CORE_READ(thread, stack)), first = s->sp[0];
	__u32 apart = place > first ? place - first : first - place;

	if (same_stack(first, own))
		return STACK_OF_INTERRUPT;
	return same_stack(place, own) || apart >= stack_places ? STACK_OF_NEXT : STACK_OF_SESSION;
}

/* The slot of the interrupt's call at `depth`, from 1, which may be beyond the last one. */
static __always_inline __u64 interrupt_slot(struct session *s, __u32 depth)
{
	return s->max_depth + depth - 1;
}

/* The interrupt's calls from `depth` on must be over: their returns were missed. */
static __always_inline void drop_interrupt_calls(struct session *s, __u32 depth)
{
	s->rec.lost_exits += s->interrupt_depth - depth;
	s->interrupt_depth = depth;
}

/*
 * Whether a probe, hit at `place`, is so in an interrupt of the session's thread; place: 0 if it is not
 * known.
 */
static __always_inline bool is_interrupt(struct session *s, __u64 task, __u32 place)
{
	if (!place)
		return s->interrupt_depth;
	if (!same_stack(place, s->sp[0]))
		return other_stack(s, task, place) == STACK_OF_INTERRUPT;
	drop_interrupt_calls(s, 0);
	return false;
}

/* An interrupt of the thread calls func_id: those of its calls that must have returned go. */
static __noinline int drop_interrupted(struct session *s, __u32 place, __u32 func_id)
{
	__u32 kept = s->interrupt_depth;

	for (int i = 0; i < RSN_MAX_DEPTH && kept; i++) {
		__u64 top = interrupt_slot(s, kept);

		if (top >= RSN_MAX_DEPTH)
			break;
		top = slot_index(top);
		if (!has_returned(s->sp[top], s->slots[top].func_id, place, func_id))
			break;
		kept--;
	}
	drop_interrupt_calls(s, kept);
	return 0;
}

/* The depth of the interrupt's innermost running call of func_id; 0 if there is none. */
static __noinline __u32 interrupt_call_of(struct session *s, __u32 func_id)
{
	__u32 depth = s->interrupt_depth;

	for (int i = 0; i < RSN_MAX_DEPTH && depth; i++) {
		__u64 slot = interrupt_slot(s, depth);

		if (slot >= RSN_MAX_DEPTH || slot_at(s, slot)->func_id == func_id)
			break;
		depth--;
	}
	return depth;
}

/* Makes the innermost running call of func_id the last one; false if there is none. */
static __noinline int unwind_to(struct session *s, __u32 func_id)
{
	__u32 depth = s->depth;

	for (int i = 0; i < RSN_MAX_DEPTH && depth; i++) {
		if (slot_at(s, depth - 1)->func_id == func_id) {
			drop_calls(s, depth);
			return true;
		}
		depth--;
	}
	s->rec.lost_entries++;
	return false;
}

#endif
