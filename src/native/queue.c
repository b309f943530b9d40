// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t chunk_room = 1 << 20;
static const size_t record_alignment = 8;
/* Spare chunks to reuse, because new memory costs one page fault per page. */
static const unsigned int max_spare = 2;
/*
 * Chunks on their way to the file may use as much memory as the limit, or this much if the limit is
 * smaller.
 */
static const size_t least_unwritten = 16 << 20;

enum chunk_state {
	IN_MEMORY,
	TO_FILE, /* in memory, waiting for the spooler */
	IN_FILE,
	LOST, /* the spooler could not write it */
	TAKEN, /* held by the consumer, not in the list */
};

/* A block of whole records, one after another. */
struct chunk {
	struct chunk *next;
	char *data; /* NULL if state is IN_FILE or LOST */
	size_t room;
	size_t used;
	uint64_t records;
	off_t at; /* offset in the file */
	enum chunk_state state;
	bool is_writing; /* the spooler reads `data` without the lock */
	bool is_orphan; /* only the spooler still uses it, and frees it */
};

struct rsn_queue {
	struct chunk *filling; /* of the producer thread */
	struct chunk *taken; /* of the consumer thread */
	char *directory;
	size_t limit;
	uint64_t spool_limit;
	int file; /* -1: not open yet; only the spooler uses it until it has written a chunk */
	pthread_t spooler;
	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t work; /* wakes the spooler */
	bool has_spooler;
	bool is_ending;
	struct chunk *oldest;
	struct chunk *newest;
	struct chunk *to_file; /* oldest chunk in state TO_FILE that is not being written */
	struct chunk *spare;
	unsigned int spare_cnt;
	size_t in_memory; /* bytes in state IN_MEMORY */
	size_t unwritten; /* bytes in state TO_FILE */
	size_t waiting; /* bytes in the list, except LOST */
	off_t file_end;
	uint64_t in_file; /* bytes in state IN_FILE */
	uint64_t file_chunks; /* chunks in the file, including those that are being read back */
	bool cannot_punch; /* the file system cannot free ranges of a file */
	struct rsn_queue_stats stats;
};

/*
 * Create a queue. Its file is created in `directory` and holds at most spool_bytes; records beyond
 * that are lost. Returns NULL if memory ran out.
 */
struct rsn_queue *rsn_queue_new(size_t limit_bytes, uint64_t spool_bytes, const char *directory)
{
	struct rsn_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->limit = limit_bytes;
	queue->spool_limit = spool_bytes;
	queue->file = -1;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->work, NULL);
	queue->directory = strdup(directory);
	if (queue->directory)
		return queue;
	rsn_queue_free(queue);
	return NULL;
}

static void chunk_free(struct chunk *chunk)
{
	if (chunk)
		free(chunk->data);
	free(chunk);
}

static void chunks_free(struct chunk *chunk)
{
	while (chunk) {
		struct chunk *next = chunk->next;

		chunk_free(chunk);
		chunk = next;
	}
}

/* Get an empty chunk with room for `needed` bytes. Returns NULL if memory ran out. */
static struct chunk *chunk_get(struct rsn_queue *queue, size_t needed)
{
	struct chunk *chunk;

	pthread_mutex_lock(&queue->lock);
	chunk = queue->spare;
	if (chunk && chunk->room >= needed) {
		queue->spare = chunk->next;
		queue->spare_cnt--;
	} else {
		chunk = NULL;
	}
	pthread_mutex_unlock(&queue->lock);
	if (!chunk) {
		chunk = calloc(1, sizeof(*chunk));
		if (!chunk)
			return NULL;
		chunk->room = needed > chunk_room ? needed : chunk_room;
		chunk->data = malloc(chunk->room);
		if (!chunk->data) {
			chunk_free(chunk);
			return NULL;
		}
	}
	chunk->next = NULL;
	chunk->used = 0;
	chunk->records = 0;
	chunk->state = IN_MEMORY;
	return chunk;
}

