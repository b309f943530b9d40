/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session engine: what every attach mechanism calls at a traced function's entry and exit.
 *
 * A session lasts from a thread's first call of an entry function to that call's return. It keeps
 * a shadow stack of the traced calls: slots [0, depth) are running, slots [depth, max_depth) have
 * returned, and end with the deepest call of the last chain: the one that failed first if is_err.
 * A call that is about to overwrite a failed chain saves it first, because the caller may yet
 * return the error (a cleanup helper that succeeds in between changes nothing).
 *
 * Sessions are keyed by task_struct, not by thread id (table.bpf.h). An execve in a thread that is
 * not the leader changes the id in the middle of a session, and idle threads all have id 0.
 *
 * There is no per-CPU state: the record is put together in the session itself, which belongs to
 * one thread. What can get in between is code that runs on top of that thread: an interrupt, or a
 * traced function that a helper of ours calls. It finds the session not at rest and leaves it alone,
 * at its entry and at its exit. So the same engine serves programs that can be preempted.
 */
#ifndef RSN_SESSION_BPF_H
#define RSN_SESSION_BPF_H

#include "filters.bpf.h"
#include "log.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"
#include "table.bpf.h"
#include "transport.bpf.h"

/* The session of a thread, NULL if it has none. */
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

/* The names of the running thread and its process: two helper calls too many for each session. */
static __always_inline void fill_names(struct rsn_session *rec)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	bpf_get_current_comm(rec->task_comm, sizeof(rec->task_comm));
	bpf_core_read(rec->proc_comm, sizeof(rec->proc_comm), &leader->comm);
}

/* Sends the session as it stands; how it went is counted. */
static __noinline int submit(void *ctx, struct session *s, __u64 now, __u32 flags)
{
	struct rsn_session *rec = &s->rec;
	__u32 end = s->max_depth;
	__u64 kstack = s->kstack_now, kstack_cnt, tail;

	rec->stitch_pos = 0;
	if (chain_continues(s)) {
		copy_chain(s->slots, s->saved, s->saved_from, s->saved_to);
		rec->stitch_pos = s->saved_from;
		end = s->saved_to;
		kstack ^= 1;
	}
	kstack &= 1;
	kstack_cnt = opaque(s->kstack_cnt[kstack]);
	if (kstack_cnt > RSN_MAX_KSTACK)
		kstack_cnt = RSN_MAX_KSTACK;
	tail = slot_index(end - 1) + 1;
	bpf_probe_read_kernel(&s->slots[tail], kstack_cnt * sizeof(__u64), s->kstack[kstack]);

	if (keeps_log())
		log_flush(ctx, s);
	fill_names(rec);
	rec->type = RSN_RECORD_SESSION;
	rec->size = sizeof(*rec) + tail * sizeof(s->slots[0]) + kstack_cnt * sizeof(__u64);
	rec->emit_ts = now;
	rec->cpu = bpf_get_smp_processor_id();
	rec->flags = flags | (s->is_err ? RSN_SESSION_ERROR : 0);
	if (s->from_sites[kstack])
		rec->flags |= RSN_SESSION_CALL_SITES;
	rec->depth = s->depth < RSN_MAX_DEPTH ? s->depth : RSN_MAX_DEPTH;
	rec->slot_cnt = tail;
	rec->kstack_cnt = kstack_cnt;
	if (transport_send(ctx, rec,
			   sizeof(*rec) + tail * sizeof(s->slots[0]) + kstack_cnt * sizeof(__u64)))
		count(&stats.sessions_dropped);
	else if (flags & RSN_SESSION_DIED)
		count(&stats.sessions_died);
	else if (rec->too_deep || rec->lost_exits || rec->lost_entries)
		count(&stats.sessions_incomplete);
	return 0;
}

/* Lets user space forget the parts of a session that turned out not worth reporting. */
static __noinline int disown(void *ctx, struct session *s, __u64 now)
{
	struct rsn_session *rec = &s->rec;

	rec->type = RSN_RECORD_SESSION;
	rec->size = sizeof(*rec);
	rec->emit_ts = now;
	rec->flags = RSN_SESSION_IGNORED;
	rec->slot_cnt = 0;
	rec->kstack_cnt = 0;
	transport_send(ctx, rec, sizeof(*rec));
	return 0;
}

static __always_inline bool worth_reporting(struct session *s, __u64 lasted)
{
	return (s->is_err || emit_success) && lasted >= duration_ns;
}

/* A new session, not at rest, for a thread that has none; NULL if there is no room. */
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
	s->place = place;
	s->depth = 0;
	s->max_depth = 0;
	s->saved_from = 0;
	s->is_err = false;
	s->kstack_cnt[0] = 0;
	s->kstack_cnt[1] = 0;
	s->rec.tid = id;
	s->rec.tgid = id >> 32;
	s->rec.last_seq = 0;
	s->rec.dropped = 0;
	s->rec.too_deep = 0;
	s->rec.lost_exits = 0;
	s->rec.lost_entries = 0;
	s->rec.parts = 0;
	s->log_used = 0;
	s->log_cnt = 0;
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

