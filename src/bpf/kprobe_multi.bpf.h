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

enum {
	KNOWN_BITS = 14, /* 128 KiB: 1,500 functions leave one in twenty without a place */
	KNOWN_ID_BITS = 24,
};

/*
 * What bpf_get_attach_cookie() finds by a binary search among all functions of the link, which
 * takes longer than all else we do at an entry. A word has the low half of a function's address,
 * its flags and its id; it is written once, at the function's first call, so that no two words
 * need to fit together. Functions whose place is taken go on asking the kernel. No two functions
 * share the low half: the kernel and its modules are within 4 GiB.
 */
static __u64 known_cookies[1 << KNOWN_BITS];

static __always_inline __u64 multi_cookie(struct pt_regs *ctx)
{
	__u32 address = bpf_get_func_ip(ctx);
	__u64 *known = &known_cookies[address * 0x9e3779b1 >> (32 - KNOWN_BITS)];
	__u64 word = *(volatile __u64 *)known, cookie;

	if (word >> 32 == address)
		return (__u64)(__u8)(word >> KNOWN_ID_BITS) << 32 |
		       (word & ((1 << KNOWN_ID_BITS) - 1));
	cookie = bpf_get_attach_cookie(ctx);
	if (!word && cookie_func(cookie) >> KNOWN_ID_BITS == 0)
		*known = (__u64)address << 32 | cookie_flags(cookie) << KNOWN_ID_BITS |
			 cookie_func(cookie);
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
	if (!ready)
		return 0;
	return session_exit(ctx, multi_cookie(ctx), PT_REGS_RC(ctx));
}

/*
 * Without a hook left the kernel calls neither side, so that here a return is never missed. An
 * entry gives 1 where the return is of no interest: the kernel then does not even hook it.
 */
SEC("kprobe.session")
int rsn_session(struct pt_regs *ctx)
{
	if (!ready)
		return 1;
	if (session_is_return(ctx))
		return session_exit(ctx, multi_cookie(ctx), PT_REGS_RC(ctx));
	return !kprobe_enter(ctx, multi_cookie(ctx), 0);
}

#endif