/* Keep a chunk for reuse, or free it. The caller holds the lock. */
static void chunk_put_back(struct rsn_queue *queue, struct chunk *chunk)
{
	if (chunk->is_writing) {
		chunk->is_orphan = true;
		return;
	}
	if (!chunk->data || chunk->room != chunk_room || queue->spare_cnt >= max_spare) {
		chunk_free(chunk);
		return;
	}
	chunk->next = queue->spare;
	queue->spare = chunk;
	queue->spare_cnt++;
}

static int open_file(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
	char *name = NULL;

	if (fd >= 0)
		return fd;
	/* the file system does not support O_TMPFILE */
	if (asprintf(&name, "%s/retsnoop-py-XXXXXX", directory) < 0)
		return -ENOMEM;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	else
		fd = -errno;
	free(name);
	return fd;
}

static int write_all(int fd, const char *data, size_t size, off_t at)
{
	while (size) {
		ssize_t done = pwrite(fd, data, size, at);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			data += done;
			size -= done;
			at += done;
		}
	}
	return 0;
}

static void lose(struct rsn_queue *queue, uint64_t records, int error)
{
	queue->stats.lost += records;
	queue->stats.error = error;
}

/*
 * The first chunk in state TO_FILE, from `chunk` on. The caller holds the lock. The same is true of
 * begin_writing() and finish_writing().
 */
static struct chunk *next_to_file(struct chunk *chunk)
{
	while (chunk && chunk->state != TO_FILE)
		chunk = chunk->next;
	return chunk;
}

/* Choose the next chunk to write. A chunk that fits into memory by now stays in memory. */
static struct chunk *begin_writing(struct rsn_queue *queue)
{
	struct chunk *chunk;

	while ((chunk = queue->to_file)) {
		queue->to_file = next_to_file(chunk->next);
		if (queue->in_memory + chunk->used > queue->limit)
			break;
		chunk->state = IN_MEMORY;
		queue->in_memory += chunk->used;
		queue->unwritten -= chunk->used;
	}
	if (chunk)
		chunk->is_writing = true;
	return chunk;
}

/*
 * Update a chunk after writing it at `at`, or after failing if `err` is set. The consumer may have
 * taken it in the meantime.
 */
static void finish_writing(struct rsn_queue *queue, struct chunk *chunk, off_t at, int err)
{
	chunk->is_writing = false;
	if (chunk->state == TAKEN) {
		if (chunk->is_orphan)
			chunk_free(chunk);
		return;
	}
	queue->unwritten -= chunk->used;
	if (err) {
		chunk->state = LOST;
		queue->waiting -= chunk->used;
		lose(queue, chunk->records, -err);
	} else {
		chunk->state = IN_FILE;
		chunk->at = at;
		queue->file_end = at + chunk->used;
		queue->in_file += chunk->used;
		queue->file_chunks++;
		queue->stats.spooled_bytes += chunk->used;
	}
	free(chunk->data);
	chunk->data = NULL;
}

