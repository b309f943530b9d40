// SPDX-License-Identifier: BSD-2-Clause
/* Open an image. Fail with a reason if libdw would silently ignore a part of it. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dwarf_image.h"

int image_fail(struct rsn_dwarf *image, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(image->message, sizeof(image->message), format, args);
	va_end(args);
	return error;
}

int image_fail_libdw(struct rsn_dwarf *image, const char *what)
{
	return image_fail(image, RSN_DWARF_DAMAGED, "%s: %s", what, dwarf_errmsg(-1));
}

static const char *compression_name(const GElf_Chdr *header)
{
	switch (header->ch_type) {
	case ELFCOMPRESS_ZLIB:
		return "zlib";
	case 2: /* ELFCOMPRESS_ZSTD, which older versions of elf.h do not define */
		return "zstd";
	default:
		return "an unknown method";
	}
}

/* Check this because libdw silently skips every section that it cannot decompress. */
static int check_compression(struct rsn_dwarf *image, Elf_Scn *section, const GElf_Shdr *header,
			     const char *name)
{
	GElf_Chdr compression;

	if (!(header->sh_flags & SHF_COMPRESSED))
		return 0;
	if (!gelf_getchdr(section, &compression))
		return image_fail(image, RSN_DWARF_DAMAGED, "section %s: %s", name, elf_errmsg(-1));
	if (elf_compress(section, 0, 0) < 0)
		return image_fail(
			image, RSN_DWARF_COMPRESSED,
			"section %s is compressed with %s, which this libelf cannot undo: %s", name,
			compression_name(&compression), elf_errmsg(-1));
	return 0;
}

static int check_sections(struct rsn_dwarf *image, bool *has_alt)
{
	Elf_Scn *section = NULL;
	bool has_info = false;
	size_t strings;

	if (elf_getshdrstrndx(image->elf, &strings))
		return image_fail(image, RSN_DWARF_DAMAGED, "no section names: %s", elf_errmsg(-1));
	while ((section = elf_nextscn(image->elf, section))) {
		GElf_Shdr header;
		const char *name;
		int error;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(image->elf, strings, header.sh_name);
		if (!name)
			continue;
		if (!strcmp(name, ".gnu_debugaltlink"))
			*has_alt = true;
		if (header.sh_type == SHT_NOBITS || strncmp(name, ".debug_", 7))
			has_info |= !strcmp(name, ".zdebug_info");
		else if ((error = check_compression(image, section, &header, name)))
			return error;
		else
			has_info |= !strcmp(name, ".debug_info");
	}
	return has_info ? 0 : image_fail(image, RSN_DWARF_NONE, "it has no .debug_info section");
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	struct rsn_dwarf *image = *userdata;

	(void)module, (void)name, (void)base, (void)elf;
	*file_name = strdup(image->path);
	if (!*file_name)
		return -1;
	return fcntl(image->fd, F_DUPFD_CLOEXEC, 0);
}

static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file_name, const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)userdata, (void)name, (void)base;
	(void)file_name, (void)link, (void)crc, (void)found;
	return -1;
}

/* The kernel frees a module's .init sections. A section that is not listed is not in memory. */
static int section_address(Dwfl_Module *module, void **userdata, const char *modname,
			   Dwarf_Addr base, const char *name, GElf_Word index,
			   const GElf_Shdr *header, Dwarf_Addr *address)
{
	struct rsn_dwarf *image = *userdata;

	(void)module, (void)modname, (void)base, (void)index, (void)header;
	*address = (Dwarf_Addr)-1;
	for (size_t i = 0; i < image->nr_sections; i++)
		if (!strcmp(image->sections[i].name, name))
			*address = image->sections[i].address;
	return DWARF_CB_OK;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = section_address,
};

/* Only dwfl_report_module() calls back for section addresses; dwfl_report_elf() invents them. */
static int open_relocatable(struct rsn_dwarf *image)
{
	Dwarf_Addr bias, low = UINT64_MAX, high = 0;
	Dwfl_Module *module;
	void **userdata;

	for (size_t i = 0; i < image->nr_sections; i++) {
		low = image->sections[i].address < low ? image->sections[i].address : low;
		high = image->sections[i].address > high ? image->sections[i].address : high;
	}
	if (!image->nr_sections)
		low = 0;
	image->dwfl = dwfl_begin(&callbacks);
	if (!image->dwfl)
		return image_fail(image, RSN_DWARF_NOMEM, "libdwfl: %s", dwfl_errmsg(-1));
	dwfl_report_begin(image->dwfl);
	module = dwfl_report_module(image->dwfl, "module", low, high + 1);
	if (!module)
		return image_fail(image, RSN_DWARF_DAMAGED, "libdwfl: %s", dwfl_errmsg(-1));
	dwfl_module_info(module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = image;
	dwfl_report_end(image->dwfl, NULL, NULL);
	image->dwarf = dwfl_module_getdwarf(module, &bias);
	if (!image->dwarf)
		return image_fail(image, RSN_DWARF_DAMAGED, "libdwfl: %s", dwfl_errmsg(-1));
	image->keeps_caches = true;
	return 0;
}

int image_begin_dwarf(struct rsn_dwarf *image)
{
	image->dwarf = dwarf_begin_elf(image->elf, DWARF_C_READ, NULL);
	return image->dwarf ? 0 : image_fail_libdw(image, "libdw");
}

/* Accept only a regular file, because opening a FIFO can block. */
static int open_file(struct rsn_dwarf *image, int fd)
{
	struct stat status;

	if (fd >= 0)
		image->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	else
		image->fd = open(image->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (image->fd < 0 || fstat(image->fd, &status))
		return image_fail(image, RSN_DWARF_IO, "%s", strerror(errno));
	if (!S_ISREG(status.st_mode))
		return image_fail(image, RSN_DWARF_NOT_ELF, "it is not a regular file");
	return 0;
}

int image_open(struct rsn_dwarf *image, int fd)
{
	bool has_alt = false;
	GElf_Ehdr header;
	int error = open_file(image, fd);

	if (error)
		return error;
	elf_version(EV_CURRENT);
	image->elf = elf_begin(image->fd, ELF_C_READ_MMAP, NULL);
	if (!image->elf)
		return image_fail(image, RSN_DWARF_NOT_ELF, "%s", elf_errmsg(-1));
	if (elf_kind(image->elf) != ELF_K_ELF || !gelf_getehdr(image->elf, &header) ||
	    gelf_getclass(image->elf) != ELFCLASS64)
		return image_fail(image, RSN_DWARF_NOT_ELF, "it is not a 64-bit ELF file");
	error = check_sections(image, &has_alt);
	if (!error)
		error = header.e_type == ET_REL ? open_relocatable(image) :
						  image_begin_dwarf(image);
	if (error || !has_alt)
		return error;
	image->keeps_caches = true;
	if (!dwarf_getalt(image->dwarf))
		return image_fail(image, RSN_DWARF_NO_ALT, "its supplementary file is missing");
	return 0;
}
