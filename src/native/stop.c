// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "stop.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The third request to stop kills the process. */
static const int deadly = 3;
/*
 * Signals within this time count as one request. When a terminal closes, the terminal and its shell
 * both send SIGHUP. A service manager sends SIGTERM and SIGHUP.
 */
static const int64_t same_request_ns = 100 * 1000 * 1000;

/* The previous actions: usually handlers of Python, but a caller of the library may have others. */
static struct sigaction before[NSIG];
static bool watched[NSIG];
static int count; /* atomic */
/* Time of the last counted request. Only the handlers use it, and they block each other. */
static int64_t last_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Whether the signal starts a new request. */
static bool is_new(void)
{
	int64_t now = now_ns();

	if (last_ns && now - last_ns < same_request_ns)
		return false;
	last_ns = now;
	return true;
}

/* Takes effect when the handler returns, because signals are blocked in it. */
static void act_by_default(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

/* Does what the previous action of this signal does. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *action = &before[number];

	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(number, info, context);
	else if (action->sa_handler == SIG_DFL)
		act_by_default(number);
	else if (action->sa_handler != SIG_IGN)
		action->sa_handler(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const int saved = errno;

	if (is_new() && __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) >= deadly)
		act_by_default(number);
	else
		pass_on(number, info, context);
	errno = saved;
}

/* Count these signals from zero, then pass them to their present handlers. */
void rsn_stop_watch(const int *numbers, int cnt)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	int i;

	__atomic_store_n(&count, 0, __ATOMIC_RELAXED);
	last_ns = 0;
	for (i = 0; i < cnt; i++)
		sigaddset(&action.sa_mask, numbers[i]);
	for (i = 0; i < cnt; i++) {
		watched[numbers[i]] = true;
		sigaction(numbers[i], NULL, &before[numbers[i]]);
		sigaction(numbers[i], &action, NULL);
	}
}

/* Restore the previous handlers. */
void rsn_stop_unwatch(void)
{
	int number;

	for (number = 1; number < NSIG; number++) {
		if (watched[number])
			sigaction(number, &before[number], NULL);
		watched[number] = false;
	}
}

/* Number of requests to stop. */
int rsn_stop_count(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

/*
 * Leaves the session keyring of this process for a new, empty one that the user owns: keys in ours are
 * the caller's secrets. 0, or a negative errno.
 */
int rsn_new_session_keyring(unsigned int uid, unsigned int gid)
{
	enum { CHOWN = 4, JOIN_SESSION_KEYRING = 1 };
	long key = syscall(__NR_keyctl, JOIN_SESSION_KEYRING, NULL);

	if (key < 0)
		return -errno;
	/* a full quota of the user is no reason to share ours: the possessor may use it anyway */
	syscall(__NR_keyctl, CHOWN, key, uid, gid);
	return 0;
}

/* waitpid(2) that a signal does not end. */
pid_t rsn_wait_for(pid_t pid, int *status)
{
	pid_t found;

	do
		found = waitpid(pid, status, 0);
	while (found < 0 && errno == EINTR);
	return found;
}

/* fork(2) with all signals blocked in the child, so that no handler of this process runs there. */
pid_t rsn_fork_blocked(void)
{
	sigset_t all, old;
	pid_t pid;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	error = errno;
	if (pid)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return pid;
}
