// SPDX-License-Identifier: BSD-2-Clause
/*
 * All programs that trace, in one object: they share one session engine, its maps and globals, so
 * that several attach mechanisms serve one run. The loader picks the programs it needs.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "block.bpf.h"
#include "kprobe_multi.bpf.h"
#include "message.bpf.h"
#include "probe.bpf.h"
#include "single_kprobe.bpf.h"
#include "task.bpf.h"
#include "tracing.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
