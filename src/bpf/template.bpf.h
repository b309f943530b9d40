/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Templates: programs that the loader copies for each attach point, if the kernel has no other way
 * to identify the attach point in the program. A constant in the copy identifies the attach point.
 */
#ifndef RSN_TEMPLATE_BPF_H
#define RSN_TEMPLATE_BPF_H

#define RSN_TEMPLATE_COOKIE 0x6b6f6f632d6e7372 /* "rsn-cook"; src/native/template.h has it too */

static __always_inline __u64 template_cookie(void)
{
	__u64 cookie;

	asm volatile("%[cookie] = %[marker] ll"
		     : [cookie] "=r"(cookie)
		     : [marker] "i"(RSN_TEMPLATE_COOKIE));
	return cookie;
}

#endif
