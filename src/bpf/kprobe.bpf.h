/* SPDX-License-Identifier: BSD-2-Clause */
/* Code shared by the programs on single kprobes and on kprobe.multi. */
#ifndef RSN_KPROBE_BPF_H
#define RSN_KPROBE_BPF_H

#include "args.bpf.h"

/* return_to_handler: another tool's function graph tracer may replace our hook with it. */
const volatile __u64 graph_hook = 0;

/*
 * Whether the kernel had no hook left for the entered call. The number of hooks is limited
 * (maxactive of a kretprobe, a pool per kprobe.multi link). If sleeping threads use all hooks, the
 * kernel misses the return of a call, and its session would never end. `hook` is the address that
 * the kernel stores in place of a hooked call's return address, 0 if that is not visible at entry.
 * It is visible if the entry program was attached before the return program, because the kernel
 * calls the handlers of an address newest first.
 */
static __always_inline bool return_missed(struct pt_regs *ctx, __u64 hook)
{
	__u64 address = 0;

	if (!hook)
		return false;
	BPF_KPROBE_READ_RET_IP(address, ctx);
	return address != hook && address != graph_hook;
}

/*
 * Records the return address of the entered call. The address is still on the stack if the return
 * program was attached before the entry program: the entry program's handler then runs before the
 * handler that hooks the return.
 */
static __always_inline void keep_call_site(struct pt_regs *ctx, struct session *s)
{
	__u32 depth = s->depth;
	long bytes;

	if (depth >= RSN_MAX_DEPTH || s->interrupt_depth)
		return;
	BPF_KPROBE_READ_RET_IP(s->sites[slot_index(depth)], ctx);
	if (depth)
		return;
	bytes = bpf_get_stack(ctx, s->outer, sizeof(s->outer), 0);
	s->outer_cnt = bytes > 0 ? bytes / sizeof(__u64) : 0;
}

/* Whether the call now belongs to a session, so its return is needed. */
static __always_inline bool kprobe_enter(struct pt_regs *ctx, __u64 cookie, __u64 hook)
{
	__u32 place = stack_place(PT_REGS_SP(ctx));
	struct session *s = session_join(cookie, place);

	if (!s)
		return false;
	if (return_missed(ctx, hook)) {
		session_skip(s);
		return false;
	}
	if (plain) {
		push_plain(s, cookie_func(cookie), place, bpf_ktime_get_ns());
		session_leave(s);
		return true;
	}
	if (keep_call_sites)
		keep_call_site(ctx, s);
	if (capture_args)
		args_rewind(s);
	push(ctx, s, cookie_func(cookie), place, bpf_ktime_get_ns());
	if (capture_args && args_wanted(s))
		args_from_regs(ctx, s, cookie_func(cookie));
	if (capture_args)
		misses_note(s);
	session_leave(s);
	return true;
}

#endif
