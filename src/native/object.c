// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "object.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

/*
 * Room for the verifier log of a large program. A longer log loses its beginning; the error is at
 * the end.
 */
enum { log_limit = 1 << 20 };

/*
 * The initial threshold of glibc. Setting it stops glibc from raising it. musl has the same
 * threshold, which is fixed.
 */
enum { large_memory = 128 << 10 };

/*
 * libbpf's messages in one thread. Each call logs in its own thread, and other threads may call
 * libbpf at the same time.
 */
struct log {
	char *text;
	size_t used;
	int level;
};

static _Thread_local struct log thread_log;
static pthread_key_t log_key; /* its destructor frees the text of a thread */
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

static void make_log_key(void)
{
	pthread_key_create(&log_key, free);
}

void rsn_return_large_memory(void)
{
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, large_memory);
#endif
}

static void log_append(const char *text, size_t length)
{
	struct log *log = &thread_log;
	char *grown;

	if (length >= log_limit) {
		text += length - log_limit + 1;
		length = log_limit - 1;
	}
	if (log->used + length >= log_limit)
		log->used = 0;
	grown = realloc(log->text, log->used + length + 1);
	if (!grown)
		return;
	if (grown != log->text)
		pthread_setspecific(log_key, grown);
	log->text = grown;
	memcpy(log->text + log->used, text, length);
	log->used += length;
	log->text[log->used] = '\0';
}

static int on_libbpf_print(enum libbpf_print_level level, const char *format, va_list args)
{
	char *line = NULL;
	int length;

	if ((int)level > thread_log.level)
		return 0;
	length = vasprintf(&line, format, args);
	if (length >= 0)
		log_append(line, length);
	free(line);
	return length;
}

void rsn_log_start(int level)
{
	pthread_once(&log_once, make_log_key);
	thread_log.level = level;
	libbpf_set_print(on_libbpf_print);
}

const char *rsn_log_text(void)
{
	return thread_log.text ? thread_log.text : "";
}

void rsn_log_clear(void)
{
	thread_log.used = 0;
	if (thread_log.text)
		thread_log.text[0] = '\0';
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
