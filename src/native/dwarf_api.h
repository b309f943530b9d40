/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses to source lines and inline chains, from an image's DWARF. */
#ifndef RSN_DWARF_API_H
#define RSN_DWARF_API_H

#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/* Error codes. rsn_dwarf_message() returns the message. */
enum rsn_dwarf_error {
	RSN_DWARF_OK = 0,
	RSN_DWARF_IO = -1, /* cannot be opened or read */
	RSN_DWARF_NOT_ELF = -2, /* not a 64-bit ELF file */
	RSN_DWARF_NONE = -3, /* no .debug_info */
	RSN_DWARF_COMPRESSED = -4, /* compression method that this libelf does not support */
	RSN_DWARF_NO_ALT = -5, /* its supplementary file is missing */
	RSN_DWARF_DAMAGED = -6, /* libdw rejected the data */
	RSN_DWARF_NOMEM = -7,
};

/* Runtime address of a section in a relocatable (ET_REL) image. */
struct rsn_dwarf_section {
	const char *name;
	uint64_t address;
};

/* One level of an inline chain. Strings are valid until the next call on the same image. */
struct rsn_dwarf_frame {
	const char *function; /* NULL: a line-table row exists, but no function */
	const char *file; /* as in DWARF: absolute, or relative to comp_dir; NULL if unknown */
	uint32_t line;
	uint32_t column;
};

struct rsn_dwarf_unit {
	const char *name;
	const char *comp_dir;
	uint32_t language; /* DW_LANG_* */
};

/* An address range [low, high) and the index of its unit. */
struct rsn_dwarf_range {
	uint64_t low;
	uint64_t high;
	uint64_t unit;
};

struct rsn_dwarf_stats {
	uint64_t units; /* in the image */
	uint64_t loads; /* unit tables built, including rebuilt ones */
	uint64_t bytes; /* unit tables in memory now */
	uint64_t resets; /* times libdw's caches were dropped to limit memory */
};

struct rsn_dwarf;

/*
 * Open an image. If fd is -1, open path; otherwise use fd. sections apply only to ET_REL images;
 * other images keep their link-time addresses. On failure, return NULL, set *error to an enum
 * rsn_dwarf_error and write the reason to message.
 */
struct rsn_dwarf *rsn_dwarf_open(const char *path, int fd, const struct rsn_dwarf_section *sections,
				 size_t nr_sections, int *error, char *message, size_t size);
void rsn_dwarf_close(struct rsn_dwarf *image);

/*
 * Write the inline chain at address, innermost first, at most max frames. *unit receives the unit
 * of the address. Returns the number of frames, 0 if DWARF has no data for the address, or a
 * negative error.
 */
int rsn_dwarf_lookup(struct rsn_dwarf *image, uint64_t address, struct rsn_dwarf_frame *frames,
		     int max, struct rsn_dwarf_unit *unit);

/* All compile units, and all their address ranges sorted by address. */
int rsn_dwarf_units(struct rsn_dwarf *image, struct rsn_dwarf_unit **units, size_t *nr_units,
		    struct rsn_dwarf_range **ranges, size_t *nr_ranges);

/* An address at which the code of a source line begins. */
struct rsn_dwarf_place {
	uint64_t address;
	const char *file; /* as in DWARF; valid until the next call on the same image */
	int is_empty; /* the row has no code: the next row begins at the same address */
};

/*
 * Write the places in a unit where the code of a source line begins: statement rows after a row of
 * another line. A file matches if its path is `path` or ends in it. Returns the number of places or
 * a negative error; places receives at most max. If the unit has code of a nearer line before or
 * after, *below or *above is updated to that line.
 */
ptrdiff_t rsn_dwarf_find_line(struct rsn_dwarf *image, size_t unit, const char *path, uint32_t line,
			      struct rsn_dwarf_place *places, size_t max, uint32_t *below,
			      uint32_t *above);

/* Where a variable is stored just before the instruction at an address runs. */
enum rsn_dwarf_where {
	RSN_DWARF_IN_REGISTER, /* in reg */
	RSN_DWARF_IN_MEMORY, /* at reg + offset */
	RSN_DWARF_IS_SUM, /* the value is reg + offset */
	RSN_DWARF_WAS_GIVEN, /* the value of reg at function entry */
};

enum rsn_dwarf_kind {
	RSN_DWARF_OTHER, /* arrays, functions, void */
	RSN_DWARF_NUMBER,
	RSN_DWARF_ENUM,
	RSN_DWARF_STRUCT,
	RSN_DWARF_UNION,
};

/* A variable or parameter. Strings are valid until the next call on the same image. */
struct rsn_dwarf_variable {
	const char *name;
	const char *type; /* name of the type without pointers, typedefs and qualifiers, or NULL */
	int64_t offset;
	uint64_t size; /* bytes of the variable, 0 if unknown */
	uint32_t where; /* enum rsn_dwarf_where */
	uint32_t kind; /* enum rsn_dwarf_kind, of type */
	uint32_t reg; /* DWARF's number */
	uint32_t pointers; /* pointers to follow before `type` */
	uint32_t depth; /* scope depth; 0: outermost function */
	int in_header; /* declared in a file with the suffix .h */
};

/*
 * Write the variables that have a known location at address, at most max. Variables of inner scopes
 * follow those of outer scopes. Returns their number or a negative error.
 */
int rsn_dwarf_variables(struct rsn_dwarf *image, uint64_t address,
			struct rsn_dwarf_variable *variables, int max);

/* The message of the last failure on this image. */
const char *rsn_dwarf_message(const struct rsn_dwarf *image);
void rsn_dwarf_get_stats(const struct rsn_dwarf *image, struct rsn_dwarf_stats *stats);
/* cdef end */

#endif
