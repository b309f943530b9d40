// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe_events.h"
#include "stop.h"

enum {
	RETRY_MS = 20,
	/* Files to write at the end, and what is said of one: its path and its text. */
	MOST_FILES = 8,
	FILE_BYTES = 512,
};

/* Sent instead of a number of pairs: the parent ends in good order. */
static const unsigned int farewell = ~0U;

/* Sent back once: the guard is out of reach of what is sent to its parent. */
static const char ready = 'r';

struct errand {
	unsigned int pairs;
	bool is_orderly;
	unsigned int files;
	char file[MOST_FILES][FILE_BYTES];
};

static void close_from(unsigned int first)
{
	unsigned int fd, end = sysconf(_SC_OPEN_MAX);

	if (!syscall(__NR_close_range, first, ~0U, 0)) /* Linux 5.9 */
		return;
	for (fd = first; fd < end; fd++)
		close(fd);
}

/* Cuts what ties us to the parent: its session, signals and files, BPF objects among them. */
static void leave_parent(int socket)
{
	int number;

	setsid();
	for (number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	prctl(PR_SET_NAME, "retsnoop-guard");
	dup2(socket, 0);
	close_from(1);
	if (chdir("/"))
		return;
}

/* What the parent said until it closed its end, or was killed. */
static struct errand wait_for_parent(void)
{
	struct errand errand = { 0 };
	char said[FILE_BYTES];
	unsigned int word;
	ssize_t length;

	while ((length = read(0, said, sizeof(said))) != 0) {
		if (length < 0 && errno != EINTR)
			break;
		memcpy(&word, said, sizeof(word));
		if (length > (ssize_t)sizeof(word) && errand.files < MOST_FILES)
			memcpy(errand.file[errand.files++], said, length);
		else if (length == sizeof(word) && word == farewell)
			errand.is_orderly = true;
		else if (length == sizeof(word))
			errand.pairs = word;
	}
	return errand;
}

/* Whether the event is there no more. */
static bool delete_event(int fd, const char *owner, unsigned int number, int is_return)
{
	char name[EVENT_NAME_LIMIT], line[EVENT_NAME_LIMIT + 4];
	int length;

	rsn_event_name(name, owner, number, is_return);
	length = snprintf(line, sizeof(line), "-:%s\n", name);
	return write(fd, line, length) >= 0 || errno != EBUSY;
}

static void pause_ms(unsigned int ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void delete_pair(int fd, const char *owner, unsigned int number, int *patience_ms)
{
	while (!delete_event(fd, owner, number, 0) || !delete_event(fd, owner, number, 1)) {
		if (*patience_ms <= 0)
			return;
		pause_ms(RETRY_MS);
		*patience_ms -= RETRY_MS;
	}
}

static void delete_definitions(const char *tracefs, const char *owner, unsigned int pairs,
			       int patience_ms)
{
	unsigned int i;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/kprobe_events", tracefs);
	/* not truncated: that would delete everybody's */
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return;
	for (i = 0; i < pairs; i++)
		delete_pair(fd, owner, i, &patience_ms);
	close(fd);
}

/* A parent that was killed is a user of the setting until the kernel has closed its files. */
static void repair(const char *home, pid_t parent)
{
	while (rsn_expedite_repair(home) == -EBUSY) {
		if (getppid() != parent) {
			rsn_expedite_repair(home);
			return;
		}
		pause_ms(RETRY_MS);
	}
}

/* Each has a path, a zero, a text and a zero; an empty text is written as a file that is cut. */
static void restore(const struct errand *errand)
{
	const char *path, *text;
	unsigned int i;
	int fd;

	for (i = errand->files; i-- > 0;) {
		path = errand->file[i];
		text = path + strlen(path) + 1;
		fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (*text && write(fd, text, strlen(text)) < 0)
			pause_ms(RETRY_MS);
		close(fd);
	}
}

static void guard(pid_t parent, const char *home, const char *tracefs, const char *owner,
		  int patience_ms)
{
	struct errand errand = wait_for_parent();
	int hurry = -1;

	restore(&errand);
	if (owner && errand.pairs) {
		/* 0.1 ms for each definition instead of 16 */
		if (home)
			hurry = rsn_expedite_begin(home);
		delete_definitions(tracefs, owner, errand.pairs, patience_ms);
		if (hurry >= 0)
			rsn_expedite_end(home, hurry);
	}
	if (home && !errand.is_orderly)
		repair(home, parent);
}

/* A guard that is still in our process group could be killed with us. */
static bool await_ready(int fd)
{
	ssize_t length;
	char said;

	do {
		length = recv(fd, &said, sizeof(said), 0);
	} while (length < 0 && errno == EINTR);
	return length == sizeof(said);
}

int rsn_guard_start(const char *home, const char *tracefs, const char *owner, int patience_ms,
		    int *pid)
{
	pid_t parent = getpid();
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	*pid = rsn_fork_blocked();
	if (!*pid) {
		leave_parent(sockets[1]);
		if (send(0, &ready, sizeof(ready), MSG_NOSIGNAL) == sizeof(ready))
			guard(parent, home, tracefs, owner, patience_ms);
		_exit(0);
	}
	close(sockets[1]);
	if (*pid > 0 && await_ready(sockets[0]))
		return sockets[0];
	close(sockets[0]);
	if (*pid > 0)
		rsn_wait_for(*pid, NULL);
	return -EAGAIN;
}

int rsn_guard_pairs(int fd, unsigned int count)
{
	return send(fd, &count, sizeof(count), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int rsn_guard_restore(int fd, const char *path, const char *text)
{
	size_t head = strlen(path) + 1, length = head + strlen(text) + 1;
	char said[FILE_BYTES] = { 0 };

	if (length > sizeof(said))
		return -E2BIG;
	memcpy(said, path, head);
	memcpy(said + head, text, length - head);
	/* all of it: a short message would be a number */
	return send(fd, said, sizeof(said), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Whether the other end closes it in time; signals do not end the wait. */
static bool is_closed_within(int fd, int wait_ms)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };
	int64_t last = now_ms() + wait_ms, left = wait_ms;
	int found;

	while ((found = poll(&end, 1, left)) < 0 && errno == EINTR) {
		left = last - now_ms();
		if (left < 0)
			left = 0;
	}
	return found > 0;
}

int rsn_guard_finish(int fd, int pid, bool is_orderly, int wait_ms)
{
	bool done;

	if (is_orderly)
		rsn_guard_pairs(fd, farewell);
	shutdown(fd, SHUT_WR);
	done = is_closed_within(fd, wait_ms);
	close(fd);
	return done && rsn_wait_for(pid, NULL) == pid;
}
