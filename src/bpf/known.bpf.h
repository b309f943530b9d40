/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which cookie belongs to an address, remembered: to find it out takes longer than all else we do
 * at an entry. For kprobe.multi the kernel searches all functions of the link, elsewhere we look
 * into a hash.
 */
#ifndef RSN_KNOWN_BPF_H
#define RSN_KNOWN_BPF_H

#include "settings.bpf.h"

enum {
	KNOWN_BITS = 14, /* 128 KiB: 1,500 functions leave one in twenty without a place */
	KNOWN_ID_BITS = 24,
};

/*
 * A word has the low half of an address and, below, the function's flags and id. It is written
 * once, when the function is first called, and as a whole. No two functions share the low half of
 * their addresses: the kernel and its modules are within 4 GiB. A function whose place another one
 * has is not remembered.
 */
static __u64 known_words[1 << KNOWN_BITS];

static const __u64 no_cookie = -1;

static __always_inline __u64 *known_at(__u32 address)
{
	return &known_words[address * 0x9e3779b1 >> (32 - KNOWN_BITS)];
}

/* The cookie that was kept for an address, or no_cookie. */
static __always_inline __u64 known_cookie(__u32 address)
{
	__u64 word = *(volatile __u64 *)known_at(address);
	__u64 flags = (__u8)(word >> KNOWN_ID_BITS), id = word & ((1 << KNOWN_ID_BITS) - 1);

	return word >> 32 == address ? flags << 32 | id : no_cookie;
}

static __always_inline void keep_cookie(__u32 address, __u64 cookie)
{
	__u64 *word = known_at(address), flags = cookie >> 32, id = (__u32)cookie;

	if (!*word && !(flags >> 8) && !(id >> KNOWN_ID_BITS))
		*word = (__u64)address << 32 | flags << KNOWN_ID_BITS | id;
}

#endif