/* Thread of the spooler: write chunks to the file, without holding the lock. */
static void *write_chunks(void *arg)
{
	struct rsn_queue *queue = arg;

	pthread_mutex_lock(&queue->lock);
	while (!queue->is_ending) {
		struct chunk *chunk = begin_writing(queue);
		off_t at = queue->file_end;
		int err = 0;

		if (!chunk) {
			pthread_cond_wait(&queue->work, &queue->lock);
			continue;
		}
		pthread_mutex_unlock(&queue->lock);
		if (queue->file < 0)
			queue->file = err = open_file(queue->directory);
		if (queue->file >= 0)
			err = write_all(queue->file, chunk->data, chunk->used, at);
		pthread_mutex_lock(&queue->lock);
		finish_writing(queue, chunk, at, err);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

/* Block all signals in the new thread, so that Python's threads receive them. */
static int start_spooler(struct rsn_queue *queue)
{
	sigset_t all, old;
	int err;

	if (queue->has_spooler)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&queue->spooler, NULL, write_chunks, queue);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	queue->has_spooler = !err;
	return err;
}

/* Check whether `size` bytes may go into the file. Returns 0 or the error to report. */
static int refuse_spooling(struct rsn_queue *queue, size_t size)
{
	size_t room = queue->limit > least_unwritten ? queue->limit : least_unwritten;
	uint64_t held = queue->cannot_punch ? (uint64_t)queue->file_end : queue->in_file;

	if (held > queue->spool_limit || queue->unwritten > queue->spool_limit - held ||
	    size > queue->spool_limit - held - queue->unwritten)
		return RSN_QUEUE_FULL;
	if (queue->unwritten && (queue->unwritten > room || size > room - queue->unwritten))
		return RSN_QUEUE_SLOW;
	return start_spooler(queue);
}

/* Append the records of a small chunk to the newest chunk in the list, if it has room. */
static bool append(struct rsn_queue *queue, struct chunk *chunk)
{
	struct chunk *last = queue->newest;

	if (!last || last->is_writing || last->state != chunk->state ||
	    last->room - last->used < chunk->used)
		return false;
	memcpy(last->data + last->used, chunk->data, chunk->used);
	last->used += chunk->used;
	last->records += chunk->records;
	chunk_put_back(queue, chunk);
	return true;
}

static void link_newest(struct rsn_queue *queue, struct chunk *chunk)
{
	if (queue->newest)
		queue->newest->next = chunk;
	else
		queue->oldest = chunk;
	queue->newest = chunk;
	if (chunk->state == TO_FILE && !queue->to_file)
		queue->to_file = chunk;
}

/* Add a chunk to the end of the list. Beyond the memory limit, mark it for the file. */
static void push(struct rsn_queue *queue, struct chunk *chunk)
{
	const size_t size = chunk->used;

	queue->stats.records += chunk->records;
	queue->stats.bytes += size;
	if (queue->in_memory + size > queue->limit) {
		int err = refuse_spooling(queue, size);

		if (err) {
			lose(queue, chunk->records, err);
			chunk_put_back(queue, chunk);
			return;
		}
		chunk->state = TO_FILE;
		queue->unwritten += size;
		pthread_cond_signal(&queue->work);
	} else {
		queue->in_memory += size;
	}
	queue->waiting += size;
	if (queue->waiting > queue->stats.peak_bytes)
		queue->stats.peak_bytes = queue->waiting;
	if (!append(queue, chunk))
		link_newest(queue, chunk);
}

/*
 * Make all records from rsn_queue_put() available to the consumer. Returns whether it can take any.
 */
int rsn_queue_publish(struct rsn_queue *queue)
{
	struct chunk *chunk = queue->filling;
	int has;

	pthread_mutex_lock(&queue->lock);
	if (chunk && chunk->used) {
		queue->filling = NULL;
		push(queue, chunk);
	}
	has = queue->oldest != NULL;
	pthread_mutex_unlock(&queue->lock);
	return has;
}

/* Add a record given in two pieces. It can be taken after the next publish. */
void rsn_queue_put(struct rsn_queue *queue, const char *first, size_t first_size, const char *rest,
		   size_t rest_size)
{
	size_t size = first_size + rest_size;
	size_t padded = (size + record_alignment - 1) & ~(record_alignment - 1);
	struct chunk *chunk = queue->filling;
	char *at;

	if (chunk && chunk->room - chunk->used < padded) {
		rsn_queue_publish(queue);
		chunk = NULL;
	}
	if (!chunk) {
		chunk = chunk_get(queue, padded);
		queue->filling = chunk;
	}
	if (!chunk) {
		pthread_mutex_lock(&queue->lock);
		queue->stats.records++;
		lose(queue, 1, ENOMEM);
		pthread_mutex_unlock(&queue->lock);
		return;
	}
	at = chunk->data + chunk->used;
	memcpy(at, first, first_size);
	memcpy(at + first_size, rest, rest_size);
	memset(at + size, 0, padded - size);
	chunk->used += padded;
	chunk->records++;
}

static int read_all(int fd, char *data, size_t size, off_t at)
{
	while (size) {
		ssize_t done = pread(fd, data, size, at);

		if (!done)
			return -EIO;
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			data += done;
			size -= done;
			at += done;
		}
	}
	return 0;
}

