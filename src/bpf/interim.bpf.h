/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of running sessions. The next call overwrites a chain of calls that has returned. If
 * successes are reported, the chain is reported before that. If only failures are reported, a
 * failed chain is saved, because it may become part of the final report. When the saved chain is
 * dropped, it is reported in its state at the time of the save.
 */
#ifndef RSN_INTERIM_BPF_H
#define RSN_INTERIM_BPF_H

#include "report.bpf.h"

/* A record in the format that is sent; the kernel stack directly follows the used slots. */
struct interim {
	struct rsn_session rec;
	struct rsn_slot slots[RSN_MAX_DEPTH];
	struct rsn_slot room[RSN_MAX_DEPTH];
};

struct interim_pair {
	struct interim kept; /* the saved chain, if it will be reported when it is dropped */
	struct interim now;
};

/* One entry for each place of the session table; the loader sets the size if these are used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct interim_pair);
} interims SEC(".maps");

static __always_inline struct interim_pair *interims_of(struct session *s)
{
	__u32 index = s->place;

	return bpf_map_lookup_elem(&interims, &index);
}

/* Copies the session's record at `now`, without its slots. */
static __always_inline void interim_begin(struct interim *it, struct session *s, __u64 now)
{
	bpf_probe_read_kernel(&it->rec, sizeof(it->rec), &s->rec);
	it->rec.emit_ts = now;
	it->rec.cpu = bpf_get_smp_processor_id();
}

/* Makes a record of the chain that is in the slots now. */
static __always_inline void interim_make(struct interim *it, struct session *s, __u64 now)
{
	interim_begin(it, s, now);
	bpf_probe_read_kernel(it->slots, sizeof(it->slots), s->slots);
	it->rec.size = sizeof(it->rec) + compose(&it->rec, it->slots, s);
	it->rec.flags |= RSN_SESSION_STITCH;
}

/* Sends a finished record, unless the session is shorter than duration_ns. */
static __always_inline void interim_send(void *ctx, struct session *s, struct interim *it)
{
	__u64 size = barrier_value(it->rec.size);

	if (size > sizeof(*it) || it->rec.emit_ts - it->rec.start_ts < duration_ns)
		return;
	it->rec.parts = s->rec.parts;
	it->rec.dropped = s->rec.dropped;
	fill_identity(&it->rec);
	if (transport_send(ctx, &it->rec, size))
		count(&stats.interims_dropped);
}

/* The saved chain is about to be dropped. */
static __noinline int interim_forget(void *ctx, struct session *s)
{
	struct interim_pair *of = interims_of(s);

	if (!of || !s->interim_kept)
		return 0;
	s->interim_kept = false;
	send_parts(ctx, s, s->kstack_now ^ 1);
	interim_send(ctx, s, &of->kept);
	return 0;
}

/* A call is about to overwrite the chain that has returned, if there is one. */
static __noinline int interim_before_call(void *ctx, struct session *s, __u64 now)
{
	struct interim_pair *of;
	bool is_last;

	if (s->depth >= s->max_depth || !(s->is_err || emit_success))
		return 0;
	/* This chain is dropped now, because save_chain() keeps the earlier chain. */
	is_last = emit_success || keeps_saved(s, s->depth);
	if (!is_last && !chain_continues(s))
		interim_forget(ctx, s);
	of = interims_of(s);
	if (!of)
		return 0;
	if (is_last) {
		interim_make(&of->now, s, now);
		send_parts(ctx, s, kstack_used(s));
		interim_send(ctx, s, &of->now);
	} else {
		interim_make(&of->kept, s, now);
		s->interim_kept = true;
	}
	return 0;
}

/* The session is over: checks whether the saved failed chain is part of the last chain. */
static __always_inline void interim_at_end(void *ctx, struct session *s)
{
	if (s->interim_kept && !(s->is_err && chain_continues(s)))
		interim_forget(ctx, s);
}

/*
 * Takes the current kernel stack; returns its bytes. If the kernel cannot unwind behind a return
 * probe, its stack ends in the last traced call. The return address of that call and the outer
 * stack were recorded at the entries.
 */
static __always_inline __u64 running_kstack(void *ctx, struct session *s, __u64 *kstack)
{
	const __u64 most = keep_call_sites ? RSN_MAX_KSTACK / 3 : RSN_MAX_KSTACK;
	long got = bpf_get_stack(ctx, kstack, most * sizeof(*kstack), 0);
	__u64 cnt = barrier_value(got > 0 ? got / sizeof(*kstack) : 0);

	if (cnt > most)
		cnt = most;
	if (keep_call_sites)
		cnt += stack_from_sites(s, kstack + cnt);
	return cnt * sizeof(*kstack);
}

/* Adds an interrupt's calls to the `cnt` slots of a record; returns the new number of slots. */
static __noinline __u64 add_interrupt(struct interim *it, struct session *s, __u64 cnt)
{
	__u64 from = s->max_depth, end = from + s->interrupt_depth;

	it->rec.interrupt_pos = 0;
	if (end > RSN_MAX_DEPTH)
		end = RSN_MAX_DEPTH;
	if (from >= end)
		return cnt;
	it->rec.interrupt_pos = cnt;
	end = slot_index(end - from);
	bpf_probe_read_kernel(&it->slots[slot_index(cnt)], end * sizeof(it->slots[0]),
			      &s->slots[slot_index(from)]);
	return cnt + end;
}

/* Makes a record of the session's current state. */
static __always_inline void interim_make_running(void *ctx, struct interim *it, struct session *s,
						 __u64 now)
{
	__u64 depth = s->depth < RSN_MAX_DEPTH ? s->depth : RSN_MAX_DEPTH, bytes = 0;
	__u64 tail = slot_index(depth - 1) + 1;

	interim_begin(it, s, now);
	bpf_probe_read_kernel(it->slots, tail * sizeof(it->slots[0]), s->slots);
	tail = slot_index(add_interrupt(it, s, tail) - 1) + 1;
	if (emit_stack)
		bytes = running_kstack(ctx, s, (__u64 *)&it->slots[tail]);
	it->rec.type = RSN_RECORD_SESSION;
	it->rec.size = sizeof(it->rec) + tail * sizeof(it->slots[0]) + bytes;
	it->rec.flags = RSN_SESSION_PROBE;
	it->rec.depth = tail;
	it->rec.slot_cnt = tail;
	it->rec.stitch_pos = 0;
	it->rec.kstack_cnt = bytes / sizeof(__u64);
}

/*
 * An injected probe was hit at `now`: reports the state of the session, which is joined and stays
 * so. has_branches: the program called branches_take() first.
 */
static __always_inline void interim_probe(void *ctx, struct session *s, __u64 now,
					  bool has_branches)
{
	struct interim_pair *of = interims_of(s);

	if (!of || !s->depth)
		return;
	interim_make_running(ctx, &of->now, s, now);
	if (keeps_log())
		log_flush(ctx, s);
	if (use_lbr && has_branches)
		branches_send_taken(ctx, s);
	if (emit_user_stack)
		user_stack_send(ctx, s);
	interim_send(ctx, s, &of->now);
}

#endif
