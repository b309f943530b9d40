// SPDX-License-Identifier: BSD-2-Clause
/*
 * All tracing programs, in one object. They share one session engine, its maps and globals, so one
 * run can use several attach mechanisms. The loader loads only the programs that it needs.
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
