// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a command itself sees and says while it runs: system calls that return an error, whoever
 * made it, with their arguments; what it writes to standard output and error; programs it begins,
 * signals it gets, how its processes end. `why` chooses by it which failure the command reported.
 *
 * An object of its own: these are four tracepoints, and a run without `why` has none of it.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	WITNESS_CALL = 1, /* a system call returned an error */
	WITNESS_TEXT = 2, /* `number` is the descriptor that the text was written to */
	WITNESS_EXEC = 3, /* a new program; the text is its path */
	WITNESS_FORK = 4, /* `number` is the new process */
	WITNESS_EXIT = 5, /* `result` is the exit code as wait(2) gives it */
	WITNESS_SIGNAL =
		6, /* `number`; args: code, address, the sender's process; comm is its name;
		    * struct witness_fault follows */
	WITNESS_OOM = 7, /* the kernel chose the process to give its memory back; args: cgroup */
	WITNESS_DENIED =
		8, /* `number`: a capability that it lacks; args: options, user namespace's level */
	WITNESS_REQUEST =
		9, /* a call, but of a netlink message; `number`: its type; args: the protocol */
};

enum {
	WITNESS_TEXTS = 4,
	WITNESS_TEXT_BYTES = 256,
	WITNESS_NAMES_BYTES = 2048, /* of the texts of a call and of where it was made, together */
	WITNESS_PLACES = 4,
	WITNESS_DEPTH = 40, /* directories and mounts above a place */
	WITNESS_GROUPS = 32,
	WITNESS_WRITTEN_BYTES = 512,
	WITNESS_VALUE_BYTES = 40, /* of what a write(2) that failed was to write */
	WITNESS_MESSAGE_BYTES = 256, /* of a netlink message, with its head of 16 bytes */
	WITNESS_ADDRESS_BYTES = 128,
	WITNESS_PIECES = 16, /* of a writev(2) */
	WITNESS_CALLS = 1024,
	WITNESS_LIMITS = 16, /* RLIM_NLIMITS */
	WITNESS_THREADS = 8192,
	ENOSYS = 38,
	MAX_ERRNO = 4095,
	ERESTARTSYS = 512, /* up to 516: the program sees none of these */
	ERESTART_LAST = 516,
	SIGBUS = 7,
	SIGSEGV = 11,
	SIGCHLD = 17,
	RLIMIT_CPU = 0,
	RLIMIT_FSIZE = 1,
	RLIMIT_STACK = 3,
	SECCOMP_FILTER = 2,
	SOCKET_LEVEL = 1, /* SOL_SOCKET */
	SOCKET_ERROR = 4, /* SO_ERROR */
	PROC_MAGIC = 0x9fa0, /* PROC_SUPER_MAGIC */
	NO_OPCODE = 0xffffffff,
	NULL_DEVICE = 1 << 20 | 3, /* /dev/null, as the kernel keeps device numbers */
};

/* What is done about a system call; of its number. The lowest six bits: which arguments are texts. */
enum {
	WITNESS_DO_ADDRESS = 1 << 8, /* argument 1 is a socket address, argument 2 its length */
	WITNESS_DO_ADDRESS_4 = 1 << 9, /* the same of arguments 4 and 5 */
	WITNESS_DO_WRITE = 1 << 10,
	WITNESS_DO_WRITEV = 1 << 11,
	WITNESS_DO_SUCCESS = 1 << 12, /* its success counts, too */
	WITNESS_DO_SO_ERROR = 1 << 13, /* getsockopt(2): it may read a socket's error */
	WITNESS_DO_DESCRIPTOR = 1 << 16, /* argument 0 is a descriptor; the next bits: 1 to 5 */
};

enum {
	WITNESS_COMPAT = 1, /* of a 32-bit program: `number` is one of its table */
	WITNESS_FILTERED = 2, /* the thread has a seccomp filter */
	WITNESS_ADDRESS = 4, /* the first text is a socket address */
	WITNESS_ENTERED = 8, /* the call was begun: neither seccomp nor ptrace kept it away */
	WITNESS_NOT_ENTERED = 16, /* it was not; without either bit that is not known */
	WITNESS_SO_ERROR = 32, /* the call succeeded; `result` is the error that it read */
	WITNESS_COMPLETION = 64, /* a completion of io_uring; `number` is the request's opcode */
};

struct witness_limit {
	__u64 soft;
	__u64 hard;
};

enum {
	WITNESS_HAS_LOW = 1,
	WITNESS_HAS_HIGH = 2,
};

/* What a write(2) that failed was to write; and of a file below /proc/sys the bounds of its value. */
struct witness_value {
	__u64 handler; /* the kernel's function for that file; 0: it is another file */
	__u64 low; /* what extra1 and extra2 point to: numbers, if the handler is one for numbers */
	__u64 high;
	__u32 flags; /* WITNESS_HAS_* */
	__u32 bytes; /* of `text` */
	char text[WITNESS_VALUE_BYTES];
};

/* What the process had and was allowed as a call failed. */
struct witness_state {
	struct witness_limit limits[WITNESS_LIMITS]; /* by RLIMIT_* */
	__u64 capabilities; /* effective, a bit each */
	__u64 cgroup; /* the inode of its folder in cgroup2 */
	__u64 begin; /* when the call was begun; 0: not known */
	__u64 pages_mapped; /* address space */
	__u64 pages_data; /* private and writable */
	__u64 pages_locked;
	__u32 namespace; /* how many user namespaces lie above its own */
	__u32 mappings;
	__u32 mounts; /* the inode of its mount namespace */
	__u32 network; /* and of its network namespace */
	__u32 group_count; /* of the supplementary groups; the first ones follow */
	__u32 groups[WITNESS_GROUPS];
	__u32 next_fd; /* all descriptors below it are in use */
	struct witness_value value;
};

