// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packets that nftables dropped: the table, the chain, the rule, and the packet's destination.
 * `why` uses these records to explain a send() with EPERM, and a connection without an answer.
 *
 * An object of its own: nf_tables is a module, and its types are missing if it is not loaded.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	DROPPED_NAME_BYTES = 64,
	DROPPED_MOST = 1000, /* maximum records of a run */
	DROPPED_RULES = 256, /* rules of a chain that are searched for the dropping rule */
	VERDICT_DROP = 0, /* NF_DROP: the lowest byte of a verdict */
	VERDICT_STOLEN = 2, /* since Linux 6.7 with an error above: dropped, and freed already */
	VERDICT_JUMP = -3,
	VERDICT_GOTO = -4,
	IPV4 = 4,
	IPV6 = 6,
};

struct dropped_event {
	__u64 time; /* CLOCK_MONOTONIC ns */
	__u32 tid;
	__u32 family; /* NFPROTO_* of the table */
	__u64 handle; /* of the rule; 0: the chain's policy, or unknown */
	__u32 is_policy; /* no rule of the chain decided */
	__u32 port; /* destination port of the packet */
	__u32 version; /* of IP: 4, 6 or 0 */
	__u32 network; /* inode number of the network namespace with the rule; 0: unknown */
	__u8 address[16];
	char table[DROPPED_NAME_BYTES];
	char chain[DROPPED_NAME_BYTES];
};
const struct dropped_event *dropped_types __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

__u64 lost;
__u64 sent;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct nft_table___dropped {
	unsigned int family : 6;
	char *name;
};

struct nft_rule_blob___dropped {
	unsigned long size;
};

struct nft_chain___dropped {
	struct nft_rule_blob___dropped *blob_gen_0; /* since Linux 5.17 */
	struct nft_rule_blob___dropped *blob_gen_1;
	struct nft_table___dropped *table;
	char *name;
};

struct ns_common___dropped {
	unsigned int inum;
};

struct net___dropped {
	struct ns_common___dropped ns;
};

struct nf_hook_state___dropped {
	struct net___dropped *net;
};

struct xt_action_param___dropped {
	struct nf_hook_state___dropped *state;
};

struct nft_pktinfo___dropped {
	struct sk_buff___dropped *skb;
	struct nf_hook_state___dropped *state; /* since Linux 5.14 */
	struct xt_action_param___dropped xt; /* before */
};

struct sk_buff___dropped {
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
};

#pragma clang attribute pop

/* A verdict of an immediate expression: a pointer to operations, then the data. */
struct immediate {
	__u64 operations;
	struct {
		__u32 code;
		__u32 unused;
		__u64 chain;
	} verdict;
};

/* The packet's destination; read at the beginning, because a dropped packet is freed at the end. */
struct target {
	__u32 version; /* of IP */
	__u32 port;
	__u32 network;
	__u8 address[16];
};

struct running {
	struct target target;
	__u64 chain; /* the base chain */
	__u64 inner; /* the target chain of the last jump */
	__u64 expression; /* the last expression with the verdict drop */
};

/* By thread; a softirq has the id of its thread, and its call ends before the thread continues. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct running);
} calls SEC(".maps");

static __always_inline __u64 this_call(void)
{
	return bpf_get_current_pid_tgid() << 32 | bpf_get_smp_processor_id();
}

/* A packet of a container can be dropped by the host's rules, and the reverse. */
static __always_inline __u32 network_of(struct nft_pktinfo___dropped *packet)
{
	struct nf_hook_state___dropped *state = NULL;

	if (bpf_core_field_exists(packet->state))
		state = BPF_CORE_READ(packet, state);
	else if (bpf_core_field_exists(packet->xt.state))
		state = BPF_CORE_READ(packet, xt.state);
	return state ? BPF_CORE_READ(state, net, ns.inum) : 0;
}

static __always_inline void fill_target(struct target *target, struct sk_buff___dropped *skb)
{
	unsigned char *head = BPF_CORE_READ(skb, head);
	unsigned char *network = head + BPF_CORE_READ(skb, network_header);
	unsigned char *transport = head + BPF_CORE_READ(skb, transport_header);
	__u8 version = 0;
	__u16 port = 0;

	bpf_probe_read_kernel(&version, sizeof(version), network);
	target->version = version >> 4;
	if (target->version == IPV4)
		bpf_probe_read_kernel(target->address, 4, network + 16);
	else if (target->version == IPV6)
		bpf_probe_read_kernel(target->address, 16, network + 24);
	bpf_probe_read_kernel(&port, sizeof(port), transport + 2);
	target->port = __builtin_bswap16(port);
}