/*
 * Read a chunk back from the file and free its space there. If reading fails, its records are lost.
 */
static int unspool(struct rsn_queue *queue, struct chunk *chunk)
{
	const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	int err = -ENOMEM;
	bool punched;

	chunk->data = malloc(chunk->room);
	if (chunk->data)
		err = read_all(queue->file, chunk->data, chunk->used, chunk->at);
	punched = !fallocate(queue->file, punch, chunk->at, chunk->used);
	pthread_mutex_lock(&queue->lock);
	queue->cannot_punch |= !punched;
	queue->in_file -= chunk->used;
	if (!--queue->file_chunks)
		queue->file_end = 0;
	if (err)
		lose(queue, chunk->records, -err);
	pthread_mutex_unlock(&queue->lock);
	return err;
}

/*
 * Remove the oldest chunk from the list and store its previous state in *state. Returns NULL if the
 * list is empty.
 */
static struct chunk *pop(struct rsn_queue *queue, enum chunk_state *state)
{
	struct chunk *chunk;

	pthread_mutex_lock(&queue->lock);
	if (queue->taken)
		chunk_put_back(queue, queue->taken);
	queue->taken = NULL;
	chunk = queue->oldest;
	if (chunk) {
		queue->oldest = chunk->next;
		if (!queue->oldest)
			queue->newest = NULL;
		if (queue->to_file == chunk)
			queue->to_file = next_to_file(chunk->next);
		*state = chunk->state;
		chunk->state = TAKEN;
		if (*state != LOST)
			queue->waiting -= chunk->used;
		if (*state == IN_MEMORY)
			queue->in_memory -= chunk->used;
		else if (*state == TO_FILE)
			queue->unwritten -= chunk->used;
		queue->taken = chunk;
	}
	pthread_mutex_unlock(&queue->lock);
	return chunk;
}

/*
 * Take the oldest records. Returns their size in bytes, or 0 if there are none. The data is valid
 * until the next take.
 */
long rsn_queue_take(struct rsn_queue *queue, const char **data)
{
	enum chunk_state state;
	struct chunk *chunk;

	do {
		chunk = pop(queue, &state);
		if (!chunk)
			return 0;
	} while (state == LOST || (state == IN_FILE && unspool(queue, chunk)));
	*data = chunk->data;
	return chunk->used;
}

/*
 * Discard all records that can be taken. Returns their number. Does not free their space in the
 * file.
 */
uint64_t rsn_queue_drop(struct rsn_queue *queue)
{
	uint64_t records = 0;
	enum chunk_state state;
	struct chunk *chunk;

	while ((chunk = pop(queue, &state))) {
		if (state != LOST)
			records += chunk->records;
	}
	return records;
}

/* Whether there are records to take. */
int rsn_queue_waiting(struct rsn_queue *queue)
{
	int has;

	pthread_mutex_lock(&queue->lock);
	has = queue->oldest != NULL;
	pthread_mutex_unlock(&queue->lock);
	return has;
}

void rsn_queue_stats(struct rsn_queue *queue, struct rsn_queue_stats *stats)
{
	pthread_mutex_lock(&queue->lock);
	*stats = queue->stats;
	stats->waiting_bytes = queue->waiting;
	stats->unwritten_bytes = queue->unwritten;
	pthread_mutex_unlock(&queue->lock);
}

void rsn_queue_free(struct rsn_queue *queue)
{
	if (!queue)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->is_ending = true;
	pthread_cond_signal(&queue->work);
	pthread_mutex_unlock(&queue->lock);
	if (queue->has_spooler)
		pthread_join(queue->spooler, NULL);
	chunk_free(queue->filling);
	chunk_free(queue->taken);
	chunks_free(queue->oldest);
	chunks_free(queue->spare);
	if (queue->file >= 0)
		close(queue->file);
	pthread_cond_destroy(&queue->work);
	pthread_mutex_destroy(&queue->lock);
	free(queue->directory);
	free(queue);
}
