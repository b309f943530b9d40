/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the loader tells the programs, and what they tell it outside of records.
 * The constants are set by name before load, so the verifier drops code for what is off.
 */
#ifndef RSN_SETTINGS_BPF_H
#define RSN_SETTINGS_BPF_H

#include "records.h"

/* Where records go: the ring buffer (5.8), else per-CPU perf buffers. */
const volatile bool use_ringbuf = true;

/* Report sessions that did not fail, too. */
const volatile bool emit_success = false;

/* What of a session is sent: its stack, and every call and return of it. */
const volatile bool emit_stack = true;
const volatile bool emit_calls = false;
const volatile bool emit_user_stack = false;

/* Report sessions that go on, too: failures that would be forgotten, hits of injected probes. */
const volatile bool emit_interim = false;

/* The CPUs keep branch records for us. */
const volatile bool use_lbr = false;

/* What calls were given, and so many bytes of it at most: of a call, and of one argument's target. */
const volatile bool capture_args = false;
const volatile __u64 args_max_total = 3072;
const volatile __u64 args_max_data = 256;

/* Which blocks of some functions the calls of them ran. */
const volatile bool emit_paths = false;

/*
 * None of what is named so is asked for: emit_success, emit_calls, emit_interim, use_lbr, capture_args,
 * emit_paths, debug_log, keep_call_sites. The verifier drops what is done for a constant that is false,
 * but not its load: 15 of them in each call that is traced, but for this one.
 */
const volatile bool plain = false;

/* Sessions shorter than this many ns are not reported. */
const volatile __u64 duration_ns = 0;

/* How many sessions may run at a time. */
const volatile __u32 sessions_max = 4096;

/* How many entries the filter maps hold; with none, that filter is off. */
const volatile __u32 tgid_allow_cnt = 0;
const volatile __u32 tgid_deny_cnt = 0;
const volatile __u32 comm_allow_cnt = 0;
const volatile __u32 comm_deny_cnt = 0;

/* Only the processes in the map tree, and the children they get, start sessions. */
const volatile bool follow_tree = false;

/* Opened when everything is attached, closed before anything is detached. */
bool ready;

struct rsn_stats stats;

/* Calls of entry functions that failed in less than duration_ns. No loss: so it was asked for. */
__u64 failed_short;

/* Puts the types of records.h into the object's BTF, where user space finds their layouts. */
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
