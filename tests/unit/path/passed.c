/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that pass their arguments on, and some that do not. */

#define KEPT __attribute__((noinline, noipa))

struct words {
	long first[8];
	struct words *next;
};

volatile int sink;

KEPT long inner(long value, int flags, void *at, long last)
{
	sink = flags;
	return value + last + (long)at;
}

KEPT int other(void *at)
{
	sink = 1;
	return at != 0;
}

KEPT long _copy_from_user(void *to, const void *from, unsigned long size)
{
	sink = (int)size;
	return to == from;
}

KEPT long same(long value, int flags, void *at)
{
	return inner(value, flags, at, 7) + 1;
}

KEPT long turned(void *at, int flags, long value)
{
	return inner(value, flags, at, 7) + 1;
}

KEPT long kept_over_a_call(long value, int flags, void *at, long last, long more)
{
	if (!other(at))
		return -22;
	if (more > 7 && !other((void *)&sink))
		return -1;
	return inner(value, flags, at, more) + last;
}

KEPT long from_memory(const struct words *regs)
{
	return inner(regs->first[3], (int)regs->first[5], regs->next, regs->next->first[1]) + 1;
}

KEPT long changed(long value, int flags, void *at)
{
	if (value > 9)
		flags &= 7;
	return inner(value + 1, flags, at, 7) + 1;
}

KEPT long either(long value, int flags, void *at, long last)
{
	return inner(flags & 1 ? value : last, flags, at, 7) + 1;
}

KEPT long or_a_constant(long value, int flags, void *at, long last)
{
	if (value == 9) {
		sink = 1;
		last = -1;
	} else if (value == 8) {
		sink = 2;
		last = 0;
	}
	return inner(value, flags, at, last) + 1;
}

KEPT long copied(int flags, void *user, unsigned long size)
{
	struct words own;

	if (_copy_from_user(&own, user, sizeof(own)))
		return -14;
	return inner((long)size, flags, &own, 7) + own.first[0];
}

KEPT long first_calls(long value)
{
	return inner(other((void *)value), 3, (void *)8, 7) + 1;
}

KEPT long of_a_loop(long value, int flags, void *at, long last)
{
	long sum = 0;

	for (long n = 0; n < last; n++)
		sum += inner(value, flags++, at, last);
	return sum;
}

struct context {
	const void *value;
	unsigned long size;
	int flags;
};

KEPT long checks(struct context *context, int more)
{
	sink = more;
	return context->size > 9 ? -22 : (long)context->value + context->flags;
}

KEPT long stores(int flags, void *value, unsigned long size)
{
	struct context own = { value, size, flags };

	return checks(&own, 1) + 1;
}

KEPT long stores_and_shares(int flags, void *value, unsigned long size)
{
	struct context own = { value, size, flags };

	if (!other(&own))
		return -22;
	return checks(&own, 1) + 1;
}

struct pair {
	int first;
	int second;
};

KEPT long checks_pair(const struct pair *pair)
{
	return pair->first > 9 || pair->second > 9 ? -22 : 0;
}

KEPT long stores_wide(long both, int flags)
{
	union {
		struct pair pair;
		long both;
	} own;

	*(volatile int *)&own.pair.second = flags;
	*(volatile long *)&own.both = both;
	return checks_pair(&own.pair) + 1;
}

KEPT long changed_by_a_call(long value, int flags, void *at)
{
	long kept = value;

	if (!other(&kept))
		return -22;
	return inner(kept, flags, at, 7) + 1;
}

struct pointer {
	long *data;
	long is_kernel;
};

KEPT long of_either_memory(struct pointer from, int flags, void *at)
{
	long own;

	if (from.is_kernel)
		own = *from.data;
	else if (_copy_from_user(&own, from.data, sizeof(own)))
		return -14;
	return inner(own, flags, at, 7) + 1;
}

KEPT long many(long a, long b, long c, long d, long e, long f, long g, long h, int i, long j)
{
	sink = i;
	return a + b + c + d + e + f + g + h + j;
}

KEPT long of_the_stack(long a, long b, long c, long d, long e, long f, long g, long h, long i,
		       int j)
{
	if (!other((void *)a))
		return -22;
	return many(i, b, c, d, e, f, a, h, j, h) + g;
}

#ifdef __x86_64__
/* The kernel's own helper takes the address in rax, and returns the number in rdx. */
__asm__(".pushsection .text\n"
	".type __get_user_4, @function\n"
	"__get_user_4: movl (%rax), %edx\n"
	"xorl %eax, %eax\n"
	"ret\n"
	".size __get_user_4, . - __get_user_4\n"
	".popsection");

KEPT long of_the_user(void *at, int *user, int flags)
{
	register int value __asm__("rdx");
	int error;

	__asm__ volatile("call __get_user_4" : "=a"(error), "=r"(value) : "0"(user));
	if (error)
		return -14;
	return inner(value, flags, at, error) + 1;
}
#endif

KEPT long deep(struct words *own, int mask, void *at)
{
	return own->first[1] == 4 && mask == 0 && at ? -22 : 0;
}

KEPT long middle(unsigned long size, int flags, void *user, long last)
{
	struct words own;

	if (_copy_from_user(&own, user, sizeof(own)))
		return -14;
	return deep(&own, flags, (void *)size) + last;
}

KEPT long __x64_sys_given(const struct words *regs)
{
	return middle(regs->first[2], (int)regs->first[0], (void *)regs->first[1], 3) + 1;
}

KEPT long takes(int number, void *at)
{
	return number > 9 && at ? -22 : 0;
}

/* as arm64 reads a number of the user, without a call */
KEPT long reads(const int *user, void *at)
{
	return takes(*user, at) + 1;
}

KEPT long __x64_sys_read(const struct words *regs)
{
	return reads((const int *)regs->first[1], (void *)regs->first[2]) + 1;
}

KEPT long __x64_sys_jump(const struct words *regs)
{
	return takes((int)regs->first[0], (void *)regs->first[2]);
}
