/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All records from the kernel to user space, declared once.
 * Python derives its layouts from the BTF of the compiled objects, so every struct
 * here must be in the object's BTF (see settings.bpf.h).
 */
#ifndef RSN_RECORDS_H
#define RSN_RECORDS_H

enum {
	RSN_MAX_DEPTH = 64, /* traced calls kept per session; deeper ones are counted */
	RSN_MAX_KSTACK = 96, /* kernel stack entries kept, innermost first */
	RSN_MAX_BRANCHES = 32, /* branch records kept, newest first */
	RSN_MAX_USTACK = 127, /* user stack entries kept, innermost first */
	RSN_COMM_LEN = 16,
	RSN_PATH_HITS = 64, /* basic blocks kept of a call's executed path */
	RSN_MESSAGE_BYTES = 512, /* kept bytes of a kernel message */
	RSN_WORDS = 8, /* arguments kept of a message that the kernel does not format */
	RSN_WORD_BYTES = 64, /* kept bytes of the text that such an argument may point to */
	RSN_FORMAT_BYTES = 256,
};

enum rsn_record_type {
	RSN_RECORD_SESSION = 1,
	RSN_RECORD_EVENTS = 2, /* struct rsn_part, then events: see enum rsn_event_kind */
	RSN_RECORD_BRANCHES = 3, /* struct rsn_part, then cnt struct perf_branch_entry */
	RSN_RECORD_USER_STACK = 4, /* struct rsn_part, then cnt struct bpf_stack_build_id */
	RSN_RECORD_MESSAGE = 5, /* struct rsn_part (cnt: enum rsn_message_source), then the text */
};

/*
 * The sources of a kernel message that was written in a session's thread. The payload is text, or,
 * from RSN_MESSAGE_VERIFIER on, a struct rsn_words.
 */
enum rsn_message_source {
	RSN_MESSAGE_PRINTK = 1, /* for the kernel's log */
	RSN_MESSAGE_NETLINK = 2, /* an extended acknowledgement, for a netlink message */
	RSN_MESSAGE_FS_CONTEXT = 3, /* the log of a file system context, for its opener */
	RSN_MESSAGE_VERIFIER = 4, /* the verifier log, if the loader did not request a log */
	RSN_MESSAGE_BTF = 5, /* the BTF log, if the loader did not request a log */
	RSN_MESSAGE_IO_URING = 6, /* a rejected request, for its submitter */
};

/*
 * How to interpret a function's result; the upper half of its attach cookie. The second byte there
 * is reserved for the number of arguments (args.bpf.h).
 */
enum rsn_func_flags {
	RSN_FUNC_ENTRY = 1, /* starts a session */
	RSN_FUNC_CANT_FAIL = 2, /* void, bool, unsigned: its result does not indicate failure */
	RSN_FUNC_SIGN32 = 4, /* a signed result of 32 bits: use only the low half */
	RSN_FUNC_PTR = 8, /* NULL and ERR_PTR are failures */
	RSN_FUNC_NULL_OK = 16, /* with PTR: NULL is an ordinary result of this function */
	RSN_FUNC_GUESSED = 32, /* with SIGN32: the type is unknown, the result may have 64 bits */
};

/* Above the flags: an error number that is an ordinary result of the function, or 0. */
enum {
	RSN_FUNC_ERROR_SHIFT = 16,
};

enum rsn_session_flags {
	RSN_SESSION_ERROR = 1, /* the chain of failures reaches the entry function */
	RSN_SESSION_DIED = 2, /* the thread exited inside the entry function */
	RSN_SESSION_CALL_SITES = 4, /* kstack: return address of each slot, then the outer stack */
	RSN_SESSION_IGNORED = 8, /* not reported: user space only discards its parts */
	RSN_SESSION_STITCH = 16, /* still running; a chain of failures that will be overwritten */
	RSN_SESSION_PROBE = 32, /* still running; the state at the hit of an injected probe */
	RSN_SESSION_EXITING = 64, /* kstack: where the thread exits, possibly outside the calls */
	RSN_SESSION_RUNNING = 128, /* still running after tracing; made by user space */
	RSN_SESSION_SWITCHED = 256, /* some of the missed calls may belong to other threads */
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
	__u32 dropped; /* records of this session that did not fit into the buffer */
	__u32 too_deep; /* calls deeper than RSN_MAX_DEPTH, not recorded */
	__u32 lost_exits; /* calls without a seen return, unwound when an outer call returned */
	__u32 lost_entries; /* returns without a seen entry */
	__u32 parts; /* records of type rsn_part sent for this session so far */
	__u16 cpu; /* the CPU at the time of the record */
	__u16 interrupt_pos; /* first slot of an interrupt's calls, 0 for none */
	/* in the thread's own PID namespace, all 0 for the initial namespace: */
	__u32 ns_tid;
	__u32 ns_tgid;
	__u32 pid_ns; /* the inode of that namespace */
	__u32 proc_tgid; /* the process's id in the reader's /proc; 0: not visible there */
	__u32 missed; /* calls for which the kernel skipped our programs, see misses.bpf.h */
	__u32 missed_in; /* func_id of the returning call that noticed the first missed calls */
};

