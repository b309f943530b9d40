/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arguments of calls, copied into the session's log by the loader's plan. The loader makes the
 * plan from BTF (kernel/arguments). Here a plan has only places and numbers of bytes.
 */
#ifndef RSN_ARGS_BPF_H
#define RSN_ARGS_BPF_H

#include "session.bpf.h"

enum {
	ARGS_MAX = 16, /* twelve parameters, and values reached by following them */
	ARGS_HOPS = 4,
	ARGS_SP = 15, /* the slot of the stack pointer */
	ARGS_HEAD = sizeof(struct rsn_args) + ARGS_MAX * sizeof(struct rsn_arg),
	ARGS_PAGE = 4096, /* bytes of the smallest page */
	ARGS_IN_COOKIE = 40, /* in the byte from this bit on: number of arguments plus one, or 0 */
	NO_ROOM = 28, /* ENOSPC */
};

/* The kind of data at the address in a value. */
enum arg_target {
	ARG_NONE, /* nothing to read: a plain value */
	ARG_BYTES,
	ARG_STRING,
	ARG_GUESS, /* a string, if the bytes are text */
	ARG_LOCATED, /* bytes: the value has their size and, in its low half, how far behind the
			slot's address plus offset they are */
};

/* Puts the type into the object's BTF, as in settings.bpf.h. */
const enum arg_target *arg_targets __attribute__((unused));

struct arg_plan {
	__u8 slot; /* where to start: a slot of struct arg_source */
	__u8 target; /* enum arg_target */
	__u8 hops; /* how often the value is replaced by the word at value + hop[] */
	__u8 value; /* bytes: 8 or 16 */
	__u16 size; /* maximum bytes of the target */
	__u16 offset; /* of the target from the value */
	__u16 hop[ARGS_HOPS];
};

struct args_plan {
	__u64 cnt;
	struct arg_plan args[ARGS_MAX];
};

/*
 * By function id. Trampolines keep the arguments in their context, not in registers and on the
 * stack. Plans for trampolines begin at args_context_plans, plans of injected probes at
 * args_probe_plans. The loader sets both.
 */
const volatile __u32 args_context_plans = 0;
const volatile __u32 args_probe_plans = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct args_plan);
} args_plans SEC(".maps");

/* Addresses of the kernel's half are negative as signed numbers, on x86-64 and on arm64. */
static __always_inline bool is_kernel_address(__u64 address)
{
	return (__s64)address < 0;
}

static __always_inline long read_bytes(void *to, __u64 size, __u64 address)
{
	if (is_kernel_address(address))
		return bpf_probe_read_kernel(to, size, (void *)address);
	return bpf_probe_read_user(to, size, (void *)address);
}

/* Returns the bytes of a string with its NUL. A string longer than `size` is cut and has no NUL. */
static __always_inline long read_string(char *to, __u64 size, __u64 address)
{
	long got;

	if (is_kernel_address(address))
		got = bpf_probe_read_kernel_str(to, size, (void *)address);
	else
		got = bpf_probe_read_user_str(to, size, (void *)address);
	if (got == size)
		read_bytes(to + size - 1, 1, address + size - 1);
	return got;
}

/* Copies up to `room` bytes from `address`; returns the number of bytes or a negative errno. */
static __noinline long arg_read(char *to, const struct arg_plan *plan, __u64 address, __u64 room)
{
	__u64 size = plan->size, left;
	long err;

	size = barrier_value(size < room ? size : room);
	if (!size || size > args_max_data)
		return -NO_ROOM;
	if (plan->target == ARG_BYTES || plan->target == ARG_LOCATED) {
		left = barrier_value(ARGS_PAGE - address % ARGS_PAGE);
		err = read_bytes(to, size, address);
		/* The next page may be missing: the object may be smaller than `left` bytes. */
		if (err && left < size && left <= args_max_data && !is_kernel_address(address)) {
			size = left;
			err = bpf_probe_read_user(to, size, (void *)address);
		}
		return err ? err : size;
	}
	err = read_string(to, size, address);
	return err < 0 && plan->target == ARG_GUESS ? 0 : err;
}

