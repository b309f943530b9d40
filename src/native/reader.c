// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "ring.h"

static const size_t first_allocation = 1 << 20;
static const size_t record_alignment = 8;
static const int poll_interval_ms = 100;

struct buffer {
	char *data;
	size_t used;
	size_t room;
};

struct rsn_reader {
	struct ring ring;
	struct perf_buffer *perf; /* NULL: it is the ring */
	int epoll_fd;
	int stop_fd;
	int news_fd; /* readable when there is something to take */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* everything below */
	struct buffer filling;
	struct buffer taken; /* what the caller reads until its next take */
	size_t limit;
	struct rsn_reader_stats stats;
	bool finished;
};

static bool buffer_grow(struct buffer *buffer, size_t needed, size_t limit)
{
	size_t room = buffer->room ? buffer->room : first_allocation;
	char *data;

	if (needed > limit)
		return false;
	while (room < needed)
		room *= 2;
	data = realloc(buffer->data, room);
	if (!data)
		return false;
	buffer->data = data;
	buffer->room = room;
	return true;
}

static void store(struct rsn_reader *reader, const struct ring_record *record)
{
	size_t size = record->first_size + record->rest_size;
	size_t padded = (size + record_alignment - 1) & ~(record_alignment - 1);
	struct buffer *buffer = &reader->filling;
	size_t needed;
	char *at;

	pthread_mutex_lock(&reader->lock);
	needed = buffer->used + padded;
	if (needed > buffer->room && !buffer_grow(buffer, needed, reader->limit)) {
		reader->stats.lost_memory++;
		pthread_mutex_unlock(&reader->lock);
		return;
	}
	at = buffer->data + buffer->used;
	memcpy(at, record->first, record->first_size);
	memcpy(at + record->first_size, record->rest, record->rest_size);
	memset(at + size, 0, padded - size);
	buffer->used = needed;
	reader->stats.records++;
	reader->stats.bytes += padded;
	if (needed > reader->stats.peak_bytes)
		reader->stats.peak_bytes = needed;
	pthread_mutex_unlock(&reader->lock);
}

static void on_ring_record(void *ctx, const struct ring_record *record)
{
	store(ctx, record);
}

/*
 * The kernel pads a perf sample to 8 bytes and its size field counts the
 * padding; the record's own size (its second word) is the true one.
 */
static void on_perf_record(void *ctx, int cpu, void *data, __u32 size)
{
	struct ring_record record = { .first = data, .first_size = size, .rest = data };
	__u32 true_size;

	if (size >= 2 * sizeof(true_size)) {
		memcpy(&true_size, (char *)data + sizeof(true_size), sizeof(true_size));
		if (true_size <= size)
			record.first_size = true_size;
	}
	store(ctx, &record);
}

static void on_perf_loss(void *ctx, int cpu, __u64 count)
{
	struct rsn_reader *reader = ctx;

	pthread_mutex_lock(&reader->lock);
	reader->stats.lost_kernel += count;
	pthread_mutex_unlock(&reader->lock);
}

