// SPDX-License-Identifier: BSD-2-Clause
/*
 * System calls that fail, each for one reason: the truth table of docs/line.md says which line of
 * the kernel's source that is. Prints "NAME ERRNO" for each; with arguments only those so called.
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
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BAD (1 << 30)
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
	attr.license = (uintptr_t)"GPL";
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

/* A page of our own, and descriptors made ready before. */
static char *page;
static int file, pipes[2], watch, queue;

#define CASES                                                                                      \
	X(bpf_map_type, map_create(1000, 4, 4, 1, 0))                                              \
	X(bpf_array_key, map_create(BPF_MAP_TYPE_ARRAY, 8, 4, 1, 0))                               \
	X(bpf_array_flags, map_create(BPF_MAP_TYPE_ARRAY, 4, 4, 1, BAD))                           \
	X(bpf_array_entries, map_create(BPF_MAP_TYPE_ARRAY, 4, 4, 0, 0))                           \
	X(bpf_array_value, map_create(BPF_MAP_TYPE_ARRAY, 4, 0x80000000, 1, 0))                    \
	X(bpf_hash_key, map_create(BPF_MAP_TYPE_HASH, 0, 4, 1, 0))                                 \
	X(bpf_ringbuf_key, map_create(BPF_MAP_TYPE_RINGBUF, 1, 0, 4096, 0))                        \
	X(bpf_ringbuf_entries, map_create(BPF_MAP_TYPE_RINGBUF, 0, 0, 4095, 0))                    \
	X(bpf_prog_flags, prog_load(BPF_PROG_TYPE_SOCKET_FILTER, 2, BAD))                          \
	X(bpf_prog_insns, prog_load(BPF_PROG_TYPE_SOCKET_FILTER, 0, 0))                            \
	X(bpf_prog_type, prog_load(1000, 2, 0))                                                    \
	X(bpf_command, call(bpf, 1000, page, 16))                                                  \
	X(timer_clock, a_timer())                                                                  \
	X(clock_clock, call(clock_gettime, 99, page))                                              \
	X(sleep_time, a_sleep())                                                                   \
	X(itimer_time, an_interval())                                                              \
	X(timerfd_flags, call(timerfd_create, CLOCK_MONOTONIC, BAD))                               \
	X(timerfd_clock, call(timerfd_create, 99, 0))                                              \
	X(epoll_flags, call(epoll_create1, BAD))                                                   \
	X(epoll_file, call(epoll_ctl, queue, EPOLL_CTL_ADD, file, page))                           \
	X(epoll_self, call(epoll_ctl, queue, EPOLL_CTL_ADD, queue, page))                          \
	X(epoll_events, call(epoll_wait, queue, page, 0, 0))                                       \
	X(eventfd_flags, call(eventfd2, 0, BAD))                                                   \
	X(signalfd_size, call(signalfd4, -1, page, 7, 0))                                          \
	X(inotify_flags, call(inotify_init1, BAD))                                                 \
	X(inotify_mask, call(inotify_add_watch, watch, "/", 0))                                    \
	X(pipe_flags, call(pipe2, page, BAD))                                                      \
	X(dup_same, call(dup3, file, file, 0))                                                     \
	X(dup_flags, call(dup3, file, 50, BAD))                                                    \
	X(fcntl_command, call(fcntl, file, 999, 0))                                                \
	X(seek_whence, call(lseek, file, 0, 99))                                                   \
	X(seek_offset, call(lseek, file, -5, SEEK_SET))                                            \
	X(seek_pipe, call(lseek, pipes[0], 0, SEEK_SET))                                           \
	X(pread_offset, call(pread64, file, page, 1, -1))                                          \
	X(read_writeonly, call(read, pipes[1], page, 1))                                           \
	X(readv_count, call(readv, file, page, 2000))                                              \
	X(open_flags, call(openat2, AT_FDCWD, "/", page, 24))                                      \
	X(open_directory, call(openat, AT_FDCWD, "/etc/passwd", O_DIRECTORY))                      \
	X(open_missing, call(openat, AT_FDCWD, "/proc/no-such-file", 0))                           \
	X(open_write_dir, call(openat, AT_FDCWD, "/", O_WRONLY))                                   \
	X(mkdir_exists, call(mkdirat, AT_FDCWD, "/proc", 0))                                       \
	X(unlink_flags, call(unlinkat, AT_FDCWD, "/x", BAD))                                       \
	X(rmdir_busy, call(unlinkat, AT_FDCWD, "/proc", AT_REMOVEDIR))                             \
	X(rename_flags, call(renameat2, AT_FDCWD, "/x", AT_FDCWD, "/y", BAD))                      \
	X(link_flags, call(linkat, AT_FDCWD, "/x", AT_FDCWD, "/y", BAD))                           \
	X(readlink_size, call(readlinkat, AT_FDCWD, "/", page, 0))                                 \
	X(readlink_file, call(readlinkat, AT_FDCWD, "/etc/passwd", page, 9))                       \
	X(fallocate_length, call(fallocate, file, 0, 0, 0))                                        \
	X(truncate_length, call(truncate, "/etc/passwd", -1))                                      \
	X(statx_flags, call(statx, AT_FDCWD, "/", BAD, 0, page))                                   \
	X(getdents_file, call(getdents64, file, page, 4096))                                       \
	X(chroot_file, call(chroot, "/etc/passwd"))                                                \
	X(access_mode, call(faccessat, AT_FDCWD, "/", 99))                                         \
	X(splice_flags, call(splice, pipes[0], NULL, pipes[1], NULL, 1, BAD))                      \
	X(copy_flags, call(copy_file_range, file, NULL, file, NULL, 1, 1))                         \
	X(mmap_length, call(mmap, NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))         \
	X(mmap_type, call(mmap, NULL, 4096, PROT_READ, MAP_ANONYMOUS, -1, 0))                      \
	X(mmap_offset, call(mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, file, 1))                    \
	X(munmap_address, call(munmap, page + 1, 4096))                                            \
	X(mprotect_address, call(mprotect, page + 1, 4096, PROT_READ))                             \
	X(madvise_advice, call(madvise, page, 4096, 9999))                                         \
	X(mremap_flags, call(mremap, page, 4096, 8192, BAD))                                       \
	X(msync_flags, call(msync, page, 4096, MS_SYNC | MS_ASYNC))                                \
	X(mlock_flags, call(mlock2, page, 4096, BAD))                                              \
	X(memfd_flags, call(memfd_create, "x", BAD))                                               \
	X(mempolicy_mode, call(set_mempolicy, 99, NULL, 0))                                        \
	X(socket_type, call(socket, AF_INET, 99, 0))                                               \
	X(socket_family, call(socket, 999, SOCK_STREAM, 0))                                        \
	X(socket_protocol, call(socket, AF_INET, SOCK_STREAM, 99))                                 \
	X(socketpair_flags, call(socketpair, AF_UNIX, SOCK_STREAM | BAD, 0, page))                 \
	X(bind_size, a_bind(4, 0))                                                                 \
	X(bind_address, a_bind(sizeof(struct sockaddr_in), 0x08080808))                            \
	X(connect_size, a_connect(1))                                                              \
	X(listen_datagram, listen(a_socket(SOCK_DGRAM), 1))                                        \
	X(accept_unlistened, call(accept4, a_socket(SOCK_STREAM), NULL, NULL, 0))                  \
	X(option_level, an_option(9999, 1, 4))                                                     \
	X(option_size, an_option(SOL_SOCKET, SO_REUSEADDR, 1))                                     \
	X(option_name, an_option(IPPROTO_TCP, 9999, 4))                                            \
	X(shutdown_how, shutdown(a_socket(SOCK_STREAM), 99))                                       \
	X(kill_signal, call(kill, getpid(), 1000))                                                 \
	X(tgkill_pid, call(tgkill, -1, 1, 0))                                                      \
	X(sigaction_kill, a_sigaction(SIGKILL))                                                    \
	X(sigmask_how, a_mask(99))                                                                 \
	X(sigaltstack_size, a_stack())                                                             \
	X(wait_options, call(wait4, -1, NULL, BAD, NULL))                                          \
	X(waitid_which, call(waitid, 99, 0, page, WEXITED, NULL))                                  \
	X(unshare_flags, call(unshare, 1))                                                         \
	X(setns_file, call(setns, file, 0))                                                        \
	X(clone3_signal, a_clone3())                                                               \
	X(priority_which, call(setpriority, 99, 0, 0))                                             \
	X(scheduler_policy, a_policy(99))                                                          \
	X(affinity_size, call(sched_getaffinity, 0, 1, page))                                      \
	X(prctl_option, call(prctl, 9999, 0, 0, 0, 0))                                             \
	X(prctl_dumpable, call(prctl, PR_SET_DUMPABLE, 99, 0, 0, 0))                               \
	X(limit_order, a_limit())                                                                  \
	X(limit_resource, call(getrlimit, 999, page))                                              \
	X(random_flags, call(getrandom, page, 1, BAD))                                             \
	X(hostname_length, call(sethostname, page, -1))                                            \
	X(reboot_magic, call(reboot, 1, 2, 3, NULL))                                               \
	X(uring_entries, uring_setup(0, 0))                                                        \
	X(uring_flags, uring_setup(1, BAD))                                                        \
	X(uring_enter_flags, call(io_uring_enter, file, 0, 0, BAD, NULL, 0))                       \
	X(uring_enter_file, call(io_uring_enter, file, 0, 0, 0, NULL, 0))                          \
	X(perf_flags, a_perf(0, 0, 0) < 0 ? call(perf_event_open, page, 0, -1, -1, BAD) : 0)       \
	X(perf_size, a_perf(7, 0, 0))                                                              \
	X(perf_type, a_perf(64, 9999, 0))                                                          \
	X(perf_sample, a_perf(64, PERF_TYPE_SOFTWARE, 1ULL << 40))                                 \
	X(semget_count, call(semget, 0, 1 << 30, 0))                                               \
	X(semop_count, call(semop, 0, page, 0))                                                    \
	X(shmget_size, call(shmget, 0, 0, 01600))                                                  \
	X(shmat_id, call(shmat, -1, NULL, 0))                                                      \
	X(msgget_key, call(msgget, 0x7263, 0))                                                     \
	X(msgctl_command, call(msgctl, 0, 999, page))                                              \
	X(msgsnd_type, call(msgsnd, 0, page, 1, 0))                                                \
	X(mount_type, mount("none", "/", "no-such-type", 0, NULL))                                 \
	X(mount_flags, mount("none", "/", NULL, MS_SHARED | MS_PRIVATE, NULL))                     \
	X(umount_flags, call(umount2, "/", 999))                                                   \
	X(umount_other, call(umount2, "/etc/passwd", 0))                                           \
	X(fsopen_flags, call(fsopen, "tmpfs", BAD))                                                \
	X(open_tree_flags, call(open_tree, AT_FDCWD, "/", BAD))                                    \
	X(move_mount_flags, call(move_mount, -1, "", -1, "", BAD))                                 \
	X(pivot_root_same, call(pivot_root, "/", "/"))                                             \
	X(module_flags, call(finit_module, file, "", 999))                                         \
	X(module_file, call(finit_module, file, "", 0))                                            \
	X(module_missing, call(delete_module, "no_such_module", 0))                                \
	X(key_type, call(add_key, "no-such-type", "x", NULL, 0, -1))                               \
	X(keyctl_command, call(keyctl, 9999, 0, 0, 0, 0))                                          \
	X(futex_command, call(futex, page, 100, 0, NULL, NULL, 0))                                 \
	X(futex_value, call(futex, page, FUTEX_WAIT, 77, NULL, NULL, 0))                           \
	X(pidfd_flags, call(pidfd_open, getpid(), BAD))                                            \
	X(pidfd_pid, call(pidfd_open, -1, 0))                                                      \
	X(seccomp_operation, call(seccomp, 999, 0, NULL))                                          \
	X(membarrier_command, call(membarrier, 9999, 0, 0))                                        \
	X(ptrace_pid, call(ptrace, 0x4206, 0x3fffffff, 0, 0))                                      \
	X(cgroup_control, a_control("/sys/fs/cgroup/cgroup.subtree_control", "+nothing"))          \
	X(cgroup_procs, a_control("/sys/fs/cgroup/cgroup.procs", "1073741823"))                    \
	X(sysctl_value, a_control("/proc/sys/kernel/pid_max", "1"))                                \
	X(oom_value, a_control("/proc/self/oom_score_adj", "5000"))

int main(int argc, char **argv)
{
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file = open("/etc/passwd", O_RDONLY);
	watch = syscall(__NR_inotify_init1, 0);
	queue = epoll_create1(0);
	if (pipe(pipes) || page == MAP_FAILED || file < 0)
		return 1;
	memset(page, 0, 8192);
#define X(name, expression)                                                                        \
	if (argc < 2 || strstr(argv[1], "," #name ",")) {                                          \
		memset(page, 0, 64);                                                               \
		if (!strcmp(#name, "open_flags"))                                                  \
			memset(page, 0xff, 8);                                                     \
		prctl(PR_SET_NAME, #name, 0, 0, 0);                                                \
		errno = 0;                                                                         \
		long result = (long)(expression);                                                  \
		printf("%s %d\n", #name, result == -1 ? errno : 0);                                \
	}
	CASES
	return 0;
}
