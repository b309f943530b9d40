/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs for kprobe.multi links: many functions at once, each with its cookie (Linux 5.18). A
 * session link (6.10) hooks both entry and return.
 */
#ifndef RSN_KPROBE_MULTI_BPF_H
#define RSN_KPROBE_MULTI_BPF_H

#include "known.bpf.h"
#include "kprobe.bpf.h"

/*
 * The replacement of the return address, see return_missed(). Since Linux 6.14 the kernel hooks the
 * return after the handlers, and has no pool that could be exhausted.
 */
const volatile __u64 multi_return_hook = 0;

/* Without arguments up to 6.1x, then with the program's context; the kernel has one of the two. */
extern bool bpf_session_is_return(void) __weak __ksym;
extern bool bpf_session_is_return___ctx(void *ctx) __weak __ksym;

static __always_inline bool session_is_return(void *ctx)
{
	if (bpf_ksym_exists(bpf_session_is_return___ctx))
		return bpf_session_is_return___ctx(ctx);
	return bpf_session_is_return();
}

static __always_inline __u64 multi_cookie(struct pt_regs *ctx)
{
	__u64 address = bpf_get_func_ip(ctx), cookie = known_cookie(address);

	if (cookie == no_cookie) {
		cookie = bpf_get_attach_cookie(ctx);
		keep_cookie(address, cookie);
	}
	return cookie;
}

SEC("kprobe.multi")
int rsn_multi_entry(struct pt_regs *ctx)
{
	if (!ready)
		return 0;
	kprobe_enter(ctx, multi_cookie(ctx), multi_return_hook);
	return 0;
}

SEC("kretprobe.multi")
int rsn_multi_return(struct pt_regs *ctx)
{
	__u64 taken;

	if (!ready)
		return 0;
	taken = use_lbr ? branches_take() : 0;
	return session_exit(ctx, multi_cookie(ctx), PT_REGS_RC(ctx), taken);
}

/*
 * If no hook is left, the kernel calls the program on neither side, so a return is never missed
 * here. An entry returns 1 if the return is not needed: the kernel then does not hook the return.
 */
SEC("kprobe.session")
int rsn_session(struct pt_regs *ctx)
{
	__u64 taken;

	if (!ready)
		return 1;
	taken = use_lbr ? branches_take() : 0;
	if (session_is_return(ctx))
		return session_exit(ctx, multi_cookie(ctx), PT_REGS_RC(ctx), taken);
	return !kprobe_enter(ctx, multi_cookie(ctx), 0);
}

#endif
