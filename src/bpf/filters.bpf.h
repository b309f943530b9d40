/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The filters that decide which threads may start a session. They are checked once per session, at
 * its start: a later change of the thread's name or process image does not end the session.
 */
#ifndef RSN_FILTERS_BPF_H
#define RSN_FILTERS_BPF_H

#include "settings.bpf.h"

/* Process id: 1 for allowed, 0 for denied. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} tgid_filter SEC(".maps");

/* Thread name, padded with zeros: 1 for allowed, 0 for denied. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, char[RSN_COMM_LEN]);
	__type(value, __u8);
} comm_filter SEC(".maps");

/*
 * Process ids of the followed tree: the command, then its descendants. The value is the process's
 * signal_struct, which distinguishes it from an earlier process with the same id; 0 for the
 * command.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} tree SEC(".maps");

enum { RSN_OWN_PROCESSES = 4 };

/*
 * Processes of the tool itself. Reading a record would call traced functions again. 0: an empty
 * entry; it does not mean the idle threads, which have the id 0.
 */
__u32 own_tgids[RSN_OWN_PROCESSES];

static __always_inline bool is_own(__u32 tgid)
{
	for (__u32 i = 0; i < RSN_OWN_PROCESSES; i++)
		if (tgid && own_tgids[i] == tgid)
			return true;
	return false;
}

/* A thread that is not listed passes unless the filter has an allowed entry. */
static __always_inline bool passes(const __u8 *verdict, __u32 allow_cnt)
{
	return verdict ? *verdict : !allow_cnt;
}

static __always_inline bool tgid_passes(__u32 tgid)
{
	if (!tgid_allow_cnt && !tgid_deny_cnt)
		return true;
	return passes(bpf_map_lookup_elem(&tgid_filter, &tgid), tgid_allow_cnt);
}

static __always_inline bool comm_passes(void)
{
	char comm[RSN_COMM_LEN] = {};

	if (!comm_allow_cnt && !comm_deny_cnt)
		return true;
	bpf_get_current_comm(comm, sizeof(comm));
	return passes(bpf_map_lookup_elem(&comm_filter, comm), comm_allow_cnt);
}

/* Whether process tgid is in the followed tree; without a tree, true except for the tool itself. */
static __always_inline bool in_tree(__u32 tgid)
{
	return follow_tree ? bpf_map_lookup_elem(&tree, &tgid) != NULL : !is_own(tgid);
}

/* Whether the running thread, of process tgid, may start a session. */
static __always_inline bool thread_passes(__u32 tgid)
{
	return in_tree(tgid) && tgid_passes(tgid) && comm_passes();
}

#endif
