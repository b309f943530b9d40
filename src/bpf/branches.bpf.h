/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last branches of the CPU before a call returned (LBR). A return program reads them into
 * memory of its CPU before it does anything else, because its own branches displace older branches.
 * They are kept with the kernel stack, if a stack is taken.
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

/*
 * An interrupt's or another thread's program may run in between and take its own snapshot. So each
 * snapshot has a number, and is valid until the next snapshot begins.
 */
struct branch_shot {
	__u64 number; /* of the snapshots begun on this CPU */
	struct branch entries[RSN_MAX_BRANCHES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct branch_shot);
} branch_shots SEC(".maps");

/* The branches of a session's two kernel stacks, and of a probe hit. */
struct branch_pair {
	struct branches of[2];
	struct branches at_hit;
};

/* One entry for each place of the session table; the loader sets the size if LBR is used. */
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

enum {
	SHOT_RESULT_BITS = 16,
};

/*
 * Takes a snapshot of the branches. A program must call this first. Returns, for branches_copy(),
 * the number of the snapshot and, in the low bits, its bytes or a negative errno; 0 for no
 * snapshot. The number is one more than before; otherwise another program ran in between.
 */
static __always_inline __u64 branches_take(void)
{
	struct branch_shot *shot = branch_shot();
	volatile __u64 *number;
	__u64 before, mine;
	long bytes;

	if (!shot)
		return 0;
	number = &shot->number;
	before = *number;
	__sync_fetch_and_add(&shot->number, 1);
	mine = *number;
	bytes = bpf_get_branch_snapshot(shot->entries, sizeof(shot->entries), 0);
	return mine == before + 1 ? mine << SHOT_RESULT_BITS | (__u16)bytes : 0;
}

/*
 * Copies the snapshot `taken` of branches_take(). Returns the number of branches or a negative
 * errno: -EAGAIN if another program has taken a snapshot meanwhile, which is checked after the
 * copy.
 */
static __noinline __s64 branches_copy(struct branch *to, __u64 taken)
{
	const __s64 no_entry = -2, again = -11;
	struct branch_shot *shot = branch_shot();
	__s64 bytes = (__s16)taken;

	if (!shot || !taken)
		return again;
	bpf_probe_read_kernel(to, sizeof(shot->entries), shot->entries);
	if (*(volatile __u64 *)&shot->number != taken >> SHOT_RESULT_BITS)
		return again;
	if (bytes < (__s64)sizeof(struct branch))
		return bytes < 0 ? bytes : no_entry;
	return bytes / sizeof(struct branch);
}

/* Keeps the snapshot with the kernel stack that is taken now. */
static __noinline int branches_keep(struct session *s)
{
	__u64 now = s->kstack_now & 1;
	__u32 index = s->place;
	struct branch_pair *pair = bpf_map_lookup_elem(&branch_pairs, &index);

	if (pair)
		s->branch_cnt[now] = branches_copy(pair->of[now].entries, s->branches_taken);
	return 0;
}

static __always_inline void branches_send(void *ctx, struct session *s, struct branches *branches,
					  __s64 cnt)
{
	__u64 sent = barrier_value(cnt > 0 ? cnt : 0);

	if (sent > RSN_MAX_BRANCHES)
		sent = RSN_MAX_BRANCHES;
	part_send(ctx, &s->rec, &branches->part, RSN_RECORD_BRANCHES, cnt,
		  sizeof(branches->part) + sent * sizeof(struct branch));
}

/* Sends the branches that were kept with one of the kernel stacks. */
static __noinline int branches_send_kept(void *ctx, struct session *s, __u64 kstack)
{
	__u32 index = s->place;
	struct branch_pair *pair = bpf_map_lookup_elem(&branch_pairs, &index);

	kstack &= 1;
	if (pair && s->branch_cnt[kstack])
		branches_send(ctx, s, &pair->of[kstack], s->branch_cnt[kstack]);
	return 0;
}

/* Sends the snapshot of the running program. */
static __noinline int branches_send_taken(void *ctx, struct session *s)
{
	__u32 index = s->place;
	struct branch_pair *pair = bpf_map_lookup_elem(&branch_pairs, &index);

	if (pair)
		branches_send(ctx, s, &pair->at_hit,
			      branches_copy(pair->at_hit.entries, s->branches_taken));
	return 0;
}

#endif
