// SPDX-License-Identifier: BSD-2-Clause
/* Bulk reads of BTF: offsets of all types, type ids of many names, signatures of functions. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "facts.h"

enum {
	BTF_HEADER_WORDS = 3,
	BTF_KIND_INT = 1,
	BTF_KIND_PTR = 2,
	BTF_KIND_STRUCT = 4,
	BTF_KIND_UNION = 5,
	BTF_KIND_ENUM = 6,
	BTF_KIND_TYPEDEF = 8,
	BTF_KIND_VOLATILE = 9,
	BTF_KIND_CONST = 10,
	BTF_KIND_RESTRICT = 11,
	BTF_KIND_FUNC = 12,
	BTF_KIND_FUNC_PROTO = 13,
	BTF_KIND_TYPE_TAG = 18,
	BTF_KIND_ENUM64 = 19,
	BTF_KIND_MAX = 19,
	PARAM_WORDS = 2,
	SLOT = 8, /* bytes */
	LARGEST_PARAM = 16,
	LONGEST_CHAIN = 64, /* modifiers in a row; a longer chain is a loop in damaged data */
};

static const uint32_t TRANSPARENT = 1 << BTF_KIND_TYPEDEF | 1 << BTF_KIND_VOLATILE |
				    1 << BTF_KIND_CONST | 1 << BTF_KIND_RESTRICT |
				    1 << BTF_KIND_TYPE_TAG;

/* Words after the header of a type: a fixed number, plus a number per member. */
static const struct {
	uint8_t fixed;
	uint8_t per_member;
} btf_tails[BTF_KIND_MAX + 1] = {
	[1] = { 1, 0 }, /* INT */
	[3] = { 3, 0 }, /* ARRAY */
	[4] = { 0, 3 }, /* STRUCT */
	[5] = { 0, 3 }, /* UNION */
	[6] = { 0, 2 }, /* ENUM */
	[13] = { 0, 2 }, /* FUNC_PROTO */
	[14] = { 1, 0 }, /* VAR */
	[15] = { 0, 3 }, /* DATASEC */
	[17] = { 1, 0 }, /* DECL_TAG */
	[19] = { 0, 3 }, /* ENUM64 */
};

/* Before Linux 7.1, a kind had 5 bits and the member count 16; the bits between were 0. */
static uint32_t btf_kind(uint32_t info)
{
	return info >> 24 & 0x7f;
}

static uint32_t btf_members(uint32_t info)
{
	return info & 0xffffff;
}

/*
 * Bytes of a type with this info, or 0 if the size is unknown. layout comes from the BTF itself and
 * is indexed by kind. It is used only for kinds above BTF_KIND_MAX.
 */
static size_t btf_size(uint32_t info, const struct rsn_btf_layout *layout, size_t layout_cnt)
{
	uint32_t kind = btf_kind(info);
	size_t words = BTF_HEADER_WORDS, members = btf_members(info);

	if (!kind)
		return 0;
	if (kind <= BTF_KIND_MAX)
		return 4 * (words + btf_tails[kind].fixed + btf_tails[kind].per_member * members);
	if (kind >= layout_cnt)
		return 0;
	return 4 * words + layout[kind].info_sz + layout[kind].elem_sz * members;
}

/*
 * Write the word offset of every type, in the order of type ids, at most max words. Returns the
 * number of types. Returns -(offset + 1) if the type at that word is damaged or its size is
 * unknown.
 */
ptrdiff_t rsn_btf_index(const uint32_t *types, size_t words, const struct rsn_btf_layout *layout,
			size_t layout_cnt, uint32_t *offsets, size_t max)
{
	size_t off = 0, cnt = 0;

	while (off < words) {
		size_t size;

		if (words - off < BTF_HEADER_WORDS)
			return -(ptrdiff_t)off - 1;
		size = btf_size(types[off + 1], layout, layout_cnt);
		if (!size || size % 4 || size / 4 > words - off)
			return -(ptrdiff_t)off - 1;
		if (cnt < max)
			offsets[cnt] = off;
		cnt++;
		off += size / 4;
	}
	return cnt;
}

/* The caller has checked that every string section ends with a NUL. */
static const char *btf_string(const struct rsn_btf *btf, uint32_t off)
{
	if (off < btf->base_strs_len)
		return btf->base_strs + off;
	off -= btf->base_strs_len;
	return off < btf->strs_len ? btf->strs + off : "";
}

/*
 * Look up name_cnt NUL-terminated names among the types selected by kinds, one bit per kind. For
 * each name, out receives 1 + the index of the first match, or 0. Returns -1 if memory ran out.
 */
int rsn_btf_find(const struct rsn_btf *btf, const uint32_t *offsets, size_t cnt, uint32_t kinds,
		 const char *names, size_t name_cnt, uint32_t *out)
{
	const char **wanted = malloc((name_cnt + 1) * sizeof(*wanted));
	struct chains c;

	if (!wanted || chains_init(&c, name_cnt)) {
		free(wanted);
		return -1;
	}
	for (size_t i = 0; i < name_cnt; i++) {
		size_t len = strlen(names);

		wanted[i] = names;
		out[i] = 0;
		chains_add(&c, hash_bytes(names, len), i);
		names += len + 1;
	}
	for (size_t t = 0; t < cnt; t++) {
		const uint32_t *type = &btf->types[offsets[t]];
		const char *name;
		uint32_t i;

		if (!type[0] || btf_kind(type[1]) > BTF_KIND_MAX ||
		    !(kinds >> btf_kind(type[1]) & 1))
			continue;
		name = btf_string(btf, type[0]);
		i = c.heads[hash_bytes(name, strlen(name)) & c.mask];
		for (; i != NONE; i = c.next[i])
			if (!out[i] && !strcmp(wanted[i], name))
				out[i] = t + 1;
	}
	chains_free(&c);
	free(wanted);
	return 0;
}

