/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses to source lines and inline chains, from an image's DWARF. */
#ifndef RSN_DWARF_API_H
#define RSN_DWARF_API_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* What calls return on failure; rsn_dwarf_message() has the words. */
enum rsn_dwarf_error {
	RSN_DWARF_OK = 0,
	RSN_DWARF_IO = -1, /* cannot be opened or read */
	RSN_DWARF_NOT_ELF = -2, /* not a 64-bit ELF file */
	RSN_DWARF_NONE = -3, /* no .debug_info */
	RSN_DWARF_COMPRESSED = -4, /* compressed in a way this libelf cannot undo */
	RSN_DWARF_NO_ALT = -5, /* its supplementary file is missing */
	RSN_DWARF_DAMAGED = -6, /* libdw refuses the data */
	RSN_DWARF_NOMEM = -7,
};

/* The runtime address of one section of a relocatable (ET_REL) image. */
struct rsn_dwarf_section {
	const char *name;
	uint64_t address;
};

/* One level of an inline chain. Strings live until the next call on the same image. */
struct rsn_dwarf_frame {
	const char *function; /* NULL: the line table knows the address, no function does */
	const char *file; /* as DWARF has it: absolute, or below comp_dir; NULL if unknown */
	uint32_t line;
	uint32_t column;
};

struct rsn_dwarf_unit {
	const char *name;
	const char *comp_dir;
	uint32_t language; /* DW_LANG_* */
};

/* An address range [low, high) and the unit it belongs to, by its index. */
struct rsn_dwarf_range {
	uint64_t low;
	uint64_t high;
	uint64_t unit;
};

struct rsn_dwarf_stats {
	uint64_t units; /* in the image */
	uint64_t loads; /* unit tables built, rebuilt ones included */
	uint64_t bytes; /* unit tables held now */
	uint64_t resets; /* times libdw's own caches were dropped to bound memory */
};

struct rsn_dwarf;

/*
 * Open the image at path, or, if it is not -1, the one that is open as fd. sections are used for ET_REL images only: all other images
 * keep the addresses they were linked at. On failure NULL, a code of enum
 * rsn_dwarf_error in *error, and the reason in message.
 */
struct rsn_dwarf *rsn_dwarf_open(const char *path, int fd, const struct rsn_dwarf_section *sections,
				 size_t nr_sections, int *error, char *message, size_t size);
void rsn_dwarf_close(struct rsn_dwarf *image);

/*
 * The inline chain at address, innermost first, at most max frames.
 * Returns their number, 0 where DWARF knows nothing, or a negative error.
 * *unit is filled with the unit it belongs to.
 */
int rsn_dwarf_lookup(struct rsn_dwarf *image, uint64_t address, struct rsn_dwarf_frame *frames,
		     int max, struct rsn_dwarf_unit *unit);

/* All compile units and the address ranges of all of them, sorted by address. */
int rsn_dwarf_units(struct rsn_dwarf *image, struct rsn_dwarf_unit **units, size_t *nr_units,
		    struct rsn_dwarf_range **ranges, size_t *nr_ranges);

/* An address where code of a source line begins. */
struct rsn_dwarf_place {
	uint64_t address;
	const char *file; /* as DWARF has it; lives until the next call on the same image */
	int is_empty; /* the code there is that of the next row */
};

/*
 * Where a unit has code of a line of any file whose path is `path` or ends in it: the statements
 * whose predecessor is of another line. Returns their number, of which the first max are in places,
 * or a negative error. *below and *above become the next lines that have code, where they are
 * nearer than what these hold.
 */
ptrdiff_t rsn_dwarf_find_line(struct rsn_dwarf *image, size_t unit, const char *path, uint32_t line,
			      struct rsn_dwarf_place *places, size_t max, uint32_t *below,
			      uint32_t *above);

/* Where a variable is while the instruction at an address has not run yet. */
enum rsn_dwarf_where {
	RSN_DWARF_IN_REGISTER, /* in reg */
	RSN_DWARF_IN_MEMORY, /* at reg + offset */
	RSN_DWARF_IS_SUM, /* it is reg + offset itself */
	RSN_DWARF_WAS_GIVEN, /* what reg held when the function was entered */
};

enum rsn_dwarf_kind {
	RSN_DWARF_OTHER, /* arrays, functions, void */
	RSN_DWARF_NUMBER,
	RSN_DWARF_ENUM,
	RSN_DWARF_STRUCT,
	RSN_DWARF_UNION,
};

/* A variable or parameter. Strings live until the next call on the same image. */
struct rsn_dwarf_variable {
	const char *name;
	const char *type; /* behind pointers, typedefs and qualifiers; NULL: it has no name */
	int64_t offset;
	uint64_t size; /* bytes of the variable, 0 if unknown */
	uint32_t where; /* enum rsn_dwarf_where */
	uint32_t kind; /* enum rsn_dwarf_kind, of type */
	uint32_t reg; /* DWARF's number */
	uint32_t pointers; /* before type */
	uint32_t depth; /* of scopes: that of the outermost function is 0 */
	int in_header; /* it is declared in a file whose name ends in .h */
};

/*
 * The variables whose place is known at address, at most max, those of inner scopes behind those
 * of outer ones. Returns their number, or a negative error.
 */
int rsn_dwarf_variables(struct rsn_dwarf *image, uint64_t address,
			struct rsn_dwarf_variable *variables, int max);

/* The words for the last failure on this image. */
const char *rsn_dwarf_message(const struct rsn_dwarf *image);
void rsn_dwarf_get_stats(const struct rsn_dwarf *image, struct rsn_dwarf_stats *stats);
/* cdef end */

#endif
