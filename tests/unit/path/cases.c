// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that fail as the kernel's do, compiled for each machine without a C library. The test
 * emulates one call of each and follows it instruction by instruction. "decides: NAME" marks the
 * line of the condition that makes the call of NAME fail, "else decides: NAME" that of code which
 * some compilers merge with it.
 */
#include <stddef.h>
#include <stdint.h>

enum {
	EPERM = 1,
	ENOENT = 2,
	EIO = 5,
	ENXIO = 6,
	E2BIG = 7,
	EBADF = 9,
	EAGAIN = 11,
	EBUSY = 16,
	ENODEV = 19,
	EINVAL = 22,
	EDOM = 33,
	ERANGE = 34,
	ENOSYS = 38,
	ELOOP = 40,
	EOPNOTSUPP = 95,
	ESTALE = 116,
};

#define CASE __attribute__((noinline, noclone, used))

struct attr {
	int type;
	int key_size;
	int value_size;
	int flags;
	struct attr *next;
};

static int sink;

CASE static int helper(int value)
{
	asm volatile("" : "+r"(value));
	return value > 100 ? -E2BIG : value;
}

CASE static void note(int value)
{
	asm volatile("" : "+m"(sink) : "r"(value));
}

CASE int merged(struct attr *attr)
{
	note(1);
	if (attr->type == 7)
		return -EINVAL;
	if (attr->key_size != 4) /* decides: merged */
		return -EINVAL;
	if (attr->value_size > 100)
		return -E2BIG;
	note(2);
	return 0;
}

CASE int stored_at_top(struct attr *attr)
{
	int err = -EPERM;

	note(1);
	if (attr->type == 0)
		goto out;
	err = -EBUSY;
	note(2);
	if (attr->flags & 8) /* decides: stored_at_top */
		goto out;
	note(3);
	err = 0;
out:
	note(4);
	return err;
}

CASE int cleans_up(struct attr *attr)
{
	int err = 0;

	note(1);
	if (attr->key_size < 0) /* decides: cleans_up */
		err = -ERANGE;
	else
		note(5);
	if (attr->next)
		note(2);
	if (attr->flags)
		note(3);
	return err;
}

CASE int passes_on(struct attr *attr)
{
	int err;

	note(1);
	err = helper(attr->value_size);
	if (err < 0) /* decides: passes_on */
		return err;
	note(err);
	return 0;
}

CASE int tail_call(struct attr *attr)
{
	note(1);
	if (attr->type)
		return helper(attr->value_size);
	return 0;
}

CASE int by_cmov(struct attr *attr)
{
	int err = attr->flags;

	asm volatile("" : "+r"(err));
	return attr->type == 3 ? -ENODEV : err; /* decides: by_cmov */
}

CASE int by_sign(struct attr *attr)
{
	return attr->value_size < 0 ? -E2BIG : 0; /* decides: by_sign */
}

CASE int by_setcc(struct attr *attr)
{
	return -(attr->type == 9); /* decides: by_setcc */
}

CASE struct attr *error_pointer(struct attr *attr)
{
	note(1);
	if (!attr->next) /* decides: error_pointer */
		return (struct attr *)(intptr_t)-ENOENT;
	note(2);
	return attr->next;
}

CASE struct attr *null_pointer(struct attr *attr)
{
	struct attr *one;

	for (one = attr; one; one = one->next) { /* decides: null_pointer */
		note(1);
		if (one->type == 55)
			return one;
	}
	return NULL;
}

CASE int from_memory(struct attr *attr)
{
	note(1);
	if (attr->type == 6) /* decides: from_memory */
		return attr->next->flags;
	return 0;
}

CASE int switched(struct attr *attr)
{
	note(1);
	switch (attr->type) { /* decides: switched */
	case 1:
		note(2);
		return attr->key_size;
	case 2:
		note(3);
		return attr->value_size;
	case 3:
		note(4);
		return attr->flags;
	case 4:
		note(5);
		return 4;
	case 5:
		note(6);
		return 99;
	default:
		return -EOPNOTSUPP;
	}
}

CASE int switched_to(struct attr *attr)
{
	note(1);
	switch (attr->type) { /* decides: switched_to */
	case 10:
		note(2);
		return attr->key_size;
	case 11:
		note(3);
		return attr->value_size;
	case 12:
		note(4);
		return attr->flags;
	case 13:
		note(5);
		return -ENODEV;
	case 14:
		note(6);
		return 99;
	case 15:
		note(7);
		return 98;
	}
	return 4;
}

