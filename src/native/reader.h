/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport reader: a thread that empties the ring buffer or perf buffer into a queue without
 * waiting for Python. Python takes the records in large pieces.
 */
#ifndef RSN_READER_H
#define RSN_READER_H

#include <stddef.h>
#include <stdint.h>

#include "queue.h"

/* cdef begin */
struct rsn_reader;

struct rsn_reader_stats {
	struct rsn_queue_stats queue;
	uint64_t lost_kernel; /* perf buffer: records without room; ring buffer: damaged records */
};

struct rsn_reader *rsn_reader_new(int map_fd, int is_perf, size_t ring_bytes, size_t limit_bytes,
				  uint64_t spool_bytes, const char *directory, int *err);
int rsn_reader_start(struct rsn_reader *reader);
long rsn_reader_take(struct rsn_reader *reader, int timeout_ms, const char **data);
uint64_t rsn_reader_drop(struct rsn_reader *reader);
int rsn_reader_stop(struct rsn_reader *reader);
void rsn_reader_stats(struct rsn_reader *reader, struct rsn_reader_stats *stats);
void rsn_reader_free(struct rsn_reader *reader);
/* cdef end */

#endif
