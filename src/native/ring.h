/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The consumer's side of a BPF ring buffer. libbpf has one; it maps the data twice in a row, as
 * the kernel allows, so that no record is in two pieces. Every page of that counts as memory of
 * this process twice. Here it is mapped once, and a record may be in two pieces: they are copied
 * anyway.
 */
#ifndef RSN_RING_H
#define RSN_RING_H

#include <stddef.h>

struct ring {
	unsigned long *consumed; /* positions, in bytes since the beginning */
	const unsigned long *produced;
	const char *data;
	size_t size; /* bytes of data, a power of two */
};

/* A record as it lies in the ring: up to the ring's end, and the rest at its beginning. */
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