/*
 * The parts of a session, each a record of its own, sent before the session's record. start_ts and
 * tid identify the session. From a perf buffer, parts may arrive later than the session's record:
 * the `parts` member of the session is their number.
 */
struct rsn_part {
	__u32 type; /* RSN_RECORD_EVENTS and following */
	__u32 size; /* bytes, header and payload */
	__u64 start_ts; /* the session's */
	__u32 tid;
	__s32 cnt; /* entries in the payload; branches: or a negative errno; see message */
};

/* The format and arguments of a message that the kernel does not format. */
struct rsn_words {
	__u64 word0; /* io_uring: all words together hold the request, struct io_uring_sqe */
	__u64 word1;
	__u64 word2;
	__u64 word3;
	__u64 word4;
	__u64 word5;
	__u64 word6;
	__u64 word7;
	__s32 item; /* instruction or BTF type; io_uring: the error; 0: unknown */
	__u32 unused;
	char texts[RSN_WORDS * RSN_WORD_BYTES]; /* if a word points to text */
	char format[RSN_FORMAT_BYTES]; /* as of printf(3) */
};

/* The kinds of a session's events. A reader can skip an unknown kind by its size. */
enum rsn_event_kind {
	RSN_EVENT_ENTRY = 1, /* struct rsn_event */
	RSN_EVENT_EXIT = 2, /* struct rsn_event */
	RSN_EVENT_PROBE = 3, /* struct rsn_event */
	RSN_EVENT_ARGS = 4, /* struct rsn_args: the call's arguments */
	RSN_EVENT_PROBE_ARGS = 5, /* struct rsn_args: the values that the injected probe read */
	RSN_EVENT_PATH = 6, /* struct rsn_path: the executed blocks of a call */
};

enum rsn_event_flags {
	RSN_EVENT_INTERRUPT = 1, /* in an interrupt of the session's thread */
};

/* A call, a return, or a hit of an injected probe. */
struct rsn_event {
	__u16 size; /* bytes, a multiple of 8; all kinds begin with size and kind */
	__u8 kind; /* enum rsn_event_kind */
	__u8 flags; /* enum rsn_event_flags */
	__u16 depth; /* of the entered or left call, from 1; of a hit: as if it were a call */
	__u16 cpu;
	__u32 id; /* of the function, or of the injected probe */
	__u32 seq; /* number of the event in its session, from 1 */
	__u64 ts; /* CLOCK_MONOTONIC ns */
	__s64 result; /* at an exit: the raw result register */
};

/*
 * The arguments captured at the event `seq`: this header, cnt struct rsn_arg padded to 8 bytes, and
 * then the bytes of each argument, in that order: first the bytes of its value, then the bytes that
 * the value points to, both padded to 8. This event follows its call's event, or stands alone if
 * calls are not logged.
 */
struct rsn_args {
	__u16 size; /* bytes, a multiple of 8 */
	__u8 kind; /* RSN_EVENT_ARGS or RSN_EVENT_PROBE_ARGS */
	__u8 cnt;
	__u32 id; /* of the function, or of the injected probe */
	__u32 seq;
	__u32 unused;
};

/* One captured argument, or a value reached by following an argument. */
struct rsn_arg {
	__u16 value; /* bytes of the value: 8 for each register; 0 if it could not be read */
	/*
	 * Bytes of the target, including a string's terminating NUL (a string without NUL was
	 * cut). 0 for NULL and for values that are not followed. Or a negative errno: -EFAULT if
	 * the target could not be read, -ENOSPC if no room was left.
	 */
	__s16 data;
};

/*
 * The executed path of a call, logged when the call returns: this header, then cnt struct rsn_hit.
 * Only the last RSN_PATH_HITS hits are kept; the oldest of these is at index
 * (earlier % RSN_PATH_HITS).
 */
struct rsn_path {
	__u16 size; /* bytes, a multiple of 8 */
	__u8 kind; /* RSN_EVENT_PATH */
	__u8 cnt;
	__u32 id; /* of the function */
	__u32 seq; /* number of the call's entry event in the session */
	__u32 earlier; /* hits that were overwritten */
	__s64 result; /* the raw result register */
};

/* An executed block, with the operands of its last comparison at that time. */
struct rsn_hit {
	__u32 probe; /* number of the probe */
	__u32 unread; /* bit 0: left is unreadable, bit 1: right is; bit 2: left was called */
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
	__u64 calls_skipped; /* not recorded: made while a program of ours used the session */
	__u64 interims_dropped; /* reports of running sessions, but the transport buffer was full */
	__u64 sessions_unfollowed; /* no room for the paths of their calls (--path) */
};

#endif
