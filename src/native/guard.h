/* SPDX-License-Identifier: BSD-2-Clause */
/* What must be put back however we end: rcu_expedited, and definitions of tracefs events. */
#ifndef RSN_GUARD_H
#define RSN_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cdef begin */
/*
 * Has the kernel wait for RCU in a hurry (/sys/kernel/rcu_expedited) until rsn_expedite_end(). The
 * file `home`/rcu_expedited, locked by each of us who needs it, keeps the value from before: the
 * last one puts it back, and so can anybody after us. A descriptor for rsn_expedite_end(); -EALREADY
 * if somebody else's setting hurries already, or another negative errno.
 */
int rsn_expedite_begin(const char *home);
int rsn_expedite_end(const char *home, int fd);

/*
 * Puts back what users of `home` who are gone have left: 1 if there was something, 0 if not;
 * -EBUSY if another one is there, who will, or another negative errno.
 */
int rsn_expedite_repair(const char *home);

/*
 * Starts a process that outlives us, whatever kills us, and then puts back rcu_expedited and
 * deletes the definitions of owner's events, as many pairs as rsn_guard_pairs() announced.
 * home is NULL if rcu_expedited is to be left alone, owner if there will be no definitions. Events
 * that are in use are waited for so long: a dying tool's are until the kernel has disarmed them.
 * A socket, whose closing lets the guard do its work; pid is the process. Or a negative errno.
 */
int rsn_guard_start(const char *home, const char *tracefs, const char *owner, int patience_ms,
		    int *pid);
int rsn_guard_pairs(int fd, unsigned int count);

/*
 * Has it write text to the file path at its end, however that comes; what was said last is written
 * first. There is room for a few of them: -E2BIG, or another negative errno.
 */
int rsn_guard_restore(int fd, const char *path, const char *text);

/*
 * Lets the guard work, and waits for it: 1 if it has finished within so many ms, else 0. If we do not
 * end in good order, it puts rcu_expedited back, too.
 */
int rsn_guard_finish(int fd, int pid, bool is_orderly, int wait_ms);
/* cdef end */

#endif
