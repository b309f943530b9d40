// SPDX-License-Identifier: BSD-2-Clause
/*
 * One pass over a unit's DIEs and line program produces three sorted arrays. A lookup is then two
 * binary searches, without a call into libdw.
 */
#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf_paint.h"
#include "dwarf_unit.h"

static const uint16_t file_unknown = 0xffff;
static const uint16_t file_end = 0xfffe; /* row of an end_sequence: no code follows */
static const int max_depth = 512; /* nesting of DIEs; only damaged data goes deeper */

struct row {
	uint64_t address;
	uint32_t line;
	uint16_t column;
	uint16_t file;
};

/* A function, or an inlined copy in parent; call_* is the place of the call. */
struct scope {
	const char *name;
	uint32_t parent;
	uint32_t call_line;
	uint16_t call_column;
	uint16_t call_file;
};

struct unit_table {
	struct row *rows;
	struct scope *scopes;
	struct span *spans;
	char **files;
	size_t nr_rows;
	size_t nr_scopes;
	size_t nr_spans;
	size_t nr_files;
	size_t bytes;
};

struct builder {
	struct unit_table *table;
	struct interval *intervals;
	size_t nr_intervals;
	size_t cap_intervals;
	size_t cap_scopes;
	Dwarf_Off last; /* offset of the last visited DIE */
	bool nests_in_types; /* Rust, C++: types and namespaces contain functions */
	bool no_memory;
};

static bool reserve(void **array, size_t *capacity, size_t used, size_t element)
{
	size_t wanted = *capacity ? *capacity * 2 : 64;
	void *grown;

	if (used < *capacity)
		return true;
	grown = realloc(*array, wanted * element);
	if (!grown)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

static uint16_t clamp16(Dwarf_Word value, uint16_t otherwise)
{
	return value < file_end ? (uint16_t)value : otherwise;
}

static Dwarf_Word attr_number(Dwarf_Die *die, unsigned int name, Dwarf_Word otherwise)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attr) || dwarf_formudata(&attr, &value))
		return otherwise;
	return value;
}

/* DW_AT_name, also through DW_AT_abstract_origin and DW_AT_specification. */
static const char *die_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_name, &attr))
		return NULL;
	return dwarf_formstring(&attr);
}

static uint32_t add_scope(struct builder *b, Dwarf_Die *die, uint32_t parent)
{
	struct unit_table *t = b->table;
	struct scope *scope;

	if (!reserve((void **)&t->scopes, &b->cap_scopes, t->nr_scopes, sizeof(*t->scopes))) {
		b->no_memory = true;
		return no_scope;
	}
	scope = &t->scopes[t->nr_scopes];
	*scope = (struct scope){ .name = die_name(die),
				 .parent = parent,
				 .call_file = file_unknown };
	if (parent != no_scope) {
		scope->call_file =
			clamp16(attr_number(die, DW_AT_call_file, file_unknown), file_unknown);
		scope->call_line = (uint32_t)attr_number(die, DW_AT_call_line, 0);
		scope->call_column = clamp16(attr_number(die, DW_AT_call_column, 0), 0);
	}
	return t->nr_scopes++;
}

static size_t add_intervals(struct builder *b, Dwarf_Die *die)
{
	size_t before = b->nr_intervals;
	Dwarf_Addr base, low, high;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
		if (high <= low)
			continue;
		if (!reserve((void **)&b->intervals, &b->cap_intervals, b->nr_intervals,
			     sizeof(*b->intervals))) {
			b->no_memory = true;
			break;
		}
		b->intervals[b->nr_intervals++] = (struct interval){ low, high, no_scope };
	}
	return b->nr_intervals - before;
}

static void walk(struct builder *b, Dwarf_Die *parent, uint32_t scope, int depth);

/*
 * Visit a function with code. Abstract instances and declarations have no code, nor do their
 * children.
 */
static void visit_function(struct builder *b, Dwarf_Die *die, uint32_t parent, int depth)
{
	size_t first = b->nr_intervals;
	uint32_t scope;

	if (!add_intervals(b, die))
		return;
	scope = add_scope(b, die, parent);
	for (; first < b->nr_intervals; first++)
		b->intervals[first].scope = scope;
	walk(b, die, scope, depth + 1);
}

static void visit(struct builder *b, Dwarf_Die *die, uint32_t scope, int depth)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
		visit_function(b, die, no_scope, depth);
		break;
	case DW_TAG_inlined_subroutine:
		visit_function(b, die, scope, depth);
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		walk(b, die, scope, depth + 1);
		break;
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		if (b->nests_in_types)
			walk(b, die, scope, depth + 1);
		break;
	default:
		break;
	}
}

static void walk(struct builder *b, Dwarf_Die *parent, uint32_t scope, int depth)
{
	Dwarf_Die die;

	if (depth > max_depth || b->no_memory || dwarf_child(parent, &die) != 0)
		return;
	do {
		if (!die_is_later(&die, &b->last))
			return;
		visit(b, &die, scope, depth);
	} while (!b->no_memory && dwarf_siblingof(&die, &die) == 0);
}

