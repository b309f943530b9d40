/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sessions by thread: a hash table of our own, on array maps. The verifier inlines lookups in
 * array maps as a few instructions, but a lookup in a hash map takes two calls. This table needs no
 * allocation, and a session needs no map update.
 *
 * A thread's session is in the bucket of its task_struct's hash or, if that bucket is full, in one
 * of the next buckets. Only the thread itself searches its session, so only the claim of a place
 * needs synchronization.
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
	 * Low half: the index of each place. High half: the distance from its own bucket. The
	 * verifier treats a number read from here as unknown; otherwise it checks each one.
	 */
	__u64 places[BUCKET_SIZE];
	__u32 claims[BUCKET_SIZE];
	/* Sessions that each place has had: only the owner adds, so no lock is needed. */
	__u32 runs[BUCKET_SIZE];
	__u32 spilled; /* running sessions that found this bucket full and went on */
	__u32 unused;
};

/* The number of buckets for sessions_max places; set by the loader. */
const volatile __u32 buckets_max = 4096 / BUCKET_SIZE;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MAPPABLE); /* a reader by bpf(2) could start a session by that */
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

/* Returns the place of `task` in a bucket, no_place if it is not there. */
static __always_inline __u64 place_in(const struct bucket *bucket, __u64 task)
{
	for (__u32 i = 0; i < BUCKET_SIZE; i++)
		if (bucket->tasks[i] == task)
			return bucket->places[i];
	return no_place;
}

/*
 * Not static, like all functions below with only numbers as arguments and results: the verifier
 * checks such a function once, but a static function at each call in each state. With static
 * functions and 16 buckets, 6.1 checked 704,000 instructions for rsn_kprobe, which took 14 s under
 * emulation. The copies of the fentry templates have no function information, so all their
 * functions are static: they use at most 4 buckets (217,000 instructions with 8, 22,000 with 4).
 */
__noinline __u64 table_find_in(__u64 task, __u32 index)
{
	struct bucket *bucket = bucket_at(index);

	return bucket ? place_in(bucket, task) : no_place;
}

/* Searches the buckets after a full bucket. */
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

/* Returns the place of the session of thread `task`, no_place without a session. */
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
 * Claims a free place of a bucket. The thread that changes a place's count to 1 owns the place: if
 * two threads add at the same time, at least one reads 2 and tries the next place. (An addition
 * that returns its result requires Linux 5.12.)
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

/* Adds `change` to `spilled` of the `tried` buckets from `index` on. */
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

/* Claims a place for the session of a thread without a session; no_place if all are used. */
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

/* Atomic additions return the old value: the loader sets this for the whole object. */
const volatile bool has_fetch = true;

/* A full barrier by a helper: the kernel releases a record by an exchange. No reader gets it. */
static __always_inline void barrier_by_record(void)
{
	void *record = use_ringbuf ? bpf_ringbuf_reserve(&events, sizeof(__u64), 0) : NULL;

	if (record)
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
}

/*
 * An addition that is also a full barrier for the reads and writes before and after it. On x86
 * every atomic addition is a full barrier. On arm64 an addition without a used result orders
 * nothing, so the result is fetched there. (On arm64 this requires 5.18. Before, a helper is the
 * barrier, except with perf buffers or a full ring.)
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
 * Releases a place after all writes of its owner. The last writes of the old owner, including the
 * write that empties the place, must not become visible after the first writes of the new owner. A
 * thread that claims a place needs no barrier, because its writes depend on the value that it read
 * in the claims. It needs a barrier only to read more of the last owner's data.
 */
static __always_inline void claim_release(__u32 *claims)
{
	add_in_order(claims, -1);
}

/* Releases a place of table_claim(). */
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
