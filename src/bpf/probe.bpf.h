/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injected probes: a hit in a thread with a session becomes an event of that session. A hit never
 * starts a session. The cookie of a program identifies the probe. Before Linux 5.15 (raw
 * tracepoints: 6.10) each probe has its own copy of the program.
 */
#ifndef RSN_PROBE_BPF_H
#define RSN_PROBE_BPF_H

#include "args.bpf.h"
#include "template.bpf.h"

const volatile bool has_perf_cookie = false;
const volatile bool has_raw_cookie = false;

/*
 * A probe is hit in session s. flags: flags of the event; cookie: the probe's number and, as in a
 * template's cookie, the number of arguments; taken: the result of branches_take(), negative if it
 * was not called.
 */
static __always_inline void probe_hit(void *ctx, struct session *s, __u64 flags, __u64 cookie,
				      __s64 taken, enum probe_context is)
{
	__u64 now = emit_calls || emit_interim ? bpf_ktime_get_ns() : 0;

	s->rec.last_seq++;
	if (emit_calls)
		log_event(ctx, s, flags << 40 | event_of(RSN_EVENT_PROBE, cookie_func(cookie)), now,
			  0);
	if (capture_args) {
		misses_take(s);
		args_from_probe(ctx, s, cookie, is);
		misses_note(s);
	}
	if (use_lbr)
		s->branches_taken = taken;
	if (emit_interim)
		interim_probe(ctx, s, now, taken >= 0);
}

static __always_inline int probe_enter(void *ctx, __u32 place, bool has_cookie, __s64 taken,
				       enum probe_context is)
{
	__u64 task, flags;
	struct session *s;

	if (!ready)
		return 0;
	task = bpf_get_current_task();
	s = session_of(task);
	if (!s)
		return 0;
	if (!s->at_rest) {
		count(&stats.calls_skipped);
		return 0;
	}
	s->at_rest = false;
	barrier();
	flags = is_interrupt(s, task, place) ? RSN_EVENT_INTERRUPT : 0;
	probe_hit(ctx, s, flags, has_cookie ? bpf_get_attach_cookie(ctx) : template_cookie(), taken,
		  is);
	return session_leave(s);
}

/* For kretprobes as well. */
SEC("kprobe")
int rsn_probe_kprobe(struct pt_regs *ctx)
{
	__s64 taken = emit_interim && use_lbr ? branches_take() : 0;

	return probe_enter(ctx, stack_place(PT_REGS_SP(ctx)), has_perf_cookie, taken,
			   CONTEXT_IS_AT);
}

SEC("tracepoint")
int rsn_probe_tp(void *ctx)
{
	return probe_enter(ctx, 0, has_perf_cookie, -1, CONTEXT_IS_AT);
}

SEC("raw_tp")
int rsn_probe_rawtp(struct bpf_raw_tracepoint_args *ctx)
{
	return probe_enter(ctx, context_place(ctx), has_raw_cookie, -1, CONTEXT_IS_WORDS);
}

#endif
