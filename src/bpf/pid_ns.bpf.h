/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Process ids in PID namespaces. All other code here uses the ids of the initial namespace. A
 * process in a nested namespace has a further id in each namespace down to its own.
 */
#ifndef RSN_PID_NS_BPF_H
#define RSN_PID_NS_BPF_H

#include "settings.bpf.h"

/* The process that reads the records is in a nested PID namespace. */
const volatile bool in_pid_ns = false;

/* The number of levels from that process's own namespace up to the namespace of its /proc. */
const volatile __u32 proc_above = 0;

/* The namespace of that /proc, and its level; rsn_pids finds both. */
__u64 proc_ns;
__u32 proc_level;

enum {
	MAX_PID_NS_LEVEL = 32, /* linux/pid_namespace.h */
};

/* The output of rsn_pids for each thread in the reader's namespace. */
struct pid_row {
	__u32 own; /* its id in the reader's namespace */
	__u32 proc; /* its id in the reader's /proc, 0 if it is not visible there */
	__u32 kernel; /* its id in the initial namespace */
	__u32 leads; /* it is the first thread of its process: pid and tgid are equal */
};

/* Puts the type into the object's BTF; no map has it. */
const struct pid_row *rsn_pid_row __attribute__((unused));

/* Returns a pid's number in the namespace at `level`, which is at most the pid's own level. */
static __always_inline struct upid *upid_at(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

/* Returns the id of a process in the namespace of /proc; 0 if it is not in that namespace. */
static __always_inline __u32 id_in_proc(struct pid *pid, __u32 level)
{
	struct upid *upid = upid_at(pid, proc_level);

	if (level < proc_level || level > MAX_PID_NS_LEVEL ||
	    (__u64)BPF_CORE_READ(upid, ns) != proc_ns)
		return 0;
	return BPF_CORE_READ(upid, nr);
}

static __noinline int fill_ids_below(struct rsn_session *rec)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pid *tid = BPF_CORE_READ(task, thread_pid);
	struct pid *tgid = BPF_CORE_READ(task, group_leader, thread_pid);
	__u32 level = BPF_CORE_READ(tid, level);
	struct upid *upid = upid_at(tid, level);

	if (level && level <= MAX_PID_NS_LEVEL) {
		rec->ns_tid = BPF_CORE_READ(upid, nr);
		rec->pid_ns = BPF_CORE_READ(upid, ns, ns.inum);
		rec->ns_tgid = BPF_CORE_READ(upid_at(tgid, level), nr);
	}
	if (in_pid_ns)
		rec->proc_tgid = id_in_proc(tgid, level);
	return 0;
}

/* Fills in the running thread's ids in other namespaces; level: its namespace's, 0: initial. */
static __always_inline void fill_ids(struct rsn_session *rec, __u32 level)
{
	rec->ns_tid = 0;
	rec->ns_tgid = 0;
	rec->pid_ns = 0;
	rec->proc_tgid = rec->tgid;
	if (in_pid_ns || level)
		fill_ids_below(rec);
}

/* Writes the ids of every thread in the reader's PID namespace; runs in the reader. */
SEC("iter/task")
int rsn_pids(struct bpf_iter__task *ctx)
{
	struct task_struct *self = (struct task_struct *)bpf_get_current_task(), *task = ctx->task;
	struct pid *self_pid = BPF_CORE_READ(self, thread_pid), *pid;
	__u32 own = BPF_CORE_READ(self_pid, level);
	struct pid_row row = {};

	if (!task || own < proc_above)
		return 0;
	proc_level = own - proc_above;
	proc_ns = (__u64)BPF_CORE_READ(upid_at(self_pid, proc_level), ns);
	pid = BPF_CORE_READ(task, thread_pid);
	row.own = BPF_CORE_READ(upid_at(pid, own), nr);
	row.proc = BPF_CORE_READ(upid_at(pid, proc_level), nr);
	row.kernel = BPF_CORE_READ(task, pid);
	row.leads = row.kernel == BPF_CORE_READ(task, tgid);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

#endif
