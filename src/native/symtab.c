// SPDX-License-Identifier: BSD-2-Clause
/*
 * Symbol lists: kallsyms, and the functions that the function tracer can hook. A list is parsed
 * while it is read, and only the necessary parts are kept. Functions are two fifths of the symbols
 * in kallsyms and need a third of the bytes of their lines.
 */
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts.h"

enum {
	CHUNK = 64 << 10,
	FIRST_ROOM = 1 << 10,
	RECORD_HEAD = 9, /* address and type */
};

static unsigned int hex_digit(unsigned char c)
{
	unsigned int digit = c - '0';

	if (digit < 10)
		return digit;
	digit = (c | 0x20) - 'a';
	return digit < 6 ? digit + 10 : 16;
}

/*
 * Parse eight hex digits at once: 0x30 to 0x39, 0x41 to 0x46 or 0x61 to 0x66. All of these have
 * either bit 4 or bit 6 set. Returns false for other text.
 */
static bool parse_hex8(const char *p, uint64_t *val)
{
	const uint64_t bit = 0x0101010101010101;
	uint64_t text, letters, x;

	memcpy(&text, p, sizeof(text));
	text = be64toh(text);
	letters = text & bit << 6;
	x = (text & bit * 0xf) + (letters >> 6) * 9;
	if (((letters >> 2) ^ (text & bit << 4)) != bit << 4 || (x & bit * 0xf0))
		return false;
	x = (x | x >> 4) & 0x00ff00ff00ff00ff;
	x = (x | x >> 8) & 0x0000ffff0000ffff;
	*val = (x | x >> 16) & 0xffffffff;
	return true;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *val)
{
	const char *start = p;
	unsigned int digit;
	uint64_t high;

	if (end - p > 16 && p[16] == ' ' && parse_hex8(p, &high) && parse_hex8(p + 8, val)) {
		*val |= high << 32;
		return p + 17;
	}
	*val = 0;
	for (; p < end && (digit = hex_digit(*p)) < 16; p++)
		*val = *val << 4 | digit;
	return p > start && p < end && *p == ' ' ? p + 1 : NULL;
}

static const char *parse_prefix(const char *p, const char *end, int list, struct rsn_sym *sym)
{
	if (list == RSN_LIST_NAMES)
		return p;
	p = parse_hex(p, end, &sym->addr);
	if (!p || list == RSN_LIST_ADDRS)
		return p;
	if (end - p < 3 || p[1] != ' ')
		return NULL;
	sym->type = p[0];
	return p + 2;
}

static bool is_text(char type)
{
	return (type | 0x20) == 't' || (type | 0x20) == 'w';
}

/* Whether it is a text symbol (t T w W), other than padding for call depth or CFI. */
static bool is_code(const struct rsn_sym *sym, const char *name, const char *end)
{
	if (!is_text(sym->type))
		return false;
	return end - name < 6 || (memcmp(name, "__pfx_", 6) && memcmp(name, "__cfi_", 6));
}

/*
 * Whether it is a mapping symbol such as "$x" or "$d.7", which marks the start of code or data (ELF
 * for the Arm 64-bit Architecture, 5.5.4).
 */
static bool is_mapping(const char *name, const char *end)
{
	return name < end && *name == '$';
}

static void *grown(void *data, size_t *room, size_t need, size_t size)
{
	size_t want = *room ? *room : FIRST_ROOM;

	if (need <= *room)
		return data;
	if (need > SIZE_MAX / 2 / size)
		return NULL;
	while (want < need)
		want += want / 2;
	data = realloc(data, want * size);
	if (data)
		*room = want;
	return data;
}

/* Store a copy of len bytes. Returns its offset, or -1 if memory ran out. */
static int64_t add_text(struct rsn_symtab *tab, const char *text, size_t len)
{
	char *data = grown(tab->text, &tab->text_room, tab->text_len + len, 1);

	if (!data)
		return -1;
	tab->text = data;
	memcpy(data + tab->text_len, text, len);
	tab->text_len += len;
	return tab->text_len - len;
}

/* Store a module name once for all its symbols, which are adjacent in the list. */
static int64_t add_module(struct rsn_symtab *tab, const char *name, size_t len)
{
	const struct rsn_sym *last = tab->cnt ? &tab->syms[tab->cnt - 1] : NULL;

	if (last && last->module_len == len && !memcmp(tab->text + last->module, name, len))
		return last->module;
	return add_text(tab, name, len);
}

