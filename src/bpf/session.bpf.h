/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session engine: every attach mechanism calls it at a traced function's entry and exit.
 *
 * A session lasts from a thread's first call of an entry function to that call's return. It keeps a
 * shadow stack of the traced calls: slots [0, depth) are running, slots [depth, max_depth) have
 * returned, and end with the deepest call of the last chain. If is_err, that call failed first. A
 * call that is about to overwrite a failed chain saves it first, because the caller may yet return
 * the error (a cleanup helper that succeeds in between changes nothing).
 *
 * Sessions are keyed by task_struct, not by thread id (table.bpf.h). An execve in a thread that is
 * not the leader changes the id in the middle of a session, and idle threads all have id 0.
 *
 * There is no per-CPU state: the record is composed in the session itself, which belongs to one
 * thread. Only code on top of that thread can run in between: an interrupt, or a traced function
 * that a helper of ours calls. At its entry and exit, such code finds that the session is not at
 * rest, and does not change it. So the same engine supports programs that can be preempted.
 */
#ifndef RSN_SESSION_BPF_H
#define RSN_SESSION_BPF_H

#include "debug.bpf.h"
#include "filters.bpf.h"
#include "interim.bpf.h"
#include "misses.bpf.h"
#include "path.bpf.h"
#include "report.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"
#include "table.bpf.h"
#include "transport.bpf.h"

/* Returns the session of a thread, NULL without a session. */
static __always_inline struct session *session_of(__u64 task)
{
	__u64 place = table_find(task);
	__u32 index = place;

	return place == no_place ? NULL : bpf_map_lookup_elem(&sessions, &index);
}

/* Ends a session. */
static __always_inline void session_release(struct session *s, __u64 task)
{
	s->at_rest = false;
	barrier();
	table_release(task, s->place);
}

/* Makes a session, not at rest, for a thread without a session; NULL if the table is full. */
static __always_inline struct session *session_make(__u64 task, __u64 id)
{
	__u64 place = table_claim(task);
	__u32 index = place;
	struct session *s = NULL;

	if (place != no_place)
		s = bpf_map_lookup_elem(&sessions, &index);
	if (!s) {
		count(&stats.sessions_unstarted);
		return NULL;
	}
	__builtin_memset(s, 0, offsetof(struct session, at_rest));
	s->place = place;
	s->rec.tid = id;
	s->rec.tgid = id >> 32;
	s->rec.last_seq = 0;
	s->rec.dropped = 0;
	s->rec.too_deep = 0;
	s->rec.lost_exits = 0;
	s->rec.lost_entries = 0;
	s->rec.parts = 0;
	s->rec.missed = 0;
	s->rec.missed_in = 0;
	misses_begin(s, task);
	return s;
}

/* Records a call on the shadow stack. */
static __always_inline void push_slot(struct session *s, __u32 func_id, __u32 place, __u64 now)
{
	__u32 depth = s->depth, seq = ++s->rec.last_seq;
	struct rsn_slot *slot;

	if (depth >= RSN_MAX_DEPTH) {
		s->depth = depth + 1;
		s->rec.too_deep++;
		return;
	}
	if (s->is_err && depth < s->max_depth)
		save_chain(s);
	if (!depth)
		s->rec.start_ts = now;
	slot = slot_at(s, depth);
	slot->func_id = func_id;
	slot->seq = seq;
	slot->result = 0;
	slot->latency = now;
	s->sp[slot_index(depth)] = place;
	s->depth = depth + 1;
	s->max_depth = depth + 1;
	s->is_err = false;
}

/*
 * Records a call that session_join() identified as an interrupt's call. Its slot is after all slots
 * of the thread, and is dropped when the call returns: the thread's chains do not change.
 */
static __noinline int interrupt_push(struct session *s, __u32 func_id, __u32 place, __u64 now)
{
	__u64 at = interrupt_slot(s, s->interrupt_depth);
	__u32 seq = ++s->rec.last_seq;
	struct rsn_slot *slot;

	if (at >= RSN_MAX_DEPTH) {
		s->rec.too_deep++;
		return 0;
	}
	slot = slot_at(s, at);
	slot->func_id = func_id;
	slot->seq = seq;
	slot->result = 0;
	slot->latency = now;
	s->sp[slot_index(at)] = place;
	return 0;
}

/* Records a call at `now`, for runs without further features (`plain`). */
static __always_inline void push_plain(struct session *s, __u32 func_id, __u32 place, __u64 now)
{
	if (s->interrupt_depth)
		interrupt_push(s, func_id, place, now);
	else
		push_slot(s, func_id, place, now);
}

/* Records a call, at `now`. */
static __always_inline void push(void *ctx, struct session *s, __u32 func_id, __u32 place,
				 __u64 now)
{
	if (s->interrupt_depth) {
		interrupt_push(s, func_id, place, now);
		if (emit_calls)
			log_event(ctx, s, event_of(RSN_EVENT_ENTRY, func_id), now, 0);
		return;
	}
	if (emit_interim)
		interim_before_call(ctx, s, now);
	push_slot(s, func_id, place, now);
	if (debug_log)
		debug_enter(s, func_id);
	if (emit_calls)
		log_event(ctx, s, event_of(RSN_EVENT_ENTRY, func_id), now, 0);
}

