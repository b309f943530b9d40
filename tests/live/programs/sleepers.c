// SPDX-License-Identifier: BSD-2-Clause
/* sleepers N: N threads sleep a second in nanosleep(2), all at the same time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t all_are_there;

static void *doze(void *unused)
{
	struct timespec second = { 1, 0 };

	pthread_barrier_wait(&all_are_there);
	syscall(SYS_nanosleep, &second, NULL);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0, i;
	pthread_t *started = calloc(threads, sizeof(*started));

	if (!threads)
		return 1;
	pthread_barrier_init(&all_are_there, NULL, threads);
	for (i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, doze, NULL);
	for (i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	return 0;
}
