/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RSN_TRANSPORT_BPF_H
#define RSN_TRANSPORT_BPF_H

#include "settings.bpf.h"

/* The loader makes it a perf event array where the kernel has no ring buffer (before 5.8). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/* Sends one record; 0, or a negative errno when the buffer is full. */
static __always_inline long transport_send(void *ctx, void *record, __u64 size)
{
	if (use_ringbuf)
		return bpf_ringbuf_output(&events, record, size, 0);
	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, record, size);
}

#endif
