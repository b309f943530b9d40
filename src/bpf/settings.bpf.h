/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the loader to the programs, and counters from the programs to the loader. The
 * loader sets the constants by name before the load, so the verifier drops the code of disabled
 * features.
 */
#ifndef RSN_SETTINGS_BPF_H
#define RSN_SETTINGS_BPF_H

#include "records.h"

/* Send records to the ring buffer (5.8), else to per-CPU perf buffers. */
const volatile bool use_ringbuf = true;

/* Report sessions that did not fail, too. */
const volatile bool emit_success = false;

/* The sent parts of a session: its stack, and all its calls and returns. */
const volatile bool emit_stack = true;
const volatile bool emit_calls = false;
const volatile bool emit_user_stack = false;

/* Also report running sessions: failures that would be overwritten, hits of injected probes. */
const volatile bool emit_interim = false;

/* The CPUs record branches. */
const volatile bool use_lbr = false;

/* Capture arguments, with maximum bytes of a call and of one argument's target. */
const volatile bool capture_args = false;
const volatile __u64 args_max_total = 3072;
const volatile __u64 args_max_data = 256;

/* Record the executed blocks in calls of some functions. */
const volatile bool emit_paths = false;

/*
 * All these features are off: emit_success, emit_calls, emit_interim, use_lbr, capture_args,
 * emit_paths, debug_log, keep_call_sites. The verifier drops the code for a false constant, but not
 * the load of the constant. Without `plain`, each traced call would have 15 such loads.
 */
const volatile bool plain = false;

/* Sessions shorter than this many ns are not reported. */
const volatile __u64 duration_ns = 0;

/* The maximum number of sessions at a time. */
const volatile __u32 sessions_max = 4096;

/* The number of entries in the filter maps; with 0, that filter is off. */
const volatile __u32 tgid_allow_cnt = 0;
const volatile __u32 tgid_deny_cnt = 0;
const volatile __u32 comm_allow_cnt = 0;
const volatile __u32 comm_deny_cnt = 0;

/* Only the processes in the map tree, and the children they get, start sessions. */
const volatile bool follow_tree = false;

/* Set when all programs are attached, cleared before the first is detached. */
bool ready;

struct rsn_stats stats;

/* Calls of entry functions that failed in less than duration_ns. The user excluded these calls. */
__u64 failed_short;

/* Puts the types of records.h into the object's BTF; user space reads their layouts there. */
struct rsn_types {
	enum rsn_record_type record_type;
	enum rsn_func_flags func_flags;
	enum rsn_session_flags session_flags;
	enum rsn_message_source message_source;
	enum rsn_event_kind event_kind;
	enum rsn_event_flags event_flags;
	struct rsn_session session;
	struct rsn_slot slot;
	struct rsn_part part;
	struct rsn_event event;
	struct rsn_args args;
	struct rsn_arg arg;
	struct rsn_path path;
	struct rsn_hit hit;
	struct rsn_words words;
};

const struct rsn_types *rsn_types __attribute__((unused));

/* The result of the addition is not used: atomics that return it need Linux 5.12. */
static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#endif
