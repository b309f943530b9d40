/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trampoline has to know of functions, in bulk: their parameters, and if names are unique. */
#ifndef RSN_SHAPES_H
#define RSN_SHAPES_H

#include <stddef.h>
#include <stdint.h>

#include "facts.h"

/* cdef begin */
/* The types of one BTF; those of a split BTF go on numbering where its base ends. */
struct rsn_btf_types {
	const uint32_t *types;
	const uint32_t *offsets; /* word offset of each type */
	uint32_t start; /* id of the first */
	uint32_t end; /* beyond the last */
};

enum rsn_shape_flags {
	RSN_SHAPE_VARIADIC = 1,
	RSN_SHAPE_STRUCT_RESULT = 2,
	RSN_SHAPE_LARGE_PARAM = 4, /* over 16 bytes */
	RSN_SHAPE_ODD_TYPE = 8, /* a float, or what BTF does not describe */
	RSN_SHAPE_VOID = 16,
};

struct rsn_shape {
	uint8_t params;
	uint8_t slots; /* words of 8 bytes that the parameters fill */
	uint8_t flags; /* enum rsn_shape_flags */
	uint8_t result_size; /* bytes */
};

/*
 * parts: a BTF and, if that is a split one, its base. An id that is no function's has odd types.
 */
void rsn_btf_shapes(const struct rsn_btf_types *parts, size_t part_cnt, const uint32_t *ids,
		    size_t cnt, struct rsn_shape *out);

/*
 * How many functions of vmlinux (or of the module, if one is given) have each of the cnt
 * NUL-terminated names. Returns -1 if memory ran out.
 */
int rsn_syms_namesakes(const struct rsn_symtab *tab, const char *module, const char *names,
		       size_t cnt, uint32_t *counts);
/* cdef end */

#endif