static int watch(struct rsn_reader *reader, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(reader->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_transport(struct rsn_reader *reader, int map_fd, int is_perf, size_t ring_bytes)
{
	size_t pages;

	if (!is_perf) {
		int err = ring_open(&reader->ring, map_fd, ring_bytes);

		return err ? err : watch(reader, map_fd);
	}
	/* a perf buffer is per CPU: share the bytes asked for, in a power of two of pages */
	for (pages = 16; pages * 2 * getpagesize() * libbpf_num_possible_cpus() <= ring_bytes;)
		pages *= 2;
	reader->perf = perf_buffer__new(map_fd, pages, on_perf_record, on_perf_loss, reader, NULL);
	return reader->perf ? watch(reader, perf_buffer__epoll_fd(reader->perf)) : -errno;
}

struct rsn_reader *rsn_reader_new(int map_fd, int is_perf, size_t ring_bytes, size_t limit_bytes,
				  int *err)
{
	struct rsn_reader *reader = calloc(1, sizeof(*reader));

	if (!reader) {
		*err = -ENOMEM;
		return NULL;
	}
	reader->limit = limit_bytes;
	reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	reader->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	reader->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&reader->lock, NULL);
	*err = reader->epoll_fd < 0 || reader->stop_fd < 0 || reader->news_fd < 0 ? -errno : 0;
	if (!*err)
		*err = watch(reader, reader->stop_fd);
	if (!*err)
		*err = open_transport(reader, map_fd, is_perf, ring_bytes);
	if (*err) {
		rsn_reader_free(reader);
		return NULL;
	}
	return reader;
}

static void tell(struct rsn_reader *reader)
{
	const uint64_t one = 1;

	/* fails only if nobody has taken 2^64 pieces of news */
	if (write(reader->news_fd, &one, sizeof(one)) < 0)
		return;
}

static void consume(struct rsn_reader *reader)
{
	bool filled;

	if (reader->perf)
		perf_buffer__consume(reader->perf);
	else
		ring_consume(&reader->ring, on_ring_record, reader);
	pthread_mutex_lock(&reader->lock);
	filled = reader->filling.used;
	pthread_mutex_unlock(&reader->lock);
	if (filled)
		tell(reader);
}

static void *read_transport(void *arg)
{
	struct rsn_reader *reader = arg;
	struct epoll_event event;
	uint64_t stop = 0;

	while (!stop) {
		epoll_wait(reader->epoll_fd, &event, 1, poll_interval_ms);
		if (read(reader->stop_fd, &stop, sizeof(stop)) < 0)
			stop = 0;
		consume(reader);
	}
	pthread_mutex_lock(&reader->lock);
	reader->finished = true;
	pthread_mutex_unlock(&reader->lock);
	tell(reader);
	return NULL;
}

/* Signals stay with the caller's thread: Python's handlers run there. */
int rsn_reader_start(struct rsn_reader *reader)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&reader->thread, NULL, read_transport, reader);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	reader->running = !err;
	return -err;
}

static bool has_news(struct rsn_reader *reader)
{
	bool has;

	pthread_mutex_lock(&reader->lock);
	has = reader->filling.used || reader->finished;
	pthread_mutex_unlock(&reader->lock);
	return has;
}

/* Waits until there is something to take, a signal comes, or timeout_ms have passed. */
static void await_news(struct rsn_reader *reader, int timeout_ms)
{
	struct pollfd news = { .fd = reader->news_fd, .events = POLLIN };
	uint64_t old;

	/* what came before is looked for below, only what comes after it may wake */
	if (read(reader->news_fd, &old, sizeof(old)) < 0 && errno != EAGAIN)
		return;
	if (!has_news(reader))
		poll(&news, 1, timeout_ms);
}

/*
 * Hands over what has arrived: its size in bytes, 0 after timeout_ms without
 * anything or after a signal, -EPIPE once the reader has stopped and everything
 * was taken. The data stays valid until the next take.
 */
long rsn_reader_take(struct rsn_reader *reader, int timeout_ms, const char **data)
{
	struct buffer swap;
	long size;

	await_news(reader, timeout_ms);
	pthread_mutex_lock(&reader->lock);
	size = reader->filling.used;
	if (!size && reader->finished)
		size = -EPIPE;
	swap = reader->taken;
	reader->taken = reader->filling;
	reader->filling = swap;
	reader->filling.used = 0;
	*data = reader->taken.data;
	pthread_mutex_unlock(&reader->lock);
	return size;
}

/* Reads what the buffer still holds, then ends the thread. */
int rsn_reader_stop(struct rsn_reader *reader)
{
	uint64_t one = 1;

	if (!reader->running)
		return 0;
	if (write(reader->stop_fd, &one, sizeof(one)) < 0)
		return -errno;
	reader->running = false;
	return -pthread_join(reader->thread, NULL);
}

void rsn_reader_stats(struct rsn_reader *reader, struct rsn_reader_stats *stats)
{
	pthread_mutex_lock(&reader->lock);
	*stats = reader->stats;
	pthread_mutex_unlock(&reader->lock);
}

void rsn_reader_free(struct rsn_reader *reader)
{
	if (!reader)
		return;
	rsn_reader_stop(reader);
	ring_close(&reader->ring);
	perf_buffer__free(reader->perf);
	if (reader->epoll_fd >= 0)
		close(reader->epoll_fd);
	if (reader->stop_fd >= 0)
		close(reader->stop_fd);
	if (reader->news_fd >= 0)
		close(reader->news_fd);
	free(reader->filling.data);
	free(reader->taken.data);
	pthread_mutex_destroy(&reader->lock);
	free(reader);
}
