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
	bool report; /* the calls fail, so that a tool shows each of them */
	bool held; /* at real-time priority on the first CPU */
	bool burst; /* nothing else is called, but what makes the map: SETUP_CALLS */
};

/* What the process of the loop leaves behind. */
struct timing {
	long begin_ns; /* of the first round, CLOCK_MONOTONIC */
	long per_call_ns[MAX_ROUNDS];
};

long now_ns(void);

/* "loop:CALL:CALLS:ROUNDS", or report, held or burst and ":CALL:CALLS"; exits if it is none. */
struct step parse_step(const char *text);

/* Fork the loop; its timing is complete once loop_ended() says so. */
struct timing *start_loop(const struct step *step);
bool loop_ended(void);

void print_timing(const struct step *step, const struct timing *timing);

#endif
