// SPDX-License-Identifier: BSD-2-Clause
/*
 * An ELF image with DWARF: find the compile unit of an address, and keep that unit's tables.
 *
 * libdw parses the data. A unit is decoded at the first lookup in it; its tables are kept. The
 * caches of libdw grow with every unit and cannot be freed in part, so libdw is restarted from time
 * to time. The tables survive a restart because they refer only to sections of the Elf.
 */
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dwarf_image.h"

static const size_t table_bytes_max = 64 << 20;
static const unsigned int loads_per_reset = 128;

static int list_units(struct rsn_dwarf *image)
{
	size_t capacity = 0;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;
	int more;

	while (!(more = dwarf_get_units(image->dwarf, unit, &unit, NULL, &type, &die, NULL))) {
		if (type == DW_UT_type || type == DW_UT_split_type)
			continue;
		if (image->nr_units == capacity) {
			struct unit *grown;

			capacity = capacity ? capacity * 2 : 1024;
			grown = realloc(image->units, capacity * sizeof(*grown));
			if (!grown)
				return image_fail(image, RSN_DWARF_NOMEM, "out of memory");
			image->units = grown;
		}
		image->units[image->nr_units++] = (struct unit){ .die = dwarf_dieoffset(&die) };
	}
	return more < 0 && !image->nr_units ? image_fail_libdw(image, "unit headers") : 0;
}

/* Address ranges */

static int add_range(struct rsn_dwarf *image, uint64_t low, uint64_t high, size_t unit)
{
	if (image->nr_ranges == image->cap_ranges) {
		size_t capacity = image->cap_ranges ? image->cap_ranges * 2 : 4096;
		struct rsn_dwarf_range *grown = realloc(image->ranges, capacity * sizeof(*grown));

		if (!grown)
			return image_fail(image, RSN_DWARF_NOMEM, "out of memory");
		image->ranges = grown;
		image->cap_ranges = capacity;
	}
	image->ranges[image->nr_ranges++] = (struct rsn_dwarf_range){ low, high, unit };
	return 0;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct rsn_dwarf_range *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static void sort_ranges(struct rsn_dwarf *image)
{
	/* without ranges the array is NULL, which qsort() does not accept (C11, 7.22.5) */
	if (image->ranges)
		qsort(image->ranges, image->nr_ranges, sizeof(*image->ranges), compare_ranges);
}

static int compare_units(const void *left, const void *right)
{
	const struct unit *a = left, *b = right;

	return a->die < b->die ? -1 : a->die > b->die;
}

static struct unit *unit_by_offset(struct rsn_dwarf *image, Dwarf_Off die)
{
	struct unit key = { .die = die };

	if (!image->units)
		return NULL;
	return bsearch(&key, image->units, image->nr_units, sizeof(key), compare_units);
}

/* If .debug_aranges is damaged or absent, find_unit() reads the ranges from the units instead. */
static int read_aranges(struct rsn_dwarf *image)
{
	Dwarf_Aranges *aranges;
	size_t count;
	int error = 0;

	if (dwarf_getaranges(image->dwarf, &aranges, &count))
		return 0;
	for (size_t i = 0; i < count && !error; i++) {
		Dwarf_Addr start;
		Dwarf_Word length;
		Dwarf_Off die;
		struct unit *unit;

		if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &start, &length, &die))
			continue;
		unit = unit_by_offset(image, die);
		if (!unit || !length || length > UINT64_MAX - start)
			continue;
		unit->in_aranges = true;
		error = add_range(image, start, start + length, unit - image->units);
	}
	sort_ranges(image);
	return error;
}

static int add_unit_ranges(struct rsn_dwarf *image, size_t index)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;
	Dwarf_Die die;
	int error = 0;

	if (!dwarf_offdie(image->dwarf, image->units[index].die, &die))
		return 0;
	while (!error && (offset = dwarf_ranges(&die, offset, &base, &low, &high)) > 0)
		if (high > low)
			error = add_range(image, low, high, index);
	return error;
}

static int complete_ranges(struct rsn_dwarf *image)
{
	int error = 0;

	if (image->ranges_complete)
		return 0;
	for (size_t i = 0; i < image->nr_units && !error; i++)
		if (!image->units[i].in_aranges)
			error = add_unit_ranges(image, i);
	sort_ranges(image);
	image->ranges_complete = !error;
	return error;
}

static struct unit *covering_unit(struct rsn_dwarf *image, uint64_t address)
{
	size_t low = 0, high = image->nr_ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || image->ranges[low - 1].high <= address)
		return NULL;
	return &image->units[image->ranges[low - 1].unit];
}

/*
 * Like covering_unit(), but if .debug_aranges does not cover the address, read the units' own
 * ranges.
 */
static int find_unit(struct rsn_dwarf *image, uint64_t address, struct unit **unit)
{
	int error = 0;

	*unit = covering_unit(image, address);
	if (!*unit) {
		error = complete_ranges(image);
		*unit = covering_unit(image, address);
	}
	return error;
}

int image_unit_at(struct rsn_dwarf *image, uint64_t address, Dwarf_Die *die)
{
	struct unit *unit;
	int error = find_unit(image, address, &unit);

	if (error || !unit)
		return error;
	error = image_unit_wanted(image);
	if (error)
		return error;
	if (!dwarf_offdie(image->dwarf, unit->die, die))
		return image_fail_libdw(image, "a compile unit");
	return 1;
}

static const char *string_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	const char *string = NULL;

	if (dwarf_attr(die, name, &attr))
		string = dwarf_formstring(&attr);
	return string ? string : "";
}

