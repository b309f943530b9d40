/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs on kprobes have in common, single ones and kprobe.multi. */
#ifndef RSN_KPROBE_BPF_H
#define RSN_KPROBE_BPF_H

#include "args.bpf.h"

/* return_to_handler, with which another tool's function graph tracer may cover our hook. */
const volatile __u64 graph_hook = 0;

/*
 * Whether the kernel had no hook left for the call that is being entered. There are so many hooks
 * (maxactive of a kretprobe, a pool per kprobe.multi link); with all of them in sleeping threads, a
 * call's return is missed, and its session would go on for ever. `hook` is what the kernel puts in
 * place of a hooked call's return address, 0 if that cannot be seen at entry: it is there before
 * the entry program runs if that was attached before the return program, since the kernel calls the
 * handlers of an address newest first.
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
 * Notes where the call that is being entered returns to. The address is still there if the return
 * program was attached before the entry program, whose handler then runs before the one that hooks the return.
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

/* Whether the call now belongs to a session, so that its return matters. */
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
	session_leave(s);
	return true;
}

#endif
