/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records that wait for Python, in the order in which they came: in memory, beyond a limit in a
 * file without a name. One thread puts records in, another takes them out, a third writes the
 * file: neither of the others waits for the disk, but who takes out what is there.
 */
#ifndef RSN_QUEUE_H
#define RSN_QUEUE_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
struct rsn_queue;

/* Why there was no room, where no errno says it. */
enum rsn_queue_error {
	RSN_QUEUE_FULL = -1, /* the file is as large as it may be */
	RSN_QUEUE_SLOW = -2, /* the disk takes less than what comes */
};

struct rsn_queue_stats {
	uint64_t records; /* records put in */
	uint64_t bytes; /* bytes put in, padding included */
	uint64_t lost; /* records for which there was no room */
	uint64_t waiting_bytes; /* bytes that can be taken */
	uint64_t peak_bytes; /* the most bytes that waited at once */
	uint64_t spooled_bytes; /* bytes that went through the file */
	uint64_t unwritten_bytes; /* bytes that are on their way into the file */
	int error; /* why there was no room: an errno, an enum rsn_queue_error, or 0 */
};

struct rsn_queue *rsn_queue_new(size_t limit_bytes, uint64_t spool_bytes, const char *directory);
void rsn_queue_put(struct rsn_queue *queue, const char *first, size_t first_size, const char *rest,
		   size_t rest_size);
int rsn_queue_publish(struct rsn_queue *queue);
long rsn_queue_take(struct rsn_queue *queue, const char **data);
uint64_t rsn_queue_drop(struct rsn_queue *queue);
int rsn_queue_waiting(struct rsn_queue *queue);
void rsn_queue_stats(struct rsn_queue *queue, struct rsn_queue_stats *stats);
void rsn_queue_free(struct rsn_queue *queue);
/* cdef end */

#endif
