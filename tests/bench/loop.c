// SPDX-License-Identifier: BSD-2-Clause
/*
 * The calls, and about how many functions with "bpf" in their name each of them runs:
 *
 *	lookup   BPF_MAP_LOOKUP_ELEM of an existing key: 7 (4 on Linux 5.10)
 *	missing  BPF_MAP_LOOKUP_ELEM of a missing key: ENOENT
 *	info     BPF_OBJ_GET_INFO_BY_FD of a program: 10 (5 on Linux 5.10)
 */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "loop.h"

static pid_t looper;
static int map_fd, prog_fd;

long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	perror(what);
	_exit(1);
}

static void make_map(void)
{
	union bpf_attr attr;
	long key = 0, value = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_HASH;
	attr.key_size = sizeof(int);
	attr.value_size = sizeof(value);
	attr.max_entries = 4;
	map_fd = bpf(BPF_MAP_CREATE, &attr);
	must(map_fd, "BPF_MAP_CREATE");
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map_fd;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)&value;
	must(bpf(BPF_MAP_UPDATE_ELEM, &attr), "BPF_MAP_UPDATE_ELEM");
}

static void load_program(void)
{
	struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (unsigned long)code;
	attr.insn_cnt = sizeof(code) / sizeof(code[0]);
	attr.license = (unsigned long)"GPL";
	prog_fd = bpf(BPF_PROG_LOAD, &attr);
	must(prog_fd, "BPF_PROG_LOAD");
}

static int lookup(int key)
{
	union bpf_attr attr;
	long value;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map_fd;
	attr.key = (unsigned long)&key;
	attr.value = (unsigned long)&value;
	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

static int info(void)
{
	union bpf_attr attr;
	char result[200];

	memset(&attr, 0, sizeof(attr));
	memset(result, 0, sizeof(result));
	attr.info.bpf_fd = prog_fd;
	attr.info.info_len = sizeof(result);
	attr.info.info = (unsigned long)result;
	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

static void do_calls(const char *call, long n)
{
	bool wanted = true;

	if (!strcmp(call, "info"))
		while (n-- && wanted)
			wanted = info() == 0;
	else if (!strcmp(call, "lookup"))
		while (n-- && wanted)
			wanted = lookup(0) == 0;
	else
		while (n-- && wanted)
			wanted = lookup(77) == -1;
	if (!wanted)
		must(-1, call);
}

static void loop(const struct step *step, struct timing *timing)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	const struct sched_param priority = { .sched_priority = 1 };
	cpu_set_t first;
	long begin;
	int i;

	/* before Linux 5.11, maps count as locked memory */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	make_map();
	if (!step->burst)
		load_program();
	if (step->held) {
		CPU_ZERO(&first);
		CPU_SET(0, &first);
		must(sched_setaffinity(0, sizeof(first), &first), "sched_setaffinity");
		must(sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
	}
	/* warm up with calls that a tool does not report */
	if (!step->burst)
		do_calls(step->report ? "lookup" : step->call, step->calls / 4);
	timing->begin_ns = now_ns();
	for (i = 0; i < step->rounds; i++) {
		begin = now_ns();
		do_calls(step->call, step->calls);
		timing->per_call_ns[i] = (now_ns() - begin) / step->calls;
	}
}

struct step parse_step(const char *text)
{
	struct step step = { .rounds = 1 };
	char kind[16];
	int n = sscanf(text, "%15[a-z]:%15[a-z]:%ld:%d", kind, step.call, &step.calls,
		       &step.rounds);

	step.held = n == 3 && !strcmp(kind, "held");
	step.burst = n == 3 && !strcmp(kind, "burst");
	step.report = step.held || step.burst || (n == 3 && !strcmp(kind, "report"));
	if (!(step.report || (n == 4 && !strcmp(kind, "loop"))) || step.calls < 4 ||
	    step.rounds < 1 || step.rounds > MAX_ROUNDS) {
		fprintf(stderr, "meter: no such step: %s\n", text);
		exit(2);
	}
	return step;
}

struct timing *start_loop(const struct step *step)
{
	struct timing *timing = mmap(NULL, sizeof(*timing), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (timing == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	fflush(stdout);
	looper = fork();
	if (!looper) {
		loop(step, timing);
		_exit(0);
	}
	if (looper < 0) {
		perror("fork");
		exit(1);
	}
	return timing;
}

bool loop_ended(void)
{
	int status;

	if (waitpid(looper, &status, WNOHANG) != looper)
		return false;
	if (status) {
		fprintf(stderr, "meter: the loop failed\n");
		exit(1);
	}
	return true;
}

void print_timing(const struct step *step, const struct timing *timing)
{
	int i;

	printf("%s %s", step->held ? "held" : step->report ? "report" : "loop", step->call);
	for (i = 0; i < step->rounds; i++)
		printf(" %ld", timing->per_call_ns[i]);
	printf("\n");
}
