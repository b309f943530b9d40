// SPDX-License-Identifier: BSD-2-Clause
#include "shapes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"

enum {
	KIND_INT = 1,
	KIND_PTR = 2,
	KIND_STRUCT = 4,
	KIND_UNION = 5,
	KIND_ENUM = 6,
	KIND_TYPEDEF = 8,
	KIND_VOLATILE = 9,
	KIND_CONST = 10,
	KIND_RESTRICT = 11,
	KIND_FUNC = 12,
	KIND_FUNC_PROTO = 13,
	KIND_TYPE_TAG = 18,
	KIND_ENUM64 = 19,
	HEADER_WORDS = 3,
	PARAM_WORDS = 2,
	SLOT = 8, /* bytes */
	LARGEST_PARAM = 16,
	LONGEST_CHAIN = 64, /* of modifiers; longer ones are a loop in damaged data */
};

static const uint32_t TRANSPARENT = 1 << KIND_TYPEDEF | 1 << KIND_VOLATILE | 1 << KIND_CONST |
				    1 << KIND_RESTRICT | 1 << KIND_TYPE_TAG;

struct btf_parts {
	const struct rsn_btf_types *parts;
	size_t cnt;
};

static const uint32_t *type_at(const struct btf_parts *btf, uint32_t id)
{
	for (size_t i = 0; i < btf->cnt; i++) {
		const struct rsn_btf_types *part = &btf->parts[i];

		if (id >= part->start && id < part->end)
			return &part->types[part->offsets[id - part->start]];
	}
	return NULL;
}

static uint32_t kind_of(const uint32_t *type)
{
	return type[1] >> 24 & 0x7f;
}

/* The type behind typedefs, qualifiers and tags; NULL for void and for what is damaged. */
static const uint32_t *resolve(const struct btf_parts *btf, uint32_t id)
{
	for (int i = 0; i < LONGEST_CHAIN; i++) {
		const uint32_t *type = type_at(btf, id);

		if (!type || kind_of(type) > KIND_ENUM64 || !(TRANSPARENT >> kind_of(type) & 1))
			return type;
		id = type[2];
	}
	return NULL;
}

/* Bytes of a value of this type in an argument or a result; 0 for what cannot be one. */
static uint32_t value_size(const uint32_t *type)
{
	switch (kind_of(type)) {
	case KIND_PTR:
		return SLOT;
	case KIND_INT:
	case KIND_ENUM:
	case KIND_ENUM64:
	case KIND_STRUCT:
	case KIND_UNION:
		return type[2];
	default:
		return 0;
	}
}

static void add_param(const struct btf_parts *btf, const uint32_t *param, bool last,
		      struct rsn_shape *shape)
{
	const uint32_t *type = resolve(btf, param[1]);
	uint32_t size = type ? value_size(type) : 0;

	if (!param[1] && last) {
		shape->flags |= RSN_SHAPE_VARIADIC;
		return;
	}
	shape->params++;
	if (!size)
		shape->flags |= RSN_SHAPE_ODD_TYPE;
	else if (size > LARGEST_PARAM)
		shape->flags |= RSN_SHAPE_LARGE_PARAM;
	else
		shape->slots += (size + SLOT - 1) / SLOT;
}

static void set_result(const struct btf_parts *btf, uint32_t id, struct rsn_shape *shape)
{
	const uint32_t *type = resolve(btf, id);
	uint32_t size = type ? value_size(type) : 0;

	if (!type)
		shape->flags |= RSN_SHAPE_VOID;
	else if (kind_of(type) == KIND_STRUCT || kind_of(type) == KIND_UNION)
		shape->flags |= RSN_SHAPE_STRUCT_RESULT;
	else if (!size)
		shape->flags |= RSN_SHAPE_ODD_TYPE;
	shape->result_size = size < UINT8_MAX ? size : UINT8_MAX;
}

static struct rsn_shape shape_of(const struct btf_parts *btf, uint32_t id)
{
	struct rsn_shape shape = {};
	const uint32_t *func = type_at(btf, id), *proto;
	uint32_t cnt;

	proto = func && kind_of(func) == KIND_FUNC ? type_at(btf, func[2]) : NULL;
	if (!proto || kind_of(proto) != KIND_FUNC_PROTO) {
		shape.flags = RSN_SHAPE_ODD_TYPE;
		return shape;
	}
	set_result(btf, proto[2], &shape);
	cnt = proto[1] & 0xffffff;
	for (uint32_t i = 0; i < cnt; i++)
		add_param(btf, &proto[HEADER_WORDS + PARAM_WORDS * i], i == cnt - 1, &shape);
	return shape;
}

void rsn_btf_shapes(const struct rsn_btf_types *parts, size_t part_cnt, const uint32_t *ids,
		    size_t cnt, struct rsn_shape *out)
{
	struct btf_parts btf = { parts, part_cnt };

	for (size_t i = 0; i < cnt; i++)
		out[i] = shape_of(&btf, ids[i]);
}

/* Cheap, because it is taken of every symbol: its length and its last bytes. */
static uint32_t tail_hash(const char *name, size_t len)
{
	uint64_t tail = 0;

	if (len < sizeof(tail))
		memcpy(&tail, name, len);
	else
		memcpy(&tail, name + len - sizeof(tail), sizeof(tail));
	return (tail ^ len) * 0x9e3779b97f4a7c15ull >> 32;
}

static bool in_module(const struct rsn_symtab *tab, const struct rsn_sym *sym, const char *module)
{
	if (!module)
		return !sym->module_len;
	return strlen(module) == sym->module_len &&
	       !memcmp(tab->text + sym->module, module, sym->module_len);
}

int rsn_syms_namesakes(const struct rsn_symtab *tab, const char *module, const char *names,
		       size_t cnt, uint32_t *counts)
{
	const char **wanted = malloc((cnt + 1) * sizeof(*wanted));
	struct chains c;

	if (!wanted || chains_init(&c, cnt)) {
		free(wanted);
		return -1;
	}
	for (size_t i = 0; i < cnt; i++) {
		size_t len = strlen(names);

		wanted[i] = names;
		counts[i] = 0;
		chains_add(&c, tail_hash(names, len), i);
		names += len + 1;
	}
	for (size_t k = 0; k < tab->cnt; k++) {
		const struct rsn_sym *sym = &tab->syms[k];
		const char *name = tab->text + sym->name;
		uint32_t i = c.heads[tail_hash(name, sym->name_len) & c.mask];

		for (; i != NONE; i = c.next[i])
			if (strlen(wanted[i]) == sym->name_len &&
			    !memcmp(wanted[i], name, sym->name_len) && in_module(tab, sym, module))
				counts[i]++;
	}
	chains_free(&c);
	free(wanted);
	return 0;
}
