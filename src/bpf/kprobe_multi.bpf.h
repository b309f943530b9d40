/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attached by kprobe.multi links: many functions at once, each with its cookie (Linux 5.18). A
 * session link (6.10) is one for both sides.
 */
#ifndef RSN_KPROBE_MULTI_BPF_H
#define RSN_KPROBE_MULTI_BPF_H

#include "kprobe.bpf.h"

/*
 * What stands in for the return address, see return_missed(). Since Linux 6.14 the kernel hooks
 * after the handlers, and has no pool that could run out.
 */
const volatile __u64 multi_return_hook = 0;

/* Without arguments up to 6.1x, with the program's context since; one of the two is there. */
extern bool bpf_session_is_return(void) __weak __ksym;
extern bool bpf_session_is_return___ctx(void *ctx) __weak __ksym;

static __always_inline bool session_is_return(void *ctx)
{
	if (bpf_ksym_exists(bpf_session_is_return___ctx))
		return bpf_session_is_return___ctx(ctx);
	return bpf_session_is_return();
}

SEC("kprobe.multi")
int rsn_multi_entry(struct pt_regs *ctx)
{
	if (!ready)
		return 0;
	return kprobe_enter(ctx, bpf_get_attach_cookie(ctx), multi_return_hook);
}

SEC("kretprobe.multi")
int rsn_multi_return(struct pt_regs *ctx)
{
	if (!ready)
		return 0;
	return session_exit(ctx, bpf_get_attach_cookie(ctx), PT_REGS_RC(ctx));
}

/*
 * Without a hook left the kernel calls neither side, so that here a return is never missed. Entry
 * must give 0, anything else means that the return is not wanted.
 */
SEC("kprobe.session")
int rsn_session(struct pt_regs *ctx)
{
	__u64 cookie;

	if (!ready)
		return 0;
	cookie = bpf_get_attach_cookie(ctx);
	if (session_is_return(ctx))
		return session_exit(ctx, cookie, PT_REGS_RC(ctx));
	return kprobe_enter(ctx, cookie, 0);
}

#endif
