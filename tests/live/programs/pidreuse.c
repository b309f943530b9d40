// SPDX-License-Identifier: BSD-2-Clause
/*
 * pidreuse N: N times a child ends and another gets its process id at once, which makes a bpf()
 * call that fails when the first one's memory has been given back.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void next_pid(pid_t pid)
{
	FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");

	if (!last || fprintf(last, "%d", pid - 1) < 0 || fclose(last)) {
		perror("ns_last_pid");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, reused = 0;

	for (int i = 0; i < rounds; i++) {
		pid_t first = fork(), second;

		if (!first)
			_exit(0);
		waitpid(first, NULL, 0);
		next_pid(first);
		second = fork();
		if (!second) {
			usleep(300000);
			syscall(SYS_bpf, 0, NULL, 0x7fffffff);
			_exit(0);
		}
		reused += first == second;
		waitpid(second, NULL, 0);
	}
	printf("%d\n", reused);
	return 0;
}