/* The Elf owns the strings. */
static void tell_unit(struct unit *unit, Dwarf_Die *die)
{
	unit->info.name = string_of(die, DW_AT_name);
	unit->info.comp_dir = string_of(die, DW_AT_comp_dir);
	unit->info.language = dwarf_srclang(die);
	unit->told = true;
}

/* Unit tables */

static void drop_tables(struct rsn_dwarf *image)
{
	for (size_t i = 0; i < image->nr_units; i++) {
		unit_table_free(image->units[i].table);
		image->units[i].table = NULL;
	}
	image->table_bytes = 0;
}

static int reset_libdw(struct rsn_dwarf *image)
{
	image->since_reset = 0;
	if (image->keeps_caches)
		return 0;
	dwarf_end(image->dwarf);
	image->resets++;
	return image_begin_dwarf(image);
}

int image_unit_wanted(struct rsn_dwarf *image)
{
	return image->since_reset++ >= loads_per_reset ? reset_libdw(image) : 0;
}

static int load(struct rsn_dwarf *image, struct unit *unit)
{
	Dwarf_Die die;

	if (unit->table)
		return 0;
	if (!image->dwarf)
		return RSN_DWARF_DAMAGED;
	if (!dwarf_offdie(image->dwarf, unit->die, &die))
		return image_fail_libdw(image, "a compile unit");
	if (image->table_bytes > table_bytes_max)
		drop_tables(image);
	unit->table = unit_table_build(&die);
	if (!unit->table)
		return image_fail(image, RSN_DWARF_NOMEM, "out of memory");
	tell_unit(unit, &die);
	image->table_bytes += unit_table_bytes(unit->table);
	image->loads++;
	return ++image->since_reset >= loads_per_reset ? reset_libdw(image) : 0;
}

static bool copy_sections(struct rsn_dwarf *image, const struct rsn_dwarf_section *sections,
			  size_t nr_sections)
{
	image->sections = calloc(nr_sections + 1, sizeof(*image->sections));
	if (!image->sections)
		return false;
	for (; image->nr_sections < nr_sections; image->nr_sections++) {
		struct rsn_dwarf_section *copy = &image->sections[image->nr_sections];

		copy->address = sections[image->nr_sections].address;
		copy->name = strdup(sections[image->nr_sections].name);
		if (!copy->name)
			return false;
	}
	return true;
}

/* Interface */

struct rsn_dwarf *rsn_dwarf_open(const char *path, int fd, const struct rsn_dwarf_section *sections,
				 size_t nr_sections, int *error, char *message, size_t size)
{
	struct rsn_dwarf *image = calloc(1, sizeof(*image));

	*error = RSN_DWARF_NOMEM;
	snprintf(message, size, "out of memory");
	if (!image)
		return NULL;
	image->fd = -1;
	image->path = strdup(path);
	if (image->path && copy_sections(image, sections, nr_sections)) {
		*error = image_open(image, fd);
		if (!*error)
			*error = list_units(image);
		if (!*error)
			*error = read_aranges(image);
		if (!*error)
			return image;
		snprintf(message, size, "%s", image->message);
	}
	rsn_dwarf_close(image);
	return NULL;
}

void rsn_dwarf_close(struct rsn_dwarf *image)
{
	if (!image)
		return;
	drop_tables(image);
	if (image->dwfl)
		dwfl_end(image->dwfl);
	else if (image->dwarf)
		dwarf_end(image->dwarf);
	if (image->elf)
		elf_end(image->elf);
	if (image->fd >= 0)
		close(image->fd);
	for (size_t i = 0; i < image->nr_sections; i++)
		free((char *)image->sections[i].name);
	free(image->sections);
	free(image->units);
	free(image->ranges);
	free(image->infos);
	free(image->path);
	free(image);
}

int rsn_dwarf_lookup(struct rsn_dwarf *image, uint64_t address, struct rsn_dwarf_frame *frames,
		     int max, struct rsn_dwarf_unit *info)
{
	struct unit *unit;
	int error = find_unit(image, address, &unit);

	if (error || !unit)
		return error;
	error = load(image, unit);
	if (error)
		return error;
	*info = unit->info;
	return unit_table_lookup(unit->table, address, frames, max);
}

static int read_infos(struct rsn_dwarf *image)
{
	image->infos = calloc(image->nr_units + 1, sizeof(*image->infos));
	if (!image->infos)
		return image_fail(image, RSN_DWARF_NOMEM, "out of memory");
	for (size_t i = 0; i < image->nr_units; i++) {
		struct unit *unit = &image->units[i];
		Dwarf_Die die;

		if (!unit->told && dwarf_offdie(image->dwarf, unit->die, &die))
			tell_unit(unit, &die);
		image->infos[i] = unit->info;
		if (!unit->told)
			image->infos[i].name = image->infos[i].comp_dir = "";
	}
	return reset_libdw(image);
}

int rsn_dwarf_units(struct rsn_dwarf *image, struct rsn_dwarf_unit **units, size_t *nr_units,
		    struct rsn_dwarf_range **ranges, size_t *nr_ranges)
{
	int error = complete_ranges(image);

	if (!error && !image->infos)
		error = read_infos(image);
	*units = image->infos;
	*nr_units = image->nr_units;
	*ranges = image->ranges;
	*nr_ranges = image->nr_ranges;
	return error;
}

const char *rsn_dwarf_message(const struct rsn_dwarf *image)
{
	return image->message;
}

void rsn_dwarf_get_stats(const struct rsn_dwarf *image, struct rsn_dwarf_stats *stats)
{
	*stats = (struct rsn_dwarf_stats){ image->nr_units, image->loads, image->table_bytes,
					   image->resets };
}