/* Follows the plan's hops through the kernel's own pointers; ends at a NULL pointer. */
static __always_inline long arg_follow(const struct arg_plan *plan, __u64 *value)
{
	long err = 0;

	for (int i = 0; i < ARGS_HOPS && i < plan->hops && *value && !err; i++)
		err = bpf_probe_read_kernel(value, sizeof(*value), (void *)(*value + plan->hop[i]));
	return err;
}

/*
 * Captures argument i of a plan into the item at `item_at`, after the earlier arguments. Not
 * static: see table_find_in(). In the copies of the templates all functions are static, but the
 * number of arguments is a constant.
 */
__noinline int arg_take(__u32 place, __u32 item_at, __u32 plan_index, __u32 i)
{
	const __u64 end = ARGS_HEAD + args_max_total;
	const struct args_plan *plans;
	const struct arg_plan *plan;
	struct rsn_arg *arg;
	struct log *log;
	__u64 at, value, room;
	char *item;
	long got;

	if (!capture_args)
		return 0;
	log = bpf_map_lookup_elem(&logs, &place);
	plans = bpf_map_lookup_elem(&args_plans, &plan_index);
	if (!log || !plans)
		return 0;
	i &= ARGS_MAX - 1;
	plan = &plans->args[i];
	item = log->data + (item_at & (RSN_LOG_BYTES - 1));
	arg = (struct rsn_arg *)(item + sizeof(struct rsn_args)) + i;
	arg->value = 0;
	arg->data = -NO_ROOM;
	at = barrier_value(log->source.at);
	if (at > end)
		return 0;
	value = log->source.slots[plan->slot & ARGS_SP];
	got = arg_follow(plan, &value);
	if (got) {
		arg->data = got;
		return 0;
	}
	*(__u64 *)(item + at) = value;
	*(__u64 *)(item + at + sizeof(value)) = log->source.slots[(plan->slot + 1) & ARGS_SP];
	arg->value = plan->value;
	at += plan->value & (sizeof(value) | 2 * sizeof(value));
	room = at < end ? end - at : 0;
	if (plan->target == ARG_LOCATED) {
		__u64 size = value >> 16 & 0xffff;

		value = size ? (value & 0xffff) + log->source.slots[plan->slot & ARGS_SP] : 0;
		if (size < room)
			room = size;
	}
	if (value && plan->target != ARG_NONE &&
	    (plan->target != ARG_GUESS || is_kernel_address(value)))
		got = arg_read(item + at, plan, value + plan->offset, room);
	arg->data = got;
	log->source.at = got > 0 ? at + ((got + 7) & ~7) : at;
	return 0;
}

/* Logs `cnt` arguments of a plan from the log's arg_source; kind_id: see event_of(). */
static __noinline int args_log(void *ctx, struct session *s, __u32 plan_index, __u32 cnt,
			       __u64 kind_id)
{
	struct rsn_args *args = log_room(ctx, s, sizeof(__u64));
	struct log *log = log_of(s);
	__u32 item_at = s->log.bytes - sizeof(__u64);

	if (!args || !log)
		return 0;
	log->source.at = sizeof(*args) + ((cnt * sizeof(struct rsn_arg) + 7) & ~7);
	for (__u32 i = 0; i < ARGS_MAX && i < cnt; i++)
		arg_take(s->place, item_at, plan_index, i);
	args->size = log->source.at;
	args->kind = kind_id >> 32;
	args->cnt = cnt;
	args->id = kind_id;
	args->seq = s->rec.last_seq;
	args->unused = 0;
	s->log.bytes += log->source.at - sizeof(__u64);
	return 0;
}

/* Returns the number of arguments in a plan, 0 without a plan. */
static __always_inline __u32 args_cnt(__u32 plan_index)
{
	const struct args_plan *plans = bpf_map_lookup_elem(&args_plans, &plan_index);

	return plans && plans->cnt <= ARGS_MAX ? plans->cnt : 0;
}

/*
 * Called before a call is pushed. Without a trace only the calls of the last stack are shown. So
 * the arguments of the calls that this call overwrites are dropped, unless these calls may be part
 * of a chain of failures. That way a session that is not reported has usually sent nothing. Missed
 * calls are counted here, because those during the copying of arguments do not count.
 */
