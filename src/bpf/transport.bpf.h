/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RSN_TRANSPORT_BPF_H
#define RSN_TRANSPORT_BPF_H

#include "settings.bpf.h"

/* The loader changes it to a perf event array if the kernel has no ring buffer (before 5.8). */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/* The reader polls ten times a second; this number of bytes wakes the reader earlier. */
const volatile __u64 wake_bytes = 256 << 10;

/*
 * A wake-up costs more than a session, and a reader that is behind does not need it. So only a
 * record that crosses a multiple of wake_bytes wakes the reader.
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