/*
 * Whether a result means failure; flags define how to interpret the result. A result without a type
 * is an int only if the upper half of the register extends an int, by zeros or by the sign.
 * Otherwise a pointer with a low half in -4095..-1 would be an error.
 */
static __always_inline bool is_failure(__u32 flags, __s64 result)
{
	const __u64 max_errno = 4095;

	if (flags & RSN_FUNC_CANT_FAIL)
		return false;
	if ((flags & RSN_FUNC_PTR) && !result)
		return !(flags & RSN_FUNC_NULL_OK);
	if (flags & RSN_FUNC_SIGN32) {
		if ((flags & RSN_FUNC_GUESSED) && (__u64)result >> 32 && result != (__s32)result)
			return false;
		result = (__s32)result;
	}
	return (__u64)result >= -max_errno && -result != flags >> RSN_FUNC_ERROR_SHIFT;
}

/* Takes the stacks and branches of the thread, for the chain that ends in the last call. */
static __always_inline void take_stacks(void *ctx, struct session *s)
{
	take_kstack(ctx, s);
	if (use_lbr)
		branches_keep(s);
	misses_note(s);
}

/* Removes the last call from the shadow stack. */
static __always_inline void pop(void *ctx, struct session *s, __u32 flags, __s64 result,
				bool failed, __u64 now)
{
	__u32 depth = s->depth - 1;
	struct rsn_slot *slot = slot_at(s, depth);

	slot->result = result;
	slot->latency = now - slot->latency;
	if (debug_log)
		debug_exit(s, failed);
	if (s->kstacks_bare)
		retake_kstacks(ctx, s);
	if (!failed && !(flags & RSN_FUNC_CANT_FAIL))
		s->is_err = false;
	if (failed && !s->is_err) {
		s->is_err = true;
		s->max_depth = depth + 1;
		take_stacks(ctx, s);
	} else if (emit_success && s->max_depth == depth + 1) {
		take_stacks(ctx, s);
	}
	s->depth = depth;
}

/*
 * Removes the last call, which is not reported: it succeeded, and only failed calls are reported.
 * Its result and duration are not recorded. The time is not read, because that would take as long
 * as the rest of the program.
 */
static __always_inline void pop_untold(void *ctx, struct session *s)
{
	if (s->kstacks_bare)
		retake_kstacks(ctx, s);
	s->is_err = false;
	s->depth--;
}

/* Whether successful calls never leave the kernel. */
static __always_inline bool tells_failures_only(void)
{
	return !emit_success && !emit_calls && !emit_interim && !debug_log;
}

/* Abandons a session: its first call has not returned, and its return was probably missed. */
static __always_inline void session_abandon(struct session *s, __u64 task)
{
	count(&stats.sessions_abandoned);
	session_release(s, task);
}

/*
 * Drops the calls of a joined session that must have returned when func_id is entered at `place`.
 * Returns false if all calls, and so the session, are over.
 */
static __always_inline bool session_settle(struct session *s, __u64 task, __u32 place,
					   __u32 func_id)
{
	__u64 top = slot_index(s->depth - 1);

	if (!same_stack(place, s->sp[0])) {
		int stack = other_stack(s, task, place);

		if (stack == STACK_OF_NEXT)
			return false;
		if (stack == STACK_OF_INTERRUPT) {
			if (s->interrupt_depth)
				drop_interrupted(s, place, func_id);
			s->interrupt_depth++;
			return true;
		}
	} else if (s->interrupt_depth) {
		drop_interrupt_calls(s, 0);
	}
	if (s->depth <= RSN_MAX_DEPTH &&
	    has_returned(s->sp[top], s->slots[top].func_id, place, func_id))
		drop_returned(s, place, func_id);
	return s->depth;
}

/*
 * A traced function is entered. cookie: its id and enum rsn_func_flags; place: stack_place() of the
 * stack pointer at its first instruction. Returns the session of the call, which is running or
 * started here, or NULL. The caller then calls push() and session_leave(), or session_skip().
 */
static __always_inline struct session *session_join(__u64 cookie, __u32 place)
{
	__u64 task = bpf_get_current_task(), id;
	struct session *s = session_of(task);

	if (s) {
		if (!s->at_rest) {
			/* an interrupt's calls are not missed calls */
			if (same_stack(place, s->sp[0]))
				count(&stats.calls_skipped);
			return NULL;
		}
		s->at_rest = false;
		barrier();
		if (session_settle(s, task, place, cookie_func(cookie)))
			return s;
		session_abandon(s, task);
	}
	if (!(cookie_flags(cookie) & RSN_FUNC_ENTRY))
		return NULL;
	id = bpf_get_current_pid_tgid();
	return thread_passes(id >> 32) ? session_make(task, id) : NULL;
}

/* Ends what session_join() began. */
static __always_inline int session_leave(struct session *s)
{
	barrier();
	s->at_rest = true;
	return 0;
}

