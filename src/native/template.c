// SPDX-License-Identifier: BSD-2-Clause
#include "template.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

/* RSN_TEMPLATE_COOKIE of src/bpf/template.bpf.h */
static const uint64_t template_cookie = 0x6b6f6f632d6e7372;

static int is_marker(const struct bpf_insn *insn)
{
	return insn[0].code == (BPF_LD | BPF_IMM | BPF_DW) && !insn[0].src_reg &&
	       (uint32_t)insn[0].imm == (uint32_t)template_cookie &&
	       (uint32_t)insn[1].imm == template_cookie >> 32;
}

struct bpf_insn *rsn_template_copy(const void *insns, size_t cnt)
{
	struct bpf_insn *copy = malloc(cnt * sizeof(*copy));

	if (copy)
		memcpy(copy, insns, cnt * sizeof(*copy));
	return copy;
}

size_t rsn_template_patch(struct bpf_insn *insns, size_t cnt, size_t from, uint64_t cookie)
{
	for (size_t i = from; i + 2 < cnt; i++) {
		if (!is_marker(&insns[i]))
			continue;
		insns[i].imm = (int32_t)cookie;
		insns[i + 1].imm = cookie >> 32;
		return i + 2;
	}
	return 0;
}

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
