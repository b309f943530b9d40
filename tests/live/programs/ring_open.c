// SPDX-License-Identifier: BSD-2-Clause
/* Opens a file that is not there by a request of io_uring: no system call fails. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	struct io_uring_params params = { 0 };
	struct io_uring_sqe *request;
	struct io_uring_cqe *answer;
	int ring = syscall(SYS_io_uring_setup, 4, &params);
	char *queue;

	if (ring < 0) {
		perror("io_uring_setup");
		return 2;
	}
	/* one mapping has both queues since Linux 5.4 */
	queue = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(*answer) + 4096,
		     PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	request = mmap(NULL, params.sq_entries * sizeof(*request), PROT_READ | PROT_WRITE,
		       MAP_SHARED, ring, IORING_OFF_SQES);
	if (queue == MAP_FAILED || request == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	memset(request, 0, sizeof(*request));
	request->opcode = IORING_OP_OPENAT;
	request->fd = AT_FDCWD;
	request->addr = (unsigned long)"/nonexistent/ring";
	((unsigned int *)(queue + params.sq_off.array))[0] = 0;
	__atomic_store_n((unsigned int *)(queue + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	answer = (void *)(queue + params.cq_off.cqes);
	if (answer->res < 0) {
		fprintf(stderr, "ring_open: %s\n", strerror(-answer->res));
		return 1;
	}
	return 0;
}
