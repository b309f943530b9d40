// SPDX-License-Identifier: BSD-2-Clause
/* Find the addresses of a source line's code. */
#include <string.h>

#include "dwarf_image.h"

/* State of a search in one unit's line table. */
struct search {
	const char *path;
	uint32_t line;
	struct rsn_dwarf_place *places;
	size_t max;
	size_t found;
	uint32_t *below;
	uint32_t *above;
	bool in_line; /* the previous row was of the line */
};

/* Whether path equals end, or ends in it at the start of a path component. */
static bool ends_in(const char *path, const char *end)
{
	size_t length = strlen(path), tail = strlen(end);

	if (tail > length || strcmp(path + length - tail, end))
		return false;
	return tail == length || path[length - tail - 1] == '/';
}

/* Whether the file table contains the file. It is checked first, to skip the rows if not. */
static bool has_file(Dwarf_Die *unit, const char *end)
{
	Dwarf_Files *files;
	size_t count;

	if (dwarf_getsrcfiles(unit, &files, &count))
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);

		if (path && ends_in(path, end))
			return true;
	}
	return false;
}

static void tell_near(struct search *search, uint32_t line)
{
	if (line < search->line && line > *search->below)
		*search->below = line;
	if (line > search->line && line < *search->above)
		*search->above = line;
}

/* Check a row; next is the row after it, or NULL at the end. */
static void look_at(struct search *search, Dwarf_Line *row, Dwarf_Line *next)
{
	const char *file = dwarf_linesrc(row, NULL, NULL);
	bool end = true, statement = false;
	Dwarf_Addr address, next_address;
	int line = 0;

	dwarf_lineendsequence(row, &end);
	dwarf_linebeginstatement(row, &statement);
	if (end || !file || dwarf_lineno(row, &line) || dwarf_lineaddr(row, &address) ||
	    !ends_in(file, search->path)) {
		search->in_line = false;
		return;
	}
	if (statement)
		tell_near(search, line);
	if ((uint32_t)line != search->line) {
		search->in_line = false;
	} else if (statement && !search->in_line) {
		bool is_empty = next && !dwarf_lineaddr(next, &next_address) &&
				next_address == address;

		if (search->found < search->max)
			search->places[search->found] =
				(struct rsn_dwarf_place){ address, file, is_empty };
		search->found++;
		search->in_line = true;
	}
}

ptrdiff_t rsn_dwarf_find_line(struct rsn_dwarf *image, size_t unit, const char *path, uint32_t line,
			      struct rsn_dwarf_place *places, size_t max, uint32_t *below,
			      uint32_t *above)
{
	struct search search = { path, line, places, max, 0, below, above, false };
	int error = image_unit_wanted(image);
	Dwarf_Lines *lines;
	Dwarf_Die die;
	size_t count;

	if (error)
		return error;
	if (unit >= image->nr_units || !image->dwarf ||
	    !dwarf_offdie(image->dwarf, image->units[unit].die, &die))
		return image_fail_libdw(image, "a compile unit");
	if (!has_file(&die, path) || dwarf_getsrclines(&die, &lines, &count))
		return 0;
	for (size_t i = 0; i < count; i++)
		look_at(&search, dwarf_onesrcline(lines, i), dwarf_onesrcline(lines, i + 1));
	return search.found;
}
