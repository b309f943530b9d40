/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals that request a stop. They are counted on arrival, because Python runs its handlers only
 * between its own instructions, and a call into C can take long.
 */
#ifndef RSN_STOP_H
#define RSN_STOP_H

#include <sys/types.h>

pid_t rsn_fork_blocked(void);
pid_t rsn_wait_for(pid_t pid, int *status);

/* cdef begin */
void rsn_stop_watch(const int *numbers, int cnt);
void rsn_stop_unwatch(void);
int rsn_stop_count(void);
int rsn_new_session_keyring(unsigned int uid, unsigned int gid);
/* cdef end */

#endif
