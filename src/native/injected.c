// SPDX-License-Identifier: BSD-2-Clause
#include "injected.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "template.h"

int rsn_load_copy(int prog_type, const void *template, size_t cnt, uint64_t cookie)
{
	struct bpf_insn *insns = rsn_template_copy(template, cnt);
	int fd = -EINVAL, found = 0;

	if (!insns)
		return -ENOMEM;
	for (size_t at = 0; (at = rsn_template_patch(insns, cnt, at, cookie)); found++)
		;
	if (found)
		fd = bpf_prog_load(prog_type, "rsn_probe", "Dual BSD/GPL", insns, cnt, NULL);
	free(insns);
	return fd;
}

int rsn_attach_raw_tracepoint(int prog_fd, const char *name, int has_cookie, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_raw_tp_opts, opts, .tp_name = name, .cookie = has_cookie ? cookie : 0);

	return bpf_raw_tracepoint_open_opts(prog_fd, &opts);
}
