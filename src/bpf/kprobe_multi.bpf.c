// SPDX-License-Identifier: BSD-2-Clause
/* Attached by kprobe.multi links: many functions at once, each with its cookie (Linux 5.18). */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "kprobe.bpf.h"
#include "task.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("kprobe.multi")
int rsn_entry(struct pt_regs *ctx)
{
	if (!ready)
		return 0;
	return kprobe_enter(ctx, bpf_get_attach_cookie(ctx));
}

SEC("kretprobe.multi")
int rsn_exit(struct pt_regs *ctx)
{
	if (!ready)
		return 0;
	return session_exit(ctx, bpf_get_attach_cookie(ctx), PT_REGS_RC(ctx));
}
