/* SPDX-License-Identifier: BSD-2-Clause */
/* Kprobe events in tracefs with many probes each: one event for entries, one for returns. */
#ifndef RSN_PROBE_EVENTS_H
#define RSN_PROBE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* Two events of one owner: rsnoop_OWNER/inNUMBER_OWNER and rsnoop_OWNER/outNUMBER_OWNER. */
struct rsn_event_pair {
	const char *tracefs;
	const char *owner;
	unsigned int number;
	unsigned int max_active; /* concurrent calls of a function that the return probe hooks */
	int definitions_fd; /* kprobe_events, open for appending */
	int returns_first; /* define a function's return probe before its entry probe */
	int use_links; /* bpf_link with a cookie (5.15), otherwise the ioctl */
	int entry_prog_fd;
	int return_prog_fd;
	int fds[4]; /* links, then perf events; -1 until the first function is attached */
};

/*
 * Attach two events to cnt more functions. Each place is "SYMBOL+OFFSET". A failure affects only
 * its own function. errors receives 0 or a positive errno for each function.
 */
void rsn_attach_events(struct rsn_event_pair *pair, const char *const *places, size_t cnt,
		       int *errors);

/* Detach the programs from the functions. The definitions remain: see rsn_guard_start(). */
void rsn_close_events(struct rsn_event_pair *pair);
/* cdef end */

enum {
	EVENT_NAME_LIMIT = 128, /* the kernel limits group and event to 64 bytes each */
	EVENT_PLACE_LIMIT = 640, /* a symbol name has at most 512 bytes (6.1), a module name 56 */
};

/* Write "rsnoop_OWNER/inNUMBER_OWNER" to name; size is EVENT_NAME_LIMIT. */
void rsn_event_name(char *name, const char *owner, unsigned int number, int is_return);

#endif
