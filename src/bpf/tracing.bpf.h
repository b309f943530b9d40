/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs for BPF trampolines: one fsession.multi link for many functions (Linux 7.x), or a pair
 * of programs per function (5.5).
 */
#ifndef RSN_TRACING_BPF_H
#define RSN_TRACING_BPF_H

#include "kprobe_multi.bpf.h"
#include "template.bpf.h"

/*
 * The kernel does not call a program that already runs on the CPU, for example in a preempted
 * thread: a return may be missed. The stack place of the next call shows that the last call is
 * over.
 */
static __always_inline int tracing_enter(void *ctx, __u64 cookie)
{
	__u32 place = context_place(ctx);
	struct session *s = session_join(cookie, place);

	if (!s)
		return 0;
	if (plain) {
		push_plain(s, cookie_func(cookie), place, bpf_ktime_get_ns());
		return session_leave(s);
	}
	if (capture_args)
		args_rewind(s);
	push(ctx, s, cookie_func(cookie), place, bpf_ktime_get_ns());
	if (capture_args && args_wanted(s))
		args_from_trampoline(ctx, s, cookie);
	if (capture_args)
		misses_note(s);
	return session_leave(s);
}

SEC("fsession.multi")
int rsn_fsession(void *ctx)
{
	__u64 cookie, taken, result = 0;

	if (!ready)
		return 0;
	taken = use_lbr ? branches_take() : 0;
	cookie = bpf_get_attach_cookie(ctx);
	if (!session_is_return(ctx))
		return tracing_enter(ctx, cookie);
	bpf_get_func_ret(ctx, &result);
	return session_exit(ctx, cookie, result, taken);
}

/*
 * Templates (attach/fentry.py). In rsn_fexit, the loader patches the load after the function's
 * cookie to read the result, which follows the arguments.
 */
SEC("fentry/vfs_read")
int rsn_fentry(void *ctx)
{
	if (!ready)
		return 0;
	return tracing_enter(ctx, template_cookie());
}

SEC("fexit/vfs_read")
int rsn_fexit(void *ctx)
{
	__u64 cookie, taken, result;

	if (!ready)
		return 0;
	taken = use_lbr ? branches_take() : 0;
	asm volatile("%[cookie] = %[marker] ll\n"
		     "%[result] = *(u64 *)(%[ctx] + 0)"
		     : [cookie] "=&r"(cookie), [result] "=&r"(result)
		     : [marker] "i"(RSN_TEMPLATE_COOKIE), [ctx] "r"(ctx));
	return session_exit(ctx, cookie, result, taken);
}

#endif
