// SPDX-License-Identifier: BSD-2-Clause
/* sleepers N: N threads sleep half a second in nanosleep(2), all at the same time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void *doze(void *unused)
{
	struct timespec half = { 0, 500000000 };

	syscall(SYS_nanosleep, &half, NULL);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 0, i;
	pthread_t *started = calloc(threads, sizeof(*started));

	for (i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, doze, NULL);
	for (i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	return !threads;
}