static bool add_row(struct unit_table *t, Dwarf_Line *line)
{
	struct row row = { .file = file_unknown };
	struct row *last = t->nr_rows ? &t->rows[t->nr_rows - 1] : NULL;
	Dwarf_Files *files;
	Dwarf_Addr address;
	size_t file;
	bool end;
	int number = 0, column = 0;

	if (dwarf_lineaddr(line, &address) || dwarf_lineendsequence(line, &end))
		return false;
	row.address = address;
	if (end) {
		row.file = file_end;
	} else {
		dwarf_lineno(line, &number);
		dwarf_linecol(line, &column);
		row.line = number;
		row.column = clamp16(column, 0);
		if (!dwarf_line_file(line, &files, &file))
			row.file = clamp16(file, file_unknown);
	}
	if (last &&
	    last->address == address) /* if several rows have one address, the last counts */
		*last = row;
	else if (!last || memcmp(&last->line, &row.line, sizeof(row) - sizeof(row.address)))
		t->rows[t->nr_rows++] = row;
	return true;
}

/*
 * libdw sorts the rows of all sequences by address, and an end before a start at the same address.
 */
static bool load_rows(struct unit_table *t, Dwarf_Die *unit)
{
	Dwarf_Lines *lines;
	size_t count;

	if (dwarf_getsrclines(unit, &lines, &count))
		return true; /* without a line program, the functions are still useful */
	t->rows = malloc((count + 1) * sizeof(*t->rows));
	if (!t->rows)
		return false;
	for (size_t i = 0; i < count; i++)
		add_row(t, dwarf_onesrcline(lines, i));
	return true;
}

/* Copy the file names that rows and call sites use, because libdw frees its own with its caches. */
static bool load_files(struct unit_table *t, Dwarf_Die *unit)
{
	Dwarf_Files *files;
	bool *used, ok = true;
	size_t count;

	if (dwarf_getsrcfiles(unit, &files, &count))
		return true;
	t->files = calloc(count + 1, sizeof(*t->files));
	used = calloc(count + 1, sizeof(*used));
	if (!t->files || !used) {
		free(used);
		return false;
	}
	t->nr_files = count;
	for (size_t i = 0; i < t->nr_rows; i++)
		if (t->rows[i].file < count)
			used[t->rows[i].file] = true;
	for (size_t i = 0; i < t->nr_scopes; i++)
		if (t->scopes[i].call_file < count)
			used[t->scopes[i].call_file] = true;
	for (size_t i = 0; i < count && ok; i++) {
		const char *name = used[i] ? dwarf_filesrc(files, i, NULL, NULL) : NULL;

		if (!name)
			continue;
		t->files[i] = strdup(name);
		t->bytes += strlen(name) + 16;
		ok = t->files[i];
	}
	free(used);
	return ok;
}

static bool nests_in_types(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
		return false;
	default:
		return true;
	}
}

static void shrink(void **array, size_t count, size_t element)
{
	void *smaller = realloc(*array, (count + 1) * element);

	if (smaller)
		*array = smaller;
}

static void finish(struct unit_table *t)
{
	shrink((void **)&t->rows, t->nr_rows, sizeof(*t->rows));
	shrink((void **)&t->scopes, t->nr_scopes, sizeof(*t->scopes));
	shrink((void **)&t->spans, t->nr_spans, sizeof(*t->spans));
	t->bytes += sizeof(*t) + t->nr_rows * sizeof(*t->rows) + t->nr_files * sizeof(*t->files) +
		    t->nr_scopes * sizeof(*t->scopes) + t->nr_spans * sizeof(*t->spans);
}

struct unit_table *unit_table_build(Dwarf_Die *unit)
{
	struct builder b = { .table = calloc(1, sizeof(*b.table)) };
	bool ok;

	if (!b.table)
		return NULL;
	b.nests_in_types = nests_in_types(unit);
	walk(&b, unit, no_scope, 0);
	b.table->nr_spans = paint_spans(b.intervals, b.nr_intervals, &b.table->spans);
	ok = !b.no_memory && b.table->spans && load_rows(b.table, unit) &&
	     load_files(b.table, unit);
	free(b.intervals);
	if (!ok) {
		unit_table_free(b.table);
		return NULL;
	}
	finish(b.table);
	return b.table;
}

void unit_table_free(struct unit_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nr_files; i++)
		free(t->files[i]);
	free(t->files);
	free(t->rows);
	free(t->scopes);
	free(t->spans);
	free(t);
}

size_t unit_table_bytes(const struct unit_table *t)
{
	return t->bytes;
}

static const struct row *row_at(const struct unit_table *t, uint64_t pc)
{
	size_t low = 0, high = t->nr_rows;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->rows[middle].address <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || t->rows[low - 1].file == file_end)
		return NULL;
	return &t->rows[low - 1];
}

static uint32_t scope_at(const struct unit_table *t, uint64_t pc)
{
	size_t low = 0, high = t->nr_spans;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->spans[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? t->spans[low - 1].scope : no_scope;
}

static const char *file_name(const struct unit_table *t, uint16_t file)
{
	return file < t->nr_files ? t->files[file] : NULL;
}

int unit_table_lookup(const struct unit_table *t, uint64_t pc, struct rsn_dwarf_frame *frames,
		      int max)
{
	struct rsn_dwarf_frame here = { 0 };
	const struct row *row = row_at(t, pc);
	uint32_t at = scope_at(t, pc);
	int count = 0;

	if (row) {
		here.file = file_name(t, row->file);
		here.line = row->line;
		here.column = row->column;
	}
	if (at == no_scope) {
		if (row && max > 0)
			frames[count++] = here;
		return count;
	}
	for (; at != no_scope && count < max; at = t->scopes[at].parent) {
		const struct scope *scope = &t->scopes[at];

		here.function = scope->name ? scope->name : "";
		frames[count++] = here;
		here.file = file_name(t, scope->call_file);
		here.line = scope->call_line;
		here.column = scope->call_column;
	}
	return count;
}