/* Records a call, at `now`. */
static __always_inline void push(void *ctx, struct session *s, __u32 func_id, __u32 place,
				 __u64 now)
{
	push_slot(s, func_id, place, now);
	if (emit_calls)
		log_event(ctx, s, event_of(RSN_EVENT_ENTRY, func_id), now, 0);
}

/* Whether a result means failure; flags tell how to read it. */
static __always_inline bool is_failure(__u32 flags, __s64 result)
{
	const __u64 max_errno = 4095;

	if (flags & RSN_FUNC_CANT_FAIL)
		return false;
	if ((flags & RSN_FUNC_PTR) && !result)
		return true;
	if (flags & RSN_FUNC_SIGN32)
		result = (__s32)result;
	return (__u64)result >= -max_errno;
}

/* Takes the last call off the shadow stack. */
static __always_inline void pop(void *ctx, struct session *s, __u32 flags, __s64 result, __u64 now)
{
	__u32 depth = s->depth - 1;
	struct rsn_slot *slot = slot_at(s, depth);
	bool failed = is_failure(flags, result);

	slot->result = result;
	slot->latency = now - slot->latency;
	if (!failed && !(flags & RSN_FUNC_CANT_FAIL))
		s->is_err = false;
	if (failed && !s->is_err) {
		s->is_err = true;
		s->max_depth = depth + 1;
		take_kstack(ctx, s);
	} else if (emit_success && s->max_depth == depth + 1) {
		take_kstack(ctx, s);
	}
	s->depth = depth;
}

/*
 * A traced function is entered. cookie: its id and enum rsn_func_flags; place: stack_place() of the
 * stack pointer at its first instruction, 0 if unknown. Gives the session the call belongs to,
 * the running one or one that it starts, or NULL. A push() and then session_leave() follow, or a
 * session_skip().
 */
static __always_inline struct session *session_join(__u64 cookie, __u32 place)
{
	__u64 task = bpf_get_current_task(), id;
	struct session *s = session_of(task);

	if (s) {
		__u64 top = slot_index(s->depth - 1);

		if (!s->at_rest) {
			/* what an interrupt calls is no loss */
			if (!place || same_stack(place, s->sp[top]))
				count(&stats.calls_skipped);
			return NULL;
		}
		s->at_rest = false;
		barrier();
		if (!place || s->depth > RSN_MAX_DEPTH ||
		    !has_returned(s->sp[top], s->slots[top].func_id, place, cookie_func(cookie)))
			return s;
		drop_returned(s, place, cookie_func(cookie));
		if (s->depth)
			return s;
		count(&stats.sessions_abandoned);
		session_release(s, task);
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

/* The joined session's call whose return will not be caught: better no call than an endless one. */
static __always_inline void session_skip(struct session *s)
{
	if (s->depth) {
		s->rec.lost_exits++;
		session_leave(s);
	} else {
		count(&stats.sessions_abandoned);
		session_release(s, bpf_get_current_task());
	}
}

/* A traced function returns; result: its result register. */
static __always_inline int session_exit(void *ctx, __u64 cookie, __s64 result)
{
	__u64 task = bpf_get_current_task(), now;
	struct session *s = session_of(task);

	if (!s || !s->at_rest)
		return 0;
	s->at_rest = false;
	barrier();
	s->rec.last_seq++;
	if (s->depth > RSN_MAX_DEPTH) {
		if (emit_calls)
			log_event(ctx, s, event_of(RSN_EVENT_EXIT, cookie_func(cookie)),
				  bpf_ktime_get_ns(), result);
		s->depth--;
	} else if (slot_at(s, s->depth - 1)->func_id == cookie_func(cookie) ||
		   unwind_to(s, cookie_func(cookie))) {
		now = bpf_ktime_get_ns();
		if (emit_calls)
			log_event(ctx, s, event_of(RSN_EVENT_EXIT, cookie_func(cookie)), now,
				  result);
		pop(ctx, s, cookie_flags(cookie), result, now);
		if (!s->depth) {
			if (worth_reporting(s, s->slots[0].latency))
				submit(ctx, s, now, 0);
			else if (keeps_log() && s->rec.parts)
				disown(ctx, s, now);
			session_release(s, task);
			return 0;
		}
	}
	return session_leave(s);
}

/* The running thread exits: what is open is reported as it stands, and nothing stays behind. */
static __always_inline int session_die(void *ctx, __u64 task)
{
	struct session *s = session_of(task);
	__u64 now;

	if (!s || !s->at_rest)
		return 0;
	s->at_rest = false;
	barrier();
	now = bpf_ktime_get_ns();
	if (worth_reporting(s, now - s->rec.start_ts)) {
		if (!s->is_err) {
			s->max_depth = s->depth < RSN_MAX_DEPTH ? s->depth : RSN_MAX_DEPTH;
			s->saved_from = 0;
			take_kstack(ctx, s);
		}
		submit(ctx, s, now, RSN_SESSION_DIED);
	} else {
		if (keeps_log() && s->rec.parts)
			disown(ctx, s, now);
		count(&stats.sessions_died);
	}
	session_release(s, task);
	return 0;
}

#endif
