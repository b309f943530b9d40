/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache of the cookies by address. The lookup of a cookie takes longer than the rest of an entry
 * program. For kprobe.multi the kernel searches all functions of the link; other programs search a
 * hash map.
 */
#ifndef RSN_KNOWN_BPF_H
#define RSN_KNOWN_BPF_H

#include "settings.bpf.h"

enum {
	KNOWN_BITS = 13, /* 128 KiB: of 1,500 functions, one in two hundred does not fit */
	KNOWN_ID_BITS = 24,
};

/*
 * A word has the low half of an address and, above, the function's flags and id. It is written
 * once, at the function's first call, in one store. No two functions share the low half of their
 * addresses, because the kernel and its modules are within 4 GiB. A function has two possible
 * places. If other functions have both, the function is not cached.
 */
struct known_words {
	volatile __u64 word[2];
};

static struct known_words known_words[1 << KNOWN_BITS];

static const __u64 no_cookie = -1;

static __always_inline struct known_words *known_at(__u32 address)
{
	return &known_words[address * 0x9e3779b1 >> (32 - KNOWN_BITS)];
}

/* Returns the cached cookie of an address, or no_cookie. */
static __always_inline __u64 known_cookie(__u32 address)
{
	struct known_words *known = known_at(address);
	__u64 word = known->word[0], flags, id;

	if ((__u32)word != address)
		word = known->word[1];
	if ((__u32)word != address)
		return no_cookie;
	flags = word >> (32 + KNOWN_ID_BITS);
	id = word >> 32 & ((1 << KNOWN_ID_BITS) - 1);
	return flags << 32 | id;
}

static __always_inline void keep_cookie(__u32 address, __u64 cookie)
{
	struct known_words *known = known_at(address);
	__u64 flags = cookie >> 32, id = (__u32)cookie;
	__u64 word = (flags << KNOWN_ID_BITS | id) << 32 | address;

	if (flags >> 8 || id >> KNOWN_ID_BITS)
		return;
	if (!known->word[0])
		known->word[0] = word;
	else if (!known->word[1])
		known->word[1] = word;
}

#endif
