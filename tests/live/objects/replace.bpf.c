// SPDX-License-Identifier: BSD-2-Clause
/* Programs that take the place of a function of another object's program. */
#include "common.h"

char LICENSE[] SEC("license") = "GPL";

SEC("freplace/replaced")
int replacement(struct xdp_md *ctx)
{
	return ctx->data == ctx->data_end ? XDP_DROP : XDP_PASS;
}

SEC("freplace/replaced")
int replacement_unlike(struct xdp_md *ctx, int more)
{
	return XDP_PASS; // refused: attach-target
}

SEC("freplace/no_such_function")
int replaces_nothing(struct xdp_md *ctx)
{
	return XDP_PASS; // refused: freplace-target
}
