/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Templates: programs of which the loader makes a copy for each place they are attached to, where
 * the kernel has no other way to tell a program where it is. The copy is told by a constant.
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
