// SPDX-License-Identifier: BSD-2-Clause
/*
 * burst THREADS CALLS: each thread makes CALLS bpf() calls that fail with EINVAL, all threads at
 * once and as fast as they can. Prints the nanoseconds it took.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long calls;
static pthread_barrier_t together;

static long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static void *fail(void *unused)
{
	/* BPF_MAP_CREATE of an array map with keys of 8 bytes */
	unsigned int attr[5] = { 2, 8, 4, 1, 0 };
	long i;

	pthread_barrier_wait(&together);
	for (i = 0; i < calls; i++) {
		if (syscall(SYS_bpf, 0, attr, sizeof(attr)) != -1)
			abort();
	}
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0, i;
	pthread_t *started = calloc(threads, sizeof(*started));
	long begin;

	if (!threads)
		return 2;
	calls = atol(argv[2]);
	pthread_barrier_init(&together, NULL, threads + 1);
	for (i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, fail, NULL);
	begin = now_ns();
	pthread_barrier_wait(&together);
	for (i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("%ld\n", now_ns() - begin);
	return 0;
}
