# SPDX-License-Identifier: BSD-2-Clause
"""Loaders' messages about the kernel and the machine: build options, mounts and privileges."""

from __future__ import annotations

from retsnoop_py.load.errno_rules import EPERM_STEP, EPERM_TEXT
from retsnoop_py.load.model import LineRule, about

__all__ = ["ENVIRONMENT_RULES", "VAGUE_RULES"]

_ENVIRONMENT = "Environment"
_SUPPORT = "Kernel Support"

#: Each rule is an id, a title, a pattern, a reason and a suggestion; both may use the pattern's
#: groups.
ENVIRONMENT_RULES: tuple[LineRule, ...] = (
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"apparmor=\W*+DENIED\W(?>.*?operation=\W*+(?P<name>\w++))(?>.*?profile=\W*(?P<profile>[^\s\"\\]+))?+(?>.*?(?:\bname=\W*(?P<what>[^\s\"\\]+)|capname=\W*(?P<what2>\w+)))?+",
        "AppArmor denies it ({name} of {what}): the profile {profile} does not allow that.",
        "Allow it in that profile (aa-logprof, or aa-complain PROFILE to try), or run without it: a container with"
        " --security-opt apparmor=unconfined.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"(?:type=1326|type=SECCOMP|\bSECCOMP\b).*?\bsyscall=(?P<name>\d+|\w+)|(?:^(?=.*?(?:\bbpf\b|perf_event_open)).*?(?:blocked|denied|disallowed|filtered|forbidden) by (?:the )?(?:\w+ )?seccomp(?P<why>.*))",
        "A seccomp filter keeps the system call away{why} (bpf is 321 on x86-64 and 280 on arm64, perf_event_open 298 and 241):"
        " that of a container or of a unit.",
        "Allow it in the profile: docker's default one allows bpf with CAP_BPF or CAP_SYS_ADMIN; a unit has"
        " SystemCallFilter=.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"(?:requires?|needs?) (?:to be )?(?:run (?:as|by) )?(?:the )?(?:real|host|global|initial|actual) root\b(?P<why>.*)",
        "This needs root in the initial user namespace, and this process does not have it. Root"
        " in a container or in an unprivileged user namespace is not enough{why}.",
        "Run it on the host or in a privileged container, or switch the feature off that asks for it.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        about(
            r"perf_event_paranoid",
            r"fail|cannot|can't|could not|unable|denied|not |too |\bis [2-4]\b|lower|prevent|restrict",
        ),
        "This process may not use performance events: kernel.perf_event_paranoid is too high for"
        " a process without CAP_PERFMON (CAP_SYS_ADMIN before 5.8).",
        "Run as root or with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1 or lower.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        about(
            r"kptr_restrict|addresses from /proc/kallsyms|kallsyms\b.*\b(?:zero|hidden|empty)|\bk(?:all)?syms?\b.*\bno symbols found|kernel symbols?: no symbols|(?:kernel symbols?|kallsyms)\b.*(?:\bnot? (?:be )?(?:loaded|read|parsed)|CAP_SYSLOG)|(?:load|read|pars|get|initiali[sz])\w* (?:the )?(?:kernel symbols?|kallsyms)\b(?!.*(?:no such|not found|ENOENT))"
        ),
        "The kernel hides the addresses of its symbols from this process (kernel.kptr_restrict, or CAP_SYSLOG is missing), so that"
        " the loader finds none.",
        "Run as root, with kernel.kptr_restrict at 0 or 1, in a container with CAP_SYSLOG; head -3 /proc/kallsyms shows whether"
        " there are addresses.",
    ),
    (
        "memory",
        "Limit: Memory",
        r"optmem_max",
        "The socket filter is larger than the memory that a socket may use for options"
        " (net.core.optmem_max).",
        "Raise the limit above the size of the compiled filter: sysctl net.core.optmem_max=...",
    ),
    (
        "memory",
        "Limit: Memory",
        about(
            r"bpf_jit_limit|jit_alloc_exec|\bjit\b.*\b(?:memory|limit)",
            r"fail|exceed|reached|limit|allocat|too",
        ),
        "The memory for compiled programs is used up: net.core.bpf_jit_limit is for all programs of who lacks CAP_BPF or"
        " CAP_SYS_ADMIN, classic filters and those of seccomp among them.",
        "`sysctl net.core.bpf_jit_limit=...` raises the limit. Find the process that keeps"
        " loading programs (bpftool prog).",
    ),
    (
        "module-missing",
        f"{_ENVIRONMENT}: Kernel module that is not there",
        r"/sys/module/(?P<name>\w++)/.*(?:no such file|errno:? 2\b|not found|does not exist)",
        "Kernel module {name} is not loaded, which the loader works with.",
        "Run `modprobe {name}`; `dkms status` shows if it is built for this kernel. Tools that"
        " work without the module have an option for BPF.",
    ),
    (
        "module-missing",
        f"{_ENVIRONMENT}: Kernel module that is not there",
        r"Module (?P<name>(?!kheaders)\S+) not found in directory|[Mm]odule '?\"?(?P<name2>(?!kheaders)[\w-]+)\"?'? (?:is |was )?not (?:loaded|inserted)|(?:load|insert|find)\w* (?:the )?kernel module '?\"?(?P<name3>[\w-]+)",
        "The kernel module {name} is wanted, and is not there, or not loaded: the kernel was built without it, another kernel"
        " was installed since the machine was started, or /lib/modules is not in the container.",
        "`uname -r` and `ls /lib/modules` show if it is installed. Run modprobe on the host.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"mkdir /sys/fs/bpf\W*: (?:operation not permitted|permission denied|no such file)",
        "/sys/fs/bpf does not exist. Only the kernel creates directories in sysfs: it creates"
        " this one since Linux 4.4 with CONFIG_BPF_SYSCALL. A container has it where sysfs is"
        " mounted.",
        "Look whether the kernel has bpf(2) at all (retsnoop-py doctor); mount the BPF file system elsewhere, or take the"
        " host's into the container.",
    ),
    (
        "buffer",
        f"{_ENVIRONMENT}: Buffer for events",
        r"failed to (?:mmap|open|enable) perf buffer(?: event)? on cpu #\d+: (?P<why>.*)|(?:user )?ringbuf: (?P<why2>failed .*|ring buf.*)"
        r"|failed to create perf ring for CPU \d+: (?P<why3>.*)|page count should be power of two(?P<why4>.*)|(?P<why7>(?:ring|perf) ?(?:buf\w*|ring)\b.*power of (?:two|2)\b.*)|invalid page count (?P<why5>.*)"
        r"|[Cc]ould not open perf buffer(?P<why6>.*)|map '?\S+'? should be BPF_MAP_TYPE_PERF_EVENT_ARRAY|map fd=\d+ is not BPF_MAP_TYPE\w*RINGBUF",
        "The buffer that events are read from cannot be set up{why}.",
        "The buffer's page count must be a power of two, and its pages count as locked memory"
        " (ulimit -l, kernel.perf_event_mlock_kb, times the number of CPUs). Open a map as its"
        " own type, ring buffer or perf event array.",
    ),
    (
        "cgroup-missing",
        f"{_ENVIRONMENT}: No cgroup of version 2",
        r"cgroup2 not mounted|cgroups? ?v?1\b.*(?:cgroups? ?v?2|unified)\b(?P<why4>.*)|(?:requires?|needs?|only (?:supports?|works? (?:with|on)))\b[^:]{0,30}\bcgroups? ?v?2\b(?P<why5>.*)|cgroups? ?v?2\b[^:]{0,20}\bnot (?:enabled|mounted|available|supported|found|detected)(?P<why6>.*)|(?:find|no|locate|detect) (?:a |the )?unified cgroup hierarchy(?P<why3>.*)|could not find a cgroup2 mount|can't open cgroup(?P<why>.*)|[Ff]ailed to (?:open|join|mount) cgroup(?!s? ?v?1)(?P<why2>.*)",
        "The program is attached to a cgroup of version 2, which is not there{why}.",
        "mount -t cgroup2 none /sys/fs/cgroup/unified, or boot with systemd.unified_cgroup_hierarchy=1.",
    ),
    (
        "unsupported",
        "Kernel Support: Not supported",
        r"mkdir(?:at)?\W+(?P<name>/sys/(?:kernel/(?:debug|tracing|debug/tracing|security|btf)|fs/cgroup))\W*: (?:operation not permitted|permission denied|no such file or directory|read-only file system|invalid argument)",
        "The directory {name} does not exist, and only the kernel can create it. Either the"
        " kernel was built without the feature (tracing: CONFIG_FTRACE; debug: CONFIG_DEBUG_FS;"
        " security: CONFIG_SECURITYFS; cgroup: CONFIG_CGROUPS; btf: CONFIG_DEBUG_INFO_BTF), or it"
        " is not a Linux kernel (gVisor, or another sandbox).",
        "Look for it on the host, and do not mount it into a container where the host has none; boot a kernel that has it.",
    ),
    (
        "tracefs",
        f"{_ENVIRONMENT}: tracefs",
        r"neither debugfs nor tracefs|\b(?:debugfs|tracefs)\b[^:,]{0,30} not mounted|open\(\S*/tracing/[ku]probe_events\): (?P<why>No such.*)"
        r"|(?:open(?:ing)?|can't create|l?stat) (?:\S*/)?[ku]probe_events\b.*(?P<why3>-2\b|No such.*|ENOENT|nonexistent.*)"
        r"|available_filter_functions\b.*(?P<why4>no such.*|fail.*)"
        r"|(?:open|write|read|stat) \S*/tracing(?:/events)?/?: (?P<why2>no such file.*)|/sys/kernel/(?:debug/)?tracing: (?:is )?not mounted|(?:debugfs|tracefs|/sys/kernel/(?:debug|tracing)\S*) (?:is |are )?(?:not (?:mounted|accessible|available|present|found)|missing|inaccessible|empty)",
        "Probes are made by files in tracefs, and it is not mounted here, or the kernel has no such events{why}.",
        "mount -t tracefs nodev /sys/kernel/tracing; a container takes it from its host. CONFIG_KPROBE_EVENTS and"
        " CONFIG_UPROBE_EVENTS make the files.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"(?:[ku]probe_events|/tracing\b|tracefs|debugfs).*(?:[Pp]ermission denied|not permitted|EACCES|EPERM|os error 1[3]?\b)",
        "The files of tracefs, which make probes, cannot be opened or written: its directory is root's alone, a"
        " container's profile (AppArmor, SELinux, a read-only mount) keeps it away, or the kernel is locked down.",
        "Run as root; in a container mount /sys/kernel/tracing for writing and allow it in the profile; see"
        " /sys/kernel/security/lockdown. Probes as perf events (Linux 4.17) need no such files.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"[Uu]nknown capability \"?'?(?P<name>CAP_(?:BPF|PERFMON))",
        "{name} came with Linux 5.8, and this kernel or this container engine does not know it.",
        "Give CAP_SYS_ADMIN instead there, which stood for it before, or use a later kernel and engine.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"Lockdown: (?P<name>\S+): (?P<why>.*) is restricted|kernel (?:is in )?lockdown(?P<why2>.*)|locked down(?P<why3>.*)",
        "The kernel is locked down{why}. In mode integrity, BPF cannot write kernel memory. In"
        " mode confidentiality, BPF cannot read it either (bpf_probe_read_kernel() and the like),"
        " and kprobes and tracefs are off.",
        "`cat /sys/kernel/security/lockdown` shows the mode. Boot without lockdown=..., which"
        " Secure Boot sets on some distributions. Programs that read only user memory"
        " (bpf_probe_read_user()) or their context still work.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel module with BTF that the kernel refuses",
        r"failed to validate module \[(?P<name>[^\]]+)\] BTF(?P<why>.*)",
        "The kernel refuses the BTF of module {name}{why}: it was built against another vmlinux than the one that"
        " runs, or by another pahole.",
        "Build kernel and modules together; CONFIG_MODULE_ALLOW_BTF_MISMATCH loads it without its BTF.",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"^(?!\s*#).*?(?P<name>CONFIG_(?!DEBUG_INFO_BTF|BPF_SYSCALL)\w+)[\"'`]?(?:=y)?(?: (?:is|was|being) |\W)*+(?:not (?:set|enabled|found|available)|missing|disabled|required|unset)"
        r"|not found\W+(?:(?:item|option|config)\W+)?(?P<name3>CONFIG_\w+)|(?:without|enable|requires?|missing|needs?|compiled with|ensure|make sure|check)(?: that| if| whether)? (?:(?:kernel|config\w*|option|the|your|has|supports|is|built|with) )*[\"'`]?(?P<name2>CONFIG_(?!DEBUG_INFO_BTF|BPF_SYSCALL)\w+)",
        "The kernel was built without {name}, which the loader asks for, or how it was built cannot be read here.",
        "Look for it in /boot/config-$(uname -r) or /proc/config.gz, and use a kernel that has it.",
    ),
    (
        "lsm-missing",
        f"{_ENVIRONMENT}: Kernel without BPF's LSM",
        r"^(?!.*(?:load program|[Pp]ermission denied|EACCES)).*?(?:load|attach|[Uu]nable|not (?:supported|enabled|available|active)).*(?:\bLSM BPF\b|BPF LSM\b|bpf LSM\b|BPF_LSM\b|lsm=bpf)"
        r"|(?:BPF LSM|LSM BPF|bpf lsm|BPF_PROG_TYPE_LSM)\b.*(?:not (?:supp|enab|activ|avail|load|in use)|unsupported|missing|disabled|inactive)",
        "Programs of type LSM run where the kernel has the LSM of BPF, and it has not, or does not start it.",
        "CONFIG_BPF_LSM=y, and bpf in the list of /sys/kernel/security/lsm: boot with lsm=...,bpf (Linux 5.7).",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel module with BTF that cannot be read",
        r"load BTF for kmod (?P<name>[\w-]+): (?P<why>.*)|parse types for module (?P<name2>[\w-]+): (?P<why2>.*)",
        "The BTF of kernel module {name} cannot be read{why}. The loader reads the BTF of all"
        " modules, for CO-RE and to find attach targets, even if the program does not use the"
        " module.",
        "Look at the size of /sys/kernel/btf/{name}: the module was built without its BTF. Unload it,"
        " or use a loader that goes on without (a later cilium/ebpf).",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        r"load(?:ing)? (?:and \w+ )?(?:e?BPF )?(?:object|skeleton|program|collection)s?\b.*(?:No such process|-3\b|ESRCH)",
        "libbpf returns ESRCH if it finds no BTF of the kernel, no match in it for a CO-RE"
        " relocation of the object, or no function that a program names (fentry, fexit, lsm,"
        " tp_btf). Its warnings show which.",
        "ls -l /sys/kernel/btf/vmlinux: without it the kernel was built without CONFIG_DEBUG_INFO_BTF,"
        " or pahole failed then.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        about(
            r"\bBTF\b.*(?:/vmlinux|\bbtf-?hub)|(?:/vmlinux|\bbtf-?hub).*\bBTF\b",
            r"no such file|\b404\b|not found|unreachable|no route|timed? ?out|lookup",
        ),
        "The kernel has no BTF, or the loader does not find it, and the loader's other sources"
        " have none for this release. Collections (BTFHub) have BTF for distribution kernels that"
        " were built without it.",
        "ls -l /sys/kernel/btf/vmlinux; use a kernel with CONFIG_DEBUG_INFO_BTF=y, or make BTF of its debug information (pahole"
        " --btf_encode_detached) and give it to the loader.",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        about(
            r"CONFIG_DEBUG_INFO_BTF", r"ensure|make sure|check (?:that|if|whether)|please|consider"
        ),
        "The loader asks for the kernel's own BTF (CONFIG_DEBUG_INFO_BTF), by which it finds where members are, and does not"
        " find it.",
        "ls -l /sys/kernel/btf/vmlinux; use a kernel that has it (5.2 and later, where it was built so), or give the loader the"
        " BTF of that kernel (BTFHub has some).",
    ),
    (
        "kernel-btf",
        f"{_ENVIRONMENT}: Kernel without BTF",
        r"failed to find valid kernel BTF|CONFIG_DEBUG_INFO_BTF\W+(?:is )?(?:not|missing|disabled|required)|(?:enable|without|lacks?|needs?|requires?|set) CONFIG_DEBUG_INFO_BTF|(?:can ?not|could ?n[o']t|failed to|unable to|can't) (?:find|locate|read|parse|get|fetch|download) (?:\S+ ){0,3}?(?:vmlinux\b|BTF (?:for|of|file|data)\b(?! map| program| prog| extern))|necessary BTF for CO-RE|[Uu]nsupported BTF_KIND:\d+|loading kernel BTF '[^']*': -\d|failed to load (?:vmlinux|module) BTF|Error loading vmlinux BTF|no (?:vmlinux|kernel) BTF"
        r"|(?:load(?:ing)?|find) (?:kernel|vmlinux) (?:spec|BTF|types?): .*"
        r"|no BTF found for kernel|/sys/kernel/btf/vmlinux.*[Nn]o such file|kernel doesn't have BTF"
        r"|kernel BTF is missing at|vmlinux BTF is not found|failed to parse target BTF"
        r"|failed to read kernel BTF|ksyms require kernel BTF|kernel is missing BTF, make sure"
        r"|kernel BTF is not available|failed to find '\.BTF' ELF section in /sys/kernel/btf",
        "The object needs the kernel's own BTF (CO-RE, fentry, kfuncs), and this kernel has none"
        " that the loader can read: CONFIG_DEBUG_INFO_BTF is off, or the BTF is newer than the"
        " loader.",
        "Use a kernel with CONFIG_DEBUG_INFO_BTF=y, a later libbpf, or give the loader the BTF of"
        " that kernel (btf_custom_path; BTFHub has some).",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"probe_loading\(\):\s?(?:Invalid argument|-EINVAL)",
        "The kernel refuses even a trivial program (EINVAL): it has a part of BPF only, as RHEL 7 has,"
        " or it is older than the loader expects.",
        "Use a later kernel; a later libbpf tries programs of two types.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"bpf_object__probe\w*\(\): ?(?:Operation not permitted|Permission denied|-EPERM|-EACCES)|Failed to bump RLIMIT_MEMLOCK"
        r"|[Ff]ailed to (?:set|remove|raise|increase) (?:temporary )?(?:rlimit|memlock)"
        r"|kernel lockdown|Lockdown: .* is restricted"
        r"|[Oo]peration not permitted.*MEMLOCK|MEMLOCK may be too low"
        r"|(?:[Mm]aps?\b|_map|[Pp]rog(?:ram)?\b|bpf|BPF).*(?:[Oo]peration not permitted|-EPERM)"
        r"|permission error while running as root|unprivileged[ _]BPF(?:_disabled)?\b|do(?:es)? not have (?:\w+ )?permissions?|(?:insufficient|not enough|no sufficient|lack\w*(?: of)?) (?:permission|privilege|capabilit)\w*|are you root|run (?:it |this )?as root|root (?:privileges?|permissions?) (?:are |is )?(?:required|needed)|(?:missing|lack\w*|need\w*) (?:the )?(?:capability )?CAP_\w+|requires (?:CAP_|(?:\w+ )?root\b)|must be (?:run )?(?:as )?root",
        EPERM_TEXT,
        EPERM_STEP,
    ),
    (
        "program-type-unsupported",
        f"{_SUPPORT}: Program type",
        r"\b(?P<name2>\w+) program type is not supported|Kernel doesn't support this program type"
        r"|program type (?P<name>(?!is )\w+)(?: is)? not supported|prog(?:ram)? type.*(?:requires|>=) ?v?(?P<since>\d+\.\d+)",
        "This kernel has no programs of type {name}{since}.",
        "Require a kernel that has them.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"^(?=.*not supported \(requires)(?:.*: )?(?P<name>[^:]+?) not supported \(requires (?:>= )?v?(?P<since>\d+\.\d+)",
        "This kernel has no {name}: that came with Linux {since}.",
        "Require that kernel, or do without where it is missing (features.Have... of cilium/ebpf asks).",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:^|: )(?:(?P<what2>[^:]*\be?BPF\b(?: is)? not (?:supported|available|enabled)[^:]*)|(?P<what>[^:]*\bBPF\b[^:]*\bnot supported (?:by|on|in) (?:the|this|your) kernel))",
        "The loader probed the kernel and did not find all required features: {what}.",
        "`retsnoop-py doctor` reports what this kernel supports. The loader's documentation names"
        " the required Linux version.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:chained programs|native multi-uprobe links|program ids|attach cookies?|cookies) (?:are|is) not supported(?P<why>.*)"
        r"|providing an attach cookie is not supported",
        "This kernel does not have a feature that the loader needs{why}.",
        "Require a later kernel (cookies came with 5.15, links of many kprobes with 5.18, of uprobes with 6.6).",
    ),
    (
        "kconfig",
        f"{_ENVIRONMENT}: Kernel configuration",
        r"failed to open system Kconfig|cannot find a kconfig file"
        r"|extern \(kcfg\) '(?P<name>\w+)'.*(?:implies|isn't|doesn't fit|invalid|failed|not found|unre)"
        r"|config option \"?(?P<name2>\w+)\"? does not exist|kconfig (?P<name3>\w+) not found",
        "The object reads a setting of the kernel's configuration ({name}). The configuration"
        " cannot be read, or has no such setting.",
        "CONFIG_IKCONFIG_PROC gives /proc/config.gz, distributions /boot/config-$(uname -r), which a"
        " container may lack; declare the extern __weak, and of the option's type.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        r"avc: +denied +\{ (?P<name>[^}]+?) \}.*\btclass=(?:bpf|perf_event|capability2)\b",
        "SELinux denies it: its policy does not allow {name} for this program's domain.",
        "ausearch -m avc -ts recent | audit2allow -M NAME makes a module that allows it; or run the program in another"
        " domain (a container: --security-opt label=...), with the policy package of its release.",
    ),
    (
        "no-cgroup-bpf",
        f"{_ENVIRONMENT}: Kernel without BPF programs for cgroups",
        r"[Dd]etach\w* (?>.*?\bfrom cgroup\b).*(?:Invalid argument|EINVAL)",
        "The kernel does not support programs of this type at cgroups, so it cannot detach one:"
        " CONFIG_CGROUP_BPF is off, or the kernel is too old for the type. For a program that is"
        " not attached the error would be ENOENT.",
        "Nothing is lost but the filter itself; grep CGROUP_BPF /boot/config-$(uname -r) tells, and a later systemd"
        " asks first.",
    ),
    (
        "file-missing",
        f"{_ENVIRONMENT}: No such file",
        r"\bsh: (?:line )?(?:\d+: )?(?P<name>(?:n?tc|ip|clang\S*|llc\S*|llvm-\S+|bpftool|bpftrace|mount|ethtool|nsenter|pahole|iptables|xdp-loader|make|gcc)): (?:command )?not found",
        "A command that the loader calls is not there: {name}.",
        "Install it where the loader runs: in its container, not on the host.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"map (?P<name>[\w.-]+): pin by name: (?:missing|no) .*[Pp]in ?[Pp]ath|pin by name: missing .*|[Pp]in ?[Pp]ath\W+(?:is )?(?:missing|empty|not set)",
        "The object wants map {name} pinned by its name (LIBBPF_PIN_BY_NAME), and the loader gives no directory to pin it in.",
        "The loader sets one (PinPath of cilium/ebpf, pin_root_path of libbpf) if it finds the"
        " BPF file system. Check that /sys/fs/bpf is mounted in its mount namespace, and look for"
        " earlier failures.",
    ),
    (
        "tracefs",
        f"{_ENVIRONMENT}: tracefs",
        r"(?:fail|error|cannot|can't|could not).*\W-:(?P<name>[ku]probes/[\w.-]+)",
        "The loader cannot take its probe {name} away: none of that name is there (making it failed, or another run has removed"
        " it), a program still uses it, or the files of tracefs may not be written.",
        "`cat /sys/kernel/tracing/kprobe_events` lists the present ones. Look for the earlier"
        " failure to create this one.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"multiple mount points detected at (?P<name>\S+?)\W*$",
        "{name} has several file systems mounted on it, one over the other, and the loader does not go on with that.",
        "findmnt lists them; umount the upper ones, and have one who mounts it: the host or the container.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"(?:load|open|get|reuse|retriev|find)\w* (?:the )?pinned \w+\b.*(?:denied|permitted|no such|invalid|not found)|cannot find pinned map"
        r"|obj[_ ]get(?:_path)?\W.*(?:no such|denied|permitted|invalid)|bpf-foreign: Failed to (?:determine filesystem|prepare foreign|get|open).*"
        r"|unable to get object (?P<name>/\S+?):|(?:open|get|load)\w* (?:program|map|link|object)?\W*(?P<name2>/\S*/bpf/\S+?)\W*: (?:no such|denied|permission|invalid)",
        "{name} cannot be opened as something pinned: nothing is pinned there, or not in this mount name space (a"
        " container has its own /sys/fs/bpf), it is of another kind, or may not be read.",
        "`ls -l`, `bpftool -f prog show` and `bpftool -f map show` list the pins. Pin it first,"
        " or mount the host's /sys/fs/bpf into the container.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"(?:\bpin|[Oo]bj_?[Pp]in)\w*\b.*(?:[Ff]ile exists|\bEEXIST\b)|\balready pinned",
        "A pin with this name already exists.",
        "Remove it (rm PATH) if no program needs it, or open the pinned object instead of creating"
        " a new one. `bpftool -f prog show` and `bpftool -f map show` list the pins.",
    ),
    (
        "pin",
        f"{_ENVIRONMENT}: Pinning",
        r"is not on BPF FS|(?:failed to|can't) pin (?:at|map|program|the object)|requested pinning\. pinning failed"
        r"|pin map to \S+: |already pinned|(?:Obj|obj_)[Pp]in\b.*|invalid pin path|is not on a bpf filesystem"
        r"|(?:[Cc]ouldn't|[Cc]ould not|[Ff]ailed to|[Uu]nable to|[Cc]an't|[Ee]rror) (?:\w+ )?(?:un)?pin\b|pin directory|working bpffs"
        r"|(?:mount|create) (?>.*(?:bpffs|BPF file ?system|-t bpf)\b)(?!.*(?:denied|permitted))|can't create dir '[^']*' to pin|without mounted eBPF fs"
        r"|[Ee]rror pinning|(?:pin|pinning) (?:map|program|prog|object|link)\b.*(?:[Ff]ile exists|permitted|denied|[Ii]nvalid|[Nn]o such)",
        "The object cannot be pinned: the path is not on a BPF file system, exists already, or is"
        " not writable.",
        "Run `mount -t bpf bpf /sys/fs/bpf`. Remove pins that an earlier run left there.",
    ),
    (
        "no-cgroup-bpf",
        f"{_ENVIRONMENT}: Kernel without what systemd takes",
        r"does not support BPF/cgroup|BPF (?:LSM|lsm) hook (?:is )?not enabled|bpf-lsm: .*not (?:enabled|supp)"
        r"|bpf-(?:firewall|devices|restrict-\w+|socket-bind): .*(?:not supported|isn't|not enabled)",
        "The kernel, or this container, has not what such filters of units take: CONFIG_CGROUP_BPF and"
        " cgroup v2, for restrictions of file systems an LSM of BPF.",
        "Boot with systemd.unified_cgroup_hierarchy=1; for the LSM with lsm=...,bpf. Otherwise the unit"
        " runs without that filter.",
    ),
    (
        "kernel-headers",
        f"{_ENVIRONMENT}: Headers of the kernel are missing",
        r"(?:need|requir|must|mount)\w*\b[^:]*(?:/usr/src|/lib/modules)\b|Unable to find kernel headers|Module kheaders not found|/(?:lib/modules|usr/src)/[^\s:)]+\)?: No such file",
        "The program is compiled on this machine, and the headers of the kernel that runs are not here.",
        "Install that kernel's headers (Debian: linux-headers-$(uname -r)), or use the CO-RE build of"
        " the tool (libbpf-tools), which needs none.",
    ),
    (
        "no-bpf",
        f"{_ENVIRONMENT}: No bpf(2)",
        r"\bbpf(?:\(2\)|\(\)| system call| syscall) (?:is )?(?:not (?:available|supported|implemented|permitted)|unavailable|disabled|missing)|compiled without CONFIG_BPF_SYSCALL|probe_loading\(\):\s?(?:Function not impl|-ENOSYS)",
        "The kernel was built without CONFIG_BPF_SYSCALL, or the loader was.",
        "Use a kernel with CONFIG_BPF_SYSCALL=y; an iproute2 without libbpf or libelf says the same.",
    ),
)

