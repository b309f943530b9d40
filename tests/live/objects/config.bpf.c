// SPDX-License-Identifier: BSD-2-Clause
/* An option that no kernel is configured by, and one that all are. */
#include "common.h"

extern int CONFIG_NO_SUCH_OPTION __kconfig; // refused: kconfig
extern int CONFIG_HZ __kconfig;
extern int LINUX_KERNEL_VERSION __kconfig;

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/sys_enter")
int asks_for_option(void *ctx)
{
	return CONFIG_NO_SUCH_OPTION; // blocked: kconfig
}

SEC("raw_tp/sys_enter")
int asks_for_hz(void *ctx)
{
	return CONFIG_HZ;
}

SEC("raw_tp/sys_enter")
int asks_for_version(void *ctx)
{
	return LINUX_KERNEL_VERSION > 0;
}
