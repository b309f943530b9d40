// SPDX-License-Identifier: BSD-2-Clause
/*
 * meter: the measurements of the bench inside a guest, in one small static program.
 *
 *	meter bare STEP...                        run the steps without a tool
 *	meter tool READY LIMIT STEP... -- CMD...  start CMD; once it has written READY and is idle,
 *	                                          run the steps, then send SIGINT; without READY,
 *	                                          wait for its end; after the step "leave", let CMD
 *	                                          run on
 *	meter hold WORD                           write WORD and wait for a signal
 *
 * A STEP is loop:CALL:CALLS:ROUNDS, report:CALL:CALLS or burst:CALL:CALLS, see loop.c. Results are lines
 * "NAME VALUE...": nanoseconds of CLOCK_MONOTONIC, memory in KiB. If a
 * phase exceeds LIMIT (seconds), meter prints "limit PHASE" and exits with status 3. CMD runs on,
 * because the caller discards the guest.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "loop.h"

/* the first line of every session contains this, in the output of both tools */
static const char session_mark[] = "TID/PID";

static const long second_ns = 1000000000L;
static const long quiet_ns = 10000000000L; /* after this silence, a reader has printed all */

static int output = -1; /* stdout and stderr of the tool, -1 once it has closed them */
static pid_t tool;
static long limit_ns;

static struct {
	char tail[4096]; /* end of the output, for error messages and for marks cut in two */
	size_t len;
	long last_ns; /* time of the last output */
	long sessions;
} seen;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long occurrences(const char *text, const char *word)
{
	long n = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		n++;
	}
	return n;
}

/* Read the output of the tool, and wait at most this long for it. */
static void drain(int wait_ms)
{
	static char chunk[65536 + sizeof(session_mark)];
	struct pollfd fd = { .fd = output, .events = POLLIN };
	size_t keep = seen.len < sizeof(session_mark) - 2 ? seen.len : sizeof(session_mark) - 2;
	size_t half = sizeof(seen.tail) / 2, all;
	ssize_t got;

	if (poll(&fd, 1, wait_ms) <= 0)
		return;
	memcpy(chunk, seen.tail + seen.len - keep, keep);
	got = read(output, chunk + keep, 65536);
	if (got <= 0) {
		close(output);
		output = -1; /* poll() ignores it */
		return;
	}
	seen.last_ns = now_ns();
	all = keep + got;
	chunk[all] = 0;
	seen.sessions += occurrences(chunk, session_mark);
	if ((size_t)got > half) {
		memcpy(seen.tail, chunk + all - half, half);
		seen.len = half;
	} else {
		if (seen.len > half) {
			memmove(seen.tail, seen.tail + seen.len - half, half);
			seen.len = half;
		}
		memcpy(seen.tail + seen.len, chunk + keep, got);
		seen.len += got;
	}
	if (seen.len == sizeof(seen.tail))
		seen.len--;
	seen.tail[seen.len] = 0;
}

static void over(long begin_ns, const char *phase)
{
	if (now_ns() - begin_ns < limit_ns)
		return;
	printf("limit %s\n", phase);
	exit(3);
}

static void start(char **argv)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		die("pipe2");
	tool = fork();
	if (tool < 0)
		die("fork");
	if (!tool) {
		setpgid(0, 0);
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execvp(argv[0], argv);
		die(argv[0]);
	}
	setpgid(tool, tool);
	close(ends[1]);
	output = ends[0];
}

/* Read the state and group of a process from its stat. Returns false if it has ended. */
static bool process(const char *pid, char *state, pid_t *group)
{
	char path[64], text[512], *end;
	FILE *file;
	bool read_it;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	read_it = fgets(text, sizeof(text), file);
	fclose(file);
	end = read_it ? strrchr(text, ')') : NULL;
	return end && sscanf(end + 1, " %c %*d %d", state, group) == 2;
}

static long peak_kb_of(const char *pid)
{
	char path[64], line[256];
	long kb = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		/* the command that reports that a tool is ready is not part of the tool */
		if (!strcmp(line, "Name:\tmeter\n"))
			break;
		if (sscanf(line, "VmHWM: %ld", &kb) == 1)
			break;
	}
	if (file)
		fclose(file);
	return kb;
}

static void pin(const char *pid, const cpu_set_t *cpus)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%.20s/task", pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (isdigit(entry->d_name[0]))
			sched_setaffinity(atoi(entry->d_name), sizeof(*cpus), cpus);
	if (tasks)
		closedir(tasks);
}

/*
 * Sum of the peak memory of the tool's processes (KiB), -1 if none is left. Pins them if requested.
 */
static long look_at_tool(const cpu_set_t *cpus)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	long kb = -1;
	char state;
	pid_t group;

	while (all && (entry = readdir(all))) {
		if (!isdigit(entry->d_name[0]) || !process(entry->d_name, &state, &group))
			continue;
		if (group != tool || state == 'Z')
			continue;
		kb = (kb < 0 ? 0 : kb) + peak_kb_of(entry->d_name);
		if (cpus)
			pin(entry->d_name, cpus);
	}
	if (all)
		closedir(all);
	return kb;
}