static int append(struct rsn_symtab *tab, const struct rsn_sym *sym)
{
	struct rsn_sym *syms = grown(tab->syms, &tab->room, tab->cnt + 1, sizeof(*syms));

	if (!syms)
		return -1;
	tab->syms = syms;
	syms[tab->cnt++] = *sym;
	return 0;
}

/* Whether the last symbol is not code and already ends all code before it. */
static bool has_ended(const struct rsn_symtab *tab)
{
	const struct rsn_sym *last;

	if (tab->cnt < 2)
		return false;
	last = &tab->syms[tab->cnt - 1];
	return !last->type && last[-1].addr < last->addr;
}

/*
 * Whether a kallsyms line is a data symbol after another data symbol. Data symbols only mark the
 * end of the code before them. The kernel's own symbols are sorted, so the first data symbol after
 * code is enough. This skips one symbol of four.
 */
static bool is_more_data(const struct rsn_symtab *tab, const char *p, const char *end)
{
	return end - p > 19 && p[16] == ' ' && !is_text(p[17]) && end[-1] != ']' && has_ended(tab);
}

/* Add an address at which code ends. It has no name: none is stored. */
static int add_end(struct rsn_symtab *tab, struct rsn_sym *sym)
{
	sym->name = tab->text_len;
	sym->name_len = 0;
	sym->module_len = 0;
	sym->type = 0;
	return append(tab, sym);
}

static int add_symbol(struct rsn_symtab *tab, struct rsn_sym *sym, const char *name,
		      const char *module)
{
	int64_t name_at, module_at = 0;

	if (sym->module_len)
		module_at = add_module(tab, module, sym->module_len);
	name_at = add_text(tab, name, sym->name_len);
	if (name_at < 0 || module_at < 0 || tab->text_len > UINT32_MAX)
		return -1;
	sym->name = name_at;
	sym->module = module_at;
	return append(tab, sym);
}

/* Add a line. Skips a line that is not a symbol. Returns -1 if memory ran out. */
static int add_line(struct rsn_symtab *tab, const char *p, const char *end)
{
	struct rsn_sym sym = {};
	const char *module = NULL, *name;

	if (tab->list == RSN_LIST_KALLSYMS && is_more_data(tab, p, end))
		return 0;
	name = parse_prefix(p, end, tab->list, &sym);
	if (!name)
		return 0;
	if (tab->list == RSN_LIST_KALLSYMS && !is_code(&sym, name, end))
		return add_end(tab, &sym);
	if (is_mapping(name, end))
		return 0;
	p = memchr(name, tab->list == RSN_LIST_KALLSYMS ? '\t' : ' ', end - name);
	if (!p)
		p = end;
	if (p == name || p - name > UINT16_MAX)
		return 0;
	sym.name_len = p - name;
	if (end - p > 3 && p[1] == '[' && end[-1] == ']' && end - p - 3 <= UINT16_MAX) {
		module = p + 2;
		sym.module_len = end - p - 3;
	}
	return add_symbol(tab, &sym, name, module);
}

/*
 * Whether the symbol is the program of ksyms.c, which lists itself and is unloaded after reading.
 */
static bool is_reader(const char *name, size_t len)
{
	static const char own[] = "_" RSN_KSYMS_PROGRAM;
	const size_t own_len = sizeof(own) - 1;

	return len > own_len && !memcmp(name + len - own_len, own, own_len);
}

/*
 * Add one record of ksyms.c. Returns the end of the record, or NULL if it is incomplete. *err
 * receives a negative errno on failure.
 */
