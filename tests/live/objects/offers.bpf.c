// SPDX-License-Identifier: BSD-2-Clause
/* What a program asks for is not what every kernel has. */
#include "common.h"

struct task_struct {
	int pid;
	int no_such_field;
	struct {
		int deep;
	} no_such_struct;
} __attribute__((preserve_access_index));

struct inode___old {
	struct {
		long tv_sec;
	} i_atime;
} __attribute__((preserve_access_index));

enum bpf_map_type___some {
	BPF_MAP_TYPE_NOSUCH___some = 77,
};

struct bpf_dynptr;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym; // refused: kfunc-missing -6.1
extern void bpf_task_release(struct task_struct *p) __ksym; // refused: kfunc-missing -6.1
struct sock_common {
	unsigned short skc_family;
};
extern int bpf_sock_destroy(struct sock_common *sock) __ksym; // refused: kfunc-missing -6.4
extern int bpf_no_such_kfunc(void) __ksym; // refused: kfunc-missing
extern const int no_such_variable __ksym; // refused: ksym-missing

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int helper_of_5_17(void *ctx)
{
	char text[4] = "abc";

	return bpf_strncmp(text, 4, "abc"); // refused: helper-unknown -5.16
}

SEC("xdp")
int helper_not_for_type(struct xdp_md *ctx)
{
	char name[16];

	bpf_get_current_comm(name, sizeof(name)); // refused: helper-unknown -6.12
	bpf_probe_read_user(name, sizeof(name), ctx);
	return name[0];
}

SEC("raw_tp/sys_enter")
__attribute__((naked)) int helper_of_the_future(void)
{
	asm volatile("call 999; r0 = 0; exit"); // refused: helper-unknown
}

SEC("raw_tp/sys_enter")
int field_gone(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task(); // refused: core-relocation

	return BPF_CORE_READ(task, no_such_field);
}

SEC("raw_tp/sys_enter")
int field_renamed(void *ctx)
{
	struct inode___old *inode = (void *)bpf_get_current_task(); // refused: core-relocation 6.7-

	return BPF_CORE_READ(inode, i_atime.tv_sec);
}

SEC("raw_tp/sys_enter")
int enumerator_gone(void *ctx)
{
	return bpf_core_enum_value(enum bpf_map_type___some, BPF_MAP_TYPE_NOSUCH___some); // refused: core-relocation
}

SEC("raw_tp/sys_enter")
int field_guarded(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	if (bpf_core_field_exists(task->no_such_field))
		return BPF_CORE_READ(task, no_such_field);
	return BPF_CORE_READ(task, pid);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(kfunc_of_6_2, struct task_struct *task, __u64 flags)
{
	struct task_struct *held = bpf_task_acquire(task); // blocked: kfunc-missing -6.1

	if (held)
		bpf_task_release(held);
	return 0;
}

SEC("raw_tp/sys_enter")
int kfunc_not_for_type(void *ctx)
{
	return bpf_sock_destroy(0); // blocked: kfunc-missing -6.4; refused: kfunc-missing 6.5-
}

SEC("raw_tp/sys_enter")
int kfunc_missing(void *ctx)
{
	return bpf_no_such_kfunc(); // blocked: kfunc-missing
}

SEC("raw_tp/sys_enter")
int variable_missing(void *ctx)
{
	return (long)&no_such_variable; // blocked: ksym-missing
}

SEC("fentry/no_such_function")
int target_missing(void *ctx)
{
	return 0; // refused: attach-target-missing
}

SEC("fentry/vfs_reed")
int target_mistyped(void *ctx)
{
	return 0; // refused: attach-target-missing
}

/* In BTF, and since some Linux after 5.10 without a hook of ftrace. */
#ifdef __TARGET_ARCH_arm64
SEC("fentry/vfs_read")
#else
SEC("fentry/ktime_get_mono_fast_ns")
#endif
int target_unhooked(void *ctx)
{
	return 0; // attach refused: attach-hook 6.1- on x86_64
}

SEC("kprobe/no_such_function")
int kprobe_target_missing(void *ctx)
{
	return 0; // attach refused: kprobe-target
}

SEC("tracepoint/sched/no_such_event")
int tracepoint_missing(void *ctx)
{
	return 0; // attach refused: tracepoint-missing
}

SEC("tracepoint/sched/sched_switch")
int tracepoint_short(__u64 *ctx)
{
	return ctx[200]; // attach refused: tracepoint-arguments
}

SEC("uprobe//no/such/file:main")
int uprobe_without_file(void *ctx)
{
	return 0; // attach refused: uprobe-target
}

/* Debian's has CONFIG_FPROBE since 6.12, on arm64 later. */
SEC("kprobe.multi/vfs_*")
int multi(void *ctx)
{
	return 0; // attach refused: attach-unsupported -6.1 on x86_64, attach refused: attach-unsupported -6.12 on arm64, attach refused: attach-type-unsupported -5.17
}

SEC("lsm/file_open")
int BPF_PROG(lsm_open, void *file)
{
	return 0;
}

SEC("netfilter")
int netfilter_of_6_4(void *ctx)
{
	return 1; // refused: program-type-unsupported -6.3
}

SEC("syscall")
int syscall_of_5_14(void *ctx)
{
	return 0; // refused: program-type-unsupported -5.13
}

SEC("sk_msg")
int message_unattached(struct sk_msg_md *ctx)
{
	return 1;
}

SEC("raw_tp/sys_enter")
int kfunc_of_6_4(void *ctx)
{
	struct bpf_iter_num it;
	int *at, sum = 0;

	bpf_iter_num_new(&it, 0, 1000); // refused: kfunc-missing -6.3
	while ((at = bpf_iter_num_next(&it)))
		sum += *at;
	bpf_iter_num_destroy(&it);
	return sum;
}

SEC("lsm/no_such_hook")
int hook_missing(void *ctx)
{
	return 0; // refused: attach-target-missing
}

SEC("tp_btf/no_such_tracepoint")
int tracepoint_of_none(void *ctx)
{
	return 0; // refused: attach-target-missing
}

SEC("iter/no_such_iterator")
int iterator_missing(void *ctx)
{
	return 0; // refused: attach-target-missing
}

SEC("fmod_ret/vfs_read")
int not_modifiable(void *ctx)
{
	return 0; // refused: attach-target
}

SEC("raw_tp/no_such_tracepoint")
int raw_tracepoint_missing(void *ctx)
{
	return 0; // attach refused: tracepoint-missing
}

/* What a kprobe itself is entered by is closed to them. */
#ifdef __TARGET_ARCH_arm64
SEC("kprobe/el1h_64_sync_handler")
#else
SEC("kprobe/do_int3")
#endif
int kprobe_closed(void *ctx)
{
	return 0; // attach refused: kprobe-target
}
