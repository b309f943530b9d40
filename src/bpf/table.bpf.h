/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which thread has which session: a hash table of our own, on array maps. The verifier turns their
 * lookups into a few instructions, where a hash map takes two calls; nothing is allocated, and a
 * session costs no map update.
 *
 * A thread's session is in the bucket its task_struct hashes to or, if that is full, in one of the
 * next. Only the thread itself looks for it, so nothing but the claim of a place needs care.
 */
#ifndef RSN_TABLE_BPF_H
#define RSN_TABLE_BPF_H

#include "settings.bpf.h"
#include "transport.bpf.h"

enum {
	BUCKET_SIZE = 8, /* the threads of a bucket fill one cache line */
	BUCKETS_TRIED = 4,
	MAPPABLE = 1 << 10, /* BPF_F_MMAPABLE (Linux 5.5) */
};

struct bucket {
	__u64 tasks[BUCKET_SIZE]; /* 0: free */
	/*
	 * The index of each place below, how many buckets behind its own it is above. Read from here
	 * it is just a number to the verifier, which else follows each of them to the end.
	 */
	__u64 places[BUCKET_SIZE];
	__u32 claims[BUCKET_SIZE];
	/* Sessions that each place has had: the owner of the place adds, so that nobody has to wait. */
	__u32 runs[BUCKET_SIZE];
	__u32 spilled; /* running sessions that found this bucket full and went on */
	__u32 unused;
};

/* As many as sessions_max places need; the loader makes so many. */
const volatile __u32 buckets_max = 4096 / BUCKET_SIZE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MAPPABLE); /* who looks for sessions by bpf(2) may have one by that */
	__uint(max_entries, 4096 / BUCKET_SIZE);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

static const __u64 no_place = -1;

static __always_inline struct bucket *bucket_at(__u32 index)
{
	return bpf_map_lookup_elem(&buckets, &index);
}

static __always_inline __u32 home_of(__u64 task)
{
	return (task * 0x9e3779b97f4a7c15 >> 32) * buckets_max >> 32;
}

static __always_inline __u32 next_bucket(__u32 index)
{
	return index + 1 < buckets_max ? index + 1 : 0;
}

/* The place of `task` in a bucket, no_place if it is not there. */
static __always_inline __u64 place_in(const struct bucket *bucket, __u64 task)
{
	for (__u32 i = 0; i < BUCKET_SIZE; i++)
		if (bucket->tasks[i] == task)
			return bucket->places[i];
	return no_place;
}

/*
 * Not static, like all below that take and give nothing but numbers: the verifier goes through such
 * a function once, and through a static one at each call in each state. With static ones and 16
 * buckets 6.1 looked at 704,000 instructions for rsn_kprobe, which took 14 s under emulation. The
 * copies of the fentry templates carry no function information, so that all is static in them: for
 * those there are no more than 4 buckets (217,000 instructions with 8, 22,000 with 4).
 */
__noinline __u64 table_find_in(__u64 task, __u32 index)
{
	struct bucket *bucket = bucket_at(index);

	return bucket ? place_in(bucket, task) : no_place;
}

/* Looks behind a full bucket. */
__noinline __u64 table_find_spilled(__u64 task, __u32 index)
{
	for (__u32 tried = 1; tried < BUCKETS_TRIED; tried++) {
		struct bucket *bucket;
		__u64 place;

		index = next_bucket(index);
		place = table_find_in(task, index);
		if (place != no_place)
			return place;
		bucket = bucket_at(index);
		if (!bucket || !bucket->spilled)
			break;
	}
	return no_place;
}

/* Where the session of thread `task` is, no_place if it has none. */
static __always_inline __u64 table_find(__u64 task)
{
	__u32 index = home_of(task);
	struct bucket *bucket = bucket_at(index);
	__u64 place;

	if (!bucket)
		return no_place;
	place = place_in(bucket, task);
	if (place == no_place && bucket->spilled)
		place = table_find_spilled(task, index);
	return place;
}

