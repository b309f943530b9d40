// SPDX-License-Identifier: BSD-2-Clause
/* BTF in bulk: where each type is, and the ids of many names in one pass. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "facts.h"

enum {
	BTF_HEADER_WORDS = 3,
	BTF_KIND_FUNC = 12,
	BTF_KIND_FUNC_PROTO = 13,
	BTF_KIND_MAX = 19,
};

/* Words that follow a type's header: a fixed number, and some per member. */
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

/* Up to Linux 7.0 a kind had 5 bits and the number of members 16; the bits between were 0. */
static uint32_t btf_kind(uint32_t info)
{
	return info >> 24 & 0x7f;
}

static uint32_t btf_members(uint32_t info)
{
	return info & 0xffffff;
}

/*
 * Bytes of a type with this info, 0 if that cannot be told. layout has, by kind, what the BTF
 * itself says of its kinds; it is asked only for those that are not known here.
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
 * Word offset of every type, in the order of their ids. Returns their number, of which at most
 * max are written, or -(offset + 1) of the word where the data stops making sense, or where a
 * type has a kind of unknown size.
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

/* The sections of strings end with a NUL, which the caller has checked. */
static const char *btf_string(const struct rsn_btf *btf, uint32_t off)
{
	if (off < btf->base_strs_len)
		return btf->base_strs + off;
	off -= btf->base_strs_len;
	return off < btf->strs_len ? btf->strs + off : "";
}

/*
 * Looks name_cnt NUL-terminated names up among the types whose kind is a bit of kinds. out gets,
 * for each name, 1 + the index of the first such type, or 0. Returns -1 if memory ran out.
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

static const uint32_t *btf_type(const struct rsn_btf_part *btf, size_t btf_cnt, uint32_t id,
				uint32_t kind)
{
	for (size_t i = 0; i < btf_cnt; i++) {
		const uint32_t *type;

		if (id < btf[i].first || id - btf[i].first >= btf[i].cnt)
			continue;
		type = &btf[i].types[btf[i].offsets[id - btf[i].first]];
		return btf_kind(type[1]) == kind ? type : NULL;
	}
	return NULL;
}

/*
 * The ids of the types that functions return. Stops at an id that is no function with a
 * prototype; returns how many were written.
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
