/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shadow stack of a session: the running traced calls, the last chain of failures, and their
 * kernel stacks.
 */
#ifndef RSN_SHADOW_BPF_H
#define RSN_SHADOW_BPF_H

#include "settings.bpf.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* A position in a session's log. */
struct log_mark {
	__u32 bytes;
	__u32 events;
};

struct session {
	/* All up to `at_rest` is 0 when a session begins. */
	__u32 depth; /* running traced calls, including calls too deep for a slot */
	__u32 max_depth;
	__u32 saved_from; /* first slot of the saved chain, 0: no saved chain */
	/* Running calls of an interrupt of the thread: their slots follow max_depth. */
	__u32 interrupt_depth;
	bool is_err; /* the last meaningful result was a failure */
	__u8 kstacks_bare; /* a bit for each kstack that the kernel left empty */
	bool misses_shared; /* with other threads; see misses.bpf.h */
	bool interim_kept; /* `interims` has the saved chain in its state at the save */
	bool user_stack_sent;
	bool null_left_out; /* the saved chain was preferred to a later chain that returned NULL */
	__u16 kstack_cnt[2];
	__s16 branch_cnt[2]; /* branches kept with each kstack, or a negative errno; 0: none */
	struct log_mark log; /* the contents of the log */
	struct log_mark log_sent; /* the parts sent before */
	bool at_rest; /* no program uses the session; false without a thread */
	__u8 kstack_now; /* the kstack of the slots; the other kstack is of the saved chain */
	__u64 place; /* in the table */
	__u32 saved_to;
	__u32 saved_parent; /* seq of the caller of the saved chain's first call */
	__u64 branches_taken; /* result of branches_take() in the running program; 0: none */
	/* See misses.bpf.h: */
	__u64 switches; /* of the thread from its CPU, when the session began */
	__u64 misses; /* counter on miss_cpu at the last check */
	__u64 miss_at; /* address of the first program's counter there */
	__u32 miss_cpu;
	__u32 sp[RSN_MAX_DEPTH]; /* stack_place() at the entry of each running call */
	/* The sent record: header, slots, and directly after them the kernel stack. */
	struct rsn_session rec;
	struct rsn_slot slots[RSN_MAX_DEPTH];
	/* The verifier takes saved[63] plus 63 slots for possible: kstack must follow. */
	struct rsn_slot saved[RSN_MAX_DEPTH];
	__u64 kstack[2][RSN_MAX_KSTACK];
	/* Only where keep_call_sites is set: */
	__u64 sites[RSN_MAX_DEPTH]; /* return address of each running call */
	__u64 outer[RSN_MAX_KSTACK - RSN_MAX_DEPTH]; /* kernel stack at the first call's entry */
	__u32 outer_cnt;
	bool from_sites[2]; /* which kstack was made from sites and outer */
	/* See path.bpf.h; valid for the session that began at path_ts. */
	__u32 path_room;
	__u64 path_ts;
};

/* One entry for each place of the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

/* Returns v and hides its value from the compiler, so a check of the result is not removed. */
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
 * Returns the stack place of the context from a trampoline or a raw tracepoint: it is below the
 * caller's frame and above the function's frame. The verifier treats half of a pointer as a number
 * if the loader may read the kernel's memory.
 */
static __always_inline __u32 context_place(void *ctx)
{
	__u32 low = (__u64)ctx;

	asm volatile("%[low] = %[low]" : [low] "+w"(low));
	return stack_place(low);
}

/* Places in a kernel stack; the stacks of threads lie at multiples of this number. */
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
	if (place > now) /* the usual case: it is the caller, and still runs */
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
 * Whether to keep the saved chain instead of a chain from slot `from` on that returned NULL. The
 * caller of the saved chain still runs, and the saved chain returned an error number. In the
 * clean-up after an error, NULL is an ordinary result. If the caller then returns another error,
 * the saved chain is not the cause.
 */
static __always_inline bool keeps_saved(struct session *s, __u32 from)
{
	return s->saved_from && s->saved_from <= from &&
	       slot_at(s, s->saved_from - 1)->seq == s->saved_parent && !slot_at(s, from)->result &&
	       s->saved[slot_index(s->saved_from)].result;
}

/*
 * Saves the failed chain in slots [depth, max_depth) before it is overwritten. If that chain called
 * the saved chain, it is put in front of the saved chain, and the deeper kernel stack is kept.
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

/* The kernel cannot unwind behind a return probe (before 5.15): record all return addresses. */
const volatile bool keep_call_sites = false;

/*
 * Makes a kernel stack from the data recorded at the entries: the return addresses of the running
 * calls, and the outer stack of the first call. Untraced calls in between are missing. Returns the
 * number of entries.
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
 * Takes empty kernel stacks again, at the return of an outer call. If a traced function ends in a
 * jump to another traced function, both have the same word as return address, hooked twice. When
 * the inner function returns, Linux 7.3 begins to unwind at the outer function's hook and fails
 * there. The outer function returns right after, to the same place, so its stack is the wanted
 * stack. (Behind a hook of another tool, it is the stack of the next traced caller.)
 */
static __noinline int retake_kstacks(void *ctx, struct session *s)
{
	for (__u32 which = 0; which < ARRAY_SIZE(s->kstack); which++)
		if (s->kstacks_bare & 1 << which && unwind_kstack(ctx, s, which))
			s->kstacks_bare &= ~(1 << which);
	return 0;
}

/* Drops the running calls from `depth` on: their returns were missed. */
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

/* The kinds of a call that is on another stack than the session's first call. */
enum other_stack {
	STACK_OF_INTERRUPT, /* a call of an interrupt of the thread */
	STACK_OF_SESSION, /* an ordinary call: an interrupt's stack may cross our bounds */
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

/* Returns the slot of the interrupt's call at `depth`, from 1; may be beyond the last slot. */
static __always_inline __u64 interrupt_slot(struct session *s, __u32 depth)
{
	return s->max_depth + depth - 1;
}

/* Drops the interrupt's calls from `depth` on: their returns were missed. */
static __always_inline void drop_interrupt_calls(struct session *s, __u32 depth)
{
	s->rec.lost_exits += s->interrupt_depth - depth;
	s->interrupt_depth = depth;
}

/*
 * Whether a probe hit at `place` is in an interrupt of the session's thread; place: 0 if unknown.
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

/* An interrupt of the thread calls func_id: drops its calls that must have returned. */
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

/* Returns the depth of the interrupt's innermost running call of func_id; 0 without such a call. */
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

/* Makes the innermost running call of func_id the last call; false without such a call. */
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
