/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash chains over items that the caller numbers. */
#ifndef RSN_CHAINS_H
#define RSN_CHAINS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t NONE = UINT32_MAX; /* ends a chain */

struct chains {
	uint32_t *heads;
	uint32_t *next;
	uint32_t mask;
};

/* Returns -1 if memory ran out or cnt is too large for the item numbers. */
static inline int chains_init(struct chains *c, size_t cnt)
{
	size_t size = 16;

	if (cnt > NONE / 4)
		return -1;
	while (size / 2 < cnt)
		size *= 2;
	c->mask = (uint32_t)(size - 1);
	c->heads = malloc(size * sizeof(*c->heads));
	c->next = malloc((cnt + 1) * sizeof(*c->next));
	if (!c->heads || !c->next) {
		free(c->heads);
		free(c->next);
		return -1;
	}
	memset(c->heads, 0xff, size * sizeof(*c->heads));
	return 0;
}

static inline void chains_free(struct chains *c)
{
	free(c->heads);
	free(c->next);
}

static inline void chains_add(struct chains *c, uint32_t hash, uint32_t item)
{
	c->next[item] = c->heads[hash & c->mask];
	c->heads[hash & c->mask] = item;
}

static inline uint32_t hash_bytes(const char *s, size_t len)
{
	const uint64_t factor = 0x9e3779b97f4a7c15;
	uint64_t h = len, word;

	for (; len > sizeof(word); s += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, s, sizeof(word));
		h = (h ^ word) * factor;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, s, len);
	h = (h ^ word) * factor;
	return h >> 32;
}

#endif