enum {
	WITNESS_OF_CWD = 6, /* a place that is no argument: the current directory, the root */
	WITNESS_OF_ROOT = 7,
};

enum {
	WITNESS_PLACE_UNKNOWN = 1, /* its path is too long, or could not be read */
	WITNESS_PLACE_DETACHED = 2, /* no mount leads there: pipes, sockets, unmounted places */
	WITNESS_PLACE_DELETED = 4,
};

/*
 * Where the current directory, the root or a descriptor is. Its names are behind the texts, the
 * last name of the path first, up to the tool's root.
 */
struct witness_place {
	__u64 inode;
	__u32 argument; /* WITNESS_OF_*, or the descriptor's */
	__u32 bytes; /* of its names */
	__u32 mode; /* 0: the place is not there */
	__u32 flags;
};

struct witness_event {
	__u32 type; /* WITNESS_* */
	__u32 size; /* bytes of the whole record */
	__u64 time; /* CLOCK_MONOTONIC ns */
	__u32 tid;
	__u32 tgid;
	char comm[16];
	__u32 number;
	__u32 flags;
	__s64 result;
	__u64 args[6];
	__u32 uid; /* the file system's, which permissions are tested with */
	__u32 gid;
	__u32 mask; /* which arguments the texts are of, one behind the other */
	__u32 bytes; /* of the text that was written, without what did not fit */
};

/* Only as much of `names` is sent as is used: the texts or the address, then those of each place. */
struct witness_call {
	struct witness_event event;
	struct witness_state state;
	struct witness_place places[WITNESS_PLACES];
	char names[2 * WITNESS_NAMES_BYTES];
};

/* A call without names: of a completion, whose request has no arguments here. */
struct witness_plain_call {
	struct witness_event event;
	struct witness_state state;
	struct witness_place places[WITNESS_PLACES];
};

struct witness_text {
	struct witness_event event;
	char text[WITNESS_WRITTEN_BYTES];
};

enum {
	WITNESS_READS = 1,
	WITNESS_WRITES = 2,
	WITNESS_EXECUTES = 3,
	WITNESS_IN_CALL =
		1, /* the thread is in a system call, `descriptor` is its first argument */
};

struct witness_mapping {
	__u64 start; /* 0: none */
	__u64 end;
	__u64 flags; /* VM_* */
	__u64 offset; /* of `start` in the file, bytes */
	__u64 bytes; /* the file's size */
	char file[64]; /* the last part of its path; "": no file */
};

/* What is known as a signal is sent. All but the limits is of the thread that sends it to itself,
 * as for a fault. */
struct witness_fault {
	__u64 instruction; /* its address in the program; 0: not known */
	__u64 stack; /* where the first thread's stack begins */
	__u64 detail; /* the second word of what siginfo has for this signal */
	__u64 limit_cpu; /* seconds */
	__u64 hard_limit_cpu;
	__u64 limit_stack; /* bytes */
	__u64 limit_file;
	__u32 access; /* WITNESS_READS ... */
	__u32 flags; /* WITNESS_IN_CALL */
	__u32 descriptor;
	__u32 mode; /* of its file, as in stat(2) */
	char file[64]; /* the last part of its path */
	struct witness_mapping at; /* the address */
	struct witness_mapping code; /* the instruction */
};

struct witness_signal {
	struct witness_event event;
	struct witness_fault fault;
};

/* Puts the types into the object's BTF, where user space finds their layouts. */
struct witness_types {
	struct witness_event event;
	struct witness_value value;
	struct witness_state state;
	struct witness_place place;
	struct witness_call call;
	struct witness_text text;
	struct witness_signal signal;
};
const struct witness_types *witness_types __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

/* Process ids, the kernel's own: the command and what descends from it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u8); /* 2: its root is that of the tool, until its next call */
} tree SEC(".maps");

/* By number of a system call: WITNESS_DO_*. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WITNESS_CALLS);
	__type(key, __u32);
	__type(value, __u32);
} calls SEC(".maps");

struct entry {
	__u64 time; /* 0: the thread is in no call */
	__u32 number;
	__u32 first; /* its first argument */
};

/* By thread: the call that it is in. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WITNESS_THREADS);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

/* Where a signal's record is put together. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct witness_signal);
} signals SEC(".maps");

struct check {
	__u32 capability;
	__u32 options;
	__u32 level;
};

/* By thread: the test of a capability that runs. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WITNESS_THREADS);
	__type(key, __u32);
	__type(value, struct check);
} checks SEC(".maps");

/* A record in the making; programs at these tracepoints do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct witness_call);
} scratch SEC(".maps");

/* Of standard output so much is kept: a command may write any amount there. */
const volatile __u64 output_limit = 4 << 20;

__u64 output_bytes;
__u64 lost;

/* The root of the tool, which paths begin at; 0: not known, they begin at the root of all mounts. */
__u64 own_root;
__u64 own_mount;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kid {
	__u32 val;
};

struct capabilities {
	__u64 bits; /* two of 32 bits before 6.3 */
};

struct user_namespace {
	int level;
};

struct group_info {
	int ngroups;
	struct kid gid[];
};

struct cred {
	struct kid fsuid;
	struct kid fsgid;
	struct capabilities cap_effective;
	struct user_namespace *user_ns;
	struct group_info *group_info;
};

struct rlimit {
	unsigned long rlim_cur;
	unsigned long rlim_max;
};

struct mm_struct {
	unsigned long total_vm;
	unsigned long data_vm;
	unsigned long locked_vm;
	unsigned long start_stack;
	int map_count;
};

struct seccomp {
	int mode;
};

struct atomic {
	int counter;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	__u32 i_rdev;
	unsigned long i_ino;
	long long i_size;
	struct super_block *i_sb;
};

struct ctl_table {
	void *proc_handler;
	void *extra1;
	void *extra2;
};

struct proc_inode {
	const struct ctl_table *sysctl_entry;
	struct inode vfs_inode;
};

