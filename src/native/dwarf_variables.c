// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of the registers and memory locations at an address: variables of the functions there,
 * including inlined functions. DWARF gives the location of a variable as an expression. Only
 * expressions of a register, with or without an offset, are supported; other variables are skipped.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf_image.h"

static const int max_depth = 512; /* nesting of DIEs; only damaged data goes deeper */
static const int max_types = 64; /* DIEs between a variable and the name of its type */

struct place {
	uint32_t where;
	uint32_t reg;
	int64_t offset;
};

struct search {
	struct rsn_dwarf *image;
	uint64_t address;
	struct rsn_dwarf_variable *variables;
	int max;
	int found;
	Dwarf_Off last; /* offset of the last DIE that was checked for an inner scope */
	bool has_frame;
	struct place frame; /* base of DW_OP_fbreg */
};

/*
 * Read a register, with or without an offset, at the start of an expression. Returns the number of
 * operations read.
 */
static int read_base(const Dwarf_Op *op, struct place *place)
{
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		*place = (struct place){ RSN_DWARF_IN_REGISTER, op->atom - DW_OP_reg0, 0 };
	else if (op->atom == DW_OP_regx)
		*place = (struct place){ RSN_DWARF_IN_REGISTER, op->number, 0 };
	else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		*place = (struct place){ RSN_DWARF_IN_MEMORY, op->atom - DW_OP_breg0, op->number };
	else if (op->atom == DW_OP_bregx)
		*place = (struct place){ RSN_DWARF_IN_MEMORY, op->number, op->number2 };
	else
		return 0;
	return 1;
}

static bool read_given(const Dwarf_Op *op, Dwarf_Attribute *attr, struct place *place)
{
	Dwarf_Attribute inner;
	Dwarf_Op *ops;
	size_t count;

	if (op->atom != DW_OP_entry_value && op->atom != DW_OP_GNU_entry_value)
		return false;
	if (dwarf_getlocation_attr(attr, op, &inner) || dwarf_getlocation(&inner, &ops, &count))
		return false;
	if (count != 1 || !read_base(ops, place) || place->where != RSN_DWARF_IN_REGISTER)
		return false;
	place->where = RSN_DWARF_WAS_GIVEN;
	return true;
}

static bool read_place(const struct search *search, Dwarf_Attribute *attr, const Dwarf_Op *ops,
		       size_t count, struct place *place)
{
	bool is_value = count == 2 && ops[1].atom == DW_OP_stack_value;

	if (count != 1 && !is_value)
		return false;
	if (is_value && read_given(ops, attr, place))
		return true;
	if (ops->atom == DW_OP_fbreg) {
		if (!search->has_frame)
			return false;
		*place = search->frame;
		/* the file gives both numbers, so the sum may exceed 64 bits: wrap */
		place->offset = (int64_t)((uint64_t)place->offset + ops->number);
	} else if (!read_base(ops, place)) {
		return false;
	}
	if (!is_value)
		return true;
	place->where = RSN_DWARF_IS_SUM;
	return true;
}

/* Read the frame base from the call frame information, if it is a register and an offset. */
static bool read_cfa(const struct search *search, struct place *place)
{
	Dwarf_CFI *cfi = dwarf_getcfi(search->image->dwarf);
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t count;
	bool known;

	if (!cfi || dwarf_cfi_addrframe(cfi, search->address, &frame))
		return false;
	known = !dwarf_frame_cfa(frame, &ops, &count) && count == 1 && read_base(ops, place);
	free(frame);
	return known;
}

static void enter_function(struct search *search, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t count;

	search->has_frame = false;
	if (!dwarf_attr_integrate(die, DW_AT_frame_base, &attr) ||
	    dwarf_getlocation_addr(&attr, search->address, &ops, &count, 1) != 1 || count != 1)
		return;
	if (ops->atom == DW_OP_call_frame_cfa)
		search->has_frame = read_cfa(search, &search->frame);
	else
		search->has_frame = read_base(ops, &search->frame);
	/* a register as frame base holds an address; variables are in memory there */
	search->frame.where = RSN_DWARF_IN_MEMORY;
}

