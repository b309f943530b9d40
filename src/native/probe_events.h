/* SPDX-License-Identifier: BSD-2-Clause */
/* Kprobe events of tracefs, each with many probes: one event for entries, one for returns. */
#ifndef RSN_PROBE_EVENTS_H
#define RSN_PROBE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* A pair of events of one owner: rsnoop_OWNER/inNUMBER_OWNER and rsnoop_OWNER/outNUMBER_OWNER. */
struct rsn_event_pair {
	const char *tracefs;
	const char *owner;
	unsigned int number;
	unsigned int max_active; /* calls of one function whose returns can be hooked at a time */
	int definitions_fd; /* kprobe_events, opened for appending */
	int returns_first; /* the return probe of a function is made before its entry probe */
	int use_links; /* bpf_link with a cookie (5.15), otherwise the ioctl */
	int entry_prog_fd;
	int return_prog_fd;
	int fds[4]; /* links, then perf events; -1 until the first function is attached */
};

/*
 * Attaches a pair of events to cnt more functions, each at a place "SYMBOL+OFFSET"; one that fails
 * costs only itself. errors: 0 or a positive errno for each.
 */
void rsn_attach_events(struct rsn_event_pair *pair, const char *const *places, size_t cnt,
		       int *errors);

/* Detaches the programs from the functions. The definitions stay: see rsn_guard_start(). */
void rsn_close_events(struct rsn_event_pair *pair);
/* cdef end */

enum {
	EVENT_NAME_LIMIT = 128, /* the kernel takes 64 bytes each of group and event */
	EVENT_PLACE_LIMIT = 640, /* the name of a symbol has up to 512 bytes (6.1), a module's 56 */
};

/* "rsnoop_OWNER/inNUMBER_OWNER"; size is EVENT_NAME_LIMIT. */
void rsn_event_name(char *name, const char *owner, unsigned int number, int is_return);

#endif
