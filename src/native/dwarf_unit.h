/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of one compile unit: its line rows, and its inline tree flattened. */
#ifndef RSN_DWARF_UNIT_H
#define RSN_DWARF_UNIT_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "dwarf_api.h"

struct unit_table;

/*
 * Decode the unit once. The table owns its file names; function names point into the
 * image's string sections and live as long as its Elf. NULL when memory runs out.
 */
struct unit_table *unit_table_build(Dwarf_Die *unit);
void unit_table_free(struct unit_table *table);
size_t unit_table_bytes(const struct unit_table *table);

/* The chain at pc, innermost first; the number of frames, 0 where nothing is known. */
int unit_table_lookup(const struct unit_table *table, uint64_t pc, struct rsn_dwarf_frame *frames,
		      int max);

#endif
