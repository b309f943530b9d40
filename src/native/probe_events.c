// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "probe_events.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "attach.h"

enum side { side_entry, side_return };

/*
 * All probes of a tracefs event share one cookie. BPF programs use the address instead (no_cookie
 * in BPF).
 */
static const uint64_t no_cookie = UINT64_MAX;

void rsn_event_name(char *name, const char *owner, unsigned int number, int is_return)
{
	snprintf(name, EVENT_NAME_LIMIT, "rsnoop_%s/%s%u_%s", owner, is_return ? "out" : "in",
		 number, owner);
}

/*
 * Returns 0 or a positive errno. Write one line at a time, because the kernel stops at the first
 * bad line of several.
 */
static int write_line(int fd, const char *line, int length)
{
	return write(fd, line, length) < 0 ? errno : 0;
}

/*
 * Add a probe. A place is "SYMBOL+OFFSET", not an address: Linux 5.10 and 6.1 compare probes by
 * symbol and offset, so they reject a second bare address as a duplicate.
 */
static int define(const struct rsn_event_pair *pair, enum side side, const char *place)
{
	char name[EVENT_NAME_LIMIT], kind[16] = "p", line[EVENT_NAME_LIMIT + EVENT_PLACE_LIMIT];
	int length;

	if (side == side_return)
		snprintf(kind, sizeof(kind), "r%u", pair->max_active);
	rsn_event_name(name, pair->owner, pair->number, side == side_return);
	length = snprintf(line, sizeof(line), "%s:%s %s\n", kind, name, place);
	if (length >= (int)sizeof(line))
		return ENAMETOOLONG;
	return write_line(pair->definitions_fd, line, length);
}

/*
 * Remove one probe from an event. This also works while the event is enabled, except for its last
 * probe.
 */
static void undefine(const struct rsn_event_pair *pair, enum side side, const char *place)
{
	char name[EVENT_NAME_LIMIT], line[EVENT_NAME_LIMIT + EVENT_PLACE_LIMIT];
	int length;

	rsn_event_name(name, pair->owner, pair->number, side == side_return);
	length = snprintf(line, sizeof(line), "-:%s %s\n", name, place);
	write_line(pair->definitions_fd, line, length);
}

/*
 * Define both probes of a function. Of the handlers at one address, the kernel calls the newest
 * first. Returns 0 or a positive errno.
 */
static int define_both(const struct rsn_event_pair *pair, const char *place)
{
	enum side first = pair->returns_first ? side_return : side_entry;
	int error = define(pair, first, place);

	if (error)
		return error;
	error = define(pair, !first, place);
	if (error)
		undefine(pair, first, place);
	return error;
}

/* The id of an event for perf_event_open(2), or a negative errno. */
static int event_id(const struct rsn_event_pair *pair, enum side side)
{
	char name[EVENT_NAME_LIMIT], path[4096], text[24] = "";
	int fd;
	ssize_t length;

	rsn_event_name(name, pair->owner, pair->number, side == side_return);
	snprintf(path, sizeof(path), "%s/events/%s/id", pair->tracefs, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	return length > 0 ? atoi(text) : -EIO;
}

/* Open an event. Returns its file descriptor or a negative errno. Enabling it arms its probes. */
static int open_event(const struct rsn_event_pair *pair, enum side side)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.wakeup_events = 1,
	};
	int id = event_id(pair, side), fd;

	if (id < 0)
		return id;
	attr.config = id;
	fd = syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int connect_side(struct rsn_event_pair *pair, enum side side, int prog_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = no_cookie);
	int *link = &pair->fds[side], *event = &pair->fds[2 + side];

	*event = open_event(pair, side);
	if (*event < 0)
		return -*event;
	if (!pair->use_links) {
		if (ioctl(*event, PERF_EVENT_IOC_SET_BPF, prog_fd))
			return errno;
	} else {
		*link = bpf_link_create(prog_fd, *event, BPF_PERF_EVENT, &opts);
		if (*link < 0)
			return -*link;
	}
	return ioctl(*event, PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
}

/*
 * Attach the programs to the two events, each of which has one probe. Returns 0 or a positive
 * errno.
 */
static int connect_both(struct rsn_event_pair *pair)
{
	int error = connect_side(pair, side_entry, pair->entry_prog_fd);

	if (!error)
		error = connect_side(pair, side_return, pair->return_prog_fd);
	if (error)
		rsn_close_events(pair);
	return error;
}

/*
 * The events are enabled when they get their first probe. The kernel then arms each later probe
 * when its line is written. It rejects a probe that it cannot arm without affecting the others, and
 * attaching can stop between any two.
 */
static int attach_one(struct rsn_event_pair *pair, const char *place)
{
	int error = define_both(pair, place);

	if (error || pair->fds[2] >= 0)
		return error;
	error = connect_both(pair);
	if (error) {
		undefine(pair, side_entry, place);
		undefine(pair, side_return, place);
	}
	return error;
}

void rsn_attach_events(struct rsn_event_pair *pair, const char *const *places, size_t cnt,
		       int *errors)
{
	size_t i;

	for (i = 0; i < cnt; i++)
		errors[i] = attach_one(pair, places[i]);
}

void rsn_close_events(struct rsn_event_pair *pair)
{
	size_t i;

	for (i = 0; i < sizeof(pair->fds) / sizeof(pair->fds[0]); i++) {
		rsn_close_all(&pair->fds[i], 1);
		pair->fds[i] = -1;
	}
}
