// SPDX-License-Identifier: BSD-2-Clause
/* Find the symbols of functions that the function tracer can hook. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "facts.h"

/*
 * A trace point may be a few bytes after the start of its function: after ENDBR on x86, after the
 * patched NOPs on arm64.
 */
static const uint64_t MAX_ENTRY_OFFSET = 32;

/*
 * If only the address is known, a trace point is at most this far from its function: ENDBR on x86,
 * BTI and a NOP on arm64. The trace point of a function that the linker dropped lies after the
 * whole of the function before it.
 */
static const uint64_t MAX_POINT_OFFSET = 8;

static bool is_generated(const struct rsn_symtab *tab, const struct rsn_sym *s)
{
	const char *module = tab->text + s->module;

	return (s->module_len == 3 && !memcmp(module, "bpf", 3)) ||
	       (s->module_len > 10 && !memcmp(module, "__builtin_", 10));
}

/*
 * Exclude code generated at run time. In vmlinux, symbols after the text are weak data, or init
 * code that is freed after boot.
 */
static bool is_function(const struct rsn_symtab *tab, const struct rsn_sym *s, uint64_t text_end)
{
	if (!s->module_len && s->addr >= text_end)
		return false;
	return !is_generated(tab, s);
}

static bool same_symbol(const struct rsn_symtab *ta, const struct rsn_sym *a,
			const struct rsn_symtab *tb, const struct rsn_sym *b)
{
	return a->name_len == b->name_len && a->module_len == b->module_len &&
	       !memcmp(ta->text + a->name, tb->text + b->name, a->name_len) &&
	       !memcmp(ta->text + a->module, tb->text + b->module, a->module_len);
}

/* If the kernel lists addresses, exactly the listed instances are traceable. */
static void states_by_addr(const struct rsn_symtab *tab, const struct rsn_symtab *traceable,
			   uint8_t *states)
{
	for (size_t i = 0; i < traceable->cnt; i++) {
		const struct rsn_sym *want = &traceable->syms[i];
		size_t k = rsn_syms_upper(tab, want->addr);

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
	uint32_t listed; /* entries in the list of traceable functions */
	uint32_t symbols; /* symbols in kallsyms */
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
 * Without addresses, all symbols of a name are traceable if the list has as many entries of that
 * name; otherwise, they are ambiguous. A name with one symbol is traceable even with more entries:
 * before Linux 6.0, the trace points of dropped weak functions have the name of the function before
 * them.
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

/* Of several names at one address, use the first, as the kernel does. */
static void states_by_point(const struct rsn_symtab *tab, const uint64_t *points, size_t cnt,
			    uint8_t *states)
{
	for (size_t i = 0; i < cnt; i++) {
		size_t k = rsn_syms_upper(tab, points[i]);

		if (!k-- || points[i] - tab->syms[k].addr > MAX_POINT_OFFSET)
			continue;
		while (k && tab->syms[k - 1].addr == tab->syms[k].addr)
			k--;
		if (states[k])
			states[k] = RSN_TRACEABLE;
	}
}

static void begin_states(const struct rsn_symtab *tab, uint64_t text_end, uint8_t *states)
{
	for (size_t k = 0; k < tab->cnt; k++)
		states[k] = is_function(tab, &tab->syms[k], text_end) ? RSN_UNTRACEABLE :
									RSN_NOT_FUNCTION;
}

static void sort_by_state(const struct rsn_symtab *tab, struct rsn_functions *out)
{
	out->listed_cnt = out->other_cnt = 0;
	for (size_t k = 0; k < tab->cnt; k++) {
		if (out->states[k] == RSN_UNTRACEABLE)
			out->others[out->other_cnt++] = k;
		else if (out->states[k])
			out->listed[out->listed_cnt++] = k;
	}
}

/*
 * Set the states of tab, which is sorted by address, from the list of traceable functions. text_end
 * is the end of vmlinux's text. Returns -1 if memory ran out.
 */
int rsn_syms_states(const struct rsn_symtab *tab, const struct rsn_symtab *traceable, int by_addr,
		    uint64_t text_end, struct rsn_functions *out)
{
	begin_states(tab, text_end, out->states);
	if (by_addr)
		states_by_addr(tab, traceable, out->states);
	else if (states_by_count(tab, traceable, out->states))
		return -1;
	sort_by_state(tab, out);
	return 0;
}

/* Like rsn_syms_states(), but with only the addresses of the trace points. */
int rsn_syms_states_at(const struct rsn_symtab *tab, const uint64_t *points, size_t cnt,
		       uint64_t text_end, struct rsn_functions *out)
{
	begin_states(tab, text_end, out->states);
	states_by_point(tab, points, cnt, out->states);
	sort_by_state(tab, out);
	return 0;
}

/* Cheap, because it is computed for every symbol: a hash of the name's length and last bytes. */
static uint32_t tail_hash(const char *name, size_t len)
{
	uint64_t tail = 0;

	if (len < sizeof(tail))
		memcpy(&tail, name, len);
	else
		memcpy(&tail, name + len - sizeof(tail), sizeof(tail));
	return (tail ^ len) * 0x9e3779b97f4a7c15ull >> 32;
}

static bool in_module(const struct rsn_symtab *tab, const struct rsn_sym *sym, const char *module)
{
	if (!module)
		return !sym->module_len;
	return strlen(module) == sym->module_len &&
	       !memcmp(tab->text + sym->module, module, sym->module_len);
}

int rsn_syms_namesakes(const struct rsn_symtab *tab, const char *module, const char *names,
		       size_t cnt, uint32_t *counts)
{
	const char **wanted = malloc((cnt + 1) * sizeof(*wanted));
	struct chains c;

	if (!wanted || chains_init(&c, cnt)) {
		free(wanted);
		return -1;
	}
	for (size_t i = 0; i < cnt; i++) {
		size_t len = strlen(names);

		wanted[i] = names;
		counts[i] = 0;
		chains_add(&c, tail_hash(names, len), i);
		names += len + 1;
	}
	for (size_t k = 0; k < tab->cnt; k++) {
		const struct rsn_sym *sym = &tab->syms[k];
		const char *name = tab->text + sym->name;
		uint32_t i = c.heads[tail_hash(name, sym->name_len) & c.mask];

		for (; i != NONE; i = c.next[i])
			if (strlen(wanted[i]) == sym->name_len &&
			    !memcmp(wanted[i], name, sym->name_len) && in_module(tab, sym, module))
				counts[i]++;
	}
	chains_free(&c);
	free(wanted);
	return 0;
}
