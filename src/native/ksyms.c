// SPDX-License-Identifier: BSD-2-Clause
/*
 * Read the kernel's symbols with a BPF iterator (6.0: 647cafa22349). Most of the time for reading
 * /proc/kallsyms goes into formatting each line as text; this program writes binary records. Like
 * /proc/kallsyms, it hides addresses from unprivileged readers, skips symbols without a name, and
 * writes the type of exported module symbols as an upper-case letter.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "facts.h"

/* Helper numbers, and stack offsets where the program builds a record. */
enum {
	PROBE_READ_KERNEL_STR = 115,
	SEQ_WRITE = 127,
	RECORD = -496, /* address, type, name */
	TYPE = RECORD + 8,
	NAME = TYPE + 1,
	HEAD = NAME - RECORD,
	NAME_ROOM = -NAME,
};

enum label { ADDRESS, DATA, MODULE_DATA, TEXT, WITHOUT_MODULE, WRITE, TOO_LONG, OUT, LABELS };

enum {
	MOST = 112,
	MARK = 0xff, /* pseudo-instruction that marks a label */
	UPPER = 0x20,
	/* "__pfx_" as numbers; this symbol exists only on x86 and arm64 */
	PADDING = 0x66705f5f,
	PADDING_END = 0x5f78,
	/* "ftrace_pages_start" */
	POINTS_1 = 0x61727466,
	POINTS_2 = 0x705f6563,
	POINTS_3 = 0x73656761,
	POINTS_4 = 0x6174735f,
	POINTS_END = 0x7472,
};

#define OP(op, dst, src, offset, value)                                                           \
	{                                                                                         \
		.code = (op), .dst_reg = (dst), .src_reg = (src), .off = (offset), .imm = (value) \
	}
#define LOAD(size, dst, src, offset) OP(BPF_LDX | BPF_MEM | (size), dst, src, offset, 0)
#define STORE(size, src, offset) OP(BPF_STX | BPF_MEM | (size), 10, src, offset, 0)
#define MOVE(dst, src) OP(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, value) OP(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define ALU(op, dst, value) OP(BPF_ALU64 | (op) | BPF_K, dst, 0, 0, value)
/* The jump offset is a label until resolve() replaces it. */
#define JUMP(op, dst, value, label) OP(BPF_JMP | (op) | BPF_K, dst, 0, label, value)
#define GOTO(label) OP(BPF_JMP | BPF_JA, 0, 0, label, 0)
#define LABEL(label) OP(MARK, 0, 0, label, 0)
#define CALL(helper) OP(BPF_JMP | BPF_CALL, 0, 0, 0, helper)

/* Replace labels by distances. Returns the number of instructions that remain. */
static size_t resolve(const struct bpf_insn *from, size_t cnt, struct bpf_insn *to)
{
	int places[LABELS] = {};
	size_t n = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (from[i].code == MARK)
			places[from[i].off] = n;
		else
			to[n++] = from[i];
	}
	for (size_t i = 0; i < n; i++) {
		int class = BPF_CLASS(to[i].code), op = BPF_OP(to[i].code);

		if (class == BPF_JMP && op != BPF_CALL && op != BPF_EXIT)
			to[i].off = places[to[i].off] - (int)i - 1;
	}
	return n;
}

/*
 * R6: the symbol, R7: output position, R8: type, or an enum rsn_ksym, R9: whether it is a module's.
 */