/*
 * Takes a free place of a bucket. Who makes a place's count 1 has it: of two that add at the same
 * time at least one reads 2 and goes on. (An addition that returns its result needs Linux 5.12.)
 */
__noinline __u64 table_claim_in(__u64 task, __u32 index, __u64 behind)
{
	struct bucket *bucket = bucket_at(index);
	__u64 place = behind << 32 | index * BUCKET_SIZE;

	if (!bucket)
		return no_place;
	for (__u32 i = 0; i < BUCKET_SIZE && (__u32)place + i < sessions_max; i++) {
		volatile __u32 *claims = &bucket->claims[i];

		if (*claims)
			continue;
		__sync_fetch_and_add(&bucket->claims[i], 1);
		if (*claims == 1) {
			bucket->runs[i]++;
			bucket->places[i] = place + i;
			bucket->tasks[i] = task;
			return place + i;
		}
		__sync_fetch_and_add(&bucket->claims[i], -1);
	}
	return no_place;
}

/* Gives buckets before the one that is `tried` behind `index` what they are to know of it. */
__noinline int table_spill(__u32 index, __u32 tried, __u32 change)
{
	for (__u32 i = 0; i < BUCKETS_TRIED && i < tried; i++) {
		struct bucket *bucket = bucket_at(index);

		if (bucket)
			__sync_fetch_and_add(&bucket->spilled, change);
		index = next_bucket(index);
	}
	return 0;
}

/* Makes place for the session of a thread that has none; no_place if there is too little. */
__noinline __u64 table_claim(__u64 task)
{
	__u32 home = home_of(task), index = home;

	for (__u64 tried = 0; tried < BUCKETS_TRIED && tried < buckets_max; tried++) {
		__u64 place = table_claim_in(task, index, tried);

		if (place != no_place) {
			if (tried)
				table_spill(home, tried, 1);
			return place;
		}
		index = next_bucket(index);
	}
	return no_place;
}

/* Atomic additions can give what was there before: all of the object's do, or none (the loader). */
const volatile bool has_fetch = true;

/* A full barrier, of a helper: the kernel hands a record over by an exchange. Nobody reads it. */
static __always_inline void barrier_by_record(void)
{
	void *record = use_ringbuf ? bpf_ringbuf_reserve(&events, sizeof(__u64), 0) : NULL;

	if (record)
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
}

/*
 * An addition, and between what is read and written before it and behind it a full barrier. On x86 each
 * is one; on arm64 one whose result nobody uses orders nothing, so the result is asked for there. (5.18
 * is the first that can do that on arm64; before, a helper is the barrier, if not with perf buffers or
 * a full ring.)
 */
static __always_inline void add_in_order(__u32 *counter, __s32 change)
{
#if defined(__TARGET_ARCH_arm64)
	__u32 before;

	if (!has_fetch && change < 0)
		barrier_by_record();
	before = __sync_fetch_and_add(counter, change);
	asm volatile("" ::"r"(before));
	if (!has_fetch && change > 0)
		barrier_by_record();
#else
	__sync_fetch_and_add(counter, change);
#endif
}

/*
 * Lets others have a place, after all that its owner has written: the last writes of the old owner, the
 * one that empties the place among them, may not arrive behind the first ones of the new owner. Who
 * claims a place needs no order: its writes depend on what it read in the claims. Who reads more of what
 * the last owner wrote does need it.
 */
static __always_inline void claim_release(__u32 *claims)
{
	add_in_order(claims, -1);
}

/* Gives back what table_claim() gave. */
static __always_inline void table_release(__u64 task, __u64 place)
{
	struct bucket *bucket = bucket_at((__u32)place / BUCKET_SIZE);
	__u64 i = place % BUCKET_SIZE;

	if (place >> 32)
		table_spill(home_of(task), place >> 32, -1);
	if (!bucket)
		return;
	bucket->tasks[i] = 0;
	barrier();
	claim_release(&bucket->claims[i]);
}

#endif