CASE int switched_in(struct attr *attr)
{
	note(1);
	switch (attr->type) {
	case 10:
		note(2);
		return attr->key_size;
	case 11:
		note(3);
		return attr->value_size;
	case 12:
		note(4);
		return 12;
	case 13:
		note(5);
		return 97;
	case 14:
		note(6);
		if (attr->flags == 8) { /* decides: switched_in */
			note(8);
			return -EBUSY;
		}
		return 99;
	case 15:
		note(7);
		return 98;
	}
	return 4;
}

CASE int retries(struct attr *attr)
{
	int err;

again:
	note(1);
	err = helper(attr->value_size);
	if (err == -EAGAIN)
		goto again;
	if (err == -ESTALE) {
		note(2);
		goto again;
	}
	note(3);
	return err;
}

CASE int always(struct attr *attr)
{
	note(attr->type);
	return -ENOSYS;
}

static inline int check(struct attr *attr)
{
	if (attr->key_size == 1)
		return -EDOM;
	if (attr->value_size == 2) /* decides: inlined */
		return -EBADF;
	return 0;
}

CASE int inlined(struct attr *attr)
{
	int err = check(attr);

	if (err) {
		note(1);
		return err;
	}
	note(2);
	return 0;
}

CASE int looped(struct attr *attr)
{
	int i;

	for (i = 0; i < attr->value_size; i++) {
		note(i);
		if (i == attr->key_size) /* decides: looped */
			return -ELOOP;
	}
	return 0;
}

/* As of list_for_each_entry_safe(): whether an element is the last is known before its test. */
CASE int rejects_all(struct attr *attr)
{
	unsigned int rest = attr->flags, one;

	for (;;) {
		one = rest & 0xff;
		rest >>= 8;
		note(rest);
		if (!rest) {
			if (!(one & 1))
				return -ENOENT;
			return one < 8 ? -ENOENT : 0;
		}
		if (!(one & 1))
			continue;
		note(one); /* compilers must not merge the two tests */
		if (one < 8) /* decides: rejects_all */
			continue;
		return 0;
	}
}

CASE int spilled(struct attr *attr)
{
	volatile int err = -EIO;

	note(1);
	if (attr->type != 1) /* decides: spilled */
		goto out;
	err = 0;
out:
	note(2);
	return err;
}

CASE int settled(struct attr *attr)
{
	int err = 0, undo = 0;

	note(1);
	if (attr->type == 2) {
		note(2);
		undo = 1;
	}
	asm volatile("" : "+r"(undo)); /* hides from the compiler what it is */
	if (attr->key_size != 4) /* decides: settled */
		err = -EINVAL;
	else
		note(3);
	note(4);
	if (undo) /* this way it is 0 */
		return 5;
	return err;
}

CASE int tried_again(struct attr *attr)
{
	struct attr *one;
	int tries = 0, err;

again:
	err = -ENXIO;
	for (one = attr; one; one = one->next) { /* decides: tried_again */
		err = 0;
		if (one->type == 55)
			break;
		err = -ENXIO;
	}
	if (err) {
		if (tries < 2) {
			tries++;
			note(tries);
			goto again;
		}
		return err;
	}
	note(3);
	return 0;
}

CASE int kept(struct attr *attr)
{
	int err = 0, closed;

	note(1);
	if (attr->key_size != 4) /* decides: kept */
		err = -EINVAL;
	else
		note(2);
	closed = helper(attr->value_size);
	if (closed) /* would have been a failure, too */
		err = closed;
	return err;
}

CASE int either(struct attr *attr)
{
	note(1);
	if (attr->type == 0 || attr->key_size != 4) /* decides: either */
		return -EINVAL;
	note(2);
	return 0;
}

CASE int either_first(struct attr *attr)
{
	int type = attr->type, size = attr->key_size;

	note(1);
	if (type == 7 || /* decides: either_first */
	    size != 4)
		return -EINVAL;
	note(2);
	return 0;
}

CASE int both(struct attr *attr)
{
	int type = attr->type, size = attr->key_size;

	note(1);
	if (type == 7 && size != 4) /* decides: both */
		return -EINVAL;
	note(2);
	return 0;
}