static int load(const struct rsn_ksym_layout *at)
{
	const struct bpf_insn labelled[] = {
		LOAD(BPF_DW, 6, 1, 8),
		JUMP(BPF_JEQ, 6, 0, OUT), /* end of the list */
		LOAD(BPF_DW, 1, 1, 0),
		LOAD(BPF_DW, 7, 1, 0),
		LOAD(BPF_B, 1, 6, at->name),
		JUMP(BPF_JEQ, 1, 0, OUT),
		SET(1, 0),
		LOAD(BPF_W, 2, 6, at->show_value),
		JUMP(BPF_JEQ, 2, 0, ADDRESS),
		LOAD(BPF_DW, 1, 6, at->value),
		LABEL(ADDRESS),
		STORE(BPF_DW, 1, RECORD),
		LOAD(BPF_B, 8, 6, at->type),
		LOAD(BPF_B, 9, 6, at->module_name),
		MOVE(1, 8),
		ALU(BPF_OR, 1, UPPER),
		JUMP(BPF_JEQ, 1, 'w', TEXT),
		JUMP(BPF_JNE, 1, 't', DATA),
		LOAD(BPF_W, 1, 6, at->name),
		JUMP(BPF_JNE, 1, PADDING, TEXT),
		LOAD(BPF_H, 1, 6, at->name + 4),
		JUMP(BPF_JNE, 1, PADDING_END, TEXT),

		LABEL(DATA),
		SET(8, RSN_KSYM_DATA),
		SET(3, HEAD),
		JUMP(BPF_JNE, 9, 0, MODULE_DATA),
		LOAD(BPF_W, 1, 6, at->name),
		JUMP(BPF_JNE, 1, POINTS_1, WRITE),
		LOAD(BPF_W, 1, 6, at->name + 4),
		JUMP(BPF_JNE, 1, POINTS_2, WRITE),
		LOAD(BPF_W, 1, 6, at->name + 8),
		JUMP(BPF_JNE, 1, POINTS_3, WRITE),
		LOAD(BPF_W, 1, 6, at->name + 12),
		JUMP(BPF_JNE, 1, POINTS_4, WRITE),
		LOAD(BPF_H, 1, 6, at->name + 16),
		JUMP(BPF_JNE, 1, POINTS_END, WRITE),
		LOAD(BPF_B, 1, 6, at->name + 18),
		JUMP(BPF_JNE, 1, 0, WRITE),
		SET(8, RSN_KSYM_TRACE_POINTS),
		GOTO(WRITE),
		LABEL(MODULE_DATA),
		SET(8, RSN_KSYM_MODULE_DATA),
		SET(9, 0),
		GOTO(WRITE),

		LABEL(TEXT),
		JUMP(BPF_JEQ, 9, 0, WITHOUT_MODULE),
		ALU(BPF_OR, 8, UPPER | RSN_KSYM_IN_MODULE),
		LOAD(BPF_W, 1, 6, at->exported),
		JUMP(BPF_JEQ, 1, 0, WITHOUT_MODULE),
		ALU(BPF_AND, 8, ~UPPER),
		LABEL(WITHOUT_MODULE),
		MOVE(1, 10),
		ALU(BPF_ADD, 1, NAME),
		SET(2, NAME_ROOM),
		MOVE(3, 6),
		ALU(BPF_ADD, 3, at->name),
		CALL(PROBE_READ_KERNEL_STR),
		JUMP(BPF_JSLE, 0, 0, TOO_LONG),
		JUMP(BPF_JSGE, 0, NAME_ROOM, TOO_LONG),
		MOVE(3, 0),
		ALU(BPF_ADD, 3, HEAD),

		LABEL(WRITE),
		STORE(BPF_B, 8, TYPE),
		MOVE(1, 7),
		MOVE(2, 10),
		ALU(BPF_ADD, 2, RECORD),
		CALL(SEQ_WRITE),
		JUMP(BPF_JEQ, 9, 0, OUT),

		MOVE(1, 10),
		ALU(BPF_ADD, 1, NAME),
		SET(2, NAME_ROOM),
		MOVE(3, 6),
		ALU(BPF_ADD, 3, at->module_name),
		CALL(PROBE_READ_KERNEL_STR),
		JUMP(BPF_JSLE, 0, 0, TOO_LONG),
		JUMP(BPF_JSGE, 0, NAME_ROOM, TOO_LONG),
		MOVE(3, 0),
		MOVE(1, 7),
		MOVE(2, 10),
		ALU(BPF_ADD, 2, NAME),
		CALL(SEQ_WRITE),
		GOTO(OUT),

		LABEL(TOO_LONG),
		SET(8, RSN_KSYM_TOO_LONG),
		SET(9, 0),
		SET(3, HEAD),
		GOTO(WRITE),

		LABEL(OUT),
		SET(0, 0),
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	const size_t cnt = sizeof(labelled) / sizeof(labelled[0]);
	struct bpf_insn insns[MOST];
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_ITER,
		    .attach_btf_id = at->function);

	_Static_assert(sizeof(labelled) <= sizeof(insns), "the program has grown");
	return bpf_prog_load(BPF_PROG_TYPE_TRACING, RSN_KSYMS_PROGRAM, "GPL", insns,
			     resolve(labelled, cnt, insns), &opts);
}

int rsn_ksyms_open(const struct rsn_ksym_layout *at)
{
	int prog = load(at), link, fd = -EINVAL;

	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, 0, BPF_TRACE_ITER, NULL);
	if (link >= 0) {
		fd = bpf_iter_create(link);
		close(link);
	}
	close(prog);
	return link < 0 ? link : fd;
}
