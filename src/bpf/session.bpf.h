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
#include "table.bpf.h"
#include "transport.bpf.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

struct session {
	__u32 depth; /* traced calls running, those too deep for a slot included */
	__u32 max_depth;
	__u32 saved_from; /* first slot of the saved chain, 0: there is none */
	__u32 saved_to;
	__u32 saved_parent; /* seq of the call that made the saved chain's first call */
	bool at_rest; /* no program is at work on it; never for one that has no thread */
	bool is_err; /* the last result that could tell was a failure */
	__u8 kstack_now; /* which kstack belongs to the slots; the other one to the saved chain */
	__u16 kstack_cnt[2];
	__u32 log_used; /* bytes */
	__u32 log_cnt; /* events */
	__u64 place; /* in the table */
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
};

/* One for each place of the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

/* Keeps the compiler from assuming what it knows about v, so that a check of it survives. */
static __always_inline __u64 opaque(__u64 v)
{
	asm volatile("" : "+r"(v));
	return v;
}

/* An index below RSN_MAX_DEPTH, bounded where the verifier sees it. */
static __always_inline __u64 slot_index(__u64 i)
{
	return opaque(i) & (RSN_MAX_DEPTH - 1);
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

/* A stack pointer, in units of 8 bytes and short of its highest bits; 0 stands for unknown. */
static __always_inline __u32 stack_place(__u64 sp)
{
	return sp >> 3;
}

/* Whether two stack places are in the same 16 KiB: interrupts run on stacks of their own. */
static __always_inline bool same_stack(__u32 place, __u32 other)
{
	return !((place ^ other) >> 11);
}

/*
 * Whether the call whose entry was at `place` must have returned when func_id is entered at `now`:
 * the stack pointer is above the call's frame. Equal places are a tail call (the callee takes over
 * the caller's frame), but no function jumps to its own entry.
 */
static __always_inline bool has_returned(__u32 place, __u32 place_func, __u32 now, __u32 func_id)
{
	if (!same_stack(place, now))
		return false;
	return place < now || (place == now && place_func == func_id);
}

/* Whether the saved chain was called by the last call of the chain in slots. */
static __always_inline bool chain_continues(struct session *s)
{
	return s->saved_from && s->saved_from == s->max_depth &&
	       slot_at(s, s->max_depth - 1)->seq == s->saved_parent;
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
 * Keeps the failed chain slots [depth, max_depth) from being overwritten. If it is what led to the
 * saved chain, it goes in front of that, whose kernel stack is the deeper one.
 */
static __noinline int save_chain(struct session *s)
{
	__u32 from = s->depth;

	if (!chain_continues(s)) {
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
 * what was above the first. Calls in between that are not traced are missing from it.
 */
static __noinline int stack_from_sites(struct session *s)
{
	const __u32 known = 2; /* outer begins with the first call itself and where it returns to */
	__u64 now = s->kstack_now & 1, depth = s->depth, outer = s->outer_cnt;

	if (depth > RSN_MAX_DEPTH)
		depth = RSN_MAX_DEPTH;
	for (int i = 0; i < RSN_MAX_DEPTH && i < depth; i++)
		s->kstack[now][i] = s->sites[slot_index(depth - 1 - i)];
	if (outer > known) {
		outer = opaque(outer - known) & (ARRAY_SIZE(s->outer) - 1);
		bpf_probe_read_kernel(&s->kstack[now][slot_index(depth - 1) + 1],
				      outer * sizeof(__u64), &s->outer[known]);
		depth += outer;
	}
	s->kstack_cnt[now] = depth;
	s->from_sites[now] = true;
	return 0;
}

static __always_inline void take_kstack(void *ctx, struct session *s)
{
	__u64 now = s->kstack_now & 1;
	long bytes;

	if (!emit_stack)
		return;
	bytes = bpf_get_stack(ctx, s->kstack[now], sizeof(s->kstack[now]), 0);
	s->kstack_cnt[now] = bytes > 0 ? bytes / sizeof(__u64) : 0;
	s->from_sites[now] = false;
	if (keep_call_sites && s->kstack_cnt[now] <= 1)
		stack_from_sites(s);
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

static __always_inline struct log *log_of(struct session *s)
{
	__u32 index = s->place;

	return bpf_map_lookup_elem(&logs, &index);
}

/* Sends what the log holds. */
static __noinline int log_flush(void *ctx, struct session *s)
{
	struct log *log = log_of(s);
	__u64 used = opaque(s->log_used);

	if (!log || !used || used > sizeof(log->data))
		return 0;
	part_send(ctx, &s->rec, &log->part, RSN_RECORD_EVENTS, s->log_cnt,
		  sizeof(log->part) + used);
	s->log_used = 0;
	s->log_cnt = 0;
	return 0;
}

/* Where the next event of the log goes, NULL if there is none; the caller fills all of it. */
static __always_inline void *log_room(void *ctx, struct session *s, __u32 size)
{
	struct log *log;
	__u64 used;

	if (s->log_used + size > RSN_LOG_BYTES)
		log_flush(ctx, s);
	log = log_of(s);
	if (!log)
		return NULL;
	used = opaque(s->log_used) & (RSN_LOG_BYTES - 1);
	s->log_used = used + size;
	s->log_cnt++;
	return log->data + used;
}

/* Logs a call, a return or a hit of a probe, the session's last_seq-th event. */
static __noinline int log_event(void *ctx, struct session *s, __u64 kind_id, __u64 now,
				__s64 result)
{
	struct rsn_event *event = log_room(ctx, s, sizeof(*event));

	if (!event)
		return 0;
	event->size = sizeof(*event);
	event->kind = kind_id >> 32;
	event->unused = 0;
	event->depth = s->depth;
	event->cpu = bpf_get_smp_processor_id();
	event->id = kind_id;
	event->seq = s->rec.last_seq;
	event->ts = now;
	event->result = result;
	return 0;
}

/* The arguments of log_event() that say what happened, in one: it takes no more than five. */
static __always_inline __u64 event_of(enum rsn_event_kind kind, __u32 id)
{
	return (__u64)kind << 32 | id;
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

	if (emit_calls)
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
			else if (emit_calls && s->rec.parts)
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
		if (emit_calls && s->rec.parts)
			disown(ctx, s, now);
		count(&stats.sessions_died);
	}
	session_release(s, task);
	return 0;
}

#endif
