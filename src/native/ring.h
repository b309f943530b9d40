/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consumer of a BPF ring buffer. libbpf maps the data twice in a row, so that no record is in two
 * pieces. The kernel then counts every page twice as memory of this process. This module maps the
 * data once. A record may be in two pieces, which costs nothing because records are copied anyway.
 */
#ifndef RSN_RING_H
#define RSN_RING_H

#include <stddef.h>

struct ring {
	unsigned long *consumed; /* positions, in bytes since the start */
	const unsigned long *produced;
	const char *data;
	size_t size; /* bytes of data, a power of two */
};

/* A record in the ring: a piece up to the end of the ring, and the rest at its start. */
struct ring_record {
	const char *first;
	size_t first_size;
	const char *rest;
	size_t rest_size;
};

int ring_open(struct ring *ring, int map_fd, size_t size);
void ring_close(struct ring *ring);
int ring_consume(struct ring *ring, void (*take)(void *ctx, const struct ring_record *record),
		 void *ctx);

#endif
