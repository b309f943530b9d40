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

/* Where these are not known either: a return is the call's that was made at its place on the stack. */
const volatile bool returns_by_place = false;

/* Then: the cookie of each function, by its id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} func_cookies SEC(".maps");

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
	RETURN_POPS = 1, /* what a return takes off the stack, in units of stack_place() */
#else
	BREAKPOINT_SIZE = 0,
	RETURN_POPS = 0, /* the address is in a register */
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

/*
 * The cookie of the thread's call that was made at `place` and has not returned; or no_cookie. Those
 * of an interrupt come first, they are above all that the thread has in its slots. A return of no
 * call is counted here, for without a cookie nothing of it gets further; where there was no slot for
 * the call, that has been counted. Not static, so that the verifier goes through it once.
 */
__noinline __u64 cookie_by_place(__u64 task, __u32 place)
{
	struct session *s = session_of(task);
	__u32 end, func_id = -1;
	__u64 *cookie;

	if (!s || !s->at_rest)
		return no_cookie;
	end = s->interrupt_depth ? s->max_depth + s->interrupt_depth : s->depth;
	for (int i = 0; i < RSN_MAX_DEPTH && end; i++) {
		end--;
		if (s->sp[slot_index(end)] == place) {
			func_id = slot_at(s, end)->func_id;
			break;
		}
	}
	cookie = bpf_map_lookup_elem(&func_cookies, &func_id);
	if (!cookie && !s->interrupt_depth && s->depth < RSN_MAX_DEPTH)
		s->rec.lost_entries++;
	return cookie ? *cookie : no_cookie;
}

/* Whether no slot is left for a further call of the thread's session, which is then counted. */
__noinline int is_too_deep(__u64 task)
{
	struct session *s = session_of(task);

	if (!s || !s->at_rest || s->interrupt_depth || s->depth < RSN_MAX_DEPTH)
		return false;
	s->rec.too_deep++;
	return true;
}

/* The cookie of the function that returns. */
static __always_inline __u64 return_cookie(struct pt_regs *ctx)
{
	if (has_func_ip)
		return probe_cookie(ctx, bpf_get_func_ip(ctx));
	if (returns_by_place)
		return cookie_by_place(bpf_get_current_task(),
				       stack_place(PT_REGS_SP(ctx)) - RETURN_POPS);
	return probe_cookie(ctx, current_probe());
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
	/* a call without a slot has no place to be known by when it returns */
	if (returns_by_place && is_too_deep(bpf_get_current_task()))
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
	cookie = return_cookie(ctx);
	if (cookie == no_cookie)
		return 0;
	return session_exit(ctx, cookie, PT_REGS_RC(ctx), taken);
}

#endif
