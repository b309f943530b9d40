/* SPDX-License-Identifier: BSD-2-Clause */
/* Forks and exits of threads: updates the followed tree and ends open sessions. */
#ifndef RSN_TASK_BPF_H
#define RSN_TASK_BPF_H

#include "session.bpf.h"

/* The process of a thread: its threads share it, also across an execve. */
static __always_inline __u64 group_of(struct task_struct *task)
{
	return (__u64)BPF_CORE_READ(task, signal);
}

/*
 * Runs before the child, so none of the child's calls is missed. A child that is not followed may
 * have the id of a followed process that is dead, but not freed yet.
 */
SEC("raw_tp/sched_process_fork")
int rsn_task_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 parent = bpf_get_current_pid_tgid() >> 32;
	__u32 tgid = BPF_CORE_READ(child, tgid);
	__u64 group = group_of(child);

	if (!follow_tree || tgid == parent)
		return 0;
	if (!in_tree(parent))
		bpf_map_delete_elem(&tree, &tgid);
	else if (bpf_map_update_elem(&tree, &tgid, &group, BPF_ANY))
		count(&stats.tree_overflow);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int rsn_task_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return session_die(ctx, ctx->args[0]);
}

/*
 * After sched_process_exit, do_exit still closes files, which can start sessions. So the process
 * leaves the tree only here, when the task_struct is freed, and a session that began so late and
 * never ended is removed here. No other thread's execve can have taken the id of a leader (pid ==
 * tgid) that comes here. A new process can have taken it, and that process stays in the tree.
 */
SEC("raw_tp/sched_process_free")
int rsn_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 pid = BPF_CORE_READ(task, pid), tgid = BPF_CORE_READ(task, tgid);
	struct session *s = session_of(ctx->args[0]);
	__u64 *group;

	if (s) {
		count(&stats.sessions_died);
		session_release(s, ctx->args[0]);
	}
	if (!follow_tree || pid != tgid)
		return 0;
	group = bpf_map_lookup_elem(&tree, &tgid);
	if (group && (!*group || *group == group_of(task)))
		bpf_map_delete_elem(&tree, &tgid);
	return 0;
}

#endif