static const char *add_record(struct rsn_symtab *tab, const char *p, const char *end, int *err)
{
	struct rsn_sym sym = {};
	const char *name = p + RECORD_HEAD, *name_end, *module;
	unsigned char type;

	if (end - p < RECORD_HEAD)
		return NULL;
	memcpy(&sym.addr, p, sizeof(sym.addr));
	type = p[sizeof(sym.addr)];
	if (type <= RSN_KSYM_TRACE_POINTS) {
		if (type == RSN_KSYM_TRACE_POINTS)
			tab->trace_points = sym.addr;
		if (type == RSN_KSYM_TOO_LONG)
			*err = -E2BIG;
		else if ((type == RSN_KSYM_MODULE_DATA || !has_ended(tab)) && add_end(tab, &sym))
			*err = -ENOMEM;
		return name;
	}
	name_end = memchr(name, 0, end - name);
	if (!name_end)
		return NULL;
	p = name_end + 1;
	module = p;
	if (type & RSN_KSYM_IN_MODULE) {
		p = memchr(module, 0, end - module);
		if (!p)
			return NULL;
		sym.module_len = p++ - module;
	}
	sym.type = type & ~RSN_KSYM_IN_MODULE;
	sym.name_len = name_end - name;
	if (sym.module_len && is_reader(name, sym.name_len))
		return p;
	if (is_code(&sym, name, name_end) && is_mapping(name, name_end))
		return p;
	if (!is_code(&sym, name, name_end))
		*err = add_end(tab, &sym) ? -ENOMEM : 0;
	else
		*err = add_symbol(tab, &sym, name, module) ? -ENOMEM : 0;
	return p;
}

/* Like add_lines(), for records of ksyms.c. */
static ptrdiff_t add_records(struct rsn_symtab *tab, const char *text, size_t len)
{
	const char *p = text, *end = text + len, *next;
	int err = 0;

	while (!err && (next = add_record(tab, p, end, &err)))
		p = next;
	return err ? err : end - p;
}

/* Parse the lines of text. Returns the length of an incomplete last line in bytes, or -ENOMEM. */
static ptrdiff_t add_lines(struct rsn_symtab *tab, const char *text, size_t len)
{
	const char *p = text, *end = text + len, *eol;

	for (; (eol = memchr(p, '\n', end - p)); p = eol + 1)
		if (add_line(tab, p, eol))
			return -ENOMEM;
	return end - p;
}

