/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's structs by plain loads, each a tenth of what a helper takes (Linux 6.2). Before that,
 * bpf_probe_read_kernel() and BPF_CORE_READ() have to do: who reads directly has both.
 */
#ifndef RSN_DIRECT_BPF_H
#define RSN_DIRECT_BPF_H

/* Makes memory readable as what a type of the kernel's BTF says. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __weak __ksym;

/* Whether there is such a thing. The verifier knows, and drops what is not run. */
static __always_inline bool reads_directly(void)
{
	return bpf_ksym_exists(bpf_rdonly_cast);
}

/* The thread at an address. */
static __always_inline struct task_struct *thread_at(__u64 task)
{
	return bpf_rdonly_cast((void *)task, bpf_core_type_id_kernel(struct task_struct));
}

#endif
