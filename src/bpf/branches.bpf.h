/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which branches the CPU took last before a call returned (LBR). A return program reads them first
 * of all, into memory of its CPU, since whatever it does displaces older ones; they are kept with
 * the kernel stack, if one is taken.
 */
#ifndef RSN_BRANCHES_BPF_H
#define RSN_BRANCHES_BPF_H

#include "log.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"

/* struct perf_branch_entry */
struct branch {
	__u64 from;
	__u64 to;
	__u64 flags;
};

struct branches {
	struct rsn_part part;
	struct branch entries[RSN_MAX_BRANCHES];
};

struct branch_shot {
	__u64 task; /* whose they are: programs of trampolines can be preempted */
	__s64 bytes; /* or a negative errno */
	struct branches taken;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct branch_shot);
} branch_shots SEC(".maps");

/* Those that belong to a session's two kernel stacks. */
struct branch_pair {
	struct branches of[2];
};

/* One for each place of the session table; the loader makes it so where LBR is used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct branch_pair);
} branch_pairs SEC(".maps");

static __always_inline struct branch_shot *branch_shot(void)
{
	__u32 index = 0;

	return bpf_map_lookup_elem(&branch_shots, &index);
}

/* The first thing a program does whose branches are of interest. */
static __always_inline void branches_take(void)
{
	struct branch_shot *shot = branch_shot();

	if (!shot)
		return;
	shot->bytes = bpf_get_branch_snapshot(shot->taken.entries, sizeof(shot->taken.entries), 0);
	shot->task = bpf_get_current_task();
}

/* How many branches were taken for the running thread, or a negative errno. */
static __always_inline __s64 branches_taken(const struct branch_shot *shot)
{
	const __s64 no_entry = -2, again = -11;
	__s64 bytes = shot->bytes;

	if (shot->task != bpf_get_current_task())
		return again;
	if (bytes < (__s64)sizeof(struct branch))
		return bytes < 0 ? bytes : no_entry;
	return bytes / sizeof(struct branch);
}

/* Keeps what was taken with the kernel stack that is taken now. */
static __noinline int branches_keep(struct session *s)
{
	struct branch_shot *shot = branch_shot();
	__u64 now = s->kstack_now & 1;
	__u32 index = s->place;
	struct branch_pair *pair = bpf_map_lookup_elem(&branch_pairs, &index);

	if (!shot || !pair)
		return 0;
	bpf_probe_read_kernel(pair->of[now].entries, sizeof(pair->of[now].entries),
			      shot->taken.entries);
	s->branch_cnt[now] = branches_taken(shot);
	return 0;
}

static __always_inline void branches_send(void *ctx, struct session *s, struct branches *branches,
					  __s64 cnt)
{
	__u64 sent = opaque(cnt > 0 ? cnt : 0);

	if (sent > RSN_MAX_BRANCHES)
		sent = RSN_MAX_BRANCHES;
	part_send(ctx, &s->rec, &branches->part, RSN_RECORD_BRANCHES, cnt,
		  sizeof(branches->part) + sent * sizeof(struct branch));
}

/* Sends what was kept with one of the kernel stacks. */
static __noinline int branches_send_kept(void *ctx, struct session *s, __u64 kstack)
{
	__u32 index = s->place;
	struct branch_pair *pair = bpf_map_lookup_elem(&branch_pairs, &index);

	kstack &= 1;
	if (pair && s->branch_cnt[kstack])
		branches_send(ctx, s, &pair->of[kstack], s->branch_cnt[kstack]);
	return 0;
}

/* Sends what was taken by the running program. */
static __always_inline void branches_send_taken(void *ctx, struct session *s)
{
	struct branch_shot *shot = branch_shot();

	if (shot)
		branches_send(ctx, s, &shot->taken, branches_taken(shot));
}

#endif
