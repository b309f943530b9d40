/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs for single kprobes and kretprobes: one perf event per function, with a cookie that
 * identifies the function (Linux 5.15), or one tracefs event with many probes, where the address
 * identifies the function.
 */
#ifndef RSN_SINGLE_KPROBE_BPF_H
#define RSN_SINGLE_KPROBE_BPF_H

#include "known.bpf.h"
#include "kprobe.bpf.h"

/* The replacement of the return address of a call with a kretprobe, see return_missed(). */
const volatile __u64 return_hook = 0;

/* Probes have attach cookies: a function's own, or no_cookie for a tracefs event. */
const volatile bool has_cookie = false;

/* The kernel has bpf_get_func_ip() (Linux 5.15). */
const volatile bool has_func_ip = false;

/* Otherwise: addresses of the kernel's current_kprobe (per CPU) and __per_cpu_offset. */
const volatile __u64 current_kprobe_addr = 0;
const volatile __u64 per_cpu_offset_addr = 0;

/* If these are unknown, too: a return is matched to a call by its place on the stack. */
const volatile bool returns_by_place = false;

/* Then: the cookie of each function, by its id. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} func_cookies SEC(".maps");

/* For probes without cookies: function address to the function's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} ip_to_cookie SEC(".maps");

enum {
	ENDBR_SIZE = 4, /* if functions begin with ENDBR64, probes are after it */
#if defined(__TARGET_ARCH_x86)
	BREAKPOINT_SIZE = 1, /* distance of a kprobe's instruction pointer from its address */
	RETURN_POPS = 1, /* size that a return pops off the stack, in units of stack_place() */
#else
	BREAKPOINT_SIZE = 0,
	RETURN_POPS = 0, /* the address is in a register */
#endif
};

/* Returns the address of the kprobe or kretprobe that this CPU is handling. */
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

/* Returns the cookie of the function with the probe at `address`; no_cookie for other probes. */
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
 * Returns the cookie of the thread's running call that was made at `place`, or no_cookie. Calls of
 * an interrupt are searched first; their slots are above the thread's slots. A return without a
 * call is counted here, because without a cookie it is not processed further. If the call had no
 * slot, that has been counted before. Not static, so the verifier checks the function once.
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

/* Whether the thread's session has no slot for a further call; counts such a call. */
__noinline int is_too_deep(__u64 task)
{
	struct session *s = session_of(task);

	if (!s || !s->at_rest || s->interrupt_depth || s->depth < RSN_MAX_DEPTH)
		return false;
	s->rec.too_deep++;
	return true;
}

/* Returns the cookie of the returning function. */
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
	/* Without a slot, the return of a call cannot be matched by its place. */
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
