/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of records from a producer thread to Python, in order of arrival. It uses memory up to a
 * limit, then an unnamed file. A spooler thread writes the file, so the producer never waits for
 * the disk. The consumer waits only when it reads back records from the file.
 */
#ifndef RSN_QUEUE_H
#define RSN_QUEUE_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
struct rsn_queue;

/* Why records were lost, if no errno fits. */
enum rsn_queue_error {
	RSN_QUEUE_FULL = -1, /* the file has reached its size limit */
	RSN_QUEUE_SLOW = -2, /* the disk is slower than the incoming records */
};

struct rsn_queue_stats {
	uint64_t records; /* records added */
	uint64_t bytes; /* bytes added, including padding */
	uint64_t lost; /* records dropped for lack of room */
	uint64_t waiting_bytes; /* bytes that can be taken */
	uint64_t peak_bytes; /* maximum of waiting_bytes */
	uint64_t spooled_bytes; /* bytes written to the file */
	uint64_t unwritten_bytes; /* bytes waiting to be written to the file */
	int error; /* why records were lost: an errno, an enum rsn_queue_error, or 0 */
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
