// SPDX-License-Identifier: BSD-2-Clause
/*
 * failures NAME...: system calls that fail, each for one reason; failures.toml says which line of
 * the kernel's source that is. The thread is called like the case. Exits with 1 if all failed as
 * they should, with 2 and a word about it if one did not. failures --list: all cases.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BAD (1 << 30)
#ifndef __NR_epoll_wait /* arm64 has the later one only */
#define __NR_epoll_wait __NR_epoll_pwait
#endif

#define call(number, ...) syscall(__NR_##number, ##__VA_ARGS__)

static long map_create(uint32_t type, uint32_t key, uint32_t value, uint32_t max, uint32_t flags)
{
	union bpf_attr attr = { 0 };

	attr.map_type = type;
	attr.key_size = key;
	attr.value_size = value;
	attr.max_entries = max;
	attr.map_flags = flags;
	return call(bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static long prog_load(uint32_t type, uint32_t count, uint32_t flags)
{
	struct bpf_insn insns[2] = { { .code = 0xb7 }, { .code = 0x95 } };
	union bpf_attr attr = { 0 };

	attr.prog_type = type;
	attr.insn_cnt = count;
	attr.insns = (uintptr_t)insns;
	attr.license = (uintptr_t) "GPL";
	attr.prog_flags = flags;
	return call(bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static long perf_open(struct perf_event_attr *attr, unsigned long flags)
{
	return call(perf_event_open, attr, 0, -1, -1, flags);
}

static long uring_setup(unsigned int entries, uint32_t flags)
{
	struct io_uring_params params = { .flags = flags };

	return call(io_uring_setup, entries, &params);
}

static int a_socket(int type)
{
	return socket(AF_INET, type, 0);
}

static long a_bind(socklen_t size, uint32_t address)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };

	return bind(a_socket(SOCK_STREAM), (struct sockaddr *)&where, size);
}

static long a_connect(socklen_t size)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };

	return connect(a_socket(SOCK_STREAM), (struct sockaddr *)&where, size);
}

static long a_connect_at_once(void)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	int listening = a_socket(SOCK_STREAM);

	where.sin_port = htons(7777);
	bind(listening, (struct sockaddr *)&where, sizeof(where));
	listen(listening, 1);
	return connect(a_socket(SOCK_STREAM | SOCK_NONBLOCK), (struct sockaddr *)&where,
		       sizeof(where));
}

static long a_semaphore(void)
{
	struct sembuf take = { .sem_op = -1 };
	struct timespec soon = { 0, 1000000 };

	return semtimedop(semget(IPC_PRIVATE, 1, 0600), &take, 1, &soon);
}

static long an_option(int level, int name, socklen_t size)
{
	int one = 1;

	return setsockopt(a_socket(SOCK_STREAM), level, name, &one, size);
}

static long a_sleep(void)
{
	struct timespec time = { 0, 2000000000 };

	return call(nanosleep, &time, NULL);
}

static long a_clone3(void)
{
	uint64_t args[11] = { [4] = 1000 }; /* exit_signal */

	return call(clone3, args, sizeof(args));
}

static long a_sigaction(int number)
{
	struct sigaction action = { 0 };

	return call(rt_sigaction, number, &action, NULL, 8);
}

static long a_stack(void)
{
	static char room[16];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };

	return sigaltstack(&stack, NULL);
}

static long a_limit(void)
{
	struct rlimit limit = { 2, 1 };

	return call(prlimit64, 0, RLIMIT_NOFILE, &limit, NULL);
}

static long a_policy(int policy)
{
	int priority = 0;

	return call(sched_setscheduler, 0, policy, &priority);
}

static long a_timer(void)
{
	int id;

	return call(timer_create, 99, NULL, &id);
}

static long a_notice(int how, int number)
{
	struct sigevent event = { .sigev_notify = how, .sigev_signo = number };
	int id;

	return call(timer_create, CLOCK_MONOTONIC, &event, &id);
}

static long a_mask(int how)
{
	uint64_t mask = 0;

	return call(rt_sigprocmask, how, &mask, NULL, 8);
}

