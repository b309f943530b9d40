/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that crosses from the kernel to user space, declared once.
 * Python derives its layouts from the BTF of the compiled objects, so a struct
 * that is used here must reach the object's BTF (see session.bpf.h).
 */
#ifndef RSN_RECORDS_H
#define RSN_RECORDS_H

enum {
	RSN_MAX_DEPTH = 64, /* traced calls kept per session; deeper ones are counted */
	RSN_MAX_KSTACK = 96, /* kernel stack entries kept, innermost first */
	RSN_MAX_BRANCHES = 32, /* branch records kept, newest first */
	RSN_MAX_USTACK = 127, /* user stack entries kept, innermost first */
	RSN_COMM_LEN = 16,
	RSN_PATH_HITS = 64, /* blocks kept of a call's way through its function */
	RSN_MESSAGE_BYTES = 512, /* kept of a message of the kernel */
	RSN_WORDS = 8, /* numbers kept of a message that the kernel does not write out */
	RSN_WORD_BYTES = 64, /* of the text that each of them may lead to */
	RSN_FORMAT_BYTES = 256,
};

enum rsn_record_type {
	RSN_RECORD_SESSION = 1,
	RSN_RECORD_EVENTS = 2, /* struct rsn_part, then what struct rsn_event describes */
	RSN_RECORD_BRANCHES = 3, /* struct rsn_part, then cnt struct perf_branch_entry */
	RSN_RECORD_USER_STACK = 4, /* struct rsn_part, then cnt struct bpf_stack_build_id */
	RSN_RECORD_MESSAGE = 5, /* struct rsn_part, its cnt an enum rsn_message_source, then that */
};

/*
 * What a message of the kernel, written in a session's thread, was written by: text, or from
 * RSN_MESSAGE_VERIFIER on struct rsn_words.
 */
enum rsn_message_source {
	RSN_MESSAGE_PRINTK = 1, /* for the kernel's log */
	RSN_MESSAGE_NETLINK = 2, /* an extended acknowledgement, for who sent a netlink message */
	RSN_MESSAGE_FS_CONTEXT = 3, /* the log of a file system context, for who opened that */
	RSN_MESSAGE_VERIFIER = 4, /* the log of a BPF program, for a loader that wants none */
	RSN_MESSAGE_BTF = 5, /* the same of BTF */
	RSN_MESSAGE_IO_URING = 6, /* a request that is refused, for who submitted it */
};

/*
 * How a function's result is to be read; the upper half of its attach cookie. The second byte is
 * left to the number of arguments there (args.bpf.h).
 */
enum rsn_func_flags {
	RSN_FUNC_ENTRY = 1, /* starts a session */
	RSN_FUNC_CANT_FAIL = 2, /* void, bool, unsigned: its result says nothing about failure */
	RSN_FUNC_SIGN32 = 4, /* a signed result of 32 bits: only the low half counts */
	RSN_FUNC_PTR = 8, /* NULL and ERR_PTR are failures */
	RSN_FUNC_NULL_OK = 16, /* with PTR: NULL is an ordinary result of this function */
	RSN_FUNC_GUESSED = 32, /* with SIGN32: no type is known, it may as well have 64 bits */
};

/* Above the flags: an error number that is an ordinary result of the function, or 0. */
enum {
	RSN_FUNC_ERROR_SHIFT = 16,
};

enum rsn_session_flags {
	RSN_SESSION_ERROR = 1, /* the chain of failures reaches the entry function */
	RSN_SESSION_DIED = 2, /* the thread exited inside the entry function */
	RSN_SESSION_CALL_SITES = 4, /* kstack: where each slot returns to, then what was above */
	RSN_SESSION_IGNORED = 8, /* not to be reported: only its parts are to be forgotten */
	RSN_SESSION_STITCH = 16, /* goes on; this is a chain of failures about to be overwritten */
	RSN_SESSION_PROBE = 32, /* goes on; this is where an injected probe was hit */
	RSN_SESSION_EXITING = 64, /* kstack: where the thread exits, inside the calls or not */
	RSN_SESSION_RUNNING = 128, /* goes on after tracing; user space makes it of its map */
	RSN_SESSION_SWITCHED = 256, /* some of the missed calls may be other threads' */
};

/* One traced call of a session's stack. */
struct rsn_slot {
	__u32 func_id;
	__u32 seq; /* number of the call's entry event in the session */
	__s64 result;
	__u64 latency; /* ns; start time (CLOCK_MONOTONIC ns) while the call runs */
};

/* A whole session: this header, then slot_cnt slots, then kstack_cnt return addresses. */
struct rsn_session {
	__u32 type; /* RSN_RECORD_SESSION */
	__u32 size; /* bytes, header and tails */
	__u64 start_ts; /* CLOCK_MONOTONIC ns */
	__u64 emit_ts; /* CLOCK_MONOTONIC ns */
	__u32 tid;
	__u32 tgid;
	char task_comm[RSN_COMM_LEN];
	char proc_comm[RSN_COMM_LEN];
	__u32 flags; /* enum rsn_session_flags */
	__u32 last_seq;
	__u16 depth; /* calls still running when the record was made; 0 at the end */
	__u16 slot_cnt;
	__u16 stitch_pos; /* first slot of the stitched part, 0 for none */
	__u16 kstack_cnt;
	__u32 dropped; /* records of this session that did not fit the buffer */
	__u32 too_deep; /* calls deeper than RSN_MAX_DEPTH, not recorded */
	__u32 lost_exits; /* calls whose return was never seen, unwound when an outer one returned */
	__u32 lost_entries; /* returns whose entry was never seen */
	__u32 parts; /* records of type rsn_part sent for this session so far */
	__u16 cpu; /* where it was when the record was made */
	__u16 interrupt_pos; /* first slot of the calls that an interrupt makes, 0 for none */
	/* in the thread's own PID namespace, all 0 where that is the first: */
	__u32 ns_tid;
	__u32 ns_tgid;
	__u32 pid_ns; /* the inode of that namespace */
	__u32 proc_tgid; /* what the /proc of who reads this calls the process; 0: it is not there */
	__u32 missed; /* calls that the kernel kept from our programs, see misses.bpf.h */
	__u32 missed_in; /* func_id of the call that returned when the first of them were found */
};

