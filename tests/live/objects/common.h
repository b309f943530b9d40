/* SPDX-License-Identifier: BSD-2-Clause */
/* What the objects of the load tests share. A line that a kernel refuses says so behind it: see
 * tests/live/test_load.py. */
#ifndef COMMON_H
#define COMMON_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>


#endif
