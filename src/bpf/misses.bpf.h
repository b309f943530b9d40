/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls for which the kernel does not run our programs (misses). While bpf(2) changes or reads a
 * map, the kernel disables BPF programs on that CPU (bpf_disable_instrumentation()). It also does
 * not run a trampoline's program that already runs on that CPU. The kernel counts the misses per
 * program and CPU (struct bpf_prog_stats). We read the counters when a session begins and when one
 * of its calls returns. The difference on this CPU is the session's misses, unless other threads
 * used the CPU meanwhile. While our program takes a stack, copies arguments or records a path, only
 * tracing itself and interrupts make calls. Their misses do not count.
 */
#ifndef RSN_MISSES_BPF_H
#define RSN_MISSES_BPF_H

#include "direct.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"

enum {
	RSN_MISS_CPUS = 4096, /* a power of two */
	RSN_MISS_PROGRAMS = 4, /* an entry program for each rung, programs of injected probes */
};

struct miss_counts {
	__u64 at[RSN_MISS_PROGRAMS]; /* addresses of this CPU's counters for each program */
};

struct miss_counts miss_counts[RSN_MISS_CPUS];

/* The number of programs with counters; with 0, misses are not noticed. */
const volatile __u32 miss_programs = 0;

struct miss_number {
	__u64 count;
};

/* The used members of the kernel's structs. */
struct bpf_prog_stats___rsn {
	struct miss_number misses; /* u64_stats_t; since Linux 5.12 */
} __attribute__((preserve_access_index));

/*
 * The offsets of the members on the way from a task_struct to the counters of a program with a file
 * descriptor in that task. The loader finds all offsets at once. libbpf would search all of the
 * kernel's types for each struct, which takes a twentieth of a start.
 */
const volatile __u32 task_files_at = 0;
const volatile __u32 files_fdt_at = 0;
const volatile __u32 fdtable_fd_at = 0;
const volatile __u32 file_private_at = 0;
const volatile __u32 prog_stats_at = 0;

/*
 * A per-CPU variable of all architectures. The distance from its declared address to a CPU's own
 * copy is the same for all per-CPU variables. (Only x86 has this distance in a variable,
 * this_cpu_off.)
 */
extern const unsigned long process_counts __weak __ksym;

static __always_inline __u64 pointer_at(__u64 address)
{
	__u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)address);
	return pointer;
}

/* Reads the counter at `address`; any counter is read as the first member of its struct. */
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

/* Returns the misses of the programs on the session's miss_cpu: usually of one program. */
static __always_inline __u64 misses_now(const struct session *s, __u32 programs)
{
	__u64 sum = misses_of(s->miss_at);

	for (__u32 i = 1; i < RSN_MISS_PROGRAMS && i < programs; i++)
		sum += misses_of(misses_at(s->miss_cpu)->at[i]);
	return sum;
}

/* Returns the number of context switches of the running thread. */
static __always_inline __u64 switches_of(__u64 task)
{
	struct task_struct *thread = (struct task_struct *)task;

	if (reads_directly()) {
		thread = thread_at(task);
		return thread->nvcsw + thread->nivcsw;
	}
	return BPF_CORE_READ(thread, nvcsw) + BPF_CORE_READ(thread, nivcsw);
}

/* Starts to count the misses on this CPU. */
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
 * The counters changed, or the thread runs on another CPU. On the old CPU, other threads may have
 * missed calls since then. On the new CPU, earlier values are unknown.
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
 * A call of the session returns: checks whether the thread missed calls since the last check. Every
 * call runs this check, so the session keeps the address of the counter.
 */
static __always_inline void misses_take(struct session *s)
{
	__u32 programs = miss_programs;

	if (programs &&
	    (bpf_get_smp_processor_id() != s->miss_cpu || misses_now(s, programs) != s->misses))
		misses_add(s);
}

/*
 * Run by user space (BPF_PROG_TEST_RUN) in its own process: finds the address of a CPU's counter
 * for the misses of a program. Arguments: the program's file descriptor, its index in `at`, the
 * CPU.
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
