/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops of bpf() calls, each run in a process of its own. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <stdbool.h>

enum { MAX_ROUNDS = 32, SETUP_CALLS = 2 };

struct step {
	char call[16]; /* lookup, info or missing */
	long calls; /* per round */
	int rounds;
	bool report; /* the calls fail, so a tool prints each of them */
	bool held; /* at real-time priority on the first CPU */
	bool burst; /* no other calls except those that create the map: SETUP_CALLS */
};

/* Results of the process that runs the loop. */
struct timing {
	long begin_ns; /* of the first round, CLOCK_MONOTONIC */
	long per_call_ns[MAX_ROUNDS];
};

long now_ns(void);

/*
 * Parse "loop:CALL:CALLS:ROUNDS", or report, held or burst and ":CALL:CALLS". Exits on other text.
 */
struct step parse_step(const char *text);

/* Fork the loop. Its timing is complete when loop_ended() returns true. */
struct timing *start_loop(const struct step *step);
bool loop_ended(void);

void print_timing(const struct step *step, const struct timing *timing);

#endif
