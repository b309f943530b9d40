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
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "queue.h"
#include "ring.h"

static const int poll_interval_ms = 100;
/*
 * The highest priority below real-time. The thread does little work, and records are lost if it
 * waits.
 */
static const int priority = -20;

struct rsn_reader {
	struct ring ring;
	struct perf_buffer *perf; /* NULL: the transport is a ring buffer */
	struct rsn_queue *queue;
	int epoll_fd;
	int stop_fd;
	int news_fd; /* eventfd, readable when there are records to take */
	pthread_t thread;
	bool running;
	bool finished; /* atomic, like lost_kernel */
	uint64_t lost_kernel;
};

static void store(struct rsn_reader *reader, const struct ring_record *record)
{
	rsn_queue_put(reader->queue, record->first, record->first_size, record->rest,
		      record->rest_size);
}

static void on_ring_record(void *ctx, const struct ring_record *record)
{
	store(ctx, record);
}

/*
 * The kernel pads a perf sample to 8 bytes, and the sample's size includes the padding. The true
 * size of the record is its own second word.
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

	__atomic_fetch_add(&reader->lost_kernel, count, __ATOMIC_RELAXED);
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
	/* a perf buffer exists per CPU: divide the requested bytes, as a power of two of pages */
	for (pages = 16; pages * 2 * getpagesize() * libbpf_num_possible_cpus() <= ring_bytes;)
		pages *= 2;
	reader->perf = perf_buffer__new(map_fd, pages, on_perf_record, on_perf_loss, reader, NULL);
	return reader->perf ? watch(reader, perf_buffer__epoll_fd(reader->perf)) : -errno;
}

/*
 * Create a reader. Beyond limit_bytes, records wait in a file in `directory`, at most spool_bytes.
 */
struct rsn_reader *rsn_reader_new(int map_fd, int is_perf, size_t ring_bytes, size_t limit_bytes,
				  uint64_t spool_bytes, const char *directory, int *err)
{
	struct rsn_reader *reader = calloc(1, sizeof(*reader));

	if (!reader) {
		*err = -ENOMEM;
		return NULL;
	}
	reader->queue = rsn_queue_new(limit_bytes, spool_bytes, directory);
	reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	reader->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	reader->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*err = reader->epoll_fd < 0 || reader->stop_fd < 0 || reader->news_fd < 0 ? -errno : 0;
	if (!reader->queue)
		*err = -ENOMEM;
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

	/* fails only if the counter of the eventfd has reached its 64-bit limit */
	if (write(reader->news_fd, &one, sizeof(one)) < 0)
		return;
}

static void consume(struct rsn_reader *reader)
{
	if (reader->perf)
		perf_buffer__consume(reader->perf);
	else if (ring_consume(&reader->ring, on_ring_record, reader))
		__atomic_fetch_add(&reader->lost_kernel, 1, __ATOMIC_RELAXED); /* a lower limit */
	if (rsn_queue_publish(reader->queue))
		tell(reader);
}

static void *read_transport(void *arg)
{
	struct rsn_reader *reader = arg;
	struct epoll_event event;
	uint64_t stop = 0;

	setpriority(PRIO_PROCESS, 0, priority); /* for this thread only; fails without permission */
	while (!stop) {
		epoll_wait(reader->epoll_fd, &event, 1, poll_interval_ms);
		if (read(reader->stop_fd, &stop, sizeof(stop)) < 0)
			stop = 0;
		consume(reader);
	}
	__atomic_store_n(&reader->finished, true, __ATOMIC_RELEASE);
	tell(reader);
	return NULL;
}

/*
 * Block all signals in the new thread. The caller's thread receives them, because Python's handlers
 * run there.
 */
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

static bool has_finished(struct rsn_reader *reader)
{
	return __atomic_load_n(&reader->finished, __ATOMIC_ACQUIRE);
}

/* Wait until there are records, a signal arrives, or timeout_ms have passed. */
static void await_news(struct rsn_reader *reader, int timeout_ms)
{
	struct pollfd news = { .fd = reader->news_fd, .events = POLLIN };
	uint64_t old;

	/* the caller checks for earlier records after this; only later ones may wake it */
	if (read(reader->news_fd, &old, sizeof(old)) < 0 && errno != EAGAIN)
		return;
	if (!rsn_queue_waiting(reader->queue) && !has_finished(reader))
		poll(&news, 1, timeout_ms);
}

/*
 * Take the oldest records. Returns their size in bytes, 0 after timeout_ms without records or after
 * a signal, or -EPIPE once the reader has stopped and all records were taken. The data is valid
 * until the next take.
 */
long rsn_reader_take(struct rsn_reader *reader, int timeout_ms, const char **data)
{
	bool finished;
	long size;

	await_news(reader, timeout_ms);
	finished = has_finished(reader);
	size = rsn_queue_take(reader->queue, data);
	return !size && finished ? -EPIPE : size;
}

/* Discard all records that have arrived and were not taken. Returns their number. */
uint64_t rsn_reader_drop(struct rsn_reader *reader)
{
	return rsn_queue_drop(reader->queue);
}

/* Read the records that remain in the buffer, then end the thread. */
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
	rsn_queue_stats(reader->queue, &stats->queue);
	stats->lost_kernel = __atomic_load_n(&reader->lost_kernel, __ATOMIC_RELAXED);
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
	rsn_queue_free(reader->queue);
	free(reader);
}