static const uint32_t *btf_at(const struct rsn_btf_part *btf, size_t btf_cnt, uint32_t id)
{
	for (size_t i = 0; i < btf_cnt; i++) {
		if (id >= btf[i].first && id - btf[i].first < btf[i].cnt)
			return &btf[i].types[btf[i].offsets[id - btf[i].first]];
	}
	return NULL;
}

static const uint32_t *btf_type(const struct rsn_btf_part *btf, size_t btf_cnt, uint32_t id,
				uint32_t kind)
{
	const uint32_t *type = btf_at(btf, btf_cnt, id);

	return type && btf_kind(type[1]) == kind ? type : NULL;
}

/*
 * Write the ids of the types that functions return. Stops at the first id without a function
 * prototype. Returns the number of ids written.
 */
size_t rsn_btf_returns(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *funcs,
		       size_t cnt, uint32_t *out)
{
	for (size_t i = 0; i < cnt; i++) {
		const uint32_t *type = btf_type(btf, btf_cnt, funcs[i], BTF_KIND_FUNC);

		if (type)
			type = btf_type(btf, btf_cnt, type[2], BTF_KIND_FUNC_PROTO);
		if (!type)
			return i;
		out[i] = type[2];
	}
	return cnt;
}

/* The type behind typedefs, qualifiers and tags. NULL for void and for damaged data. */
static const uint32_t *resolve(const struct rsn_btf_part *btf, size_t btf_cnt, uint32_t id)
{
	for (int i = 0; i < LONGEST_CHAIN; i++) {
		const uint32_t *type = btf_at(btf, btf_cnt, id);

		if (!type || btf_kind(type[1]) > BTF_KIND_ENUM64 ||
		    !(TRANSPARENT >> btf_kind(type[1]) & 1))
			return type;
		id = type[2];
	}
	return NULL;
}

/* Bytes of an argument or result of this type; 0 if the type cannot be one. */
static uint32_t value_size(const uint32_t *type)
{
	switch (btf_kind(type[1])) {
	case BTF_KIND_PTR:
		return SLOT;
	case BTF_KIND_INT:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return type[2];
	default:
		return 0;
	}
}

/* A larger number, which only damaged data has, must not wrap to a small one. */
static uint8_t at_most_u8(uint32_t number)
{
	return number < UINT8_MAX ? number : UINT8_MAX;
}

static void add_param(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *param,
		      bool last, struct rsn_signature *sig)
{
	const uint32_t *type = resolve(btf, btf_cnt, param[1]);
	uint32_t size = type ? value_size(type) : 0;

	if (!param[1] && last) {
		sig->flags |= RSN_SIGNATURE_VARIADIC;
		return;
	}
	sig->params = at_most_u8(sig->params + 1);
	if (!size)
		sig->flags |= RSN_SIGNATURE_ODD_TYPE;
	else if (size > LARGEST_PARAM)
		sig->flags |= RSN_SIGNATURE_LARGE_PARAM;
	else
		sig->slots = at_most_u8(sig->slots + (size + SLOT - 1) / SLOT);
}

static void set_result(const struct rsn_btf_part *btf, size_t btf_cnt, uint32_t id,
		       struct rsn_signature *sig)
{
	const uint32_t *type = resolve(btf, btf_cnt, id);
	uint32_t size = type ? value_size(type) : 0;

	if (!type)
		sig->flags |= RSN_SIGNATURE_VOID;
	else if (btf_kind(type[1]) == BTF_KIND_STRUCT || btf_kind(type[1]) == BTF_KIND_UNION)
		sig->flags |= RSN_SIGNATURE_STRUCT_RESULT;
	else if (!size)
		sig->flags |= RSN_SIGNATURE_ODD_TYPE;
	sig->result_size = at_most_u8(size);
}

static struct rsn_signature signature_of(const struct rsn_btf_part *btf, size_t btf_cnt,
					 uint32_t id)
{
	const uint32_t *proto = btf_type(btf, btf_cnt, id, BTF_KIND_FUNC);
	struct rsn_signature sig = {};
	uint32_t cnt;

	if (proto)
		proto = btf_type(btf, btf_cnt, proto[2], BTF_KIND_FUNC_PROTO);
	if (!proto) {
		sig.flags = RSN_SIGNATURE_ODD_TYPE;
		return sig;
	}
	set_result(btf, btf_cnt, proto[2], &sig);
	cnt = btf_members(proto[1]);
	for (uint32_t i = 0; i < cnt; i++)
		add_param(btf, btf_cnt, &proto[BTF_HEADER_WORDS + PARAM_WORDS * i], i == cnt - 1,
			  &sig);
	return sig;
}

void rsn_btf_signatures(const struct rsn_btf_part *btf, size_t btf_cnt, const uint32_t *funcs,
			size_t cnt, struct rsn_signature *out)
{
	for (size_t i = 0; i < cnt; i++)
		out[i] = signature_of(btf, btf_cnt, funcs[i]);
}
