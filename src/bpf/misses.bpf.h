/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that the kernel keeps from our programs: while bpf(2) changes or reads a map it has BPF
 * programs off on that CPU (bpf_disable_instrumentation()), and it calls no trampoline's program
 * that is at work there already. It counts them, per program and CPU (struct bpf_prog_stats), and
 * that is looked at where a session begins and where a call of it returns: what came in between on
 * this CPU are calls of the session's thread, unless other threads had the CPU meanwhile. What is
 * missed while a stack is taken are calls of tracing itself, or of an interrupt: no loss.
 */
#ifndef RSN_MISSES_BPF_H
#define RSN_MISSES_BPF_H

#include "direct.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"

enum {
	RSN_MISS_CPUS = 4096, /* a power of two */
	RSN_MISS_PROGRAMS = 4, /* an entry program for each rung, those of injected probes */
};

struct miss_counts {
	__u64 at[RSN_MISS_PROGRAMS]; /* where this CPU counts those of each program */
};

struct miss_counts miss_counts[RSN_MISS_CPUS];

/* How many programs there are to look at; with none, nothing is noticed. */
const volatile __u32 miss_programs = 0;

struct miss_number {
	__u64 count;
};

/* What is looked at of the kernel's structs. */
struct bpf_prog_stats___rsn {
	struct miss_number misses; /* u64_stats_t; since Linux 5.12 */
} __attribute__((preserve_access_index));

/*
 * Where those members are that lead from a task_struct to the counts of a program behind one of its
 * file descriptors. The loader finds them all at once; libbpf would go through all of the kernel's
 * types for each struct, a twentieth of a start.
 */
const volatile __u32 task_files_at = 0;
const volatile __u32 files_fdt_at = 0;
const volatile __u32 fdtable_fd_at = 0;
const volatile __u32 file_private_at = 0;
const volatile __u32 prog_stats_at = 0;

/*
 * A variable that each CPU has one of, on any architecture: how far a CPU's own is from where it is
 * declared is how far all are. (x86 alone has that number as a variable, this_cpu_off.)
 */
extern const unsigned long process_counts __weak __ksym;

static __always_inline __u64 pointer_at(__u64 address)
{
	__u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)address);
	return pointer;
}

/* The count at `address`. The struct of the counts begins with one: any of them is read as that. */
static __always_inline __u64 misses_of(__u64 address)
{
	if (!reads_directly())
		return pointer_at(address);
	return *(__u64 *)bpf_rdonly_cast((void *)address,
					 bpf_core_type_id_kernel(struct bpf_prog_stats___rsn));
}

static __always_inline struct miss_counts *misses_at(__u32 cpu)
{
	return &miss_counts[barrier_value(cpu) & (RSN_MISS_CPUS - 1)];
}

/* What the programs have missed on the session's miss_cpu: mostly one program's count alone. */
static __always_inline __u64 misses_now(const struct session *s, __u32 programs)
{
	__u64 sum = misses_of(s->miss_at);

	for (__u32 i = 1; i < RSN_MISS_PROGRAMS && i < programs; i++)
		sum += misses_of(misses_at(s->miss_cpu)->at[i]);
	return sum;
}

/* How often the running thread gave its CPU away. */
static __always_inline __u64 switches_of(__u64 task)
{
	struct task_struct *thread = (struct task_struct *)task;

	if (reads_directly()) {
		thread = thread_at(task);
		return thread->nvcsw + thread->nivcsw;
	}
	return BPF_CORE_READ(thread, nvcsw) + BPF_CORE_READ(thread, nivcsw);
}

/* From here on what is missed on this CPU counts. */
static __always_inline void misses_note(struct session *s)
{
	__u32 programs = miss_programs;

	if (!programs)
		return;
	s->miss_cpu = bpf_get_smp_processor_id();
	s->miss_at = misses_at(s->miss_cpu)->at[0];
	s->misses = misses_now(s, programs);
}

/* A session begins. */
static __always_inline void misses_begin(struct session *s, __u64 task)
{
	if (!miss_programs)
		return;
	s->switches = switches_of(task);
	misses_note(s);
}

/*
 * The counts are not what they were, or those of another CPU: on the one that was left other
 * threads may have missed calls since, and on the new one the last moment is in the dark.
 */
static __noinline int misses_add(struct session *s)
{
	__u64 count = misses_now(s, miss_programs) - s->misses;

	if (count && !s->rec.missed)
		s->rec.missed_in = slot_at(s, s->depth - 1)->func_id;
	s->rec.missed += count;
	if (count && s->switches != switches_of(bpf_get_current_task()))
		s->misses_shared = true;
	misses_note(s);
	return 0;
}

/*
 * A call of the session returns: has its thread been without our programs since the last one? Most
 * calls pay for this and find nothing, so that where to look is kept in the session.
 */
static __always_inline void misses_take(struct session *s)
{
	__u32 programs = miss_programs;

	if (programs &&
	    (bpf_get_smp_processor_id() != s->miss_cpu || misses_now(s, programs) != s->misses))
		misses_add(s);
}

/*
 * Run by user space (BPF_PROG_TEST_RUN) in its own process: finds where a CPU counts the misses of
 * a program. Arguments: the program's file descriptor, its number among ours, the CPU.
 */
SEC("raw_tp")
int rsn_find_misses(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 fd = ctx->args[0], number = ctx->args[1], cpu = ctx->args[2], files, file, stats;
	const unsigned long *counts;

	if (number >= RSN_MISS_PROGRAMS || cpu >= RSN_MISS_CPUS)
		return 0;
	counts = bpf_ksym_exists(&process_counts) ? bpf_per_cpu_ptr(&process_counts, cpu) : NULL;
	if (!counts)
		return 0;
	files = pointer_at(bpf_get_current_task() + task_files_at);
	files = pointer_at(pointer_at(files + files_fdt_at) + fdtable_fd_at);
	file = pointer_at(files + fd * sizeof(file));
	stats = pointer_at(pointer_at(file + file_private_at) + prog_stats_at);
	misses_at(cpu)->at[number & (RSN_MISS_PROGRAMS - 1)] =
		stats + bpf_core_field_offset(struct bpf_prog_stats___rsn, misses) +
		((__u64)counts - (__u64)&process_counts);
	return 0;
}

#endif
