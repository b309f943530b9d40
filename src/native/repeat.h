/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the sessions that are like one that was written before: with equal calls, stacks and names,
 * and other times, results, threads and CPUs. How such a session is written Python says once, as a
 * template; what is not known goes back to Python.
 *
 * The numbers of a session, by which templates name them: those of its record, RSN_REPEAT_SESSION;
 * then RSN_REPEAT_SLOT for each slot, then RSN_REPEAT_EVENT for each event.
 *
 * Records are read as the structs of src/bpf/records.h. The caller compares rsn_repeat_members() with
 * the layouts of a recording, and does not pass records of any other layout.
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

/* What is written: kinds of pieces of a template. */
enum rsn_repeat_kind {
	RSN_REPEAT_TEXT, /* `count` bytes from `first` of the template's texts */
	RSN_REPEAT_DASHES, /* as many as its column is wide */
	RSN_REPEAT_WIDEN, /* nothing; its column is `first` wide at least */
	RSN_REPEAT_NUMBER, /* a sum: `count` terms from `first` */
	RSN_REPEAT_US, /* a sum, ns, in whole us, with the unit */
	RSN_REPEAT_US3, /* a sum, ns, in us with three digits behind the point, with the unit */
	RSN_REPEAT_TIME6, /* number `first`, a time: the word of its second, and us */
	RSN_REPEAT_TIME9, /* the same, and ns */
	RSN_REPEAT_RESULT, /* number `first`: the word of that result of function `count` */
};

struct rsn_repeat_piece {
	uint32_t kind;
	int32_t column; /* it is as wide as the widest in this column; -1: in none */
	uint32_t is_left; /* blanks are behind it */
	uint32_t first;
	uint32_t count;
};

struct rsn_repeat_template {
	const struct rsn_repeat_piece *pieces;
	uint32_t piece_cnt; /* 0: such sessions are always left to Python */
	const int32_t *terms; /* the place of a number, from 1; negative: it is subtracted */
	uint32_t term_cnt;
	const char *texts;
	uint32_t text_size;
};

/* A place in the records, bytes. */
struct rsn_repeat_place {
	uint32_t at;
	uint32_t size;
};

/* A member of a struct of records.h as this was compiled with it. */
struct rsn_repeat_member {
	const char *record;
	const char *name;
	uint32_t record_size;
	uint32_t at;
	uint32_t size;
	char code; /* of Python's struct module; s: an array of `size` characters */
};

/* What rsn_repeat_run() found, in this order: bytes that were written, others, and the rest. */
struct rsn_repeat_found {
	size_t written; /* up to here there are sessions that are in `text` */
	size_t unknown; /* and up to here records for Python */
	const char *text;
	size_t text_size;
	/* The templates that were used, and how often. */
	const uint32_t *used;
	const uint32_t *times;
	uint32_t used_cnt;
	/* Among the unknown ones sessions that came before; each with its part, if it has one. */
	uint32_t candidate_cnt;
	struct rsn_repeat_place candidates[16]; /* RSN_REPEAT_CANDIDATES */
	/* A word is needed before anything else is written: of result `value` of a function, or of
	 * second `value` (function is -1). */
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