SEC("kprobe/nft_do_chain")
int BPF_KPROBE(dropped_begin, struct nft_pktinfo___dropped *packet, void *chain)
{
	struct running running = { .chain = (__u64)chain };
	__u64 key = this_call();

	fill_target(&running.target, BPF_CORE_READ(packet, skb));
	running.target.network = network_of(packet);
	bpf_map_update_elem(&calls, &key, &running, BPF_ANY);
	return 0;
}

SEC("kprobe/nft_immediate_eval")
int BPF_KPROBE(dropped_verdict, void *expression)
{
	struct immediate found = {};
	struct running *running;
	__u64 key = this_call();
	__s32 code;

	running = bpf_map_lookup_elem(&calls, &key);
	if (!running || bpf_probe_read_kernel(&found, sizeof(found), expression))
		return 0;
	code = found.verdict.code;
	if (code == VERDICT_JUMP || code == VERDICT_GOTO)
		running->inner = found.verdict.chain;
	else if ((code & 0xff) == VERDICT_DROP && code >= 0)
		running->expression = (__u64)expression;
	return 0;
}

/* Returns the handle of the rule with an expression in one generation of a chain; 0: not found. */
static __noinline __u64 handle_in(__u64 blob, __u64 expression)
{
	__u64 size = 0, at, rule = 0, bytes;
	int i;

	if (!blob || bpf_probe_read_kernel(&size, sizeof(size), (void *)blob))
		return 0;
	at = blob + sizeof(size);
	if (expression < at || expression >= at + size)
		return 0;
	for (i = 0; i < DROPPED_RULES; i++) {
		/* struct nft_rule_dp: is_last:1, dlen:12, handle:42 */
		if (bpf_probe_read_kernel(&rule, sizeof(rule), (void *)at) || rule & 1)
			return 0;
		bytes = rule >> 1 & 0xfff;
		if (expression >= at + 8 && expression < at + 8 + bytes)
			return rule >> 13 & ((1ULL << 42) - 1);
		at += 8 + bytes;
	}
	return 0;
}

static __always_inline __u64 handle_of(struct nft_chain___dropped *chain, __u64 expression)
{
	__u64 found;

	if (!chain || !bpf_core_field_exists(chain->blob_gen_0))
		return 0;
	found = handle_in((__u64)BPF_CORE_READ(chain, blob_gen_0), expression);
	if (!found)
		found = handle_in((__u64)BPF_CORE_READ(chain, blob_gen_1), expression);
	return found;
}

static __always_inline bool is_drop(unsigned int verdict)
{
	__u32 kind = verdict & 0xff;

	return kind == VERDICT_DROP || (kind == VERDICT_STOLEN && verdict >> 16);
}

SEC("kretprobe/nft_do_chain")
int BPF_KRETPROBE(dropped_end, unsigned int verdict)
{
	struct nft_chain___dropped *chain, *inner;
	struct nft_table___dropped *table;
	struct dropped_event *event;
	struct running *running;
	__u64 key = this_call();

	running = bpf_map_lookup_elem(&calls, &key);
	if (!running)
		return 0;
	if (!is_drop(verdict) || sent >= DROPPED_MOST) {
		bpf_map_delete_elem(&calls, &key);
		return 0;
	}
	__sync_fetch_and_add(&sent, 1);
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->tid = bpf_get_current_pid_tgid();
	chain = (void *)running->chain;
	inner = (void *)running->inner;
	event->is_policy = !running->expression;
	if (running->expression) {
		event->handle = handle_of(inner, running->expression);
		if (event->handle)
			chain = inner;
		else
			event->handle = handle_of(chain, running->expression);
	}
	table = BPF_CORE_READ(chain, table);
	event->family = BPF_CORE_READ_BITFIELD_PROBED(table, family);
	bpf_probe_read_kernel_str(event->table, sizeof(event->table), BPF_CORE_READ(table, name));
	bpf_probe_read_kernel_str(event->chain, sizeof(event->chain), BPF_CORE_READ(chain, name));
	event->version = running->target.version;
	event->port = running->target.port;
	event->network = running->target.network;
	__builtin_memcpy(event->address, running->target.address, sizeof(event->address));
	bpf_ringbuf_submit(event, 0);
	bpf_map_delete_elem(&calls, &key);
	return 0;
}
