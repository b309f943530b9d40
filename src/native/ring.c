// SPDX-License-Identifier: BSD-2-Clause
#include "ring.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Each record starts with its size and these flags, then the offset of its page (linux/bpf.h). */
static const uint32_t busy_bit = 1U << 31;
static const uint32_t discard_bit = 1U << 30;
static const size_t header_size = 8;

static void *map_pages(int fd, size_t offset, size_t size, int protection)
{
	void *address = mmap(NULL, size, protection, MAP_SHARED, fd, offset);

	return address == MAP_FAILED ? NULL : address;
}

/*
 * Map `size` bytes of the ring buffer map_fd. Returns 0, or a negative errno with nothing mapped.
 */
int ring_open(struct ring *ring, int map_fd, size_t size)
{
	const size_t page = getpagesize();
	const char *produced;
	int err;

	ring->size = size;
	ring->consumed = map_pages(map_fd, 0, page, PROT_READ | PROT_WRITE);
	if (!ring->consumed)
		return -errno;
	produced = map_pages(map_fd, page, page + size, PROT_READ);
	if (!produced) {
		err = -errno;
		ring_close(ring);
		return err;
	}
	ring->produced = (const unsigned long *)produced;
	ring->data = produced + page;
	return 0;
}

void ring_close(struct ring *ring)
{
	const size_t page = getpagesize();

	if (ring->consumed)
		munmap(ring->consumed, page);
	if (ring->produced)
		munmap((void *)ring->produced, page + ring->size);
	ring->consumed = NULL;
	ring->produced = NULL;
}

static struct ring_record record_at(const struct ring *ring, size_t at, size_t size)
{
	size_t first = ring->size - at < size ? ring->size - at : size;

	return (struct ring_record){ ring->data + at, first, ring->data, size - first };
}

/*
 * Pass each record to take(), up to the end or to a record that is still being written. Returns 0,
 * or -EBADMSG if a record extends beyond the producer position. All records up to that position are
 * then skipped, because only the damaged record shows where the next one begins.
 */
int ring_consume(struct ring *ring, void (*take)(void *ctx, const struct ring_record *record),
		 void *ctx)
{
	const size_t mask = ring->size - 1;
	unsigned long position = *ring->consumed;

	for (;;) {
		unsigned long end = __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE);
		const char *header = ring->data + (position & mask);
		uint32_t word = __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
		size_t size = word & ~(busy_bit | discard_bit);
		struct ring_record record;

		if (position >= end || word & busy_bit)
			return 0;
		if (end - position < header_size || size > end - position - header_size ||
		    size > ring->size - header_size) {
			__atomic_store_n(ring->consumed, end, __ATOMIC_RELEASE);
			return -EBADMSG;
		}
		record = record_at(ring, (position + header_size) & mask, size);
		if (!(word & discard_bit))
			take(ctx, &record);
		position += (header_size + size + 7) & ~7UL;
		__atomic_store_n(ring->consumed, position, __ATOMIC_RELEASE);
	}
}
