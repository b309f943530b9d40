/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls and returns that the engine sees, as lines of the kernel's trace_pipe (--debug bpf).
 * Before Linux 5.13 a line can contain only one string, so indentation and name are joined here.
 */
#ifndef RSN_DEBUG_BPF_H
#define RSN_DEBUG_BPF_H

#include "settings.bpf.h"
#include "shadow.bpf.h"

const volatile bool debug_log = false;

enum {
	DEBUG_NAME_LEN = 40,
	DEBUG_INDENT = 2, /* columns for each call */
};

/* The format of a result. */
enum debug_result {
	DEBUG_VOID,
	DEBUG_BOOL,
	DEBUG_PTR,
	DEBUG_INT,
	DEBUG_LONG,
};

struct debug_func {
	char name[DEBUG_NAME_LEN];
	enum debug_result result;
};

/* By function id; the loader fills the map if --debug bpf is used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct debug_func);
} debug_funcs SEC(".maps");

struct debug_line {
	char text[DEBUG_INDENT * RSN_MAX_DEPTH + DEBUG_NAME_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct debug_line);
} debug_lines SEC(".maps");

/* Returns the function's indented name; NULL without a name. */
static __always_inline const char *debug_name(const struct debug_func *func, __u32 depth)
{
	__u32 index = 0;
	struct debug_line *line = bpf_map_lookup_elem(&debug_lines, &index);

	if (!line || !func)
		return NULL;
	__builtin_memset(line->text, ' ', DEBUG_INDENT * RSN_MAX_DEPTH);
	bpf_probe_read_kernel_str(line->text + DEBUG_INDENT * slot_index(depth), DEBUG_NAME_LEN,
				  func->name);
	return line->text;
}

/* A call was pushed. */
static __noinline int debug_enter(struct session *s, __u32 func_id)
{
	const struct debug_func *func = bpf_map_lookup_elem(&debug_funcs, &func_id);
	const char *name = debug_name(func, s->depth - 1);

	if (!name)
		return 0;
	if (s->depth == 1)
		bpf_printk("=== STARTING TRACING %s [TID %d PID %d] ===", name, s->rec.tid,
			   s->rec.tgid);
	bpf_printk("    ENTER %s [...]", name);
	return 0;
}

static __always_inline void debug_result_of(const char *name, enum debug_result kind, __s64 result)
{
	switch (kind) {
	case DEBUG_VOID:
		bpf_printk("    EXIT  %s [VOID]", name);
		break;
	case DEBUG_BOOL:
		if ((__u8)result)
			bpf_printk("    EXIT  %s [true]", name);
		else
			bpf_printk("    EXIT  %s [false]", name);
		break;
	case DEBUG_PTR:
		bpf_printk("    EXIT  %s [0x%lx]", name, result);
		break;
	case DEBUG_INT:
		bpf_printk("    EXIT  %s [%d]", name, (__s32)result);
		break;
	default:
		bpf_printk("    EXIT  %s [%ld]", name, result);
	}
}

/*
 * The last call is about to be popped; failed: with an error. The result is read from the slot: in
 * a trampoline's program the verifier treats the result as a pointer and rejects arithmetic with
 * it.
 */
static __noinline int debug_exit(struct session *s, bool failed)
{
	const struct rsn_slot *slot = slot_at(s, s->depth - 1);
	__u32 func_id = slot->func_id;
	const struct debug_func *func = bpf_map_lookup_elem(&debug_funcs, &func_id);
	const char *name = debug_name(func, s->depth - 1);
	__s64 result = slot->result;

	if (!name || !func)
		return 0;
	if (!failed)
		debug_result_of(name, func->result, result);
	else if (!result)
		bpf_printk("[!] EXIT  %s [NULL]", name);
	else if (func->result == DEBUG_INT)
		bpf_printk("[!] EXIT  %s [%d]", name, (__s32)result);
	else
		bpf_printk("[!] EXIT  %s [%ld]", name, result);
	return 0;
}

/* A function returns, but is not the last called function. */
static __noinline int debug_unexpected(struct session *s, __u32 func_id)
{
	const struct debug_func *func = bpf_map_lookup_elem(&debug_funcs, &func_id);

	if (func)
		bpf_printk("POP UNEXPECTED %s, depth %d", func->name, s->depth);
	return 0;
}

#endif