/* Compare by address. Symbols at one address keep their order in the list. */
static int cmp_syms(const void *a, const void *b)
{
	const struct rsn_sym *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* Merge syms[0, first) with the rest. Both parts are sorted. */
static int merge_tail(struct rsn_sym *syms, size_t first, size_t cnt)
{
	size_t tail_cnt = cnt - first, out = cnt;
	struct rsn_sym *tail = malloc(tail_cnt * sizeof(*tail));

	if (!tail)
		return -1;
	memcpy(tail, &syms[first], tail_cnt * sizeof(*tail));
	while (tail_cnt) {
		if (first && cmp_syms(&syms[first - 1], &tail[tail_cnt - 1]) > 0)
			syms[--out] = syms[--first];
		else
			syms[--out] = tail[--tail_cnt];
	}
	free(tail);
	return 0;
}

/*
 * Sort by address. In kallsyms, everything before the modules is already sorted, so sort only the
 * rest. Returns -1 if memory ran out.
 */
static int sort_syms(struct rsn_sym *syms, size_t cnt)
{
	size_t sorted = cnt ? 1 : 0;

	while (sorted < cnt && cmp_syms(&syms[sorted - 1], &syms[sorted]) <= 0)
		sorted++;
	if (sorted == cnt)
		return 0;
	qsort(&syms[sorted], cnt - sorted, sizeof(*syms), cmp_syms);
	return merge_tail(syms, sorted, cnt);
}

/* End each symbol at the next address, then remove all symbols that are not code. */
static void keep_code(struct rsn_symtab *tab)
{
	uint64_t above = 0, here = 0;
	size_t cnt = 0;

	for (size_t i = tab->cnt; i-- > 0;) {
		struct rsn_sym *s = &tab->syms[i];

		if (s->addr != here) {
			above = here;
			here = s->addr;
		}
		s->size = above > here && above - here < UINT32_MAX ? above - here : UINT32_MAX;
	}
	for (size_t i = 0; i < tab->cnt; i++)
		if (tab->syms[i].type)
			tab->syms[cnt++] = tab->syms[i];
	tab->cnt = cnt;
}

static void shrink(struct rsn_symtab *tab)
{
	struct rsn_sym *syms = realloc(tab->syms, (tab->cnt + 1) * sizeof(*syms));
	char *text = realloc(tab->text, tab->text_len + 1);

	if (syms)
		tab->syms = syms;
	if (text)
		tab->text = text;
}

/*
 * Remove the last symbol if it is a repetition: at the end, the kernel passes the last symbol to
 * the program again, as one of another module.
 */
static void drop_repeated(struct rsn_symtab *tab)
{
	const struct rsn_sym *last = tab->cnt > 1 ? &tab->syms[tab->cnt - 1] : NULL;

	/* data has no name; without any name there is no text */
	if (last && last->addr == last[-1].addr && last->name_len &&
	    last->name_len == last[-1].name_len &&
	    !memcmp(tab->text + last->name, tab->text + last[-1].name, last->name_len))
		tab->cnt--;
}

static int finish(struct rsn_symtab *tab)
{
	if (tab->list == RSN_LIST_KSYMS)
		drop_repeated(tab);
	if (tab->list == RSN_LIST_KSYMS || tab->list == RSN_LIST_KALLSYMS) {
		if (sort_syms(tab->syms, tab->cnt))
			return -ENOMEM;
		keep_code(tab);
	}
	shrink(tab);
	return 0;
}

static int read_lines(struct rsn_symtab *tab, int fd, char *buf)
{
	ptrdiff_t left = 0;

	for (;;) {
		ssize_t got = read(fd, buf + left, CHUNK - left);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		tab->bytes += got;
		got += left;
		left = tab->list == RSN_LIST_KSYMS ? add_records(tab, buf, got) :
						     add_lines(tab, buf, got);
		if (left < 0)
			return left;
		if (left == CHUNK)
			left = 0; /* no valid line is that long */
		memmove(buf, buf + got - left, left);
	}
	if (tab->list == RSN_LIST_KSYMS)
		return left ? -EIO : 0;
	return add_line(tab, buf, buf + left) ? -ENOMEM : 0;
}

/* Read a symbol list from fd. Returns NULL and sets *err to a negative errno on failure. */
struct rsn_symtab *rsn_syms_read(int fd, int list, int *err)
{
	struct rsn_symtab *tab = calloc(1, sizeof(*tab));
	char *buf = malloc(CHUNK);

	*err = -ENOMEM;
	if (tab && buf) {
		tab->list = list;
		*err = read_lines(tab, fd, buf);
		if (!*err)
			*err = finish(tab);
	}
	free(buf);
	if (!*err)
		return tab;
	rsn_syms_free(tab);
	return NULL;
}

void rsn_syms_free(struct rsn_symtab *tab)
{
	if (!tab)
		return;
	free(tab->text);
	free(tab->syms);
	free(tab);
}

/* Index of the first symbol above addr. */
size_t rsn_syms_upper(const struct rsn_symtab *tab, uint64_t addr)
{
	size_t lo = 0, hi = tab->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (tab->syms[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * Write the indexes of the symbols called name, at most max. Returns the number of these symbols.
 */
size_t rsn_syms_find(const struct rsn_symtab *tab, const char *name, uint32_t *out, size_t max)
{
	size_t len = strlen(name), found = 0;

	for (size_t i = 0; i < tab->cnt; i++) {
		const struct rsn_sym *s = &tab->syms[i];

		if (s->name_len != len || memcmp(tab->text + s->name, name, len))
			continue;
		if (found < max)
			out[found] = i;
		found++;
	}
	return found;
}

static size_t put_name(char *out, size_t at, size_t size, const char *name, size_t len)
{
	if (at + len + 1 <= size) {
		memcpy(out + at, name, len);
		out[at + len] = 0;
	}
	return at + len + 1;
}

/*
 * Copy the symbols of subset, and write their names and module names, each with a final NUL.
 * Returns the bytes that the names need; writes at most size bytes.
 */
size_t rsn_syms_gather(const struct rsn_symtab *tab, const uint32_t *subset, size_t cnt,
		       struct rsn_sym *syms, char *names, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct rsn_sym *s = &tab->syms[subset[i]];

		syms[i] = *s;
		at = put_name(names, at, size, tab->text + s->name, s->name_len);
		at = put_name(names, at, size, tab->text + s->module, s->module_len);
	}
	return at;
}

/* Number of names that start with prefix. */
size_t rsn_syms_count(const struct rsn_symtab *tab, const char *prefix)
{
	size_t len = strlen(prefix), cnt = 0;

	for (size_t i = 0; i < tab->cnt; i++)
		cnt += tab->syms[i].name_len >= len &&
		       !memcmp(tab->text + tab->syms[i].name, prefix, len);
	return cnt;
}
