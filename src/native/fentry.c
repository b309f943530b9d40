// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "fentry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "attach.h"
#include "stop.h"
#include "template.h"

/* enum bpf_attach_type */
enum {
	attach_fentry = 24,
	attach_fexit = 25,
};

/*
 * The caller needs a few milliseconds to close its descriptors. After this time something else has the
 * pipe, such as a process that another thread forked.
 */
enum { PATIENCE_MS = 2000 };

/* What follows the marker loads the result; of a function without one it becomes 0. */
static void patch_result(struct bpf_insn *load, int16_t offset)
{
	if (offset >= 0) {
		load->off = offset;
		return;
	}
	load->code = BPF_ALU64 | BPF_MOV | BPF_K;
	load->src_reg = 0;
	load->off = 0;
	load->imm = 0;
}

/* Loads and attaches a copy of one side's template; the link, or a negative errno. */
static int attach_side(const struct rsn_fentry_batch *batch, size_t i, int is_exit)
{
	const void *template = is_exit ? batch->exit_insns : batch->entry_insns;
	size_t cnt = is_exit ? batch->exit_cnt : batch->entry_cnt;
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = is_exit ? attach_fexit : attach_fentry,
		    .attach_btf_id = batch->btf_ids[i], .attach_btf_obj_fd = batch->btf_fd);
	struct bpf_insn *insns = rsn_template_copy(template, cnt);
	int prog_fd = -EINVAL, link_fd, found = 0;

	if (!insns)
		return -ENOMEM;
	for (size_t at = 0; (at = rsn_template_patch(insns, cnt, at, batch->cookies[i])); found++)
		if (is_exit)
			patch_result(&insns[at], batch->results[i]);
	if (found)
		prog_fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, is_exit ? "rsn_fexit" : "rsn_fentry",
					"Dual BSD/GPL", insns, cnt, &opts);
	free(insns);
	if (prog_fd < 0)
		return prog_fd;
	link_fd = bpf_raw_tracepoint_open(NULL, prog_fd);
	close(prog_fd); /* the link keeps the program */
	return link_fd;
}

void rsn_attach_fentry(const struct rsn_fentry_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		int entry = -1, exit = attach_side(batch, i, 1);

		if (exit >= 0)
			entry = attach_side(batch, i, 0);
		batch->errors[i] = exit < 0 ? -exit : entry < 0 ? -entry : 0;
		if (batch->errors[i])
			rsn_close_all(&exit, 1);
		batch->entry_fds[i] = entry < 0 ? -1 : entry;
		batch->exit_fds[i] = batch->errors[i] ? -1 : exit;
	}
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes every descriptor but those of fds, which is sorted: a pipe's reader waits for all. */
static void close_others(const int *fds, size_t cnt)
{
	unsigned int next = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (fds[i] < 0)
			continue;
		if ((unsigned int)fds[i] > next)
			syscall(__NR_close_range, next, fds[i] - 1, 0);
		next = fds[i] + 1;
	}
	syscall(__NR_close_range, next, ~0U, 0);
}

/*
 * The orphan that waits for the kernel, once nobody else has the descriptors: whoever closes them last
 * does. No signal meant for the caller is to end it: it has all of them blocked. It closes all others
 * before it waits: two orphans that had each other's pipe would wait for each other.
 */
static void run_child(const int *kept, size_t cnt, const int *until_closed)
{
	struct pollfd end = { .fd = until_closed[0], .events = POLLIN };

	setsid();
	close(until_closed[1]);
	close_others(kept, cnt);
	while (poll(&end, 1, PATIENCE_MS) < 0 && errno == EINTR)
		;
	rsn_close_all(kept, cnt);
	_exit(0);
}

int rsn_close_in_child(const int *fds, size_t cnt)
{
	int *kept = malloc((cnt + 1) * sizeof(*kept)), until_closed[2] = { -1, -1 }, status;
	pid_t pid = -1;

	if (kept && !pipe2(until_closed, O_CLOEXEC)) {
		memcpy(kept, fds, cnt * sizeof(*fds));
		kept[cnt] = until_closed[0];
		qsort(kept, cnt + 1, sizeof(*kept), by_value);
		pid = rsn_fork_blocked();
	}
	if (!pid) {
		/* a grandchild, so that init and not the caller has to wait for it */
		pid = fork();
		if (!pid)
			run_child(kept, cnt + 1, until_closed);
		_exit(pid < 0);
	}
	free(kept);
	if (pid < 0 || rsn_wait_for(pid, &status) != pid || status)
		pid = -1;
	else
		rsn_close_all(fds, cnt);
	rsn_close_all(until_closed, 2);
	return pid < 0 ? -1 : 0;
}

static int is_btf_of(int fd, const char *module)
{
	char name[64] = {};
	struct bpf_btf_info info = {
		.name = (uintptr_t)name,
		.name_len = sizeof(name),
	};
	uint32_t size = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &size) && info.kernel_btf &&
	       !strcmp(name, module);
}

int rsn_module_btf_fd(const char *module)
{
	uint32_t id = 0;

	while (!bpf_btf_get_next_id(id, &id)) {
		int fd = bpf_btf_get_fd_by_id(id);

		if (fd < 0 && errno == ENOENT) /* it was unloaded meanwhile */
			continue;
		if (fd < 0)
			return -errno;
		if (is_btf_of(fd, module))
			return fd;
		close(fd);
	}
	return -ENOENT;
}
