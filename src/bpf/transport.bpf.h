/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RSN_TRANSPORT_BPF_H
#define RSN_TRANSPORT_BPF_H

#include "settings.bpf.h"

/* The loader makes it a perf event array where the kernel has no ring buffer (before 5.8). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/* The reader comes by ten times a second; so much data wakes it before. */
const volatile __u64 wake_bytes = 256 << 10;

/*
 * A wake-up is dearer than a session, and a reader that is behind needs none: so it is not woken
 * for each record, but for one that crosses a multiple of wake_bytes.
 */
static __always_inline __u64 wakeup(__u64 size)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	if (waiting / wake_bytes == (waiting + size) / wake_bytes)
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

/* Sends one record; 0, or a negative errno when the buffer is full. */
static __always_inline long transport_send(void *ctx, void *record, __u64 size)
{
	if (use_ringbuf)
		return bpf_ringbuf_output(&events, record, size, wakeup(size));
	return bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, record, size);
}

#endif