CASE int any_of_four(struct attr *attr)
{
	int type = attr->type, size = attr->key_size;
	int value = attr->value_size, flags = attr->flags;

	note(1);
	if (type == 7 ||
	    size != 4 ||
	    value == 3 || /* decides: any_of_four */
	    flags == 9)
		return -EINVAL;
	note(2);
	return 0;
}

CASE int signed_bit(struct attr *attr)
{
	note(1);
	if (attr->flags & 0x20) /* decides: signed_bit */
		return -EBUSY;
	note(2);
	return 0;
}

CASE static struct attr *find(struct attr *attr)
{
	asm volatile("" : "+r"(attr));
	return attr->next;
}

CASE struct attr *null_passed(struct attr *attr)
{
	struct attr *found = find(attr);

	if (!found) /* decides: null_passed */
		return (struct attr *)(intptr_t)-EINVAL;
	if ((uintptr_t)found > (uintptr_t)-4096)
		return found;
	if (found->type != attr->type)
		return (struct attr *)(intptr_t)-EINVAL;
	return found;
}

static int (*volatile through)(int) = helper;

CASE int through_pointer(struct attr *attr)
{
	int err;

	note(1);
	err = through(attr->value_size);
	if (err < 0) /* decides: through_pointer */
		return err;
	note(err);
	return 0;
}

CASE int tail_through(struct attr *attr)
{
	note(1);
	return through(attr->value_size);
}

/* gives back what it is given, as sk_stream_error() does */
CASE static int give_back(int flags, int err)
{
	if (flags)
		note(err);
	return err;
}

CASE int handed_on(struct attr *attr)
{
	int err;

	note(1);
	err = helper(attr->value_size);
	if (err < 0)
		goto failed;
	err = -EINVAL;
	if (attr->key_size != 4) /* decides: handed_on */
		goto failed;
	note(2);
	return 0;
failed:
	if (attr->next)
		note(3);
	err = give_back(attr->flags, err);
	note(4);
	return err;
}

CASE int handed_last(struct attr *attr)
{
	note(1);
	if (attr->type == 1) /* decides: handed_last */
		return give_back(attr->flags, -EBUSY);
	return 0;
}

/* what failed is found out at once and returned at the end: the loop's end decides nothing */
CASE int stored_in_loop(struct attr *attr)
{
	int stored = 0, at = attr->type, err;

	note(1);
	for (;;) {
		if (at > 90)
			return -ENOENT;
		if (at < attr->key_size) { /* decides: stored_in_loop */
			stored = -ENOENT;
			at = attr->key_size;
			if (at >= attr->value_size)
				break;
		}
		err = helper(at);
		if (err < 0)
			return err;
		at += attr->flags;
		if (at >= attr->value_size)
			break;
	}
	note(2);
	return stored;
}

/* as what has to tell user space on its way out */
CASE int tells_at_the_end(struct attr *attr)
{
	int err = -EBADF;

	note(1);
	if (attr->type == 3)
		goto out;
	err = -EINVAL;
	if (attr->key_size != 4) /* decides: tells_at_the_end */
		goto failed;
	note(2);
	err = 0;
out:
	return err;
failed:
	note(3);
	if (helper(attr->value_size) != 0) {
		note(4);
		err = -EIO;
	}
	goto out;
}

/* as what has copied so far, or failed */
CASE int copied_so_far(struct attr *attr)
{
	int copied = 0, err = 0, at = attr->type;

	for (;;) {
		note(at);
		if (at == 8) { /* decides: copied_so_far */
			err = -EAGAIN;
			break;
		}
		copied += helper(at);
		if (at == attr->key_size)
			break;
		at = 8;
	}
	note(4);
	if (attr->next && helper(attr->flags) != 3)
		note(5);
	return copied ? copied : err;
}

/* what was asked is asked again, and is known to come out as it did */
CASE int asked_twice(struct attr *attr)
{
	int sent = attr->value_size;

	note(1);
	asm volatile("" : "+r"(sent));
	if (sent) {
		note(6);
		return -EOPNOTSUPP;
	}
	asm volatile("" : "+r"(sent));
	if (attr->flags & 2) { /* decides: asked_twice */
		note(2);
		if (!attr->next)
			note(3);
		if (sent) {
			note(4);
			return sent;
		}
		return -EBUSY;
	}
	note(5);
	return 0;
}

CASE static void fill(int *to, int value)
{
	asm volatile("" : "+m"(*to) : "r"(value));
}

