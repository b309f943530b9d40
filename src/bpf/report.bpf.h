/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending a session: first its parts, then its record. */
#ifndef RSN_REPORT_BPF_H
#define RSN_REPORT_BPF_H

#include "branches.bpf.h"
#include "direct.bpf.h"
#include "log.bpf.h"
#include "pid_ns.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"
#include "transport.bpf.h"
#include "user_stack.bpf.h"

static __always_inline void copy_comm(char *to, const char *from)
{
	((__u64 *)to)[0] = ((const __u64 *)from)[0];
	((__u64 *)to)[1] = ((const __u64 *)from)[1];
}

/* Fills in the names of the running thread and process; too slow to do for each session. */
static __always_inline void fill_identity(struct rsn_session *rec)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task(), *leader;

	_Static_assert(sizeof(rec->task_comm) == 16 && sizeof(rec->proc_comm) == 16, "two words");
	if (reads_directly()) {
		task = thread_at((__u64)task);
		leader = task->group_leader;
		copy_comm(rec->task_comm, task->comm);
		copy_comm(rec->proc_comm, leader->comm);
		fill_ids(rec, task->thread_pid->level);
		return;
	}
	leader = BPF_CORE_READ(task, group_leader);
	bpf_get_current_comm(rec->task_comm, sizeof(rec->task_comm));
	bpf_core_read(rec->proc_comm, sizeof(rec->proc_comm), &leader->comm);
	fill_ids(rec, BPF_CORE_READ(task, thread_pid, level));
}

/* Returns the kernel stack for the record that compose() makes. */
static __always_inline __u64 kstack_used(struct session *s)
{
	return barrier_value(s->kstack_now ^ chain_continues(s)) & 1;
}

/*
 * Composes the record of a session. `slots` has the session's slots or a copy, followed by the same
 * amount of free space. The saved part of the chain and then the kernel stack are appended there.
 * Returns the bytes of slots and stack.
 */
static __noinline __u64 compose(struct rsn_session *rec, struct rsn_slot *slots, struct session *s)
{
	__u64 kstack = kstack_used(s), kstack_cnt = barrier_value(s->kstack_cnt[kstack]), tail;
	__u32 end = s->max_depth;

	rec->stitch_pos = 0;
	if (chain_continues(s)) {
		copy_chain(slots, s->saved, s->saved_from, s->saved_to);
		rec->stitch_pos = s->saved_from;
		end = s->saved_to;
	}
	if (kstack_cnt > RSN_MAX_KSTACK)
		kstack_cnt = RSN_MAX_KSTACK;
	tail = slot_index(end - 1) + 1;
	bpf_probe_read_kernel(&slots[tail], kstack_cnt * sizeof(__u64), s->kstack[kstack]);

	rec->type = RSN_RECORD_SESSION;
	rec->flags = s->is_err ? RSN_SESSION_ERROR : 0;
	if (s->from_sites[kstack])
		rec->flags |= RSN_SESSION_CALL_SITES;
	if (s->misses_shared)
		rec->flags |= RSN_SESSION_SWITCHED;
	rec->depth = s->depth < RSN_MAX_DEPTH ? s->depth : RSN_MAX_DEPTH;
	rec->slot_cnt = tail;
	rec->kstack_cnt = kstack_cnt;
	rec->interrupt_pos = 0;
	return tail * sizeof(*slots) + kstack_cnt * sizeof(__u64);
}

/* Sends the parts that must arrive before a record: events, and the data of one of the stacks. */
static __always_inline void send_parts(void *ctx, struct session *s, __u64 kstack)
{
	if (keeps_log())
		log_flush(ctx, s);
	if (use_lbr)
		branches_send_kept(ctx, s, kstack);
	if (emit_user_stack)
		user_stack_send(ctx, s);
}

/* Sends the session in its current state; counts the result. */
static __noinline int submit(void *ctx, struct session *s, __u64 now, __u32 flags)
{
	struct rsn_session *rec = &s->rec;
	__u64 size;

	send_parts(ctx, s, kstack_used(s));
	size = sizeof(*rec) + compose(rec, s->slots, s);
	fill_identity(rec);
	rec->size = size;
	rec->emit_ts = now;
	rec->cpu = bpf_get_smp_processor_id();
	rec->flags |= flags;
	if (transport_send(ctx, rec, size))
		count(&stats.sessions_dropped);
	else if (!(flags & RSN_SESSION_DIED) &&
		 (rec->dropped || rec->too_deep || rec->lost_exits || rec->lost_entries))
		count(&stats.sessions_incomplete);
	return 0;
}

/* Makes user space discard the parts of a session that is not reported. */
static __noinline int disown(void *ctx, struct session *s, __u64 now)
{
	struct rsn_session *rec = &s->rec;

	rec->type = RSN_RECORD_SESSION;
	rec->size = sizeof(*rec);
	rec->emit_ts = now;
	rec->flags = RSN_SESSION_IGNORED;
	rec->slot_cnt = 0;
	rec->kstack_cnt = 0;
	rec->interrupt_pos = 0;
	transport_send(ctx, rec, sizeof(*rec));
	return 0;
}

static __always_inline bool worth_reporting(struct session *s, __u64 lasted)
{
	return (s->is_err || emit_success) && lasted >= duration_ns;
}

#endif
