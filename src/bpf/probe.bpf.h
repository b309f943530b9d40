/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injected probes: a hit in a thread that has a session becomes an event of it; they never start
 * one. A program learns by its cookie which probe it is, or, before Linux 5.15 (raw tracepoints:
 * 6.10), by being a copy of its own.
 */
#ifndef RSN_PROBE_BPF_H
#define RSN_PROBE_BPF_H

#include "args.bpf.h"
#include "template.bpf.h"

const volatile bool has_perf_cookie = false;
const volatile bool has_raw_cookie = false;

/*
 * A probe is hit in session s. cookie: its number and, as in a template's, how many arguments there
 * are; has_branches: see interim_probe().
 */
static __always_inline void probe_hit(void *ctx, struct session *s, __u64 cookie, bool has_branches,
				      enum probe_context is)
{
	__u64 now = emit_calls || emit_interim ? bpf_ktime_get_ns() : 0;

	s->rec.last_seq++;
	if (emit_calls)
		log_event(ctx, s, event_of(RSN_EVENT_PROBE, cookie_func(cookie)), now, 0);
	if (capture_args)
		args_from_probe(ctx, s, cookie, is);
	if (emit_interim)
		interim_probe(ctx, s, now, has_branches);
}

static __always_inline int probe_enter(void *ctx, bool has_cookie, bool has_branches,
				       enum probe_context is)
{
	struct session *s;

	if (!ready)
		return 0;
	s = session_of(bpf_get_current_task());
	if (!s)
		return 0;
	if (!s->at_rest) {
		count(&stats.calls_skipped);
		return 0;
	}
	s->at_rest = false;
	barrier();
	probe_hit(ctx, s, has_cookie ? bpf_get_attach_cookie(ctx) : template_cookie(), has_branches,
		  is);
	return session_leave(s);
}

/* For kretprobes as well. */
SEC("kprobe")
int rsn_probe_kprobe(struct pt_regs *ctx)
{
	if (emit_interim && use_lbr)
		branches_take();
	return probe_enter(ctx, has_perf_cookie, true, CONTEXT_IS_AT);
}

SEC("tracepoint")
int rsn_probe_tp(void *ctx)
{
	return probe_enter(ctx, has_perf_cookie, false, CONTEXT_IS_AT);
}

SEC("raw_tp")
int rsn_probe_rawtp(struct bpf_raw_tracepoint_args *ctx)
{
	return probe_enter(ctx, has_raw_cookie, false, CONTEXT_IS_WORDS);
}

#endif