static long an_interval(void)
{
	struct itimerval value = { .it_value.tv_usec = 2000000 };

	return call(setitimer, ITIMER_REAL, &value, NULL);
}

static long a_control(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);
	long done = fd < 0 ? fd : write(fd, text, strlen(text));

	close(fd);
	return done;
}

static long a_perf(uint32_t size, uint32_t type, uint64_t sample)
{
	struct perf_event_attr attr = { .size = size, .type = type, .sample_type = sample };

	return perf_open(&attr, 0);
}

static long a_perf_software(void)
{
	struct perf_event_attr attr = { .size = 64, .type = PERF_TYPE_SOFTWARE, .config = 99 };

	return perf_open(&attr, 0);
}

static long a_hole(void)
{
	char *pages = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(pages + 4096, 4096);
	return madvise(pages, 12288, MADV_DONTNEED);
}

static long a_fault_api(void)
{
	uint64_t api[3] = { 1 };

	return ioctl(call(userfaultfd, 0), _IOWR(0xaa, 0x3f, api), api); /* UFFDIO_API */
}

static long an_open(void)
{
	uint64_t how[3] = { ~0ULL };

	return call(openat2, AT_FDCWD, "/", how, sizeof(how));
}

/* What would have to wait, on a socket that nobody writes to. */
static long a_read(int type)
{
	int pair[2];
	char byte;

	return socketpair(AF_UNIX, type, 0, pair) ? 0 : recv(pair[0], &byte, 1, MSG_DONTWAIT);
}

/* Nothing that guests have leads there. */
static long a_route(void)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808) };

	where.sin_port = htons(53);
	return connect(a_socket(SOCK_DGRAM), (struct sockaddr *)&where, sizeof(where));
}

static long a_rename(const char *to, unsigned int flags)
{
	mkdir("/tmp/failures.from", 0700);
	mkdir("/tmp/failures.to", 0700);
	return call(renameat2, AT_FDCWD, "/tmp/failures.from", AT_FDCWD, to, flags);
}

static long a_capset(void)
{
	uint32_t header[2] = { 0x1234, 0 }, data[6] = { 0 };

	return call(capset, header, data);
}

/* A plain file wherever we run. */
#define PLAIN "/proc/version"

/* A page of our own, and descriptors made ready before. */
static char *page;
static int file, pipes[2], watch, queue, process;

