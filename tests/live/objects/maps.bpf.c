// SPDX-License-Identifier: BSD-2-Clause
/* Maps of many kernels, and of none. */
#include "common.h"

#define PAGES(name, kind, size)             \
	struct {                            \
		__uint(type, kind);         \
		__uint(max_entries, size);  \
	} name SEC(".maps")

#define TABLE(name, kind, size, flags)      \
	struct {                            \
		__uint(type, kind);         \
		__uint(max_entries, size);  \
		__uint(map_flags, flags);   \
		__type(key, __u32);         \
		__type(value, __u64);       \
	} name SEC(".maps")

/* libbpf rounds this one up. */
PAGES(ring_odd, BPF_MAP_TYPE_RINGBUF, 5000);
TABLE(plain, BPF_MAP_TYPE_HASH, 16, 0);
/* More than the 64 KiB that may be locked by default, which counts before 5.11. */
TABLE(spacious, BPF_MAP_TYPE_HASH, 4096, 0);
TABLE(too_large, BPF_MAP_TYPE_HASH, 0x3fffffff, 0); // refused: map-too-large
TABLE(array_huge, BPF_MAP_TYPE_ARRAY, 0x3fffffff, 0); // refused: map-too-large
TABLE(empty, BPF_MAP_TYPE_HASH, 0, 0); // refused: map-size
TABLE(flag_unknown, BPF_MAP_TYPE_HASH, 16, 0x20000000); // refused: map-flags
TABLE(trie_without_flag, BPF_MAP_TYPE_LPM_TRIE, 16, 0); // refused: map-flags
TABLE(type_unknown, 240, 16, 0); // refused: map-type-unsupported

struct {
	__uint(type, BPF_MAP_TYPE_BLOOM_FILTER);
	__uint(max_entries, 100);
	__type(value, __u32);
} bloom_of_5_16 SEC(".maps"); // refused: map-type-unsupported -5.15

PAGES(user_ring_of_6_1, BPF_MAP_TYPE_USER_RINGBUF, 4096); // refused: map-type-unsupported -6.0

struct {
	__uint(type, 33);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 10);
} arena_of_6_9 SEC(".maps"); // refused: map-type-unsupported -6.8

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(key_size, 8);
	__uint(value_size, 8);
} array_key SEC(".maps"); // refused: map-definition

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int uses_plain(void *ctx)
{
	__u32 key = 1;

	return bpf_map_lookup_elem(&plain, &key) != 0;
}

SEC("raw_tp/sys_enter")
int uses_refused(void *ctx)
{
	__u32 key = 1;

	return bpf_map_lookup_elem(&type_unknown, &key) != 0; // blocked: unresolved-map
}

/* Tried with one entry in the map that has none. */
SEC("raw_tp/sys_enter")
int uses_empty(void *ctx)
{
	__u32 key = 1;

	return bpf_map_lookup_elem(&empty, &key) != 0;
}