/* a variable that was given away is begun again, and asked about on the way out */
CASE int begun_again(struct attr *attr)
{
	int left = 0, err = -EINVAL;

	fill(&left, attr->type);
	note(left);
	left = 0;
	note(1);
	if (attr->key_size != 4) /* decides: begun_again */
		goto out;
	fill(&left, attr->value_size);
	err = 0;
out:
	note(2);
	if (left) {
		note(3);
		return 5;
	}
	return err;
}

/* what is done about a failure is no reason for it: other failures come there as well */
CASE int handled(struct attr *attr)
{
	int err;

	note(1);
	err = helper(attr->value_size);
	if (err == 7) /* decides: handled */
		err = -EBUSY;
	if (err) {
		note(2);
		if (attr->next) {
			note(3);
			return 0;
		}
		return err;
	}
	note(4);
	return 0;
}

#ifdef __x86_64__
/* the kernel's gives its result in a register of its own */
asm(".type __put_user_4, @function\n"
    "__put_user_4: mov %eax, sink(%rip)\n"
    "xor %ecx, %ecx\n"
    "ret\n"
    ".size __put_user_4, . - __put_user_4");

static inline int put_user(int value, int *to)
{
	int failed;

	asm volatile("call __put_user_4" : "=c"(failed), "+m"(sink) : "0"(to), "a"(value) : "rbx");
	return failed;
}
#else
CASE static int put_user(int value, int *to)
{
	asm volatile("" : "+m"(sink) : "r"(value), "r"(to));
	return 0;
}
#endif

/* that the program could be told is no reason */
CASE int tells_which(struct attr *attr)
{
	note(1);
	if (attr->type != 5) { /* decides: tells_which */
		note(2);
		if (put_user(5, &attr->flags) != 0) {
			note(4);
			return -EBADF;
		}
		return -EINVAL;
	}
	note(3);
	return 0;
}

/* what was chosen before is asked where it has failed */
CASE int undone(struct attr *attr)
{
	int undo = 0;

	note(1);
	if (attr->type == 2) {
		note(2);
		undo = 1;
	}
	asm volatile("" : "+r"(undo)); /* hides from the compiler what it is */
	if (attr->key_size != 4) { /* decides: undone */
		note(3);
		if (undo) {
			note(4);
			return 5;
		}
		return -EINVAL;
	}
	note(5);
	return 0;
}

CASE static struct attr *get(struct attr *attr, int *err)
{
	*err = attr->flags;
	asm volatile("" : "+m"(*err), "+r"(attr));
	return attr->next;
}

/* the error is left in a local variable by what gives nothing */
CASE int left_behind(struct attr *attr)
{
	int err = 0;
	struct attr *found;

	note(1);
	found = get(attr, &err);
	if (!found) /* decides: left_behind */
		goto out;
	note(2);
	err = 0;
out:
	if (attr->key_size == 7) {
		note(3);
		err = 0;
	}
	return err;
}

/* what it does not wait for is no reason, but that it does not wait */
CASE int does_not_wait(struct attr *attr)
{
	int wait = attr->flags & 0x40 ? 0 : attr->next->flags; /* decides: does_not_wait */
	int err = 0;

again:
	note(1);
	if (attr->type)
		goto out;
	if (attr->key_size & 1)
		goto out;
	if (!wait) { /* else decides: does_not_wait */
		err = -EAGAIN;
		goto out;
	}
	wait = helper(wait);
	goto again;
out:
	note(2);
	return err;
}

/* the compiler knows which error it is, and may return that number */
CASE int known_error(struct attr *attr)
{
	int type = attr->type, err;

	note(1);
again:
	err = helper(attr->value_size);
	if (err == -E2BIG && attr->key_size != type && !attr->flags) {
		attr = attr->next;
		goto again;
	}
	if (err < 0)
		return err;
	note(2);
	return 0;
}

/* gcc makes a switch for each outcome of the search */
CASE int asked_before(struct attr *attr, int op)
{
	struct attr *found = attr->next;
	int err;

	note(1);
	while (found && found->type != 5) /* decides: asked_before */
		found = found->next;
	err = -EINVAL;
	switch (op) {
	case 1:
		if (found) {
			err = -EBUSY;
		} else {
			note(2);
			err = 0;
		}
		break;
	case 2:
		if (found) {
			note(3);
			err = 0;
		} else {
			err = -ENOENT;
		}
		break;
	case 3:
		if (found) { /* else decides: asked_before */
			note(4);
			err = 0;
		} else {
			err = -ENOENT;
		}
		break;
	}
	note(5);
	return err;
}