#define CASES                                                                                    \
	X(bpf_map_type, bpf, EINVAL, map_create(1000, 4, 4, 1, 0))                               \
	X(bpf_array_key, bpf, EINVAL, map_create(BPF_MAP_TYPE_ARRAY, 8, 4, 1, 0))                \
	X(bpf_array_flags, bpf, EINVAL, map_create(BPF_MAP_TYPE_ARRAY, 4, 4, 1, BAD))            \
	X(bpf_array_max, bpf, EINVAL, map_create(BPF_MAP_TYPE_ARRAY, 4, 4, 0, 0))                \
	X(bpf_array_value, bpf, E2BIG, map_create(BPF_MAP_TYPE_ARRAY, 4, 0x80000000, 1, 0))      \
	X(bpf_hash_key, bpf, EINVAL, map_create(BPF_MAP_TYPE_HASH, 0, 4, 1, 0))                  \
	X(bpf_ringbuf_key, bpf, EINVAL, map_create(BPF_MAP_TYPE_RINGBUF, 1, 0, 4096, 0))         \
	X(bpf_ringbuf_max, bpf, EINVAL, map_create(BPF_MAP_TYPE_RINGBUF, 0, 0, 4095, 0))         \
	X(bpf_prog_flags, bpf, EINVAL, prog_load(BPF_PROG_TYPE_SOCKET_FILTER, 2, BAD))           \
	X(bpf_prog_insns, bpf, E2BIG, prog_load(BPF_PROG_TYPE_SOCKET_FILTER, 0, 0))              \
	X(bpf_prog_type, bpf, EINVAL, prog_load(1000, 2, 0))                                     \
	X(timer_clock, timer_create, EINVAL, a_timer())                                          \
	X(timer_notify, timer_create, EINVAL, a_notice(99, 0))                                   \
	X(timer_signal, timer_create, EINVAL, a_notice(SIGEV_SIGNAL, 999))                       \
	X(clock_clock, clock_gettime, EINVAL, call(clock_gettime, 99, page))                     \
	X(sleep_time, nanosleep, EINVAL, a_sleep())                                              \
	X(itimer_time, setitimer, EINVAL, an_interval())                                         \
	X(timerfd_flags, timerfd_create, EINVAL, call(timerfd_create, CLOCK_MONOTONIC, BAD))     \
	X(timerfd_clock, timerfd_create, EINVAL, call(timerfd_create, 99, 0))                    \
	X(epoll_flags, epoll_create1, EINVAL, call(epoll_create1, BAD))                          \
	X(epoll_file, epoll_ctl, EPERM, call(epoll_ctl, queue, EPOLL_CTL_ADD, file, page))       \
	X(epoll_self, epoll_ctl, EINVAL, call(epoll_ctl, queue, EPOLL_CTL_ADD, queue, page))     \
	X(epoll_mod, epoll_ctl, ENOENT, call(epoll_ctl, queue, EPOLL_CTL_MOD, pipes[0], page))   \
	X(epoll_events, epoll_wait, EINVAL, call(epoll_wait, queue, page, 0, 0, NULL, 0))        \
	X(eventfd_flags, eventfd2, EINVAL, call(eventfd2, 0, BAD))                               \
	X(signalfd_size, signalfd4, EINVAL, call(signalfd4, -1, page, 7, 0))                     \
	X(inotify_flags, inotify_init1, EINVAL, call(inotify_init1, BAD))                        \
	X(inotify_mask, inotify_add_watch, EINVAL, call(inotify_add_watch, watch, "/", 0))       \
	X(pipe_flags, pipe2, EINVAL, call(pipe2, page, BAD))                                     \
	X(dup_same, dup3, EINVAL, call(dup3, file, file, 0))                                     \
	X(dup_flags, dup3, EINVAL, call(dup3, file, 50, BAD))                                    \
	X(fcntl_command, fcntl, EINVAL, call(fcntl, file, 999, 0))                               \
	X(seek_whence, lseek, EINVAL, call(lseek, file, 0, 99))                                  \
	X(seek_offset, lseek, EINVAL, call(lseek, file, -5L, SEEK_SET))                          \
	X(seek_pipe, lseek, ESPIPE, call(lseek, pipes[0], 0, SEEK_SET))                          \
	X(pread_offset, pread64, EINVAL, call(pread64, file, page, 1, -1L))                      \
	X(read_writeonly, read, EBADF, call(read, pipes[1], page, 1))                            \
	X(readv_count, readv, EINVAL, call(readv, file, page, 2000))                             \
	X(open_flags, openat2, EINVAL, an_open())                                                \
	X(open_directory, openat, ENOTDIR, call(openat, AT_FDCWD, PLAIN, O_DIRECTORY))           \
	X(open_missing, openat, ENOENT, call(openat, AT_FDCWD, "/proc/no-such-file", 0))         \
	X(open_write_dir, openat, EISDIR, call(openat, AT_FDCWD, "/", O_WRONLY))                 \
	X(mkdir_exists, mkdirat, EEXIST, call(mkdirat, AT_FDCWD, "/proc/sys", 0))                \
	X(unlink_flags, unlinkat, EINVAL, call(unlinkat, AT_FDCWD, "/x", BAD))                   \
	X(rmdir_proc, unlinkat, EPERM, call(unlinkat, AT_FDCWD, "/proc/sys", AT_REMOVEDIR))      \
	X(rename_flags, renameat2, EINVAL, call(renameat2, AT_FDCWD, "/x", AT_FDCWD, "/y", BAD)) \
	X(link_flags, linkat, EINVAL, call(linkat, AT_FDCWD, "/x", AT_FDCWD, "/y", BAD))         \
	X(readlink_size, readlinkat, EINVAL, call(readlinkat, AT_FDCWD, "/", page, 0))           \
	X(readlink_file, readlinkat, EINVAL, call(readlinkat, AT_FDCWD, PLAIN, page, 9))         \
	X(allocate_size, fallocate, EINVAL, call(fallocate, file, 0, 0, 0))                      \
	X(truncate_size, truncate, EINVAL, call(truncate, PLAIN, -1L))                           \
	X(statx_flags, statx, EINVAL, call(statx, AT_FDCWD, "/", BAD, 0, page))                  \
	X(getdents_file, getdents64, ENOTDIR, call(getdents64, file, page, 4096))                \
	X(chroot_file, chroot, ENOTDIR, call(chroot, PLAIN))                                     \
	X(access_mode, faccessat, EINVAL, call(faccessat, AT_FDCWD, "/", 99))                    \
	X(splice_flags, splice, EINVAL, call(splice, pipes[0], NULL, pipes[1], NULL, 1, BAD))    \
	X(copy_flags, copy_file_range, EINVAL,                                                   \
	  call(copy_file_range, file, NULL, file, NULL, 1, 1))                                   \
	X(mmap_length, mmap, EINVAL,                                                             \
	  call(mmap, NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))                    \
	X(mmap_type, mmap, EINVAL, call(mmap, NULL, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0))      \
	X(mmap_offset, mmap, EINVAL, call(mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, file, 1))    \
	X(munmap_address, munmap, EINVAL, call(munmap, page + 1, 4096))                          \
	X(mprotect_addr, mprotect, EINVAL, call(mprotect, page + 1, 4096, PROT_READ))            \
	X(mremap_flags, mremap, EINVAL, call(mremap, page, 4096, 8192, BAD))                     \
	X(msync_flags, msync, EINVAL, call(msync, page, 4096, MS_SYNC | MS_ASYNC))               \
	X(madvise_hole, madvise, ENOMEM, a_hole())                                               \
	X(fault_api, ioctl, EINVAL, a_fault_api())                                               \
	X(mlock_flags, mlock2, EINVAL, call(mlock2, page, 4096, BAD))                            \
	X(memfd_flags, memfd_create, EINVAL, call(memfd_create, "x", BAD))                       \
	X(mempolicy_mode, set_mempolicy, EINVAL, call(set_mempolicy, 99, NULL, 0))               \
	X(socket_type, socket, EINVAL, call(socket, AF_INET, 99, 0))                             \
	X(socket_family, socket, EAFNOSUPPORT, call(socket, 999, SOCK_STREAM, 0))                \
	X(socket_protocol, socket, EPROTONOSUPPORT, call(socket, AF_INET, SOCK_STREAM, 99))      \
	X(netlink_proto, socket, EPROTONOSUPPORT, call(socket, AF_NETLINK, SOCK_RAW, 99))        \
	X(pair_flags, socketpair, EINVAL, call(socketpair, AF_UNIX, SOCK_STREAM | BAD, 0, page)) \
	X(bind_size, bind, EINVAL, a_bind(4, 0))                                                 \
	X(bind_address, bind, EADDRNOTAVAIL, a_bind(sizeof(struct sockaddr_in), 0x08080808))     \
	X(connect_size, connect, EINVAL, a_connect(1))                                           \
	X(listen_datagram, listen, EOPNOTSUPP, listen(a_socket(SOCK_DGRAM), 1))                  \
	X(accept_closed, accept4, EINVAL, call(accept4, a_socket(SOCK_STREAM), NULL, NULL, 0))   \
	X(option_level, setsockopt, ENOPROTOOPT, an_option(9999, 1, 4))                          \
	X(option_name, setsockopt, ENOPROTOOPT, an_option(IPPROTO_TCP, 9999, 4))                 \
	X(send_closed, sendto, EPIPE, send(a_socket(SOCK_STREAM), "x", 1, MSG_NOSIGNAL))         \
	X(recv_stream, recvfrom, EAGAIN, a_read(SOCK_STREAM))                                    \
	X(recv_datagram, recvfrom, EAGAIN, a_read(SOCK_DGRAM))                                   \
	X(connect_route, connect, ENETUNREACH, a_route())                                        \
	X(connect_wait, connect, EINPROGRESS, a_connect_at_once())                               \
	X(semop_time, semtimedop, EAGAIN, a_semaphore())                                         \
	X(rename_exists, renameat2, EEXIST, a_rename("/tmp/failures.to", 1))                     \
	X(rename_inside, renameat2, EINVAL, a_rename("/tmp/failures.from/in", 0))                \
	X(capset_version, capset, EINVAL, a_capset())                                            \
	X(shutdown_how, shutdown, EINVAL, shutdown(a_socket(SOCK_STREAM), 99))                   \
	X(kill_signal, kill, EINVAL, call(kill, getpid(), 1000))                                 \
	X(tgkill_pid, tgkill, EINVAL, call(tgkill, -1, 1, 0))                                    \
	X(sigaction_kill, rt_sigaction, EINVAL, a_sigaction(SIGKILL))                            \
	X(sigmask_how, rt_sigprocmask, EINVAL, a_mask(99))                                       \
	X(altstack_size, sigaltstack, ENOMEM, a_stack())                                         \
	X(wait_options, wait4, EINVAL, call(wait4, -1, NULL, 256, NULL))                         \
	X(waitid_which, waitid, EINVAL, call(waitid, 99, 0, page, WEXITED, NULL))                \
	X(unshare_flags, unshare, EINVAL, call(unshare, 1))                                      \
	X(setns_file, setns, EINVAL, call(setns, file, 0))                                       \
	X(setns_type, setns, EINVAL, call(setns, open("/proc/self/ns/net", 0), CLONE_NEWUTS))    \
	X(clone_signal, clone3, EINVAL, a_clone3())                                              \
	X(priority_which, setpriority, EINVAL, call(setpriority, 99, 0, 0))                      \
	X(sched_policy, sched_setscheduler, EINVAL, a_policy(99))                                \
	X(affinity_size, sched_getaffinity, EINVAL, call(sched_getaffinity, 0, 1, page))         \
	X(prctl_option, prctl, EINVAL, call(prctl, 9999, 0, 0, 0, 0))                            \
	X(prctl_dump, prctl, EINVAL, call(prctl, PR_SET_DUMPABLE, 99, 0, 0, 0))                  \
	X(limit_order, prlimit64, EINVAL, a_limit())                                             \
	X(limit_resource, getrlimit, EINVAL, call(getrlimit, 999, page))                         \
	X(random_flags, getrandom, EINVAL, call(getrandom, page, 1, BAD))                        \
	X(hostname_size, sethostname, EINVAL, call(sethostname, page, -1))                       \
	X(reboot_magic, reboot, EINVAL, call(reboot, 1, 2, 3, NULL))                             \
	X(uring_entries, io_uring_setup, EINVAL, uring_setup(0, 0))                              \
	X(uring_flags, io_uring_setup, EINVAL, uring_setup(1, BAD))                              \
	X(uring_flags2, io_uring_enter, EINVAL, call(io_uring_enter, file, 0, 0, BAD, NULL, 0))  \
	X(uring_file, io_uring_enter, EOPNOTSUPP, call(io_uring_enter, file, 0, 0, 0, NULL, 0))  \
	X(perf_flags, perf_event_open, EINVAL, call(perf_event_open, page, 0, -1, -1, BAD))      \
	X(perf_size, perf_event_open, E2BIG, a_perf(7, 0, 0))                                    \
	X(perf_type, perf_event_open, ENOENT, a_perf(64, 9999, 0))                               \
	X(perf_software, perf_event_open, ENOENT, a_perf_software())                             \
	X(perf_sample, perf_event_open, EINVAL, a_perf(64, PERF_TYPE_SOFTWARE, 1ULL << 40))      \
	X(semget_count, semget, EINVAL, call(semget, 0, 1 << 30, 0))                             \
	X(semop_id, semop, EINVAL, call(semop, 0x7fffff, page, 1))                               \
	X(semop_count, semop, EINVAL, call(semop, 0, page, 0))                                   \
	X(shmget_size, shmget, EINVAL, call(shmget, 0, 0, 01600))                                \
	X(shmat_id, shmat, EINVAL, call(shmat, -1, NULL, 0))                                     \
	X(msgget_key, msgget, ENOENT, call(msgget, 0x7263, 0))                                   \
	X(msgctl_command, msgctl, EINVAL, call(msgctl, 0, 999, page))                            \
	X(msgsnd_type, msgsnd, EINVAL, call(msgsnd, 0, page, 1, 0))                              \
	X(mount_type, mount, ENODEV, mount("none", "/", "no-such-type", 0, NULL))                \
	X(mount_flags, mount, EINVAL, mount("none", "/", NULL, MS_SHARED | MS_PRIVATE, NULL))    \
	X(umount_flags, umount2, EINVAL, call(umount2, "/", 999))                                \
	X(umount_other, umount2, EINVAL, call(umount2, PLAIN, 0))                                \
	X(fsopen_flags, fsopen, EINVAL, call(fsopen, "tmpfs", BAD))                              \
	X(open_tree_flags, open_tree, EINVAL, call(open_tree, AT_FDCWD, "/", BAD))               \
	X(move_flags, move_mount, EINVAL, call(move_mount, -1, "", -1, "", BAD))                 \
	X(pivot_root_same, pivot_root, EBUSY, call(pivot_root, "/", "/"))                        \
	X(module_flags, finit_module, EINVAL, call(finit_module, file, "", 999))                 \
	X(module_missing, delete_module, ENOENT, call(delete_module, "no_such_module", 0))       \
	X(key_type, add_key, ENODEV, call(add_key, "no-such-type", "x", NULL, 0, -1))            \
	X(keyctl_command, keyctl, EOPNOTSUPP, call(keyctl, 9999, 0, 0, 0, 0))                    \
	X(futex_command, futex, ENOSYS, call(futex, page, 100, 0, NULL, NULL, 0))                \
	X(futex_value, futex, EAGAIN, call(futex, page, FUTEX_WAIT, 77, NULL, NULL, 0))          \
	X(pidfd_flags, pidfd_open, EINVAL, call(pidfd_open, getpid(), BAD))                      \
	X(pidfd_pid, pidfd_open, EINVAL, call(pidfd_open, -1, 0))                                \
	X(pidfd_getfd, pidfd_getfd, EBADF, call(pidfd_getfd, process, 9999, 0))                  \
	X(seccomp_op, seccomp, EINVAL, call(seccomp, 999, 0, NULL))                              \
	X(membarrier, membarrier, EINVAL, call(membarrier, 9999, 0, 0))                          \
	X(ptrace_pid, ptrace, ESRCH, call(ptrace, 0x4206, 0x3fffffff, 0, 0))                     \
	X(cgroup_control, write, EINVAL,                                                         \
	  a_control("/sys/fs/cgroup/cgroup.subtree_control", "+nothing"))                        \
	X(cgroup_procs, write, ESRCH, a_control("/sys/fs/cgroup/cgroup.procs", "1073741823"))    \
	X(sysctl_value, write, EINVAL, a_control("/proc/sys/kernel/pid_max", "1"))               \
	X(oom_value, write, EINVAL, a_control("/proc/self/oom_score_adj", "5000"))

int main(int argc, char **argv)
{
	bool list = argc == 2 && !strcmp(argv[1], "--list"), known = false;
	int wrong = 0;

	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("plain", 0);
	watch = syscall(__NR_inotify_init1, 0);
	queue = epoll_create1(0);
	process = call(pidfd_open, getpid(), 0);
	if (page == MAP_FAILED || file < 0 || ftruncate(file, 4096) || pipe(pipes))
		return 3;
	for (int i = 1; i < argc; i++) {
		known = list;
#define X(name, syscall, error, expression)                                 \
	if (list) {                                                         \
		printf("%s %s %s\n", #name, #syscall, #error);              \
	} else if (!strcmp(argv[i], #name)) {                               \
		known = true;                                               \
		prctl(PR_SET_NAME, #name, 0, 0, 0);                         \
		errno = 0;                                                  \
		if ((long)(expression) != -1 || errno != error) {           \
			fprintf(stderr, "%s: errno is %d\n", #name, errno); \
			wrong = errno ? errno : -1;                         \
		}                                                           \
	}
		CASES
		if (!known) {
			fprintf(stderr, "%s: no such case\n", argv[i]);
			return 3;
		}
		memset(page, 0, 64);
	}
	return list ? 0 : wrong ? 2 : 1;
}
