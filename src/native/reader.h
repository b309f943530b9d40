/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport reader: a thread that empties the ring or perf buffer into
 * memory without waiting for Python, and hands over what it has in one piece.
 */
#ifndef RSN_READER_H
#define RSN_READER_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
struct rsn_reader;

struct rsn_reader_stats {
	uint64_t records; /* records received */
	uint64_t bytes; /* bytes received, padding included */
	uint64_t lost_kernel; /* records the kernel had no room for (perf buffer only) */
	uint64_t lost_memory; /* records beyond the memory limit */
	uint64_t peak_bytes; /* the most bytes that waited at once */
};

struct rsn_reader *rsn_reader_new(int map_fd, int is_perf, size_t ring_bytes, size_t limit_bytes,
				  int *err);
int rsn_reader_start(struct rsn_reader *reader);
long rsn_reader_take(struct rsn_reader *reader, int timeout_ms, const char **data);
int rsn_reader_stop(struct rsn_reader *reader);
void rsn_reader_stats(struct rsn_reader *reader, struct rsn_reader_stats *stats);
void rsn_reader_free(struct rsn_reader *reader);
/* cdef end */

#endif
