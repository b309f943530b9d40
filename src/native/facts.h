/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bulk work on the kernel's symbol lists and BTF. cffi also reads the text between the markers, so
 * it contains no macros and no preprocessor lines.
 */
#ifndef RSN_FACTS_H
#define RSN_FACTS_H

#include <stddef.h>
#include <stdint.h>

#define RSN_KSYMS_PROGRAM "rsn_ksyms"

/* cdef begin */
/* Line format of a symbol list. */
enum rsn_list {
	RSN_LIST_KALLSYMS = 0, /* "address type name\t[module]" */
	RSN_LIST_NAMES = 1, /* "name [module]" */
	RSN_LIST_ADDRS = 2, /* "address name [module]" */
	RSN_LIST_KSYMS = 3, /* binary records from the program in ksyms.c */
};

/*
 * Values of the type byte in a record of RSN_LIST_KSYMS that is not a symbol, and a flag in the
 * others: the module name follows.
 */
enum rsn_ksym {
	RSN_KSYM_DATA = 0,
	RSN_KSYM_MODULE_DATA = 1,
	RSN_KSYM_TOO_LONG = 2, /* a name longer than the record's space */
	RSN_KSYM_TRACE_POINTS = 3, /* data: the symbol ftrace_pages_start */
	RSN_KSYM_IN_MODULE = 128,
};

/* Offsets of the members of struct kallsym_iter, and the id of bpf_iter_ksym() in vmlinux BTF. */
struct rsn_ksym_layout {
	uint32_t function;
	uint16_t value;
	uint16_t type;
	uint16_t name;
	uint16_t module_name;
	uint16_t exported;
	uint16_t show_value;
};

/* One symbol. name and module are byte offsets into the text of the list. */
struct rsn_sym {
	uint64_t addr;
	uint32_t name;
	uint32_t module;
	uint32_t size; /* in kallsyms: bytes up to the next address, UINT32_MAX for the last */
	uint16_t name_len;
	uint16_t module_len; /* 0 for vmlinux */
	char type; /* letter as in nm(1), 0 if the list has none */
};

/*
 * A symbol list. Lists from kallsyms keep only functions, sorted by address. Other lists keep their
 * order.
 */
struct rsn_symtab {
	char *text; /* names, without separators */
	struct rsn_sym *syms;
	size_t cnt;
	size_t bytes; /* bytes of the file */
	uint64_t trace_points; /* address of ftrace_pages_start; 0: unknown */
	int list;
	size_t text_len;
	size_t text_room;
	size_t room;
};

/* Whether a kallsyms symbol is a function that can be traced. */
enum rsn_state {
	RSN_NOT_FUNCTION = 0, /* data, init and generated code, padding before a function */
	RSN_UNTRACEABLE = 1,
	RSN_TRACEABLE = 2,
	RSN_AMBIGUOUS = 3, /* one of several functions of this name; some are traceable */
};

/* Indexes of functions by state. Each list is in table order and has room for every symbol. */
struct rsn_functions {
	uint8_t *states; /* enum rsn_state of every symbol */
	uint32_t *listed; /* traceable or ambiguous */
	uint32_t *others;
	size_t listed_cnt;
	size_t other_cnt;
};

/* If module is NULL, match vmlinux and every module. Names and modules may contain * and ?. */
struct rsn_glob {
	const char *name;
	const char *module;
};

struct rsn_hit {
	uint32_t sym; /* index into the symbol table */
	uint32_t glob; /* first glob that matches the symbol */
};

struct rsn_btf {
	const uint32_t *types;
	size_t words; /* size of types */
	const char *strs;
	size_t strs_len;
	const char *base_strs; /* strings of the base BTF if this is split BTF, otherwise NULL */
	size_t base_strs_len;
};

/* struct btf_layout of Linux 7.1: bytes after the header of a type, by kind. */
struct rsn_btf_layout {
	uint8_t info_sz;
	uint8_t elem_sz; /* per member */
	uint16_t flags;
};

/* The types of a BTF object. The first type has the id `first`. */
struct rsn_btf_part {
	const uint32_t *types;
	const uint32_t *offsets; /* word offset of each type */
	size_t cnt;
	uint32_t first;
};

/* Properties of a function that decide whether a trampoline supports it. */
enum rsn_signature_flags {
	RSN_SIGNATURE_VARIADIC = 1,
	RSN_SIGNATURE_STRUCT_RESULT = 2,
	RSN_SIGNATURE_LARGE_PARAM = 4, /* larger than 16 bytes */
	RSN_SIGNATURE_ODD_TYPE = 8, /* a float, or a type that BTF does not describe */
	RSN_SIGNATURE_VOID = 16,
};

struct rsn_signature {
	uint8_t params;
	uint8_t slots; /* 8-byte words of all parameters */
	uint8_t flags; /* enum rsn_signature_flags */
	uint8_t result_size; /* bytes */
};

int rsn_glob_match(const char *glob, size_t glob_len, const char *s, size_t len);
struct rsn_symtab *rsn_syms_read(int fd, int list, int *err);

/*
 * Open a file descriptor that yields RSN_LIST_KSYMS records. Returns a negative errno on failure.
 */
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

/* An id that does not belong to a function gets RSN_SIGNATURE_ODD_TYPE. */
void rsn_btf_signatures(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *funcs,
			size_t cnt, struct rsn_signature *out);

/*
 * For each of cnt NUL-terminated names, count the functions of that name in vmlinux, or in the
 * module if one is given. Returns -1 if memory ran out.
 */
int rsn_syms_namesakes(const struct rsn_symtab *tab, const char *module, const char *names,
		       size_t cnt, uint32_t *counts);
/* cdef end */

#endif
