/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of one compile unit: line rows, and the flattened tree of inlined functions. */
#ifndef RSN_DWARF_UNIT_H
#define RSN_DWARF_UNIT_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dwarf_api.h"

struct unit_table;

/*
 * Whether a DIE lies after *last in the file. *last then becomes its offset. Siblings in damaged data
 * can lead back to children that were visited, and each such step would double the time of a walk.
 */
static inline bool die_is_later(Dwarf_Die *die, Dwarf_Off *last)
{
	Dwarf_Off offset = dwarf_dieoffset(die);

	if (offset <= *last)
		return false;
	*last = offset;
	return true;
}

/*
 * Decode a unit. The table owns its file names. Function names point into string sections of the
 * image and are valid as long as its Elf. Returns NULL if memory ran out.
 */
struct unit_table *unit_table_build(Dwarf_Die *unit);
void unit_table_free(struct unit_table *table);
size_t unit_table_bytes(const struct unit_table *table);

/*
 * Write the inline chain at pc, innermost first. Returns the number of frames, 0 if none is known.
 */
int unit_table_lookup(const struct unit_table *table, uint64_t pc, struct rsn_dwarf_frame *frames,
		      int max);

#endif
