/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user stack of the thread's call into the kernel. Build ids and file offsets identify the
 * frames even if the process exits before user space reads its mappings.
 */
#ifndef RSN_USER_STACK_BPF_H
#define RSN_USER_STACK_BPF_H

#include "log.bpf.h"
#include "settings.bpf.h"
#include "shadow.bpf.h"

/* struct bpf_stack_build_id */
struct user_frame {
	__s32 status; /* enum bpf_stack_build_id_status */
	__u8 build_id[20];
	__u64 place; /* offset in the file, or the address without a build id */
};

struct user_stack {
	struct rsn_part part;
	struct user_frame frames[RSN_MAX_USTACK];
};

/* One entry for each place of the session table; the loader sets the size for user stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct user_stack);
} user_stacks SEC(".maps");

/* Sends the running thread's user stack, once per session: it does not change in a session. */
static __noinline int user_stack_send(void *ctx, struct session *s)
{
	__u32 index = s->place;
	struct user_stack *stack = bpf_map_lookup_elem(&user_stacks, &index);
	__u64 size;
	long bytes;

	if (!stack || s->user_stack_sent)
		return 0;
	s->user_stack_sent = true;
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames),
			      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	size = barrier_value(bytes > 0 ? bytes : 0);
	if (!size || size > sizeof(stack->frames))
		return 0;
	part_send(ctx, &s->rec, &stack->part, RSN_RECORD_USER_STACK,
		  size / sizeof(struct user_frame), sizeof(stack->part) + size);
	return 0;
}

#endif
