/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs on kprobes have in common, single ones and kprobe.multi. */
#ifndef RSN_KPROBE_BPF_H
#define RSN_KPROBE_BPF_H

#include "session.bpf.h"

/*
 * What the kernel puts in place of a hooked call's return address, 0 if that cannot be seen at
 * entry. There are so many hooks (maxactive of a kretprobe, a pool per kprobe.multi link); with
 * all of them in sleeping threads, a call's return is missed, and its session would go on for
 * ever. The hook is in place before rsn_entry runs if rsn_entry was attached before rsn_exit:
 * the kernel calls the handlers of an address newest first. Since Linux 6.14 kprobe.multi hooks
 * after the handlers, and has no pool.
 */
const volatile __u64 return_hook = 0;

/* return_to_handler, with which another tool's function graph tracer may cover our hook. */
const volatile __u64 graph_hook = 0;

/* Whether the kernel had no hook left for the call that is being entered. */
static __always_inline bool return_missed(struct pt_regs *ctx)
{
	__u64 address = 0;

	if (!return_hook)
		return false;
	BPF_KPROBE_READ_RET_IP(address, ctx);
	return address != return_hook && address != graph_hook;
}

#ifdef RSN_CALL_SITES
/*
 * Notes where the call that is being entered returns to. The address is still there if rsn_exit
 * was attached before rsn_entry, whose handler then runs before the one that hooks the return.
 */
static __always_inline void keep_call_site(struct pt_regs *ctx, struct session *s)
{
	__u32 depth = s->depth;
	long bytes;

	if (depth >= RSN_MAX_DEPTH)
		return;
	BPF_KPROBE_READ_RET_IP(s->sites[slot_index(depth)], ctx);
	if (depth)
		return;
	bytes = bpf_get_stack(ctx, s->outer, sizeof(s->outer), 0);
	s->outer_cnt = bytes > 0 ? bytes / sizeof(__u64) : 0;
}
#endif

static __always_inline int kprobe_enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 place = stack_place(PT_REGS_SP(ctx));
	struct session *s = session_join(cookie, place);

	if (!s)
		return 0;
	if (return_missed(ctx)) {
		session_skip(s);
	} else {
#ifdef RSN_CALL_SITES
		if (keep_call_sites)
			keep_call_site(ctx, s);
#endif
		push(s, cookie_func(cookie), place, bpf_ktime_get_ns());
	}
	return session_leave(s);
}

#endif
