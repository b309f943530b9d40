/* SPDX-License-Identifier: BSD-2-Clause */
/* Flatten nested address intervals to a sorted list of spans. */
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

/* The innermost scope from start to the start of the next span, or no_scope. */
struct span {
	uint64_t start;
	uint32_t scope;
};

/*
 * Where intervals overlap, the later one in the array wins, because callees follow their callers.
 * Returns the number of spans. The caller frees *spans, which is NULL if memory ran out.
 */
size_t paint_spans(const struct interval *intervals, size_t count, struct span **spans);

#endif
