/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Read the kernel's structs by plain loads (Linux 6.2). A load takes a tenth of the time of a
 * helper. Older kernels require bpf_probe_read_kernel() or BPF_CORE_READ(), so each reader has both
 * versions.
 */
#ifndef RSN_DIRECT_BPF_H
#define RSN_DIRECT_BPF_H

/* Makes memory readable as a type of the kernel's BTF. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __weak __ksym;

/* Whether the kernel has the function. The verifier drops the branch that is never executed. */
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