/*
 * Before a session's record come its parts, each a record of its own; start_ts and tid tell which
 * session. From a perf buffer they may arrive after it: the session's `parts` tells how many.
 */
struct rsn_part {
	__u32 type; /* RSN_RECORD_EVENTS and following */
	__u32 size; /* bytes, header and payload */
	__u64 start_ts; /* the session's */
	__u32 tid;
	__s32 cnt; /* how much is in the payload; branches: or a negative errno; see message */
};

/* A message that the kernel does not write out, of what it would be made of. */
struct rsn_words {
	__u64 word0; /* io_uring: the request, struct io_uring_sqe, is in all of them */
	__u64 word1;
	__u64 word2;
	__u64 word3;
	__u64 word4;
	__u64 word5;
	__u64 word6;
	__u64 word7;
	__s32 item; /* instruction, type of BTF; io_uring: the error; 0: not known */
	__u32 unused;
	char texts[RSN_WORDS * RSN_WORD_BYTES]; /* where a word leads to text */
	char format[RSN_FORMAT_BYTES]; /* as of printf(3) */
};

/* What a session's events are; those of a kind that is not known can be skipped by their size. */
enum rsn_event_kind {
	RSN_EVENT_ENTRY = 1, /* struct rsn_event */
	RSN_EVENT_EXIT = 2, /* struct rsn_event */
	RSN_EVENT_PROBE = 3, /* struct rsn_event */
	RSN_EVENT_ARGS = 4, /* struct rsn_args: what the call was given */
	RSN_EVENT_PROBE_ARGS = 5, /* struct rsn_args: what the injected probe found */
	RSN_EVENT_PATH = 6, /* struct rsn_path: which blocks of the function a call ran */
};

enum rsn_event_flags {
	RSN_EVENT_INTERRUPT = 1, /* in an interrupt of the session's thread */
};

/* A call, a return, or a hit of an injected probe. */
struct rsn_event {
	__u16 size; /* bytes, a multiple of 8; all kinds begin with size and kind */
	__u8 kind; /* enum rsn_event_kind */
	__u8 flags; /* enum rsn_event_flags */
	__u16 depth; /* of the call that is entered or left, from 1; a hit's as if it were one */
	__u16 cpu;
	__u32 id; /* of the function, or of the injected probe */
	__u32 seq; /* number of the event in its session, from 1 */
	__u64 ts; /* CLOCK_MONOTONIC ns */
	__s64 result; /* at an exit: the raw result register */
};

/*
 * What was captured at the event `seq`: this header, cnt struct rsn_arg padded to 8 bytes, and then
 * the bytes of each, in that order: first those of its value, then those the value points to, both
 * padded to 8. It follows its event, or stands alone where calls are not logged.
 */
struct rsn_args {
	__u16 size; /* bytes, a multiple of 8 */
	__u8 kind; /* RSN_EVENT_ARGS or RSN_EVENT_PROBE_ARGS */
	__u8 cnt;
	__u32 id; /* of the function, or of the injected probe */
	__u32 seq;
	__u32 unused;
};

/* One captured argument, or something found by following one. */
struct rsn_arg {
	__u16 value; /* bytes of the value: 8 for each register; 0 where it could not be had */
	/*
	 * Bytes of what it points to, a string's terminating NUL included (one that does not end
	 * in NUL was cut); 0 for NULL and for what is not followed; or a negative errno: -EFAULT
	 * where it could not be read, -ENOSPC where there was no room left.
	 */
	__s16 data;
};

/*
 * The way a call took through its function, logged when it returns: this header, then cnt struct
 * rsn_hit. There is room for RSN_PATH_HITS: of more the last are there, and the oldest of them is
 * the one at index (earlier % RSN_PATH_HITS).
 */
struct rsn_path {
	__u16 size; /* bytes, a multiple of 8 */
	__u8 kind; /* RSN_EVENT_PATH */
	__u8 cnt;
	__u32 id; /* of the function */
	__u32 seq; /* number of the call's entry event in the session */
	__u32 earlier; /* hits before those that are there */
	__s64 result; /* the raw result register */
};

/* A block ran: what the operands of its last comparison were when it was made. */
struct rsn_hit {
	__u32 probe; /* number of the probe */
	__u32 unread; /* bit 0: left could not be read, bit 1: right; bit 2: left was called */
	__u64 left;
	__u64 right;
};

/* Counters since attach; each event is counted in exactly one of them. */
struct rsn_stats {
	__u64 sessions_dropped; /* finished, but the transport buffer was full */
	__u64 sessions_unstarted; /* no room in the session table */
	__u64 sessions_incomplete; /* reported with dropped, too_deep, lost_exits or lost_entries set */
	__u64 sessions_died; /* the thread exited inside the session */
	__u64 tree_overflow; /* a child process could not be added to the followed tree */
	__u64 sessions_abandoned; /* not reported: the entry function's return was not caught */
	__u64 calls_skipped; /* not recorded: made while a program of ours was at work on the session */
	__u64 interims_dropped; /* reports of sessions that go on, but the transport buffer was full */
	__u64 sessions_unfollowed; /* no room for the ways of their calls (--path) */
};

#endif
