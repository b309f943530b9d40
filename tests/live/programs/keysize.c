// SPDX-License-Identifier: BSD-2-Clause
/* An array map with keys of 8 bytes, which no kernel takes: EINVAL, and status 1. */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static long create(unsigned int key_size)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = key_size;
	attr.value_size = 4;
	attr.max_entries = 1;
	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

int main(void)
{
	if (create(8) < 0) {
		perror("bpf");
		return 1;
	}
	return 0;
}
