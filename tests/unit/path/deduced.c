// SPDX-License-Identifier: BSD-2-Clause
/* Functions that look at their arguments, and fail as the kernel's do; the test emulates calls. */
#include <stdint.h>

#define EINVAL 22
#define CASE __attribute__((noinline, noclone, used))
/* callers do not know which results it has */
#define OPAQUE __attribute__((noipa, used))

int other(long);

CASE int flags(int clock, int flags)
{
	if (flags & ~0x80800)
		return -EINVAL;
	if (clock != 0 && clock != 1 && clock != 7)
		return -EINVAL;
	return other(clock);
}

CASE long range(unsigned long address, unsigned long length, int how)
{
	if (address & 4095)
		return -EINVAL;
	if (how & ~7)
		return -EINVAL;
	if ((how & 1) && (how & 4))
		return -EINVAL;
	if (address + length < address)
		return -12;
	return other(address);
}

CASE long switched(int option, unsigned long first, unsigned long second)
{
	switch (option) {
	case 3:
		return first > 2 ? -EINVAL : 0;
	case 9:
		return second ? -EINVAL : other(first);
	case 40:
		return (long)first < 0 ? -1 : -EINVAL;
	case 1000:
		return first == second ? 5 : -EINVAL;
	}
	return -EINVAL;
}

CASE long widths(int8_t small, uint16_t medium, int plain, long wide)
{
	if (small < 0)
		return -EINVAL;
	if (medium > 1000)
		return -7;
	if (wide > plain)
		return -EINVAL;
	return (unsigned)plain >> 31 ? -3 : -4;
}

CASE long computed(unsigned int flags, unsigned long value)
{
	unsigned long mask = (1UL << (flags & 63)) - 1;

	if (value & ~mask)
		return -EINVAL;
	return (int)(flags ^ 5) >= 0 ? -(long)(flags * 3) : -EINVAL;
}

CASE int looked_up(int *memory, int index)
{
	if (index < 0)
		return -EINVAL;
	return memory[index] ? -EINVAL : 0;
}

CASE int other(long value)
{
	return value ? -EINVAL : 3;
}

OPAQUE long look(long flags)
{
	asm volatile("" : "+r"(flags));
	return flags & 1 ? -7 : flags >> 4;
}

CASE long note(long value)
{
	asm volatile("" : "+r"(value));
	return value;
}

/* What is in memory decides, and tells by the calls that are made. */
CASE long by_calls(int *memory, unsigned int flags)
{
	long found = look(flags);

	if (found < 0)
		return found;
	if (memory[0] > 50) {
		note(memory[1]);
		if (memory[2] == 3)
			return -EINVAL;
		return -1;
	}
	if (found > 3)
		return -EINVAL;
	if (memory[3])
		note(3);
	return memory[4] ? -EINVAL : -1;
}

/* as mremap(): of the two tests behind the first one, either fails */
CASE long parted(unsigned long first, unsigned long second, unsigned long flags)
{
	if ((flags & 4) && (!(flags & 1) || first != second))
		return -EINVAL;
	return other(first);
}

/* nobody knows if the kernel was ready, but it does not fail with EINVAL if it was not */
int is_ready = 1;

CASE long needs_the_kernel(unsigned long size, int flags)
{
	if (!is_ready)
		return -95;
	if (flags)
		return flags == 3 ? -EINVAL : other(flags);
	if (size < 8)
		return -EINVAL;
	return other((long)size);
}

struct how {
	uint64_t flags, mode;
	uint32_t kind;
};

/* as build_open_flags() */
OPAQUE int behind(const struct how *how, uint32_t *kept)
{
	if (how->flags & ~0x3fUL)
		return -EINVAL;
	if (how->kind > 5)
		return -EINVAL;
	if (how->flags & 8)
		kept[0] = how->kind;
	else if (how->mode)
		return -EINVAL;
	return 0;
}

/* as do_sys_openat2() */
CASE int passes_on(int folder, const struct how *how)
{
	uint32_t kept[4];
	int error = behind(how, kept);

	if (error)
		return error;
	return note(folder + kept[0]);
}

/* what was recorded of the struct is not what the other function gets */
CASE int stores_first(int folder, struct how *how)
{
	uint32_t kept[4];
	int error;

	how->mode = (unsigned int)folder;
	error = behind(how, kept);
	if (error)
		return error;
	return note(folder + kept[0]);
}

union parts {
	volatile uint16_t low;
	volatile uint64_t whole;
};

CASE int stores_a_part(int folder, union parts *flags)
{
	flags->low = folder;
	return flags->whole > 5 ? -EINVAL : 0;
}

/* the difference of two ints is extended by its sign */
CASE long extends(int first, int second)
{
	long error = look((long)(first - second));

	if (error < 0)
		return error;
	return note(error);
}

/* both may fail */
CASE int either(long first, long second)
{
	int error = look(first);

	if (error < 0)
		return error;
	return second > 5 ? -EINVAL : 0;
}

/* as iovec_from_user() */
CASE long counted(unsigned long *memory, unsigned long count)
{
	if (!count)
		return 0;
	if (count > 1024)
		return -EINVAL;
	return other(memory[0]);
}

/* the first test has no expression in C: nobody knows what the pointer in memory points to */
CASE long half_named(void **memory, unsigned long flags)
{
	if (((int *)memory[1])[3] == 7 && (flags & 4)) {
		note(1);
		return -EINVAL;
	}
	note(2);
	return 0;
}
