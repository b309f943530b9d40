// SPDX-License-Identifier: BSD-2-Clause
/* Symbol lists: kallsyms and what the function tracer can hook. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "facts.h"

/*
 * A trace point may lie a few bytes into its function: behind ENDBR on x86, behind the
 * patched NOPs on arm64.
 */
static const uint64_t MAX_ENTRY_OFFSET = 32;

static unsigned int hex_digit(unsigned char c)
{
	unsigned int digit = c - '0';

	if (digit < 10)
		return digit;
	digit = (c | 0x20) - 'a';
	return digit < 6 ? digit + 10 : 16;
}

static const char *parse_hex(const char *p, const char *end, uint64_t *val)
{
	const char *start = p;
	unsigned int digit;

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

static bool parse_line(const char *text, const char *p, const char *end, int list,
		       struct rsn_sym *sym)
{
	const char *name;

	memset(sym, 0, sizeof(*sym));
	name = parse_prefix(p, end, list, sym);
	if (!name)
		return false;
	p = memchr(name, list == RSN_LIST_KALLSYMS ? '\t' : ' ', end - name);
	if (!p)
		p = end;
	if (p == name || p - name > UINT16_MAX)
		return false;
	sym->name = name - text;
	sym->name_len = p - name;
	if (end - p > 3 && p[1] == '[' && end[-1] == ']' && end - p - 3 <= UINT16_MAX) {
		sym->module = p + 2 - text;
		sym->module_len = end - p - 3;
	}
	return true;
}

/* Returns the number of symbols; a line that does not read as one is left out. */
size_t rsn_syms_parse(const char *text, size_t len, int list, struct rsn_sym *out, size_t max)
{
	const char *p = text, *end = text + len, *eol;
	size_t cnt = 0;

	for (; p < end && cnt < max; p = eol + 1) {
		eol = memchr(p, '\n', end - p);
		if (!eol)
			eol = end;
		if (parse_line(text, p, eol, list, &out[cnt]))
			cnt++;
	}
	return cnt;
}

/* By address; symbols at one address stay in the order of the list. */
static int cmp_syms(const void *a, const void *b)
{
	const struct rsn_sym *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* Merges syms[0, first) with the tail behind it, both sorted. */
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

/* kallsyms is sorted up to its modules, so only these are. Returns -1 if memory ran out. */
int rsn_syms_sort(struct rsn_sym *syms, size_t cnt)
{
	size_t sorted = cnt ? 1 : 0;

	while (sorted < cnt && cmp_syms(&syms[sorted - 1], &syms[sorted]) < 0)
		sorted++;
	if (sorted == cnt)
		return 0;
	qsort(&syms[sorted], cnt - sorted, sizeof(*syms), cmp_syms);
	return merge_tail(syms, sorted, cnt);
}

/* Index of the first symbol above addr. */
size_t rsn_syms_upper(const struct rsn_sym *syms, size_t cnt, uint64_t addr)
{
	size_t lo = 0, hi = cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (syms[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Indexes of the symbols called name; returns how many there are, writes at most max. */
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

static bool starts_with(const struct rsn_symtab *tab, const struct rsn_sym *s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s->name_len >= len && !memcmp(tab->text + s->name, prefix, len);
}

static bool is_generated(const struct rsn_symtab *tab, const struct rsn_sym *s)
{
	const char *module = tab->text + s->module;

	return (s->module_len == 3 && !memcmp(module, "bpf", 3)) ||
	       (s->module_len > 10 && !memcmp(module, "__builtin_", 10));
}

/*
 * The text symbols t T w W, without call-depth and CFI padding and run-time generated code.
 * In vmlinux what lies beyond the text is weak data, or init code that is gone after boot.
 */
static bool is_function(const struct rsn_symtab *tab, const struct rsn_sym *s, uint64_t text_end)
{
	if ((s->type | 0x20) != 't' && (s->type | 0x20) != 'w')
		return false;
	if (!s->module_len && s->addr >= text_end)
		return false;
	return !starts_with(tab, s, "__pfx_") && !starts_with(tab, s, "__cfi_") &&
	       !is_generated(tab, s);
}

static bool same_symbol(const struct rsn_symtab *ta, const struct rsn_sym *a,
			const struct rsn_symtab *tb, const struct rsn_sym *b)
{
	return a->name_len == b->name_len && a->module_len == b->module_len &&
	       !memcmp(ta->text + a->name, tb->text + b->name, a->name_len) &&
	       !memcmp(ta->text + a->module, tb->text + b->module, a->module_len);
}

/* With addresses, exactly the instances the kernel lists are traceable. */
static void states_by_addr(const struct rsn_symtab *tab, const struct rsn_symtab *traceable,
			   uint8_t *states)
{
	for (size_t i = 0; i < traceable->cnt; i++) {
		const struct rsn_sym *want = &traceable->syms[i];
		size_t k = rsn_syms_upper(tab->syms, tab->cnt, want->addr);

		while (k-- > 0 && want->addr - tab->syms[k].addr <= MAX_ENTRY_OFFSET) {
			if (states[k] && same_symbol(tab, &tab->syms[k], traceable, want)) {
				states[k] = RSN_TRACEABLE;
				break;
			}
		}
	}
}

static uint32_t find_symbol(const struct chains *c, const struct rsn_symtab *tab,
			    const struct rsn_symtab *other, const struct rsn_sym *want)
{
	uint32_t i = c->heads[hash_bytes(other->text + want->name, want->name_len) & c->mask];

	while (i != NONE && !same_symbol(tab, &tab->syms[i], other, want))
		i = c->next[i];
	return i;
}

struct instances {
	uint32_t listed; /* in the list of traceable functions */
	uint32_t symbols; /* in kallsyms */
};

static int count_instances(const struct rsn_symtab *tab, const struct rsn_symtab *traceable,
			   const uint8_t *states, struct instances *cnt, uint32_t *match)
{
	struct chains c;

	if (chains_init(&c, traceable->cnt))
		return -1;
	for (size_t i = 0; i < traceable->cnt; i++) {
		const struct rsn_sym *s = &traceable->syms[i];
		uint32_t first = find_symbol(&c, traceable, traceable, s);

		if (first == NONE) {
			chains_add(&c, hash_bytes(traceable->text + s->name, s->name_len), i);
			first = i;
		}
		cnt[first].listed++;
	}
	for (size_t k = 0; k < tab->cnt; k++) {
		match[k] = states[k] ? find_symbol(&c, traceable, tab, &tab->syms[k]) : NONE;
		if (match[k] != NONE)
			cnt[match[k]].symbols++;
	}
	chains_free(&c);
	return 0;
}

/*
 * Without addresses, all instances of a name are traceable if as many are listed, else nobody can
 * tell which are. A name with one symbol is that one however often it is listed: before 6.0 the
 * trace points of dropped weak functions are listed under the name of the function before them.
 */
static int states_by_count(const struct rsn_symtab *tab, const struct rsn_symtab *traceable,
			   uint8_t *states)
{
	struct instances *cnt = calloc(traceable->cnt + 1, sizeof(*cnt));
	uint32_t *match = malloc((tab->cnt + 1) * sizeof(*match));
	int err = -1;

	if (cnt && match)
		err = count_instances(tab, traceable, states, cnt, match);
	for (size_t k = 0; !err && k < tab->cnt; k++) {
		const struct instances *i;

		if (match[k] == NONE)
			continue;
		i = &cnt[match[k]];
		states[k] = RSN_AMBIGUOUS;
		if (i->symbols == 1 || i->symbols == i->listed)
			states[k] = RSN_TRACEABLE;
	}
	free(cnt);
	free(match);
	return err;
}

/*
 * Joins tab, which is sorted by address, with the list of traceable functions. text_end is the
 * end of vmlinux's text. Returns -1 if memory ran out.
 */
int rsn_syms_states(const struct rsn_symtab *tab, const struct rsn_symtab *traceable, int by_addr,
		    uint64_t text_end, struct rsn_functions *out)
{
	out->listed_cnt = out->other_cnt = 0;
	for (size_t k = 0; k < tab->cnt; k++)
		out->states[k] = is_function(tab, &tab->syms[k], text_end) ? RSN_UNTRACEABLE :
									     RSN_NOT_FUNCTION;
	if (by_addr)
		states_by_addr(tab, traceable, out->states);
	else if (states_by_count(tab, traceable, out->states))
		return -1;
	for (size_t k = 0; k < tab->cnt; k++) {
		if (out->states[k] == RSN_UNTRACEABLE)
			out->others[out->other_cnt++] = k;
		else if (out->states[k])
			out->listed[out->listed_cnt++] = k;
	}
	return 0;
}