static uint32_t kind_of(int tag)
{
	switch (tag) {
	case DW_TAG_base_type:
		return RSN_DWARF_NUMBER;
	case DW_TAG_enumeration_type:
		return RSN_DWARF_ENUM;
	case DW_TAG_structure_type:
		return RSN_DWARF_STRUCT;
	case DW_TAG_union_type:
		return RSN_DWARF_UNION;
	default:
		return RSN_DWARF_OTHER;
	}
}

/* A struct without a name gets the name of its typedef. */
static void tell_type(Dwarf_Die *die, struct rsn_dwarf_variable *variable)
{
	const char *alias = NULL;
	Dwarf_Attribute attr;
	Dwarf_Word size;
	Dwarf_Die type;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, &type))
		return;
	if (!dwarf_aggregate_size(&type, &size))
		variable->size = size;
	for (int i = 0; i < max_types; i++) {
		int tag = dwarf_tag(&type);

		if (tag == DW_TAG_pointer_type) {
			variable->pointers++;
			alias = NULL;
		} else if (tag == DW_TAG_typedef) {
			alias = dwarf_diename(&type);
		} else if (tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
			   tag != DW_TAG_restrict_type && tag != DW_TAG_atomic_type) {
			variable->kind = kind_of(tag);
			variable->type = dwarf_diename(&type);
			if (!variable->type)
				variable->type = alias;
			return;
		}
		if (!dwarf_attr_integrate(&type, DW_AT_type, &attr) ||
		    !dwarf_formref_die(&attr, &type))
			return;
	}
}

static bool is_in_header(Dwarf_Die *die)
{
	const char *file = dwarf_decl_file(die);
	size_t length = file ? strlen(file) : 0;

	return length > 2 && !strcmp(file + length - 2, ".h");
}

static void add_variable(struct search *search, Dwarf_Die *die, uint32_t depth)
{
	struct rsn_dwarf_variable *variable = &search->variables[search->found];
	Dwarf_Attribute attr;
	struct place place;
	const char *name;
	Dwarf_Op *ops;
	size_t count;

	if (search->found == search->max || !dwarf_attr(die, DW_AT_location, &attr) ||
	    dwarf_getlocation_addr(&attr, search->address, &ops, &count, 1) != 1 ||
	    !read_place(search, &attr, ops, count, &place))
		return;
	name = dwarf_diename(die); /* follows abstract_origin */
	if (!name)
		return;
	*variable = (struct rsn_dwarf_variable){ .name = name,
						 .offset = place.offset,
						 .where = place.where,
						 .reg = place.reg,
						 .depth = depth,
						 .in_header = is_in_header(die) };
	tell_type(die, variable);
	search->found++;
}

/* Add the variables of a scope before those of its inner scopes. */
static void walk(struct search *search, Dwarf_Die *parent, uint32_t depth)
{
	Dwarf_Die die;

	if (depth > max_depth || dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (depth && (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter))
			add_variable(search, &die, depth - 1);
	} while (!dwarf_siblingof(&die, &die));
	if (dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (!die_is_later(&die, &search->last))
			return;
		if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine &&
		    tag != DW_TAG_lexical_block)
			continue;
		if (dwarf_haspc(&die, search->address) != 1)
			continue;
		if (tag == DW_TAG_subprogram)
			enter_function(search, &die);
		walk(search, &die, depth + 1);
	} while (!dwarf_siblingof(&die, &die));
}

int rsn_dwarf_variables(struct rsn_dwarf *image, uint64_t address,
			struct rsn_dwarf_variable *variables, int max)
{
	struct search search = {
		.image = image, .address = address, .variables = variables, .max = max
	};
	Dwarf_Die unit;
	int known = image_unit_at(image, address, &unit);

	if (known <= 0)
		return known;
	walk(&search, &unit, 0);
	return search.found;
}
