/* SPDX-License-Identifier: BSD-2-Clause */
/* Nested address intervals flattened to a sorted list of spans. */
#ifndef RSN_DWARF_PAINT_H
#define RSN_DWARF_PAINT_H

#include <stddef.h>
#include <stdint.h>

static const uint32_t no_scope = UINT32_MAX;

struct interval {
	uint64_t low;
	uint64_t high;
	uint32_t scope;
};

/* From start up to the next span's start the innermost scope is this one, or no_scope. */
struct span {
	uint64_t start;
	uint32_t scope;
};

/*
 * Where intervals overlap, the later one in the array wins: callees come after their
 * callers. Returns the number of spans; *spans is for the caller to free, NULL when
 * memory ran out.
 */
size_t paint_spans(const struct interval *intervals, size_t count, struct span **spans);

#endif
