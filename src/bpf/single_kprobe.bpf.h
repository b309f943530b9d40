/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attached to single kprobes and kretprobes: one perf event per function, whose cookie tells which
 * it is (Linux 5.15), or one tracefs event with many probes, where the address has to.
 */
#ifndef RSN_SINGLE_KPROBE_BPF_H
#define RSN_SINGLE_KPROBE_BPF_H

#include "known.bpf.h"
#include "kprobe.bpf.h"

/* What stands in for the return address of a call with a kretprobe, see return_missed(). */
const volatile __u64 return_hook = 0;

/* Probes have attach cookies: a function's own, or no_cookie for a tracefs event. */
const volatile bool has_cookie = false;

/* bpf_get_func_ip() is there (Linux 5.15). */
const volatile bool has_func_ip = false;

/* Where it is not: addresses of the kernel's current_kprobe (per CPU) and __per_cpu_offset. */
const volatile __u64 current_kprobe_addr = 0;
const volatile __u64 per_cpu_offset_addr = 0;

/* Where a probe has no cookie of its own: function address to what the cookie would be. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} ip_to_cookie SEC(".maps");

enum {
	ENDBR_SIZE = 4, /* where functions begin with ENDBR64, probes sit behind it */
#if defined(__TARGET_ARCH_x86)
	BREAKPOINT_SIZE =
		1, /* where the instruction pointer of a kprobe stands behind its address */
#else
	BREAKPOINT_SIZE = 0,
#endif
};

/* The address of the kprobe or kretprobe that is being handled on this CPU. */
static __always_inline __u64 current_probe(void)
{
	__u64 cpu = bpf_get_smp_processor_id(), base = 0;
	struct kprobe *probe = NULL;

	bpf_probe_read_kernel(&base, sizeof(base),
			      (void *)(per_cpu_offset_addr + cpu * sizeof(base)));
	bpf_probe_read_kernel(&probe, sizeof(probe), (void *)(current_kprobe_addr + base));
	return (__u64)BPF_CORE_READ(probe, addr);
}

static __always_inline __u64 mapped_cookie(__u64 address)
{
	__u64 *cookie = bpf_map_lookup_elem(&ip_to_cookie, &address);

	if (!cookie) {
		address -= ENDBR_SIZE;
		cookie = bpf_map_lookup_elem(&ip_to_cookie, &address);
	}
	return cookie ? *cookie : no_cookie;
}

/* The cookie of the function whose probe is at `address`; no_cookie if it is none of ours. */
static __always_inline __u64 probe_cookie(struct pt_regs *ctx, __u64 address)
{
	__u64 cookie = known_cookie(address);

	if (cookie != no_cookie)
		return cookie;
	if (has_cookie)
		cookie = bpf_get_attach_cookie(ctx);
	if (cookie == no_cookie)
		cookie = mapped_cookie(address);
	if (cookie != no_cookie)
		keep_cookie(address, cookie);
	return cookie;
}

SEC("kprobe")
int rsn_kprobe(struct pt_regs *ctx)
{
	__u64 cookie;

	if (!ready)
		return 0;
	cookie = probe_cookie(ctx, PT_REGS_IP(ctx) - BREAKPOINT_SIZE);
	if (cookie == no_cookie)
		return 0;
	kprobe_enter(ctx, cookie, return_hook);
	return 0;
}

SEC("kretprobe")
int rsn_kretprobe(struct pt_regs *ctx)
{
	__u64 cookie, taken;

	if (!ready)
		return 0;
	taken = use_lbr ? branches_take() : 0;
	cookie = probe_cookie(ctx, has_func_ip ? bpf_get_func_ip(ctx) : current_probe());
	if (cookie == no_cookie)
		return 0;
	return session_exit(ctx, cookie, PT_REGS_RC(ctx), taken);
}

#endif
