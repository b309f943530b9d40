/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Write sessions that are similar to an earlier one: same calls, stacks and names; different times,
 * results, threads and CPUs. Python writes such a session once and provides a template. Sessions
 * without a template go back to Python.
 *
 * Templates refer to the numbers of a session by index: first RSN_REPEAT_SESSION numbers of the
 * session record, then RSN_REPEAT_SLOT for each slot, then RSN_REPEAT_EVENT for each event.
 *
 * Records are read as the structs of src/bpf/records.h. The caller compares rsn_repeat_members()
 * with the layouts of a recording, and does not pass records of any other layout.
 */
#ifndef RSN_REPEAT_H
#define RSN_REPEAT_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
enum rsn_repeat_numbers {
	RSN_REPEAT_SESSION = 5, /* start_ts, emit_ts, tid, tgid, cpu */
	RSN_REPEAT_SLOT = 2, /* result, latency */
	RSN_REPEAT_EVENT = 3, /* result, ts, cpu */
	RSN_REPEAT_CANDIDATES = 16,
};

/* Kinds of template pieces, and what each writes. */
enum rsn_repeat_kind {
	RSN_REPEAT_TEXT, /* `count` bytes from offset `first` of the template's texts */
	RSN_REPEAT_DASHES, /* dashes over the width of its column */
	RSN_REPEAT_WIDEN, /* nothing, but its column is at least `first` wide */
	RSN_REPEAT_NUMBER, /* a sum of `count` terms from index `first` */
	RSN_REPEAT_US, /* a sum of ns, in whole us, with the unit */
	RSN_REPEAT_US3, /* a sum of ns, in us with three decimals, with the unit */
	RSN_REPEAT_TIME6, /* number `first`, a time: text of its second, then us */
	RSN_REPEAT_TIME9, /* number `first`, a time: text of its second, then ns */
	RSN_REPEAT_RESULT, /* number `first`: text of that result of function `count` */
};

struct rsn_repeat_piece {
	uint32_t kind;
	int32_t column; /* column that sets its width; -1: none */
	uint32_t is_left; /* left-aligned: blanks follow */
	uint32_t first;
	uint32_t count;
};

struct rsn_repeat_template {
	const struct rsn_repeat_piece *pieces;
	uint32_t piece_cnt; /* 0: Python always writes such sessions */
	const int32_t *terms; /* index of a number, from 1; negative: subtract it */
	uint32_t term_cnt;
	const char *texts;
	uint32_t text_size;
};

/* Position of records in the data, in bytes. */
struct rsn_repeat_place {
	uint32_t at;
	uint32_t size;
};

/* A member of a struct in records.h, as compiled. */
struct rsn_repeat_member {
	const char *record;
	const char *name;
	uint32_t record_size;
	uint32_t at;
	uint32_t size;
	char code; /* code of Python's struct module; s: an array of `size` characters */
};

/*
 * Result of rsn_repeat_run(). The data consists of three parts, in this order: sessions written,
 * records for Python, and the rest.
 */
struct rsn_repeat_found {
	size_t written; /* end of the sessions that are in `text` */
	size_t unknown; /* end of the records for Python */
	const char *text;
	size_t text_size;
	/* The templates used, and how often. */
	const uint32_t *used;
	const uint32_t *times;
	uint32_t used_cnt;
	/*
	 * Repeated sessions among the records for Python, each with its events record, if it has
	 * one.
	 */
	uint32_t candidate_cnt;
	struct rsn_repeat_place candidates[16]; /* at most RSN_REPEAT_CANDIDATES */
	/*
	 * The text of a word is needed to continue: result `value` of a function, or second `value`
	 * if function is -1.
	 */
	int needs_word;
	int64_t function;
	int64_t value;
};

const struct rsn_repeat_member *rsn_repeat_members(size_t *cnt);
struct rsn_repeat *rsn_repeat_new(int by_process, int64_t clock);
void rsn_repeat_free(struct rsn_repeat *repeat);
int rsn_repeat_learn(struct rsn_repeat *repeat, const char *data, size_t size,
		     const struct rsn_repeat_template *template);
int rsn_repeat_learn_word(struct rsn_repeat *repeat, int64_t function, int64_t value,
			  const char *text, size_t size, size_t width);
int rsn_repeat_run(struct rsn_repeat *repeat, const char *data, size_t size, uint32_t lesson_cnt,
		   struct rsn_repeat_found *found);
/* cdef end */

#endif
