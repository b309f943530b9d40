/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bulk work on the kernel's symbol lists and BTF. The text between the markers
 * is also what cffi reads, so it is plain C: no macros, no preprocessor.
 */
#ifndef RSN_FACTS_H
#define RSN_FACTS_H

#include <stddef.h>
#include <stdint.h>

#define RSN_KSYMS_PROGRAM "rsn_ksyms"

/* cdef begin */
/* How a line of a symbol list reads. */
enum rsn_list {
	RSN_LIST_KALLSYMS = 0, /* "address type name\t[module]" */
	RSN_LIST_NAMES = 1, /* "name [module]" */
	RSN_LIST_ADDRS = 2, /* "address name [module]" */
	RSN_LIST_KSYMS = 3, /* records of the program in ksyms.c */
};

/* What stands for the type of a symbol in such a record, and in it: the module's name follows. */
enum rsn_ksym {
	RSN_KSYM_DATA = 0,
	RSN_KSYM_MODULE_DATA = 1,
	RSN_KSYM_TOO_LONG = 2, /* a name that has no room */
	RSN_KSYM_TRACE_POINTS = 3, /* data: ftrace_pages_start */
	RSN_KSYM_IN_MODULE = 128,
};

/* Where the members of struct kallsym_iter are, and the id of bpf_iter_ksym() in vmlinux' BTF. */
struct rsn_ksym_layout {
	uint32_t function;
	uint16_t value;
	uint16_t type;
	uint16_t name;
	uint16_t module_name;
	uint16_t exported;
	uint16_t show_value;
};

/* One line of a symbol list; name and module are byte offsets into its text. */
struct rsn_sym {
	uint64_t addr;
	uint32_t name;
	uint32_t module;
	uint32_t size; /* up to the next address in kallsyms, UINT32_MAX at its end */
	uint16_t name_len;
	uint16_t module_len; /* 0 for vmlinux */
	char type; /* nm letter, 0 where the list has none */
};

/* A list. Of the kernel's symbols it has the functions only, by address; others keep their order. */
struct rsn_symtab {
	char *text; /* names, without anything between them */
	struct rsn_sym *syms;
	size_t cnt;
	size_t bytes; /* of the file */
	uint64_t trace_points; /* where ftrace_pages_start is; 0: not told */
	int list;
	size_t text_len;
	size_t text_room;
	size_t room;
};

/* What is known of a kallsyms line as a function to trace. */
enum rsn_state {
	RSN_NOT_FUNCTION = 0, /* data, init and generated code, padding before a function */
	RSN_UNTRACEABLE = 1,
	RSN_TRACEABLE = 2,
	RSN_AMBIGUOUS = 3, /* one of several of its name, some of them traceable */
};

/* Indexes of functions by their state, each list in the order of the table and with room for it. */
struct rsn_functions {
	uint8_t *states; /* enum rsn_state of every symbol */
	uint32_t *listed; /* traceable or ambiguous */
	uint32_t *others;
	size_t listed_cnt;
	size_t other_cnt;
};

/* module NULL: vmlinux and every module. Names and modules may hold * and ?. */
struct rsn_glob {
	const char *name;
	const char *module;
};

struct rsn_hit {
	uint32_t sym; /* index into the table */
	uint32_t glob; /* first glob that matches it */
};

struct rsn_btf {
	const uint32_t *types;
	size_t words; /* of types */
	const char *strs;
	size_t strs_len;
	const char *base_strs; /* of the BTF a split one stands on, else NULL */
	size_t base_strs_len;
};

/* struct btf_layout of Linux 7.1: bytes behind the header of a type of one kind. */
struct rsn_btf_layout {
	uint8_t info_sz;
	uint8_t elem_sz; /* for each member */
	uint16_t flags;
};

/* The types of one BTF, of which the first has the id `first`. */
struct rsn_btf_part {
	const uint32_t *types;
	const uint32_t *offsets; /* in words, by id */
	size_t cnt;
	uint32_t first;
};

/* What a trampoline has to know of a function. */
enum rsn_signature_flags {
	RSN_SIGNATURE_VARIADIC = 1,
	RSN_SIGNATURE_STRUCT_RESULT = 2,
	RSN_SIGNATURE_LARGE_PARAM = 4, /* over 16 bytes */
	RSN_SIGNATURE_ODD_TYPE = 8, /* a float, or what BTF does not describe */
	RSN_SIGNATURE_VOID = 16,
};

struct rsn_signature {
	uint8_t params;
	uint8_t slots; /* words of 8 bytes that the parameters fill */
	uint8_t flags; /* enum rsn_signature_flags */
	uint8_t result_size; /* bytes */
};

int rsn_glob_match(const char *glob, size_t glob_len, const char *s, size_t len);
struct rsn_symtab *rsn_syms_read(int fd, int list, int *err);

/* What reads as RSN_LIST_KSYMS: a file descriptor, or a negative errno. */
int rsn_ksyms_open(const struct rsn_ksym_layout *at);
void rsn_syms_free(struct rsn_symtab *tab);
size_t rsn_syms_upper(const struct rsn_symtab *tab, uint64_t addr);
size_t rsn_syms_find(const struct rsn_symtab *tab, const char *name, uint32_t *out, size_t max);
size_t rsn_syms_gather(const struct rsn_symtab *tab, const uint32_t *subset, size_t cnt,
		       struct rsn_sym *syms, char *names, size_t size);
size_t rsn_syms_count(const struct rsn_symtab *tab, const char *prefix);
int rsn_syms_states(const struct rsn_symtab *tab, const struct rsn_symtab *traceable, int by_addr,
		    uint64_t text_end, struct rsn_functions *out);
int rsn_syms_states_at(const struct rsn_symtab *tab, const uint64_t *points, size_t cnt,
		       uint64_t text_end, struct rsn_functions *out);
ptrdiff_t rsn_syms_match(const struct rsn_symtab *tab, const uint32_t *subset, size_t subset_cnt,
			 const struct rsn_glob *globs, size_t glob_cnt, uint32_t *counts,
			 struct rsn_hit *hits);
ptrdiff_t rsn_btf_index(const uint32_t *types, size_t words, const struct rsn_btf_layout *layout,
			size_t layout_cnt, uint32_t *offsets, size_t max);
int rsn_btf_find(const struct rsn_btf *btf, const uint32_t *offsets, size_t cnt, uint32_t kinds,
		 const char *names, size_t name_cnt, uint32_t *out);
size_t rsn_btf_returns(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *funcs,
		       size_t cnt, uint32_t *out);

/* An id that is no function's has odd types. */
void rsn_btf_signatures(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *funcs,
			size_t cnt, struct rsn_signature *out);

/*
 * How many functions of vmlinux (or of the module, if one is given) have each of the cnt
 * NUL-terminated names. Returns -1 if memory ran out.
 */
int rsn_syms_namesakes(const struct rsn_symtab *tab, const char *module, const char *names,
		       size_t cnt, uint32_t *counts);
/* cdef end */

#endif
