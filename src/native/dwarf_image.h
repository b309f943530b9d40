/* SPDX-License-Identifier: BSD-2-Clause */
/* Data and functions shared by dwarf.c and dwarf_open.c. */
#ifndef RSN_DWARF_IMAGE_H
#define RSN_DWARF_IMAGE_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>

#include "dwarf_api.h"
#include "dwarf_unit.h"

struct unit {
	Dwarf_Off die;
	struct unit_table *table;
	struct rsn_dwarf_unit info; /* valid once told is set */
	bool told;
	bool in_aranges;
};

struct rsn_dwarf {
	char *path;
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	Dwfl *dwfl; /* only for relocatable images; owns elf and dwarf then */
	bool keeps_caches; /* a reset would free strings that are in use */
	struct rsn_dwarf_section *sections;
	size_t nr_sections;
	struct unit *units; /* by offset */
	size_t nr_units;
	struct rsn_dwarf_range *ranges; /* by address */
	size_t nr_ranges;
	size_t cap_ranges;
	bool ranges_complete; /* includes units without .debug_aranges */
	struct rsn_dwarf_unit *infos;
	size_t table_bytes;
	uint64_t loads;
	uint64_t resets;
	unsigned int since_reset;
	char message[256];
};

/* Store the message and return the code. */
__attribute__((format(printf, 3, 4))) int image_fail(struct rsn_dwarf *image, int error,
						     const char *format, ...);
int image_fail_libdw(struct rsn_dwarf *image, const char *what);

/* Open image->path, or use fd if it is not -1. Sets image->dwarf, or fails with a reason. */
int image_open(struct rsn_dwarf *image, int fd);

/* Start libdw on an open Elf that needs no relocation. */
int image_begin_dwarf(struct rsn_dwarf *image);

/* Free the caches of libdw from time to time. Call this before libdw decodes a unit. */
int image_unit_wanted(struct rsn_dwarf *image);

/*
 * Find the unit with code at address. Returns 1 and its DIE, 0 if there is no unit, or a negative
 * error.
 */
int image_unit_at(struct rsn_dwarf *image, uint64_t address, Dwarf_Die *die);

#endif
