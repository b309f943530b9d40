// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"

static const char setting[] = "/sys/kernel/rcu_expedited";

/* flock(2) that a signal does not end; 0, or -1 with errno. */
static int lock(int fd, int operation)
{
	int result;

	do
		result = flock(fd, operation);
	while (result && errno == EINTR);
	return result;
}

/* Locked while users come and go. Its file descriptor, or a negative errno. */
static int enter(const char *home)
{
	int fd;

	if (mkdir(home, 0700) && errno != EEXIST)
		return -errno;
	fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (lock(fd, LOCK_EX)) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

/* The file that keeps the value to be put back, empty if there is none; users lock it. */
static int open_saved(const char *home)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/rcu_expedited", home);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* 0 or a negative errno. */
static int change_setting(const char *value)
{
	int fd = open(setting, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		error = -errno;
	close(fd);
	return error;
}

/* Saves the value and sets 1; 0 or a negative errno. */
static int hurry(int saved)
{
	char value[16] = "";
	int fd = open(setting, O_RDONLY | O_CLOEXEC), error;
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = read(fd, value, sizeof(value) - 1);
	close(fd);
	if (length <= 0)
		return -EIO;
	if (value[0] != '0')
		return -EALREADY;
	/* first, for we may be killed at any moment */
	if (pwrite(saved, value, length, 0) != length)
		return -EIO;
	error = change_setting("1");
	if (error && ftruncate(saved, 0))
		return -errno;
	return error;
}

int rsn_expedite_begin(const char *home)
{
	int gate = enter(home), saved, error = 0;
	struct stat status;

	if (gate < 0)
		return gate;
	saved = open_saved(home);
	if (saved < 0) {
		close(gate);
		return saved;
	}
	/* without the lock another user would put the value back while we need the new one */
	if (lock(saved, LOCK_SH))
		error = -errno;
	else if (fstat(saved, &status))
		error = -errno;
	else if (!status.st_size)
		error = hurry(saved);
	else
		change_setting(
			"1"); /* in case the last one was killed between saving and setting */
	close(gate);
	if (!error)
		return saved;
	close(saved);
	return error;
}

/* Within the gate: puts the value back unless somebody uses the new one. */
static int put_back(int saved)
{
	char value[16] = "";
	int error;

	if (flock(saved, LOCK_EX | LOCK_NB))
		return -EBUSY;
	if (pread(saved, value, sizeof(value) - 1, 0) <= 0)
		return 0;
	error = change_setting(value);
	if (!error && ftruncate(saved, 0))
		error = -errno;
	return error ? error : 1;
}

int rsn_expedite_repair(const char *home)
{
	int gate = enter(home), saved, result;

	if (gate < 0)
		return gate;
	saved = open_saved(home);
	result = saved < 0 ? saved : put_back(saved);
	if (saved >= 0)
		close(saved);
	close(gate);
	return result;
}

int rsn_expedite_end(const char *home, int fd)
{
	/* there may be no descriptor left for another one of the file that is kept */
	int gate = enter(home), result;

	result = gate < 0 ? gate : put_back(fd);
	close(fd);
	if (gate >= 0)
		close(gate);
	return result;
}