/* CPU time of the tool in clock ticks. */
static long tool_ticks(void)
{
	char path[64], text[512] = "", *end;
	long user = 0, system = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", tool);
	file = fopen(path, "r");
	if (file && fgets(text, sizeof(text), file) && (end = strrchr(text, ')')))
		sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
		       &system);
	if (file)
		fclose(file);
	return user + system;
}

/*
 * A tool may still be busy after it is ready. Wait, because this is not part of the cost of calls.
 */
static void await_rest(void)
{
	const long rest_ns = 300000000L, most_ns = 10 * second_ns;
	long begin_ns = now_ns(), since_ns = begin_ns, ticks = tool_ticks();

	while (now_ns() - since_ns < rest_ns && now_ns() - begin_ns < most_ns) {
		long now;

		drain(50);
		if (output < 0)
			return;
		now = tool_ticks();
		if (now != ticks)
			since_ns = now_ns();
		ticks = now;
	}
}

static void pin_tool(bool to_first)
{
	cpu_set_t cpus;
	int i, n = to_first ? 1 : sysconf(_SC_NPROCESSORS_CONF);

	CPU_ZERO(&cpus);
	for (i = 0; i < n; i++)
		CPU_SET(i, &cpus);
	look_at_tool(&cpus);
}

static void run_step(const char *text)
{
	struct step step = parse_step(text);
	long shown = 0, before = seen.sessions;
	long expected = step.calls + (step.burst ? SETUP_CALLS : 0);
	struct timing *timing;

	/* a real-time loop on the reader's CPU: only the kernel's part is measured */
	if (step.held && output >= 0)
		pin_tool(true);
	timing = start_loop(&step);
	while (!loop_ended())
		drain(output >= 0 ? 20 : 1);
	if (step.held && output >= 0)
		pin_tool(false);
	if (step.report && output >= 0) {
		long wait_from = now_ns();

		while (seen.sessions - before < expected &&
		       now_ns() - (seen.last_ns > wait_from ? seen.last_ns : wait_from) < quiet_ns)
			drain(50);
		shown = seen.last_ns > timing->begin_ns ? seen.last_ns - timing->begin_ns : 0;
	}
	print_timing(&step, timing);
	if (step.report && output >= 0)
		printf("shown %s %ld %ld %ld\n", step.call, shown / step.calls,
		       seen.sessions - before, expected);
	fflush(stdout);
}

static int finish(long begin_ns, const char *name, long peak_kb)
{
	struct rusage usage;
	int status;

	while (wait4(tool, &status, WNOHANG, &usage) != tool) {
		drain(output >= 0 ? 2 : 0);
		if (output < 0)
			usleep(500);
		over(begin_ns, name);
	}
	printf("%s %ld\n", name, now_ns() - begin_ns);
	if (usage.ru_maxrss > peak_kb)
		peak_kb = usage.ru_maxrss;
	printf("peak %ld\n", peak_kb);
	printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	while (look_at_tool(NULL) >= 0) {
		usleep(1000);
		over(begin_ns, "settled");
	}
	printf("settled %ld\n", now_ns() - begin_ns);
	return 0;
}

static int run_tool(int argc, char **argv)
{
	const char *ready = argv[0];
	long begin_ns, peak_kb;
	int i, status, steps = 2;

	limit_ns = atol(argv[1]) * second_ns;
	while (steps < argc && strcmp(argv[steps], "--"))
		steps++;
	begin_ns = now_ns();
	start(argv + steps + 1);
	if (!*ready)
		return finish(begin_ns, "took", 0);
	while (!strstr(seen.tail, ready)) {
		drain(1000);
		over(begin_ns, "ready");
		if (output < 0 || waitpid(tool, &status, WNOHANG) == tool) {
			while (output >= 0)
				drain(100);
			fprintf(stderr, "%s", seen.tail);
			printf("ended early\n");
			return 4;
		}
	}
	printf("ready %ld\n", now_ns() - begin_ns);
	await_rest();
	for (i = 2; i < steps && strcmp(argv[i], "leave"); i++)
		run_step(argv[i]);
	peak_kb = look_at_tool(NULL);
	if (i < steps) {
		printf("peak %ld\n", peak_kb);
		return 0;
	}
	begin_ns = now_ns();
	/* send it to the whole group, as a terminal does */
	kill(-tool, SIGINT);
	return finish(begin_ns, "exit", peak_kb);
}

int main(int argc, char **argv)
{
	int i;

	if (argc == 3 && !strcmp(argv[1], "hold")) {
		puts(argv[2]);
		fflush(stdout);
		pause();
		return 0;
	}
	if (argc > 5 && !strcmp(argv[1], "tool"))
		return run_tool(argc - 2, argv + 2);
	if (argc < 3 || strcmp(argv[1], "bare"))
		return 2;
	for (i = 2; i < argc; i++)
		run_step(argv[i]);
	return 0;
}
