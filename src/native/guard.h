/* SPDX-License-Identifier: BSD-2-Clause */
/* State to restore however retsnoop-py ends: rcu_expedited, and definitions of tracefs events. */
#ifndef RSN_GUARD_H
#define RSN_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/*
 * Set /sys/kernel/rcu_expedited until rsn_expedite_end(), so that the kernel waits less for RCU.
 * The file `home`/rcu_expedited keeps the previous value. Each process that needs the setting locks
 * that file; the last one restores the value, and so can any later process. Returns a descriptor
 * for rsn_expedite_end(), -EALREADY if another program already set rcu_expedited, or another
 * negative errno.
 */
int rsn_expedite_begin(const char *home);
int rsn_expedite_end(const char *home, int fd);

/*
 * Restore the value if processes that used `home` ended without doing so. Returns 1 if it was
 * restored, 0 if there was nothing to do, -EBUSY if a running process still needs the setting and
 * will restore it, or another negative errno.
 */
int rsn_expedite_repair(const char *home);

/*
 * Start a guard process that survives this process. When this process ends, the guard restores
 * rcu_expedited and deletes the event definitions of owner, as many pairs as rsn_guard_pairs()
 * announced. home is NULL to leave rcu_expedited alone; owner is NULL if there are no definitions.
 * The guard waits up to the given time for events in use, because the kernel must first disarm
 * those of a killed process. Returns a socket and sets the guard's pid, or returns a negative
 * errno. Closing the socket starts the guard's work.
 */
int rsn_guard_start(const char *home, const char *tracefs, const char *owner, int patience_ms,
		    int *pid);
int rsn_guard_pairs(int fd, unsigned int count);

/*
 * Let the guard write text to the file path at its end. The file announced last is written first.
 * Returns 0, -E2BIG if path and text are too long, or another negative errno.
 */
int rsn_guard_restore(int fd, const char *path, const char *text);

/*
 * Start the guard's work and wait for up to wait_ms ms. Returns 1 if it has finished, else 0. If
 * is_orderly is false, the guard also restores rcu_expedited.
 */
int rsn_guard_finish(int fd, int pid, bool is_orderly, int wait_ms);
/* cdef end */

#endif