/* that a call gave 0 ends the loop, which fails by itself otherwise: it is no step that did well */
CASE int times_out(struct attr *attr)
{
	if (attr->value_size > 90)
		return -EINVAL;
	for (;;) {
		note(1);
		if (attr->flags == 9)
			return -EIO;
		if (!helper(attr->type)) /* decides: times_out */
			break;
		note(2);
	}
	note(3);
	return -EAGAIN;
}

/* the error is there before it is asked whether to wait: that it does not is the reason */
CASE int does_not_connect(struct attr *attr)
{
	volatile long wait = 0;
	int err = helper(attr->value_size), more = 0;

	if (err < 0)
		return err;
	note(1);
	err = -EBUSY;
	asm volatile("" : "+r"(err)); /* it is there from here on */
	if (!(attr->flags & 0x40)) /* decides: does_not_connect */
		wait = attr->next->flags;
	if (attr->type == 2) {
		if (attr->key_size == 6 && attr->flags & 0x20) {
			note(2);
			more = 1;
		}
		if (!wait) /* else decides: does_not_connect */
			goto out;
		err = helper(wait + more);
		if (err < 0)
			goto out;
	}
	note(3);
	err = 0;
out:
	note(4);
	return err;
}

/* another failure on the way out would take the place of the error, and is no reason for it */
CASE int finishes(struct attr *attr)
{
	int err = -EINVAL, other;

	note(1);
	if (attr->type == 4) /* decides: finishes */
		goto out;
	note(2);
	err = 0;
out:
	asm volatile("" : "+r"(err)); /* no compiler knows which it is */
	other = helper(attr->key_size);
	if (other)
		err = other;
	if (attr->value_size > 8 && helper(attr->flags)) {
		err = -EIO;
		goto release;
	}
	if (err)
		goto release;
	note(3);
release:
	note(4);
	return err;
}

/* as mount(2): the flags choose one of several calls, and the last one has a check of its own */
CASE int dispatched(struct attr *attr)
{
	int flags = attr->flags, err;

	note(1);
	if ((flags & 0x1020) == 0x1020)
		err = helper(attr->type);
	else if (flags & 0x20)
		err = helper(attr->type + 1);
	else if (flags & 0x1000)
		err = helper(attr->type + 2);
	else if (flags & 0x2000)
		err = helper(attr->type + 3);
	else if (attr->key_size != attr->type) /* decides: dispatched */
		err = -EINVAL;
	else
		err = helper(attr->value_size);
	return err;
}

/* as alloc_pid(): the test behind the loop decides, and the loop rejected nothing */
CASE int behind_a_loop(struct attr *attr)
{
	int i, nr, err = -EPERM;

	for (i = attr->value_size; i >= 0; i--) {
		nr = attr->key_size ? helper(i) : helper(i + 1);
		if (nr == -EAGAIN)
			nr = -EIO;
		note(2);
		if (nr < 0) {
			err = nr == -EBADF ? -EAGAIN : nr;
			goto out;
		}
	}
	note(1);
	if (!(attr->flags & 8)) /* decides: behind_a_loop */
		goto undo;
	note(2);
	return 0;
undo:
	note(3);
out:
	while (++i <= attr->value_size)
		note(i);
	return err;
}

/* as ovl_parse_layer(): success needs no test of the flags, whatever the loop reads */
CASE int behind_a_scan(struct attr *attr)
{
	int i, count = 0;

	for (i = 0; i < attr->value_size; i++) {
		note(i);
		if (i + attr->key_size == 2)
			count++;
	}
	if (attr->type >= 2 && attr->type <= 9) {
		note(count);
		if (attr->flags & 8) /* decides: behind_a_scan */
			return -EINVAL;
	}
	note(3);
	return 0;
}

CASE int no_element(struct attr *attr)
{
	struct attr *one;

	for (one = attr; one; one = one->next) { /* decides: no_element */
		note(one->type);
		if (one->key_size == 5)
			return 0;
	}
	return -ENOENT;
}

/* the loop does not end: an element is bad */
CASE int bad_element(struct attr *attr)
{
	struct attr *one;

	for (one = attr; one; one = one->next) {
		note(one->type);
		if (one->flags < 0) /* decides: bad_element */
			return -EINVAL;
	}
	return 0;
}
