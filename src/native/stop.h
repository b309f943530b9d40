/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals that ask us to stop, counted when they come and not when Python gets to them: it runs its
 * handlers between two instructions of its own, and a call into C can be a long one.
 */
#ifndef RSN_STOP_H
#define RSN_STOP_H

#include <sys/types.h>

pid_t rsn_fork_blocked(void);

/* cdef begin */
void rsn_stop_watch(const int *numbers, int cnt);
void rsn_stop_unwatch(void);
int rsn_stop_count(void);
/* cdef end */

#endif
