// SPDX-License-Identifier: BSD-2-Clause
/* Match one glob with one name, or many globs with many symbols. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"
#include "facts.h"

/*
 * The first position from i on where the text after a '*' can begin; len if there is no such
 * position.
 */
static size_t next_start(const char *glob, size_t glob_len, const char *s, size_t i, size_t len)
{
	const char *found;

	if (!glob_len || *glob == '*' || *glob == '?')
		return i;
	found = memchr(s + i, *glob, len - i);
	return found ? (size_t)(found - s) : len;
}

/* Retries only the last '*', so the cost is at most glob_len * len. */
int rsn_glob_match(const char *glob, size_t glob_len, const char *s, size_t len)
{
	size_t g = 0, i = 0, star = SIZE_MAX, resume = 0;

	while (i < len) {
		if (g < glob_len && glob[g] == '*') {
			star = g++;
			resume = i = next_start(glob + g, glob_len - g, s, i, len);
		} else if (g < glob_len && (glob[g] == '?' || glob[g] == s[i])) {
			g++;
			i++;
		} else if (star != SIZE_MAX) {
			g = star + 1;
			resume = i = next_start(glob + g, glob_len - g, s, resume + 1, len);
		} else {
			return 0;
		}
	}
	while (g < glob_len && glob[g] == '*')
		g++;
	return g == glob_len;
}

struct matcher {
	const struct rsn_glob *globs;
	uint32_t *counts;
	uint16_t *lens;
	uint32_t *wild; /* globs with * or ? in the name; chains hold the others */
	size_t wild_cnt;
	size_t exact_cnt;
	struct chains exact;
};

static void matcher_free(struct matcher *m)
{
	free(m->lens);
	free(m->wild);
	chains_free(&m->exact);
}

static int matcher_init(struct matcher *m, const struct rsn_glob *globs, size_t cnt)
{
	m->globs = globs;
	m->wild_cnt = m->exact_cnt = 0;
	m->lens = malloc((cnt + 1) * sizeof(*m->lens));
	m->wild = malloc((cnt + 1) * sizeof(*m->wild));
	if (!m->lens || !m->wild || chains_init(&m->exact, cnt)) {
		free(m->lens);
		free(m->wild);
		return -1;
	}
	for (size_t i = 0; i < cnt; i++) {
		size_t len = strlen(globs[i].name);

		m->lens[i] = len < UINT16_MAX ? len : UINT16_MAX;
		m->counts[i] = 0;
		if (strpbrk(globs[i].name, "*?")) {
			m->wild[m->wild_cnt++] = i;
		} else {
			chains_add(&m->exact, hash_bytes(globs[i].name, len), i);
			m->exact_cnt++;
		}
	}
	return 0;
}

static bool module_matches(const struct rsn_glob *g, const struct rsn_symtab *tab,
			   const struct rsn_sym *s)
{
	if (!g->module)
		return true;
	return s->module_len &&
	       rsn_glob_match(g->module, strlen(g->module), tab->text + s->module, s->module_len);
}

static uint32_t match_symbol(struct matcher *m, const struct rsn_symtab *tab,
			     const struct rsn_sym *s)
{
	const char *name = tab->text + s->name;
	uint32_t first = NONE, i = NONE;

	if (m->exact_cnt)
		i = m->exact.heads[hash_bytes(name, s->name_len) & m->exact.mask];
	for (; i != NONE; i = m->exact.next[i]) {
		if (m->lens[i] != s->name_len || memcmp(m->globs[i].name, name, s->name_len) ||
		    !module_matches(&m->globs[i], tab, s))
			continue;
		m->counts[i]++;
		if (i < first)
			first = i;
	}
	for (size_t w = 0; w < m->wild_cnt; w++) {
		i = m->wild[w];
		if (!rsn_glob_match(m->globs[i].name, m->lens[i], name, s->name_len) ||
		    !module_matches(&m->globs[i], tab, s))
			continue;
		m->counts[i]++;
		if (i < first)
			first = i;
	}
	return first;
}

/*
 * Match the symbols of subset (indexes into tab) with all globs. counts receives the number of
 * matching symbols per glob. hits receives one element per matching symbol, in the order of subset.
 * Returns the number of hits, or -1 if memory ran out.
 */
ptrdiff_t rsn_syms_match(const struct rsn_symtab *tab, const uint32_t *subset, size_t subset_cnt,
			 const struct rsn_glob *globs, size_t glob_cnt, uint32_t *counts,
			 struct rsn_hit *hits)
{
	struct matcher m = { .counts = counts };
	ptrdiff_t cnt = 0;

	if (matcher_init(&m, globs, glob_cnt))
		return -1;
	for (size_t i = 0; i < subset_cnt; i++) {
		uint32_t glob = match_symbol(&m, tab, &tab->syms[subset[i]]);

		if (glob == NONE)
			continue;
		hits[cnt].sym = subset[i];
		hits[cnt++].glob = glob;
	}
	matcher_free(&m);
	return cnt;
}