static __always_inline void args_rewind(struct session *s)
{
	struct log *log = emit_calls || emit_interim ? NULL : log_of(s);
	struct log_mark *mark;

	if (s->depth)
		misses_take(s);
	if (!log || s->depth >= RSN_MAX_DEPTH || s->interrupt_depth)
		return;
	mark = &log->marks[slot_index(s->depth)];
	if (s->depth < s->max_depth && !s->is_err && !s->saved_from) {
		bool is_here = (__s32)(mark->bytes - s->log_sent.bytes) > 0;

		s->log.bytes = is_here ? mark->bytes - s->log_sent.bytes : 0;
		s->log.events = is_here ? mark->events - s->log_sent.events : 0;
	}
	mark->bytes = s->log_sent.bytes + s->log.bytes;
	mark->events = s->log_sent.events + s->log.events;
}

/* Whether the pushed call may be shown: without a trace, an interrupt's call never is. */
static __always_inline bool args_wanted(struct session *s)
{
	return emit_calls || emit_interim || !s->interrupt_depth;
}

/* Logs the arguments of the pushed call from the registers at its first instruction. */
static __noinline int args_from_regs(struct pt_regs *ctx, struct session *s, __u32 func_id)
{
	__u32 cnt = args_cnt(func_id);
	struct log *log = log_of(s);

	if (!cnt || !log)
		return 0;
	log->source.slots[0] = PT_REGS_PARM1(ctx);
	log->source.slots[1] = PT_REGS_PARM2(ctx);
	log->source.slots[2] = PT_REGS_PARM3(ctx);
	log->source.slots[3] = PT_REGS_PARM4(ctx);
	log->source.slots[4] = PT_REGS_PARM5(ctx);
	log->source.slots[5] = PT_REGS_PARM6(ctx);
#if defined(__TARGET_ARCH_arm64)
	log->source.slots[6] = PT_REGS_PARM7(ctx);
	log->source.slots[7] = PT_REGS_PARM8(ctx);
#endif
	log->source.slots[ARGS_SP] = PT_REGS_SP(ctx);
	return args_log(ctx, s, func_id, cnt, event_of(RSN_EVENT_ARGS, func_id));
}

/*
 * Logs the arguments of the pushed call from a trampoline's context, an array of arguments. A copy
 * of a template has a constant cookie, which includes the number of arguments. The verifier then
 * checks the loop only up to that number.
 */
static __noinline int args_from_trampoline(void *ctx, struct session *s, __u64 cookie)
{
	const __u32 most = 12; /* MAX_BPF_FUNC_ARGS */
	__u32 func_id = cookie_func(cookie), index = args_context_plans + func_id;
	__u32 known = (__u8)(cookie >> ARGS_IN_COOKIE), cnt = known ? known - 1 : args_cnt(index);
	struct log *log = log_of(s);

	if (!cnt || !log)
		return 0;
	bpf_probe_read_kernel(log->source.slots, most * sizeof(__u64), ctx);
	return args_log(ctx, s, index, cnt, event_of(RSN_EVENT_ARGS, func_id));
}

/*
 * The context of an injected probe: an array of words, or an address. The caller passes the kind to
 * args_from_probe().
 */
enum probe_context {
	CONTEXT_IS_WORDS,
	CONTEXT_IS_AT,
};

static __always_inline void args_from_probe(void *ctx, struct session *s, __u64 cookie,
					    enum probe_context is)
{
	__u32 id = cookie_func(cookie), index = args_probe_plans + id;
	__u32 known = (__u8)(cookie >> ARGS_IN_COOKIE), cnt = known ? known - 1 : args_cnt(index);
	struct log *log = log_of(s);

	if (!cnt || !log)
		return;
	if (is == CONTEXT_IS_WORDS)
		bpf_probe_read_kernel(log->source.slots, 12 * sizeof(__u64), ctx);
	else
		bpf_probe_read_kernel(log->source.slots, sizeof(ctx), &ctx);
	args_log(ctx, s, index, cnt, event_of(RSN_EVENT_PROBE_ARGS, id));
}

#endif
