// SPDX-License-Identifier: BSD-2-Clause
/* Flatten nested address intervals to a sorted list of spans. */
#include <stdlib.h>

#include "dwarf_paint.h"

static int compare_u64(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static size_t sort_unique(uint64_t *values, size_t count)
{
	size_t kept = 0;

	qsort(values, count, sizeof(*values), compare_u64);
	for (size_t i = 0; i < count; i++)
		if (!kept || values[kept - 1] != values[i])
			values[kept++] = values[i];
	return kept;
}

/* The first unpainted point at or after `at`. Shortens the path that it follows. */
static uint32_t unpainted(uint32_t *next, uint32_t at)
{
	uint32_t root = at;

	while (next[root] != root)
		root = next[root];
	while (next[at] != root) {
		uint32_t step = next[at];

		next[at] = root;
		at = step;
	}
	return root;
}

/*
 * Paint the intervals onto their sorted end points, from last to first. Callees follow their
 * callers, so a painted point already belongs to a more deeply nested interval.
 */
static void paint(const struct interval *intervals, size_t count, const uint64_t *points,
		  size_t nr_points, uint32_t *owner, uint32_t *next)
{
	for (size_t i = 0; i <= nr_points; i++) {
		owner[i] = no_scope;
		next[i] = i;
	}
	for (size_t i = count; i-- > 0;) {
		const struct interval *iv = &intervals[i];
		const uint64_t *low =
			bsearch(&iv->low, points, nr_points, sizeof(*points), compare_u64);
		uint32_t at = unpainted(next, low - points);

		while (at < nr_points && points[at] < iv->high) {
			owner[at] = iv->scope;
			next[at] = at + 1;
			at = unpainted(next, at + 1);
		}
	}
}

size_t paint_spans(const struct interval *intervals, size_t count, struct span **spans)
{
	/* point numbers have 32 bits, so a larger count fails like an allocation */
	size_t n = count < UINT32_MAX / 4 ? count * 2 : 0, kept = 0;
	uint64_t *points = malloc((n + 1) * sizeof(*points));
	uint32_t *owner = malloc((n + 1) * sizeof(*owner));
	uint32_t *next = malloc((n + 1) * sizeof(*next));
	struct span *made = malloc((n + 1) * sizeof(*made));

	if (n / 2 == count && points && owner && next && made) {
		for (size_t i = 0; i < count; i++) {
			points[2 * i] = intervals[i].low;
			points[2 * i + 1] = intervals[i].high;
		}
		n = sort_unique(points, n);
		paint(intervals, count, points, n, owner, next);
		for (size_t i = 0; i < n; i++)
			if (!kept || made[kept - 1].scope != owner[i])
				made[kept++] = (struct span){ points[i], owner[i] };
		*spans = made;
	} else {
		free(made);
		*spans = NULL;
	}
	free(points);
	free(owner);
	free(next);
	return kept;
}