struct qstr {
	const unsigned char *name;
};

struct hlist_bl_node {
	void *pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	void *mnt_ns;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root, pwd;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct net {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct___witness {
	struct fdtable *fdt;
	unsigned int next_fd;
};

struct signal_struct___witness {
	struct atomic live;
	struct rlimit rlim[WITNESS_LIMITS];
};

struct kernel_siginfo {
	int si_code;
};

struct linux_binprm {
	const char *filename;
};

/* `req` since Linux 5.18. */
struct trace_event_raw_io_uring_complete {
	void *req;
	int res;
};

struct io_kiocb {
	__u8 opcode;
};

struct sock {
	__u16 sk_protocol;
};

struct sk_buff {
	struct sock *sk;
};

struct netlink_ext_ack {
	const char *_msg;
};

#if defined(__TARGET_ARCH_arm64)
struct thread_info {
	unsigned long flags;
};

struct pt_regs___witness {
	struct user_pt_regs user_regs;
	__u64 orig_x0;
	__s32 syscallno;
};
#else
struct thread_info {
	__u32 status;
};

struct pt_regs___witness {
	unsigned long r10, r9, r8, dx, si, di, orig_ax;
};
#endif

struct thread_struct___witness {
	unsigned long error_code; /* x86-64: of the page fault */
	unsigned long fault_code; /* arm64: ESR_EL1 */
};

struct task_struct___witness {
	struct thread_struct___witness thread;
	struct thread_info thread_info;
	const struct cred *cred;
	struct files_struct___witness *files;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct signal_struct___witness *signal;
	struct mm_struct *mm;
	struct seccomp seccomp;
	int exit_code;
	int pid;
	int tgid;
};

#pragma clang attribute pop

static __always_inline struct task_struct___witness *this_task(void)
{
	return (void *)bpf_get_current_task();
}

static __always_inline bool in_tree(__u32 tgid)
{
	return bpf_map_lookup_elem(&tree, &tgid);
}

/* The same, at each call; of the command, which has not run anything yet, it learns the root. */
static __always_inline bool calls_in_tree(__u32 tgid)
{
	__u8 *found = bpf_map_lookup_elem(&tree, &tgid);

	if (!found)
		return false;
	if (*found == 2) {
		*found = 1;
		own_root = (__u64)BPF_CORE_READ(this_task(), fs, root.dentry);
		own_mount = (__u64)BPF_CORE_READ(this_task(), fs, root.mnt);
	}
	return true;
}

#if defined(__TARGET_ARCH_arm64)

static __always_inline bool is_compat(struct task_struct___witness *task)
{
	return BPF_CORE_READ(task, thread_info.flags) & 1 << 22; /* TIF_32BIT */
}

static __always_inline __u32 call_number(struct pt_regs___witness *regs)
{
	return BPF_CORE_READ(regs, syscallno);
}

static __always_inline void call_arguments(struct pt_regs___witness *regs, __u64 *args)
{
	args[0] = BPF_CORE_READ(regs, orig_x0);
	args[1] = BPF_CORE_READ(regs, user_regs.regs[1]);
	args[2] = BPF_CORE_READ(regs, user_regs.regs[2]);
	args[3] = BPF_CORE_READ(regs, user_regs.regs[3]);
	args[4] = BPF_CORE_READ(regs, user_regs.regs[4]);
	args[5] = BPF_CORE_READ(regs, user_regs.regs[5]);
}

#else

static __always_inline bool is_compat(struct task_struct___witness *task)
{
	return BPF_CORE_READ(task, thread_info.status) & 2; /* TS_COMPAT */
}

static __always_inline __u32 call_number(struct pt_regs___witness *regs)
{
	return BPF_CORE_READ(regs, orig_ax);
}

static __always_inline void call_arguments(struct pt_regs___witness *regs, __u64 *args)
{
	args[0] = BPF_CORE_READ(regs, di);
	args[1] = BPF_CORE_READ(regs, si);
	args[2] = BPF_CORE_READ(regs, dx);
	args[3] = BPF_CORE_READ(regs, r10);
	args[4] = BPF_CORE_READ(regs, r8);
	args[5] = BPF_CORE_READ(regs, r9);
}

#endif

/* Fills what every record has; the caller sets the rest. */
static __always_inline void begin(struct witness_event *event, __u32 type, __u32 size)
{
	__u64 id = bpf_get_current_pid_tgid();

	__builtin_memset(event, 0, sizeof(*event));
	event->type = type;
	event->size = size;
	event->time = bpf_ktime_get_ns();
	event->tid = id;
	event->tgid = id >> 32;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

static __always_inline void *reserve(__u64 size)
{
	void *place = bpf_ringbuf_reserve(&events, size, 0);

	if (!place)
		__sync_fetch_and_add(&lost, 1);
	return place;
}

/* What both kinds of records about a call have. */
static __always_inline void fill_call(struct witness_event *event, struct pt_regs___witness *regs,
				      __u32 number, __s64 result)
{
	struct task_struct___witness *task = this_task();

	event->number = number;
	event->result = result;
	event->flags = is_compat(task) ? WITNESS_COMPAT : 0;
	if (BPF_CORE_READ(task, seccomp.mode) == SECCOMP_FILTER)
		event->flags |= WITNESS_FILTERED;
	event->uid = BPF_CORE_READ(task, cred, fsuid.val);
	event->gid = BPF_CORE_READ(task, cred, fsgid.val);
	call_arguments(regs, event->args);
}

/* Whether the call was begun is a flag of `event`. */
static __always_inline void fill_state(struct witness_event *event, struct witness_state *state,
				       const struct entry *entry)
{
	struct task_struct___witness *task = this_task();
	struct signal_struct___witness *signal = BPF_CORE_READ(task, signal);
	const struct cred *cred = BPF_CORE_READ(task, cred);
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct group_info *groups;
	__u32 count;

	__builtin_memset(state, 0, sizeof(*state));
	bpf_core_read(state->limits, sizeof(state->limits), &signal->rlim);
	bpf_core_read(&state->capabilities, sizeof(state->capabilities), &cred->cap_effective);
	state->namespace = BPF_CORE_READ(cred, user_ns, level);
	state->cgroup = bpf_get_current_cgroup_id();
	state->mounts = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
	state->network = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	state->next_fd = BPF_CORE_READ(task, files, next_fd);
	groups = BPF_CORE_READ(cred, group_info);
	count = BPF_CORE_READ(groups, ngroups);
	state->group_count = count;
	if (count > WITNESS_GROUPS)
		count = WITNESS_GROUPS;
	bpf_probe_read_kernel(state->groups, count * sizeof(__u32), &groups->gid);
	if (mm) {
		state->pages_mapped = BPF_CORE_READ(mm, total_vm);
		state->pages_data = BPF_CORE_READ(mm, data_vm);
		state->pages_locked = BPF_CORE_READ(mm, locked_vm);
		state->mappings = BPF_CORE_READ(mm, map_count);
	}
	if (!entry)
		return;
	if (entry->time && entry->number == event->number) {
		event->flags |= WITNESS_ENTERED;
		state->begin = entry->time;
	} else {
		event->flags |= WITNESS_NOT_ENTERED;
	}
}

/* The file of a descriptor; NULL: none. */
static __always_inline struct file *open_file(__u32 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(this_task(), files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), &files[descriptor]);
	return file;
}

/* The same, to compare it; 0: none. */
static __always_inline __u64 file_of(__u32 descriptor)
{
	struct file *file = open_file(descriptor);

	return file ? (__u64)BPF_CORE_READ(file, f_inode) : 0;
}

/*
 * A place behind the first `at` bytes of the names; `at` is below WITNESS_NAMES_BYTES. In assembler,
 * since the compiler leaves out a mask after a test of `at`, and the verifier of Linux 5.10 forgets
 * the test of a value that was on the stack.
 */
static __always_inline char *name_at(struct witness_call *call, __u64 at)
{
	asm volatile("%0 &= %1" : "+r"(at) : "i"(WITNESS_NAMES_BYTES - 1));
	return call->names + at;
}

/* The bytes of a record with the first `at` bytes of its names; a mask as above. */
static __always_inline __u64 size_with(__u64 at)
{
	asm volatile("%0 &= %1" : "+r"(at) : "i"(2 * WITNESS_NAMES_BYTES - 1));
	return __builtin_offsetof(struct witness_call, names) + at;
}

/*
 * Writes the names from a dentry up to the tool's root, or the root of all mounts, behind the first `at` bytes of
 * `names`. Returns where they end, and WITNESS_PLACE_* from bit 16 on. Not static, as the next one:
 * the verifier then checks it once, and not at each call.
 */
__noinline __u32 write_names(__u64 of_dentry, __u64 of_mount, __u32 at)
{
	struct vfsmount *vfsmount = (void *)of_mount;
	struct mount *mount = (void *)vfsmount - bpf_core_field_offset(struct mount, mnt), *above;
	struct dentry *dentry = (void *)of_dentry;
	struct witness_call *call;
	struct dentry *parent;
	__u32 zero = 0, i;
	__s64 namespace;
	long bytes;

	call = bpf_map_lookup_elem(&scratch, &zero);
	if (!call)
		return at | WITNESS_PLACE_UNKNOWN << 16;
	for (i = 0; i < WITNESS_DEPTH; i++) {
		if ((__u64)dentry == own_root && (__u64)vfsmount == own_mount)
			return at;
		parent = BPF_CORE_READ(dentry, d_parent);
		if (dentry == parent || dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
			above = BPF_CORE_READ(mount, mnt_parent);
			if (above == mount) {
				/* NULL: unmounted; an error's number: only the kernel mounted it */
				namespace = (__s64)BPF_CORE_READ(mount, mnt_ns);
				if (!namespace || (namespace >= -MAX_ERRNO && namespace < 0))
					return at | WITNESS_PLACE_DETACHED << 16;
				return at;
			}
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			vfsmount = (void *)mount + bpf_core_field_offset(struct mount, mnt);
			continue;
		}
		if (at >= WITNESS_NAMES_BYTES)
			break;
		bytes = bpf_probe_read_kernel_str(name_at(call, at), WITNESS_TEXT_BYTES,
						  BPF_CORE_READ(dentry, d_name.name));
		if (bytes <= 0)
			break;
		at += bytes & (2 * WITNESS_TEXT_BYTES - 1);
		dentry = parent;
	}
	return at | WITNESS_PLACE_UNKNOWN << 16;
}

/* Fills the place `number`; returns where its names end. */
__noinline __u32 fill_place(__u64 of_dentry, __u64 of_mount, __u32 number, __u32 argument, __u32 at)
{
	struct dentry *dentry = (void *)of_dentry;
	struct witness_place *place;
	struct witness_call *call;
	__u32 zero = 0, end;

	call = bpf_map_lookup_elem(&scratch, &zero);
	if (!call || number >= WITNESS_PLACES || at >= WITNESS_NAMES_BYTES)
		return at;
	place = &call->places[number];
	place->argument = argument;
	place->mode = BPF_CORE_READ(dentry, d_inode, i_mode);
	place->inode = BPF_CORE_READ(dentry, d_inode, i_ino);
	end = write_names(of_dentry, of_mount, at);
	place->flags = end >> 16;
	if (!BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry)
		place->flags |= WITNESS_PLACE_DELETED;
	end &= 0xffff;
	place->bytes = end - at;
	return end;
}

/* Where the process is, and what its descriptors among the arguments are; returns the end. */
static __always_inline __u32 fill_places(struct witness_call *call, __u32 todo, __u32 at)
{
	struct fs_struct *fs = BPF_CORE_READ(this_task(), fs);
	__u32 count = 2, i;
	struct file *file;

	__builtin_memset(call->places, 0, sizeof(call->places));
	if (fs) {
		at = fill_place((__u64)BPF_CORE_READ(fs, root.dentry),
				(__u64)BPF_CORE_READ(fs, root.mnt), 0, WITNESS_OF_ROOT, at);
		at = fill_place((__u64)BPF_CORE_READ(fs, pwd.dentry),
				(__u64)BPF_CORE_READ(fs, pwd.mnt), 1, WITNESS_OF_CWD, at);
	}
#pragma unroll
	for (i = 0; i < 6; i++) {
		if (!(todo & WITNESS_DO_DESCRIPTOR << i) || count >= WITNESS_PLACES)
			continue;
		file = open_file(call->event.args[i]);
		if (file)
			at = fill_place((__u64)BPF_CORE_READ(file, f_path.dentry),
					(__u64)BPF_CORE_READ(file, f_path.mnt), count++, i, at);
	}
	return at;
}

/* A number of the kernel; 8 bytes, or 4 at the end of what may be read. */
static __always_inline bool read_number(__u64 *number, const void *from)
{
	return from && (!bpf_probe_read_kernel(number, sizeof(*number), from) ||
			!bpf_probe_read_kernel(number, sizeof(__u32), from));
}

/* What a write(2) that failed was to write, and what a setting takes. */
__noinline int fill_value(__u64 from, __u64 bytes, __u32 descriptor)
{
	struct file *file = open_file(descriptor);
	struct inode *inode = file ? BPF_CORE_READ(file, f_inode) : NULL;
	const struct ctl_table *setting;
	struct witness_value *value;
	struct witness_call *call;
	struct proc_inode *proc;
	__u32 zero = 0;

	call = bpf_map_lookup_elem(&scratch, &zero);
	if (!call || !inode)
		return 0;
	value = &call->state.value;
	if (bytes > WITNESS_VALUE_BYTES)
		bytes = WITNESS_VALUE_BYTES;
	if (bytes && !bpf_probe_read_user(value->text, bytes, (void *)from))
		value->bytes = bytes;
	if (BPF_CORE_READ(inode, i_sb, s_magic) != PROC_MAGIC)
		return 0;
	proc = (void *)inode - bpf_core_field_offset(struct proc_inode, vfs_inode);
	setting = BPF_CORE_READ(proc, sysctl_entry);
	if (!setting)
		return 0;
	value->handler = (__u64)BPF_CORE_READ(setting, proc_handler);
	if (read_number(&value->low, BPF_CORE_READ(setting, extra1)))
		value->flags |= WITNESS_HAS_LOW;
	if (read_number(&value->high, BPF_CORE_READ(setting, extra2)))
		value->flags |= WITNESS_HAS_HIGH;
	return 0;
}

static __always_inline __u32 fill_texts(struct witness_call *call, __u32 todo)
{
	__u32 count = 0, at = 0, i;
	long bytes;

#pragma unroll
	for (i = 0; i < 6; i++) {
		if (!(todo & 1 << i) || count >= WITNESS_TEXTS)
			continue;
		bytes = 0;
		if (call->event.args[i])
			bytes = bpf_probe_read_user_str(name_at(call, at), WITNESS_TEXT_BYTES,
							(void *)call->event.args[i]);
		if (bytes <= 0) {
			*name_at(call, at) = 0;
			bytes = 1;
		}
		at += bytes & (2 * WITNESS_TEXT_BYTES - 1);
		count++;
	}
	call->event.mask = todo & 63;
	return at;
}

static __always_inline __u32 fill_address(struct witness_call *call, __u64 from, __u64 size)
{
	if (size > WITNESS_ADDRESS_BYTES)
		size = WITNESS_ADDRESS_BYTES;
	if (!from || !size || bpf_probe_read_user(call->names, size, (void *)from))
		return 0;
	call->event.flags |= WITNESS_ADDRESS;
	call->event.bytes = size;
	return size;
}

static __always_inline int send_call(struct pt_regs___witness *regs, __u32 number, __s64 result,
				     __u32 todo, __u32 flags, const struct entry *entry)
{
	struct witness_call *call;
	__u32 zero = 0, at = 0;
	__u64 size;

	call = bpf_map_lookup_elem(&scratch, &zero);
	if (!call)
		return 0;
	begin(&call->event, WITNESS_CALL, 0);
	fill_call(&call->event, regs, number, result);
	call->event.flags |= flags;
	fill_state(&call->event, &call->state, entry);
	if (todo & WITNESS_DO_ADDRESS)
		at = fill_address(call, call->event.args[1], call->event.args[2]);
	else if (todo & WITNESS_DO_ADDRESS_4)
		at = fill_address(call, call->event.args[4], call->event.args[5]);
	else if (todo & 63)
		at = fill_texts(call, todo);
	at = fill_places(call, todo, at);
	if (todo & WITNESS_DO_WRITE)
		fill_value(call->event.args[1], call->event.args[2], call->event.args[0]);
	size = size_with(at);
	call->event.size = size;
	if (bpf_ringbuf_output(&events, call, size, 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

/*
 * The file of standard error at the first call of the command; 0 before. A program may write its last
 * words to a copy of the descriptor after it closed the descriptor itself, as tmux does.
 */
static __u64 first_standard_error;

/* Which of the two a descriptor writes to: 1, 2, or 0 for something else, or for /dev/null. */
static __always_inline __u32 stream_of(__u32 descriptor)
{
	__u64 file = file_of(descriptor);

	if (!file || BPF_CORE_READ((struct inode *)file, i_rdev) == NULL_DEVICE)
		return 0;
	if (descriptor == 1 || descriptor == 2)
		return descriptor;
	return file == file_of(2) || file == first_standard_error ? 2 : 0;
}

static __noinline int send_text(__u64 from, __u64 bytes, __u32 stream)
{
	struct witness_text *text;

	if (stream == 1) {
		if (output_bytes > output_limit)
			return 0;
		__sync_fetch_and_add(&output_bytes, bytes);
	}
	if (bytes > WITNESS_WRITTEN_BYTES)
		bytes = WITNESS_WRITTEN_BYTES;
	if (!bytes)
		return 0;
	text = reserve(sizeof(*text));
	if (!text)
		return 0;
	begin(&text->event, WITNESS_TEXT, sizeof(*text));
	text->event.number = stream;
	text->event.bytes = bytes;
	if (bpf_probe_read_user(text->text, bytes, (void *)from))
		text->event.bytes = 0;
	bpf_ringbuf_submit(text, 0);
	return 0;
}

static __always_inline int send_pieces(__u64 from, __u64 count, __u64 left, __u32 stream)
{
	struct {
		__u64 base;
		__u64 bytes;
	} piece;
	__u32 i;

#pragma unroll
	for (i = 0; i < WITNESS_PIECES; i++) {
		if (i >= count || !left ||
		    bpf_probe_read_user(&piece, sizeof(piece), (void *)(from + i * sizeof(piece))))
			break;
		if (piece.bytes > left)
			piece.bytes = left;
		left -= piece.bytes;
		send_text(piece.base, piece.bytes, stream);
	}
	return 0;
}

/* The error of a socket that getsockopt(2) read, as a system call returns it; 0: none. */
static __always_inline __s64 socket_error(struct pt_regs___witness *regs)
{
	__u64 args[6];
	__s32 value = 0;

	call_arguments(regs, args);
	if (args[1] != SOCKET_LEVEL || args[2] != SOCKET_ERROR ||
	    bpf_probe_read_user(&value, sizeof(value), (void *)args[3]))
		return 0;
	return value > 0 && value <= MAX_ERRNO ? -(__s64)value : 0;
}

/* (registers, number); behind seccomp and ptrace, which may keep the call away */
SEC("raw_tp/sys_enter")
int witness_entry(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct entry entry = { .number = ctx->args[1] };
	__u32 tid = id;
	__u64 args[6];

	if (!calls_in_tree(id >> 32))
		return 0;
	call_arguments((void *)ctx->args[0], args);
	entry.first = args[0];
	entry.time = bpf_ktime_get_ns();
	bpf_map_update_elem(&entries, &tid, &entry, BPF_ANY);
	return 0;
}

/* (registers, result) */
SEC("raw_tp/sys_exit")
int witness_call(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tgid = id >> 32, tid = id, number, stream, flags = 0, *found, todo = 0;
	struct pt_regs___witness *regs;
	struct entry entry, *entered;
	__s64 result = ctx->args[1];
	__u64 args[6];

	if (!calls_in_tree(tgid))
		return 0;
	if (!first_standard_error)
		first_standard_error = file_of(2);
	entered = bpf_map_lookup_elem(&entries, &tid);
	if (entered) {
		entry = *entered;
		entered->time = 0;
	}
	regs = (void *)ctx->args[0];
	number = call_number(regs);
	found = bpf_map_lookup_elem(&calls, &number);
	if (found && !is_compat(this_task()))
		todo = *found;
	/* rt_sigreturn(2) leaves -1 as number, and what the interrupted code had as result */
	if ((__s32)number < 0 && result != -ENOSYS)
		return 0;
	if (todo & WITNESS_DO_SO_ERROR && !result) {
		result = socket_error(regs);
		if (!result)
			return 0;
		flags = WITNESS_SO_ERROR;
		entered = NULL;
	}
	if (-result >= ERESTARTSYS && -result <= ERESTART_LAST)
		return 0;
	if ((result < 0 && result >= -MAX_ERRNO) || todo & WITNESS_DO_SUCCESS)
		return send_call(regs, number, result, todo, flags, entered ? &entry : NULL);
	if (result <= 0 || !(todo & (WITNESS_DO_WRITE | WITNESS_DO_WRITEV)))
		return 0;
	call_arguments(regs, args);
	stream = stream_of(args[0]);
	if (!stream)
		return 0;
	if (todo & WITNESS_DO_WRITE)
		return send_text(args[1], result, stream);
	return send_pieces(args[1], args[2], result, stream);
}

/*
 * By the tracepoint's record, whose members have names: its arguments changed in Linux 5.18 and
 * later. It runs in a thread of the process that made the request.
 */
SEC("tracepoint/io_uring/io_uring_complete")
int witness_complete(struct trace_event_raw_io_uring_complete *ctx)
{
	struct io_kiocb *request = NULL;
	struct witness_plain_call *plain;
	__u32 opcode = NO_OPCODE;
	__s32 result;

	if (!in_tree(bpf_get_current_pid_tgid() >> 32))
		return 0;
	result = ctx->res;
	if (bpf_core_field_exists(ctx->req))
		request = ctx->req;
	if (result >= 0 || result < -MAX_ERRNO)
		return 0;
	if (request)
		opcode = BPF_CORE_READ(request, opcode);
	plain = reserve(sizeof(*plain));
	if (!plain)
		return 0;
	begin(&plain->event, WITNESS_CALL, sizeof(*plain));
	plain->event.number = opcode;
	plain->event.result = result;
	plain->event.uid = BPF_CORE_READ(this_task(), cred, fsuid.val);
	plain->event.gid = BPF_CORE_READ(this_task(), cred, fsgid.val);
	fill_state(&plain->event, &plain->state, NULL);
	__builtin_memset(plain->places, 0, sizeof(plain->places));
	plain->event.flags |= WITNESS_COMPLETION;
	bpf_ringbuf_submit(plain, 0);
	return 0;
}

/* (parent, child); in the parent */
SEC("raw_tp/sched_process_fork")
int witness_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct___witness *child = (void *)ctx->args[1];
	__u32 parent = bpf_get_current_pid_tgid() >> 32, tgid = BPF_CORE_READ(child, tgid);
	struct witness_event *event;
	__u8 one = 1;

	if (tgid == parent || !in_tree(parent))
		return 0;
	if (bpf_map_update_elem(&tree, &tgid, &one, BPF_ANY))
		__sync_fetch_and_add(&lost, 1);
	event = reserve(sizeof(*event));
	if (!event)
		return 0;
	begin(event, WITNESS_FORK, sizeof(*event));
	event->number = tgid;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* (task, its id before, program) */
SEC("raw_tp/sched_process_exec")
int witness_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct linux_binprm *program = (void *)ctx->args[2];
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct witness_text *text;
	long bytes;

	if (!in_tree(tgid))
		return 0;
	text = reserve(sizeof(*text));
	if (!text)
		return 0;
	begin(&text->event, WITNESS_EXEC, sizeof(*text));
	bytes = bpf_probe_read_kernel_str(text->text, sizeof(text->text),
					  BPF_CORE_READ(program, filename));
	text->event.bytes = bytes > 0 ? bytes - 1 : 0;
	bpf_ringbuf_submit(text, 0);
	return 0;
}

/* (task) */
SEC("raw_tp/sched_process_exit")
int witness_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct___witness *task = this_task();
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tgid = id >> 32;
	struct witness_event *event;

	if (!in_tree(tgid) || BPF_CORE_READ(task, signal, live.counter))
		return 0;
	bpf_map_delete_elem(&tree, &tgid);
	event = reserve(sizeof(*event));
	if (!event)
		return 0;
	begin(event, WITNESS_EXIT, sizeof(*event));
	event->result = BPF_CORE_READ(task, exit_code);
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void file_name(struct file *file, char *name, __u32 size)
{
	bpf_probe_read_kernel_str(name, size, BPF_CORE_READ(file, f_path.dentry, d_name.name));
}

static long fill_mapping(struct task_struct *task, struct vm_area_struct *area, void *context)
{
	struct witness_mapping *mapping = context;
	struct file *file = BPF_CORE_READ(area, vm_file);

	mapping->start = BPF_CORE_READ(area, vm_start);
	mapping->end = BPF_CORE_READ(area, vm_end);
	mapping->flags = BPF_CORE_READ(area, vm_flags);
	mapping->offset = BPF_CORE_READ(area, vm_pgoff) << 12;
	if (file) {
		mapping->bytes = BPF_CORE_READ(file, f_inode, i_size);
		file_name(file, mapping->file, sizeof(mapping->file));
	}
	return 0;
}

/* The mapping at an address. */
static __always_inline void find_mapping(__u64 address, struct witness_mapping *mapping)
{
	/* the callback may only be given something on the stack */
	struct witness_mapping found = {};

	bpf_find_vma(bpf_get_current_task_btf(), address, fill_mapping, &found, 0);
	*mapping = found;
}

/* Whether a fault is one of an address that is mapped. */
static __always_inline bool is_forbidden(__u64 number, __s64 code)
{
	return (number == SIGSEGV || number == SIGBUS) && code > 1 && code < 0x80;
}

#if defined(__TARGET_ARCH_arm64)

/* Of a fault, by its syndrome: an instruction's, or a datum's with the bit WnR. */
static __always_inline __u32 access_of(struct task_struct___witness *task)
{
	unsigned long code = BPF_CORE_READ(task, thread.fault_code);

	if (code >> 26 == 0x20 || code >> 26 == 0x21)
		return WITNESS_EXECUTES;
	return code & 1 << 6 ? WITNESS_WRITES : WITNESS_READS;
}

#else

static __always_inline __u32 access_of(struct task_struct___witness *task)
{
	unsigned long code = BPF_CORE_READ(task, thread.error_code);

	if (code & 1 << 4)
		return WITNESS_EXECUTES;
	return code & 1 << 1 ? WITNESS_WRITES : WITNESS_READS;
}

#endif

/* What is known of the thread that runs, and gets the signal. */
static __always_inline void fill_own(struct bpf_raw_tracepoint_args *ctx,
				     struct witness_event *event, struct witness_fault *fault)
{
	struct task_struct___witness *task = this_task();
	__u32 tid = bpf_get_current_pid_tgid();
	struct entry *entry = bpf_map_lookup_elem(&entries, &tid);
	struct file *file;

	fault->stack = BPF_CORE_READ(task, mm, start_stack);
	bpf_get_stack(ctx, &fault->instruction, sizeof(fault->instruction), BPF_F_USER_STACK);
	if (event->number == SIGSEGV || event->number == SIGBUS)
		fault->access = access_of(task);
	if (!entry || !entry->time)
		return;
	fault->flags |= WITNESS_IN_CALL;
	fault->descriptor = entry->first;
	file = open_file(entry->first);
	if (file) {
		fault->mode = BPF_CORE_READ(file, f_inode, i_mode);
		file_name(file, fault->file, sizeof(fault->file));
	}
}

static __always_inline int send_signal(struct bpf_raw_tracepoint_args *ctx, bool finds_mappings)
{
	struct task_struct___witness *task = (void *)ctx->args[2];
	__u32 tgid = BPF_CORE_READ(task, tgid), tid = BPF_CORE_READ(task, pid), key = 0;
	__u64 info = ctx->args[1], address = 0;
	struct witness_signal *signal;
	struct signal_struct___witness *shared = BPF_CORE_READ(task, signal);
	__s64 code;

	if (ctx->args[0] == SIGCHLD || !in_tree(tgid))
		return 0;
	signal = bpf_map_lookup_elem(&signals, &key);
	if (!signal)
		return 0;
	begin(&signal->event, WITNESS_SIGNAL, sizeof(*signal));
	__builtin_memset(&signal->fault, 0, sizeof(signal->fault));
	signal->event.number = ctx->args[0];
	if (info > 2) {
		code = BPF_CORE_READ((struct kernel_siginfo *)info, si_code);
		bpf_probe_read_kernel(&address, sizeof(address), (void *)(info + 16));
		bpf_probe_read_kernel(&signal->fault.detail, sizeof(signal->fault.detail),
				      (void *)(info + 24));
	} else {
		code = info ? 0x80 : 0; /* the kernel's own (SI_KERNEL), or a process's (SI_USER) */
	}
	signal->event.args[0] = code;
	signal->event.args[1] = address;
	signal->event.args[2] = signal->event.tgid;
	signal->fault.limit_cpu = BPF_CORE_READ(shared, rlim[RLIMIT_CPU].rlim_cur);
	signal->fault.hard_limit_cpu = BPF_CORE_READ(shared, rlim[RLIMIT_CPU].rlim_max);
	signal->fault.limit_file = BPF_CORE_READ(shared, rlim[RLIMIT_FSIZE].rlim_cur);
	signal->fault.limit_stack = BPF_CORE_READ(shared, rlim[RLIMIT_STACK].rlim_cur);
	if (tid == (__u32)bpf_get_current_pid_tgid()) {
		fill_own(ctx, &signal->event, &signal->fault);
		/* the kernel looks up one only: it lets go of the memory later */
		if (finds_mappings && code > 0) {
			if (is_forbidden(ctx->args[0], code))
				find_mapping(address, &signal->fault.at);
			else
				find_mapping(signal->fault.instruction, &signal->fault.code);
		}
	}
	signal->event.tgid = tgid;
	signal->event.tid = tid;
	if (bpf_ringbuf_output(&events, signal, sizeof(*signal), 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

/* (signal, what is known of it, the task that gets it); in the sender. One of the two is loaded:
 * the first one takes Linux 5.17 */
SEC("raw_tp/signal_generate")
int witness_signal_mapped(struct bpf_raw_tracepoint_args *ctx)
{
	return send_signal(ctx, true);
}

SEC("raw_tp/signal_generate")
int witness_signal(struct bpf_raw_tracepoint_args *ctx)
{
	return send_signal(ctx, false);
}

/* (process id), since Linux 6.9 (task, user id) */
SEC("raw_tp/mark_victim")
int witness_oom(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 who = ctx->args[0];
	struct witness_event *event;
	__u32 tgid = who;

	if (who >> 32)
		tgid = BPF_CORE_READ((struct task_struct___witness *)who, tgid);
	if (!in_tree(tgid))
		return 0;
	event = reserve(sizeof(*event));
	if (!event)
		return 0;
	begin(event, WITNESS_OOM, sizeof(*event));
	event->tgid = tgid;
	event->args[0] = bpf_get_current_cgroup_id();
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* A tracepoint tells of this since 6.14 only. */
SEC("kprobe/cap_capable")
int BPF_KPROBE(witness_check, const struct cred *cred, struct user_namespace *target,
	       int capability, unsigned int options)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct check check = { .capability = capability, .options = options };
	__u32 tid = id;

	if (!in_tree(id >> 32))
		return 0;
	check.level = BPF_CORE_READ(target, level);
	bpf_map_update_elem(&checks, &tid, &check, BPF_ANY);
	return 0;
}

SEC("kretprobe/cap_capable")
int BPF_KRETPROBE(witness_checked, int result)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct witness_event *event;
	struct check *check;
	__u32 tid = id;

	if (!result || !in_tree(id >> 32))
		return 0;
	check = bpf_map_lookup_elem(&checks, &tid);
	if (!check)
		return 0;
	event = reserve(sizeof(*event));
	if (!event)
		return 0;
	begin(event, WITNESS_DENIED, sizeof(*event));
	event->number = check->capability;
	event->args[0] = check->options;
	event->args[1] = check->level;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* The kernel refuses a netlink message: the call that sent it succeeds, the answer has the error. */
SEC("kprobe/netlink_ack")
int BPF_KPROBE(witness_request, struct sk_buff *buffer, void *message, int error,
	       struct netlink_ext_ack *more)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct task_struct___witness *task = this_task();
	__u32 zero = 0, tid = id, size, at = 1;
	struct witness_call *call;
	struct entry *entered;
	struct {
		__u32 length;
		__u16 type;
		__u16 flags;
	} head;
	long bytes;

	if (error >= 0 || !in_tree(id >> 32) || bpf_probe_read_kernel(&head, sizeof(head), message))
		return 0;
	call = bpf_map_lookup_elem(&scratch, &zero);
	if (!call)
		return 0;
	begin(&call->event, WITNESS_REQUEST, 0);
	call->event.number = head.type;
	call->event.result = error;
	call->event.args[0] = BPF_CORE_READ(buffer, sk, sk_protocol);
	call->event.uid = BPF_CORE_READ(task, cred, fsuid.val);
	call->event.gid = BPF_CORE_READ(task, cred, fsgid.val);
	entered = bpf_map_lookup_elem(&entries, &tid);
	fill_state(&call->event, &call->state, NULL);
	if (entered)
		call->state.begin = entered->time;
	__builtin_memset(call->places, 0, sizeof(call->places));
	call->names[0] = 0;
	if (more) {
		bytes = bpf_probe_read_kernel_str(call->names, WITNESS_TEXT_BYTES,
						  BPF_CORE_READ(more, _msg));
		if (bytes > 0)
			at = bytes & (2 * WITNESS_TEXT_BYTES - 1);
	}
	size = head.length;
	if (size > WITNESS_MESSAGE_BYTES)
		size = WITNESS_MESSAGE_BYTES;
	if (!bpf_probe_read_kernel(name_at(call, at), size, message))
		call->event.bytes = size;
	at += size;
	size = size_with(at);
	call->event.size = size;
	if (bpf_ringbuf_output(&events, call, size, 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}