/* Skips a call of the joined session: its return will be missed, so the call would never end. */
static __always_inline void session_skip(struct session *s)
{
	if (s->depth) {
		s->rec.lost_exits++;
		if (s->interrupt_depth)
			s->interrupt_depth--;
		session_leave(s);
	} else {
		session_abandon(s, bpf_get_current_task());
	}
}

/* A function returns in an interrupt of the thread; false if the interrupt must be over. */
static __noinline int interrupt_exit(void *ctx, struct session *s, __u32 func_id, __s64 result)
{
	__u32 depth = interrupt_call_of(s, func_id);

	drop_interrupt_calls(s, depth);
	if (!depth)
		return false;
	s->rec.last_seq++;
	if (emit_calls)
		log_event(ctx, s, event_of(RSN_EVENT_EXIT, func_id), bpf_ktime_get_ns(), result);
	s->interrupt_depth = depth - 1;
	return true;
}

/* A function returns in the joined session s of thread `task`; is_plain: `plain` is set. */
static __always_inline int session_return(void *ctx, struct session *s, __u64 task, __u64 cookie,
					  __s64 result, bool is_plain)
{
	__u32 flags = cookie_flags(cookie);
	bool failed;
	__u64 now;

	if (s->interrupt_depth && interrupt_exit(ctx, s, cookie_func(cookie), result))
		return session_leave(s);
	misses_take(s);
	if (!is_plain && debug_log && s->depth <= RSN_MAX_DEPTH &&
	    slot_at(s, s->depth - 1)->func_id != cookie_func(cookie))
		debug_unexpected(s, cookie_func(cookie));
	if (s->depth > RSN_MAX_DEPTH) {
		s->rec.last_seq++;
		if (!is_plain && emit_calls)
			log_event(ctx, s, event_of(RSN_EVENT_EXIT, cookie_func(cookie)),
				  bpf_ktime_get_ns(), result);
		s->depth--;
	} else if (slot_at(s, s->depth - 1)->func_id == cookie_func(cookie) ||
		   unwind_to(s, cookie_func(cookie))) {
		failed = is_failure(flags, result);
		if (!failed && !(flags & RSN_FUNC_CANT_FAIL) &&
		    (is_plain || tells_failures_only())) {
			s->rec.last_seq++;
			pop_untold(ctx, s);
			if (s->depth)
				return session_leave(s);
			if (s->rec.parts)
				disown(ctx, s, bpf_ktime_get_ns());
			goto over;
		}
		now = bpf_ktime_get_ns();
		if (!is_plain && emit_paths &&
		    (emit_calls || flags & RSN_FUNC_CANT_FAIL || failed)) {
			path_log(ctx, s, result);
			misses_note(s);
		}
		s->rec.last_seq++;
		if (!is_plain && emit_calls)
			log_event(ctx, s, event_of(RSN_EVENT_EXIT, cookie_func(cookie)), now,
				  result);
		pop(ctx, s, flags, result, failed, now);
		if (!s->depth) {
			if (emit_interim)
				interim_at_end(ctx, s);
			if (worth_reporting(s, s->slots[0].latency)) {
				submit(ctx, s, now, 0);
				goto over;
			}
			if (s->is_err)
				count(&failed_short);
			if (s->rec.parts)
				disown(ctx, s, now);
			goto over;
		}
	}
	return session_leave(s);
over:
	session_release(s, task);
	return 0;
}

/*
 * A traced function returns; result: its result register; taken: the result of branches_take(),
 * which the program called first, or 0.
 */
static __always_inline int session_exit(void *ctx, __u64 cookie, __s64 result, __u64 taken)
{
	__u64 task = bpf_get_current_task();
	struct session *s = session_of(task);

	if (!s || !s->at_rest)
		return 0;
	s->at_rest = false;
	barrier();
	if (plain)
		return session_return(ctx, s, task, cookie, result, true);
	if (use_lbr)
		s->branches_taken = taken;
	return session_return(ctx, s, task, cookie, result, false);
}

/*
 * The running thread exits: its session is reported in the current state and then removed. User
 * space decides by the stack whether the thread exits inside its calls, because a return may have
 * been missed. So even a session that would not be reported is sent, to be counted.
 */
static __always_inline int session_die(void *ctx, __u64 task)
{
	struct session *s = session_of(task);
	__u64 now, which;
	bool shown;

	if (!s || !s->at_rest)
		return 0;
	s->at_rest = false;
	barrier();
	drop_interrupt_calls(s, 0);
	now = bpf_ktime_get_ns();
	if (emit_interim)
		interim_at_end(ctx, s);
	if (!s->is_err) {
		s->max_depth = s->depth < RSN_MAX_DEPTH ? s->depth : RSN_MAX_DEPTH;
		s->saved_from = 0;
		s->branch_cnt[s->kstack_now & 1] = 0;
	}
	shown = worth_reporting(s, now - s->rec.start_ts);
	which = kstack_used(s);
	unwind_kstack(ctx, s, which);
	s->from_sites[which] = false;
	submit(ctx, s, now,
	       RSN_SESSION_DIED | RSN_SESSION_EXITING | (shown ? 0 : RSN_SESSION_IGNORED));
	session_release(s, task);
	return 0;
}

#endif
