// SPDX-License-Identifier: BSD-2-Clause
/* sleepers N [SECONDS]: N threads sleep, a second or SECONDS, in nanosleep(2), all at the same time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_barrier_t all_are_there;
static struct timespec how_long = { 1, 0 };

static void *doze(void *unused)
{
	pthread_barrier_wait(&all_are_there);
	syscall(SYS_nanosleep, &how_long, NULL);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0, i;
	pthread_t *started = calloc(threads, sizeof(*started));

	if (!threads)
		return 1;
	if (argc > 2)
		how_long.tv_sec = atoi(argv[2]);
	pthread_barrier_init(&all_are_there, NULL, threads);
	for (i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, doze, NULL);
	for (i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	return 0;
}