#: Rules that are less exact than all other rules.
VAGUE_RULES: tuple[LineRule, ...] = (
    (
        "unsupported",
        "Loader: Release of the kernel that it cannot read",
        r"[Mm]alformed version:? (?P<name>[\w.+-]+)|(?:pars|read|determin|detect|recogni[sz])\w* (?:the )?(?:linux |running )?kernel(?:'s)? (?:version|release)\b(?P<why>.*)",
        "The loader looks at the kernel's release and does not understand it: {name}.",
        "Compare with uname -r; a later release of the loader may know such names, some take it by an option or a variable.",
    ),
    (
        "unsupported",
        "Loader: Command line that it does not know",
        r"(?<!\S)(?P<name>\S+)\W? is a garbage|^(?=.*\b(?:xdp|bpf|clsact|tcx?|btf|struct_ops|tracing)\b).*?(?:(?:unrecogni[sz]ed|unknown) (?:option|argument|command|subcommand|keyword)|invalid (?:option|subcommand|command))s?\b(?! \(| \[| type)(?::? \W*(?P<name2>[\w-]+))?",
        "The tool does not know {name} on its command line: it is older than that, or was built without it.",
        "Look at its version (ip -V, bpftool version), and take a later one; iproute2 knows xdp since 4.10.",
    ),
    (
        "rights",
        f"{_ENVIRONMENT}: Missing rights",
        about(
            r"\buser ?ns\b|user name ?space|rootless|unprivileged (?:container|lxc|lxd|pod|user)",
            r"denied|not (?:permitted|allowed|supported|possible)|cannot|can't|could not|unable|fail|require",
        ),
        "bpf(2) checks capabilities in the initial user namespace. A process in another one (a"
        " rootless container, an unprivileged LXC container) has none there, even as root.",
        "Run it on the host or in a privileged container; since Linux 6.9 a BPF token can be handed in.",
    ),
    (
        "unsupported",
        f"{_SUPPORT}: Not supported",
        r"(?:requires?|needs?|minimum|at least|supported (?:only )?(?:from|since|on)|>=)\W++(?:\S+ ){0,3}?(?:linux|kernel)(?: version)?(?: of)?\W{1,4}v?(?P<since>\d+\.\d+)"
        r"|(?:minimum|oldest|lowest|required) (?:supported |required )?(?:linux |kernel )*(?:version )?\W{0,3}(?:is |of )?\W{0,2}v?(?P<since3>\d+\.\d+)|(?:kernel|running)\W{0,3}(?:version )?[<>]=? ?v?(?P<since4>\d+\.\d+)|kernel (?:does not|doesn't|cannot) support|kernel is (?:too old|not supported)|(?:in|not )compatible with (?:this|your|the) kernel"
        r"|(?<![\w/-])(?:linux|kernel)(?: version)?\W{1,4}(?:\S+ ){0,2}?(?:is )?(?:not supported|too old|unsupported|older than)\W*v?(?P<since2>\d+\.\d+)?",
        "The loader does not go on with this kernel{since}.",
        "Compare with `uname -r`, and read in the loader's documentation why it needs the later"
        " kernel.",
    ),
)
