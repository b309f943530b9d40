// SPDX-License-Identifier: BSD-2-Clause
/*
 * Programs with which the loader tries what a kernel can do, one feature each: only the program
 * in question is loaded, and a refusal is the answer. None needs CONFIG_KPROBES but those that
 * try kprobes.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What the kernel's BTF knows; set by feat_types. */
bool btf_ringbuf;
bool btf_func_ip;
bool btf_cookie;
bool btf_kprobes; /* CONFIG_KPROBE_EVENTS */
bool btf_kprobe_multi; /* CONFIG_FPROBE and Linux 5.18 */
bool btf_kprobe_session; /* Linux 6.10 */

/* What a program that was attached or run has seen. */
bool ringbuf_works;
bool kprobe_hit;
__u64 seen_cookie;
__u64 seen_func_ip;

/* Types of kernels with CONFIG_KPROBE_EVENTS and CONFIG_FPROBE; their members do not matter. */
struct trace_kprobe___rsn {
};

struct bpf_kprobe_multi_link___rsn {
};

/* To be created only with feat_ringbuf. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} feat_ring SEC(".maps");

/* Run it with BPF_PROG_TEST_RUN. */
SEC("socket")
int feat_types(void *ctx)
{
	btf_ringbuf = bpf_core_enum_value_exists(enum bpf_map_type, BPF_MAP_TYPE_RINGBUF);
	btf_func_ip = bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_func_ip);
	btf_cookie = bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_attach_cookie);
	btf_kprobes = bpf_core_type_exists(struct trace_kprobe___rsn);
	btf_kprobe_multi = bpf_core_type_exists(struct bpf_kprobe_multi_link___rsn);
	btf_kprobe_session =
		bpf_core_enum_value_exists(enum bpf_attach_type, BPF_TRACE_KPROBE_SESSION);
	return 0;
}

/* Run it with BPF_PROG_TEST_RUN. */
SEC("socket")
int feat_ringbuf(void *ctx)
{
	__u64 record = 0;

	ringbuf_works = !bpf_ringbuf_output(&feat_ring, &record, sizeof(record), 0);
	return 0;
}

SEC("kprobe")
int feat_kprobe(void *ctx)
{
	kprobe_hit = true;
	return 0;
}

SEC("kprobe")
int feat_cookie(void *ctx)
{
	seen_cookie = bpf_get_attach_cookie(ctx);
	return 0;
}

SEC("kprobe")
int feat_func_ip(void *ctx)
{
	seen_func_ip = bpf_get_func_ip(ctx);
	return 0;
}

/* Loads without CONFIG_FPROBE, too; then the kernel refuses the link. */
SEC("kprobe.multi")
int feat_kprobe_multi(void *ctx)
{
	kprobe_hit = true;
	return 0;
}
