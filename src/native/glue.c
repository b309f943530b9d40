// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "glue.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

/* A verifier log of a large program; what is longer is cut at the front, its end says why. */
enum { log_limit = 1 << 20 };

/* glibc's own choice to begin with; what it never does again is raise it */
enum { large_memory = 128 << 10 };

static char *log_text;
static size_t log_used;
static int log_level;

void rsn_return_large_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, large_memory);
}

static void log_append(const char *text, size_t length)
{
	char *grown;

	if (length >= log_limit) {
		text += length - log_limit + 1;
		length = log_limit - 1;
	}
	if (log_used + length >= log_limit)
		log_used = 0;
	grown = realloc(log_text, log_used + length + 1);
	if (!grown)
		return;
	log_text = grown;
	memcpy(log_text + log_used, text, length);
	log_used += length;
	log_text[log_used] = '\0';
}

static int on_libbpf_print(enum libbpf_print_level level, const char *format, va_list args)
{
	char *line = NULL;
	int length;

	if ((int)level > log_level)
		return 0;
	length = vasprintf(&line, format, args);
	if (length >= 0)
		log_append(line, length);
	free(line);
	return length;
}

void rsn_log_start(int level)
{
	log_level = level;
	libbpf_set_print(on_libbpf_print);
}

const char *rsn_log_text(void)
{
	return log_text ? log_text : "";
}

void rsn_log_clear(void)
{
	log_used = 0;
	if (log_text)
		log_text[0] = '\0';
}

int rsn_find_global(const struct btf *btf, const char *section, const char *name, uint32_t *offset,
		    uint32_t *size)
{
	int id = btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC);
	const struct btf_var_secinfo *var;
	const struct btf_type *datasec;
	int i;

	if (id < 0)
		return id;
	datasec = btf__type_by_id(btf, id);
	var = btf_var_secinfos(datasec);
	for (i = 0; i < btf_vlen(datasec); i++, var++) {
		const struct btf_type *type = btf__type_by_id(btf, var->type);

		if (strcmp(btf__name_by_offset(btf, type->name_off), name))
			continue;
		*offset = var->offset;
		*size = var->size;
		return 0;
	}
	return -ENOENT;
}

static int open_kprobe_event(const struct rsn_kprobe_batch *batch, size_t i)
{
	struct perf_event_attr attr = {
		.type = batch->pmu_type,
		.size = sizeof(attr),
		.config = batch->config,
		.kprobe_func = 0, /* no name: the address below is absolute */
		.kprobe_addr = batch->addresses[i],
		.sample_period = 1,
		.wakeup_events = 1,
	};

	return syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static int connect_program(const struct rsn_kprobe_batch *batch, size_t i)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);

	if (!batch->use_link) {
		if (ioctl(batch->event_fds[i], PERF_EVENT_IOC_SET_BPF, batch->prog_fd))
			return errno;
		return ioctl(batch->event_fds[i], PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
	}
	opts.perf_event.bpf_cookie = batch->cookies[i];
	batch->link_fds[i] =
		bpf_link_create(batch->prog_fd, batch->event_fds[i], BPF_PERF_EVENT, &opts);
	if (batch->link_fds[i] < 0)
		return -batch->link_fds[i];
	return ioctl(batch->event_fds[i], PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
}

/* Attaches one program to many functions, one perf event each; one that fails costs only itself. */
void rsn_attach_kprobes(const struct rsn_kprobe_batch *batch)
{
	size_t i;

	for (i = 0; i < batch->count; i++) {
		batch->link_fds[i] = -1;
		batch->errors[i] = 0;
		batch->event_fds[i] = open_kprobe_event(batch, i);
		if (batch->event_fds[i] < 0) {
			batch->errors[i] = errno;
			continue;
		}
		batch->errors[i] = connect_program(batch, i);
		if (!batch->errors[i])
			continue;
		rsn_close_all(&batch->link_fds[i], 1);
		rsn_close_all(&batch->event_fds[i], 1);
		batch->link_fds[i] = -1;
		batch->event_fds[i] = -1;
	}
}

void rsn_close_all(const int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

void rsn_kprobes_missed(const int *link_fds, size_t count, uint64_t *missed)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct bpf_link_info info = { 0 };
		__u32 size = sizeof(info);

		missed[i] = 0;
		if (link_fds[i] >= 0 && !bpf_link_get_info_by_fd(link_fds[i], &info, &size))
			missed[i] = info.perf_event.kprobe.missed;
	}
}
