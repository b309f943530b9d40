// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t chunk_room = 1 << 20;
static const size_t record_alignment = 8;
/* Chunks that are kept for further use: fresh memory costs a page fault for each page. */
static const unsigned int max_spare = 2;

/* Whole records, one after another. */
struct chunk {
	struct chunk *next;
	char *data; /* NULL: in the file */
	size_t room;
	size_t used;
	uint64_t records;
	off_t at; /* in the file */
};

struct rsn_queue {
	struct chunk *filling; /* of the thread that puts records in */
	struct chunk *taken; /* of the one that takes them out */
	char *directory;
	size_t limit;
	pthread_mutex_t lock; /* everything below */
	struct chunk *oldest;
	struct chunk *newest;
	struct chunk *spare;
	unsigned int spare_cnt;
	size_t in_memory; /* bytes of the chunks that wait */
	size_t waiting; /* the same with those in the file */
	int file; /* -1: none yet */
	off_t file_end;
	size_t in_file; /* chunks */
	struct rsn_queue_stats stats;
};

/* `directory`: where the file is made. NULL if there is no memory. */
struct rsn_queue *rsn_queue_new(size_t limit_bytes, const char *directory)
{
	struct rsn_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->limit = limit_bytes;
	queue->file = -1;
	pthread_mutex_init(&queue->lock, NULL);
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

/* An empty chunk with at least so much room, NULL if there is no memory. */
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
	return chunk;
}

/* Keeps a chunk for further use, or frees it; the lock is held. */
static void chunk_put_back(struct rsn_queue *queue, struct chunk *chunk)
{
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
	/* a file system without O_TMPFILE */
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

/* Moves the data of a chunk into the file; 0 or a negative errno. The lock is held. */
static int spool(struct rsn_queue *queue, struct chunk *chunk)
{
	int err;

	if (queue->file < 0) {
		queue->file = open_file(queue->directory);
		if (queue->file < 0)
			return queue->file;
	}
	err = write_all(queue->file, chunk->data, chunk->used, queue->file_end);
	if (err)
		return err;
	chunk->at = queue->file_end;
	queue->file_end += chunk->used;
	queue->in_file++;
	queue->stats.spooled_bytes += chunk->used;
	free(chunk->data);
	chunk->data = NULL;
	return 0;
}

static void lose(struct rsn_queue *queue, uint64_t records, int error)
{
	queue->stats.lost += records;
	queue->stats.error = error;
}

/* Adds the records of a small chunk to the newest one that waits, if there is room. */
static bool append(struct rsn_queue *queue, struct chunk *chunk)
{
	struct chunk *last = queue->newest;

	if (!chunk->data || !last || !last->data || last->room - last->used < chunk->used)
		return false;
	memcpy(last->data + last->used, chunk->data, chunk->used);
	last->used += chunk->used;
	last->records += chunk->records;
	chunk_put_back(queue, chunk);
	return true;
}

/* Puts a chunk behind the others, beyond the limit into the file. The lock is held. */
static void push(struct rsn_queue *queue, struct chunk *chunk)
{
	int err = 0;

	queue->stats.records += chunk->records;
	queue->stats.bytes += chunk->used;
	if (queue->in_memory + chunk->used > queue->limit)
		err = spool(queue, chunk);
	if (err) {
		lose(queue, chunk->records, -err);
		chunk_put_back(queue, chunk);
		return;
	}
	queue->waiting += chunk->used;
	if (queue->waiting > queue->stats.peak_bytes)
		queue->stats.peak_bytes = queue->waiting;
	if (chunk->data)
		queue->in_memory += chunk->used;
	if (append(queue, chunk))
		return;
	if (queue->newest)
		queue->newest->next = chunk;
	else
		queue->oldest = chunk;
	queue->newest = chunk;
}

/* Lets the other side have what was put in; whether there is something to take. */
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

/* A record in two pieces; it may be taken after the next publish. */
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

/* Reads a chunk back that was in the file, and frees its room there; what fails is lost. */
static int unspool(struct rsn_queue *queue, struct chunk *chunk)
{
	int err = -ENOMEM;

	chunk->data = malloc(chunk->room);
	if (chunk->data)
		err = read_all(queue->file, chunk->data, chunk->used, chunk->at);
	fallocate(queue->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, chunk->at, chunk->used);
	pthread_mutex_lock(&queue->lock);
	if (!--queue->in_file)
		queue->file_end = 0;
	if (err)
		lose(queue, chunk->records, -err);
	pthread_mutex_unlock(&queue->lock);
	return err;
}

/* Takes the oldest chunk out; NULL if there is none. */
static struct chunk *pop(struct rsn_queue *queue)
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
		queue->waiting -= chunk->used;
		if (chunk->data)
			queue->in_memory -= chunk->used;
	}
	pthread_mutex_unlock(&queue->lock);
	return chunk;
}

/*
 * The oldest records: their size in bytes, 0 if there are none. The data stays valid until the
 * next take.
 */
long rsn_queue_take(struct rsn_queue *queue, const char **data)
{
	struct chunk *chunk;

	do {
		chunk = pop(queue);
		queue->taken = chunk;
		if (!chunk)
			return 0;
	} while (!chunk->data && unspool(queue, chunk));
	*data = chunk->data;
	return chunk->used;
}

/* Forgets all that can be taken; how many records that was. */
uint64_t rsn_queue_drop(struct rsn_queue *queue)
{
	uint64_t records = 0;
	struct chunk *chunk;

	while ((chunk = pop(queue))) {
		records += chunk->records;
		chunk_free(chunk);
	}
	return records;
}

/* Whether there is something to take. */
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
	pthread_mutex_unlock(&queue->lock);
}

void rsn_queue_free(struct rsn_queue *queue)
{
	if (!queue)
		return;
	chunk_free(queue->filling);
	chunk_free(queue->taken);
	chunks_free(queue->oldest);
	chunks_free(queue->spare);
	if (queue->file >= 0)
		close(queue->file);
	pthread_mutex_destroy(&queue->lock);
	free(queue->directory);
	free(queue);
}
