# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of reason on a real kernel: the first paragraph names the thing to change."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.live.support import PROGRAMS, TOOL, compiled

from retsnoop_py.kernel.syscalls import system_calls
from retsnoop_py.vm.machine import Machine

NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups "


def python(*lines: str) -> str:
    """A Python program as words of a shell."""
    return "python3 -S -c " + shlex.quote("\n".join(lines))


#: Calls a system call by its number and ends as programs do. A row has names, such as ``NR_mlock``.
RAW = (
    "import ctypes, os, sys",
    "libc = ctypes.CDLL(None, use_errno=True)",
    "def call(*arguments):",
    "    if libc.syscall(*arguments) < 0:",
    "        sys.exit(os.strerror(ctypes.get_errno()))",
)
LOCK = (
    *RAW,
    "libc.malloc.restype = ctypes.c_void_p",
    "call(NR_mlock, ctypes.c_void_p(libc.malloc(1 << 20)), 1 << 20)",
)
#: The second string of the path is a loop, the socket is there, the FIFO has no reader.
FILES = """
cd /tmp/reasons
ln -s b a; ln -s a b
python3 -S -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
mkdir -p shared; chmod 1777 shared; touch shared/f; chown 65534 shared/f
mkdir -p closed root/bin small; cp /bin/ls root/bin
printf '#!/bin/sh\necho hi\n' > plain.sh; chmod 644 plain.sh
touch listed; chmod 644 listed
python3 -S -c '
import os, struct
entries = (1, 6, -1), (2, 0, 65534), (4, 4, -1), (16, 4, -1), (32, 4, -1)
packed = b"".join(struct.pack("<HHi", *one) for one in entries)
os.setxattr("listed", "system.posix_acl_access", struct.pack("<I", 2) + packed)'
"""


class Row(NamedTuple):
    """A command, the expected words of the answer, and the setup before and cleanup after it."""

    command: str
    words: tuple[str, ...]
    before: str = ""
    behind: str = ""


def setting(name: str, value: str) -> tuple[str, str]:
    """Commands that change a sysctl, and that put it back."""
    path = f"/proc/sys/{name.replace('.', '/')}"
    return f"cat {path} >/tmp/reasons/old; echo {value} >{path}", f"cat /tmp/reasons/old >{path}"


ROWS = {
    "rlimit nofile": Row(
        "prlimit --nofile=12 " + python("import os", "for _ in range(20): os.dup(0)"),
        ("RLIMIT_NOFILE (ulimit -n) is 12",),
    ),
    "rlimit nproc": Row(
        f"prlimit --nproc=1 {NOBODY} sh -c 'sleep 0 & wait; sleep 0'",
        ("RLIMIT_NPROC (ulimit -u) is 1",),
    ),
    "rlimit fsize": Row(
        "prlimit --fsize=1024 "
        + python(
            "f = open('/tmp/reasons/big', 'wb', buffering=0)",
            "f.write(b'x' * 1024)",
            "f.write(b'x')",
        ),
        ("RLIMIT_FSIZE (ulimit -f) is 1 KiB",),
    ),
    "rlimit as": Row(
        "prlimit --as=209715200 " + python("bytearray(500 << 20)"),
        ("of address space and asked for", "RLIMIT_AS (ulimit -v) is 200 MiB"),
    ),
    "rlimit memlock": Row(
        f"prlimit --memlock=65536 {NOBODY}" + python(*LOCK),
        ("RLIMIT_MEMLOCK (ulimit -l) is 64 KiB",),
    ),
    "rlimit nice": Row(
        NOBODY + python("import os", "os.setpriority(0, 0, -5)"),
        ("nice value -5", "CAP_SYS_NICE", "RLIMIT_NICE"),
    ),
    "rlimit rtprio": Row(f"{NOBODY} chrt -f 10 true", ("CAP_SYS_NICE", "RLIMIT_RTPRIO")),
    "sysctl userns": Row(
        f"{NOBODY} unshare -U true",
        ("kernel.unprivileged_userns_clone is 0", "sysctl kernel.unprivileged_userns_clone=1"),
        *setting("kernel.unprivileged_userns_clone", "0"),
    ),
    "sysctl namespaces": Row(
        "unshare -U true",
        ("user.max_user_namespaces allows: 0",),
        *setting("user.max_user_namespaces", "0"),
    ),
    "sysctl dmesg": Row(
        f"{NOBODY} dmesg",
        ("kernel.dmesg_restrict is 1", "CAP_SYSLOG"),
        *setting("kernel.dmesg_restrict", "1"),
    ),
    "sysctl io_uring": Row(
        python(*RAW, "call(NR_io_uring_setup, 8, ctypes.create_string_buffer(256))"),
        ("kernel.io_uring_disabled is 2",),
        *setting("kernel.io_uring_disabled", "2"),
    ),
    "sysctl port": Row(
        NOBODY + python("import socket", "socket.socket().bind(('127.0.0.1', 81))"),
        ("ip_unprivileged_port_start (1024)", "CAP_NET_BIND_SERVICE"),
    ),
    "sysctl protected_regular": Row(
        "sh -c 'echo x >/tmp/reasons/shared/f'",
        ("fs.protected_regular is 2", "belongs to nobody"),
        *setting("fs.protected_regular", "2"),
    ),
    "sysctl mqueue": Row(
        NOBODY
        + python(
            "import ctypes, os, sys",
            "rt = ctypes.CDLL(None, use_errno=True)",
            "for i in range(3):",
            "    if rt.mq_open(b'/q%d-%d' % (os.getpid(), i), 66, 0o600, None) < 0:",
            "        sys.exit(os.strerror(ctypes.get_errno()))",
        ),
        ("fs.mqueue.queues_max allows: 1",),
        *setting("fs.mqueue.queues_max", "1"),
    ),
    "cgroup pids": Row(
        "sh -c 'echo $$ >/sys/fs/cgroup/reasons/cgroup.procs; (ls; ls) | (cat; cat) | cat'",
        ("The cgroup /reasons has as many processes and threads", "2"),
        "echo +pids >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p /sys/fs/cgroup/reasons;"
        "echo 2 >/sys/fs/cgroup/reasons/pids.max",
    ),
    "cgroup memory": Row(
        "sh -c 'echo $$ >/sys/fs/cgroup/small/cgroup.procs;"
        ' exec python3 -S -c "bytearray(100 << 20)"\'',
        ("cgroup /small reached memory.max, which is 30 MiB",),
        "echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir -p /sys/fs/cgroup/small;"
        "echo 30M >/sys/fs/cgroup/small/memory.max",
    ),
    "capability": Row(
        NOBODY + python("import os", "os.setuid(1)"),
        ("This requires CAP_SETUID", "runs as user nobody"),
    ),
    "capability of root": Row(
        "setpriv --bounding-set -sys_admin --inh-caps -sys_admin mount -t tmpfs x /mnt",
        ("mounting x on /mnt", "This requires CAP_SYS_ADMIN", "docker run --cap-add SYS_ADMIN"),
    ),
    "capability of a namespace": Row(
        "unshare -Ur mount -o remount,ro /sys",
        ("CAP_SYS_ADMIN", "only in its own user namespace"),
    ),
    "owner of a process": Row(
        f"{NOBODY} sh -c 'kill -9 1'", ("PID 1) belongs to root", "ran as nobody")
    ),
    "no process": Row("kill -9 4000000", ("There is no process with the id 4000000",)),
    "missing call": Row(python(*RAW, "call(9999)"), ("has no system call 9999",)),
    "loop": Row("cat /tmp/reasons/a", ("/tmp/reasons/a leads in a circle",)),
    "long name": Row(
        "touch /tmp/reasons/" + "n" * 300, ("has a name that is longer than 255 bytes",)
    ),
    "socket": Row("cat /tmp/reasons/sock", ("/tmp/reasons/sock is a socket",)),
    "file of a descriptor": Row(
        "dd if=/dev/zero of=/tmp/reasons/small/x bs=1M count=1",
        ("writing to /tmp/reasons/small/x failed with ENOSPC", "at /tmp/reasons/small"),
        "mount -t tmpfs -o size=64k none /tmp/reasons/small",
        "umount /tmp/reasons/small",
    ),
    "directory of a descriptor": Row(
        f"{NOBODY} cp /etc/hosts /tmp/reasons/closed/",
        (
            "opening /tmp/reasons/closed/hosts failed with EACCES",
            "may not add or remove entries in the directory /tmp/reasons/closed: owner root",
        ),
    ),
    "access control list": Row(
        f"{NOBODY} cat /tmp/reasons/listed",
        ("has the entry user:nobody:---", "setfacl -m user:nobody:r /tmp/reasons/listed"),
    ),
    "not executable": Row(
        "bash -c /tmp/reasons/plain.sh",
        ("/tmp/reasons/plain.sh is not executable", "chmod +x", "/bin/sh /tmp/reasons/plain.sh"),
    ),
    "loader of another root": Row(
        "chroot /tmp/reasons/root /bin/ls",
        (
            "The program /tmp/reasons/root/bin/ls needs the loader",
            "does not exist in the root directory of the process, /tmp/reasons/root",
        ),
    ),
    "mount namespace": Row(
        "unshare -m sh -c 'mount -t tmpfs -o ro none /mnt; touch /mnt/x'",
        ("opening /mnt/x failed with EROFS", "had a mount namespace of its own"),
    ),
    "name that is not UTF-8": Row(
        python("import os", r"os.open(b'/tmp/reasons/caf\xe9', 0)"),
        (r"$'/tmp/reasons/caf\xe9' does not exist",),
    ),
    "network namespace": Row(
        "ip netns exec blue true", ("no network namespace blue", "ip netns add blue")
    ),
    "hard limit": Row(
        f"prlimit --nofile=100:100 {NOBODY} prlimit --nofile=200:200 true",
        ("may raise a hard limit", "RLIMIT_NOFILE (ulimit -n) is 100"),
    ),
    "netlink": Row("ip link set eth9 up", ("There is no network interface eth9",)),
    "netlink capability": Row(
        f"{NOBODY} ip address add 10.1.1.1/24 dev lo",
        ("the address 10.1.1.1/24 of lo failed with EPERM", "This requires CAP_NET_ADMIN"),
    ),
    "error of a connection": Row(
        "curl -sS http://127.0.0.1:7070/",
        ("No process listens on 127.0.0.1:7070",),
        "ip link set lo up",
    ),
    "host name": Row(
        python("import socket", "socket.create_connection(('nosuch.invalid', 80))"),
        ("The host name could not be resolved",),
    ),
    "no route": Row(
        python("import socket", "socket.socket().connect(('192.0.2.1', 80))"),
        ("no route to 192.0.2.1",),
    ),
    "not a local address": Row(
        python("import socket", "socket.socket().bind(('192.0.2.1', 8080))"),
        ("No network interface of this machine has the address 192.0.2.1",),
    ),
    "no family": Row(
        python("import socket", "socket.socket(12, 1)"), ("does not support sockets of the family",)
    ),
}


#: Becomes a command under the AppArmor profile shop.
CONFINED = python(
    "import os, sys",
    "open('/proc/self/attr/exec', 'w').write('exec shop')",
    "os.execvp(sys.argv[1], sys.argv[1:])",
)
PACKET = python("import socket", "socket.socket(2, 2).sendto(b'x', ('127.0.0.1', 81))")
OWN_FIREWALL = f"ip link set lo up; python3 -S {PROGRAMS}/nft_drop.py 81; {PACKET}"
SECURITYFS = "mountpoint -q /sys/kernel/security || mount -t securityfs s /sys/kernel/security"
#: Kinds that name what refused the call, or what uses the object.
ROWS |= {
    "lsm landlock": Row(
        f"python3 -S {PROGRAMS}/landlocked.py mkdir /tmp/reasons/sub",
        (
            "forbids creating the directory /tmp/reasons/sub",
            "LANDLOCK_ACCESS_FS_MAKE_DIR",
            "below /tmp/reasons in the rule set of",
        ),
    ),
    "lsm apparmor": Row(
        f"{CONFINED} touch /srv/x",
        ("The AppArmor profile shop does not let the process create /srv/x", '"/srv/x w,"'),
        f"{SECURITYFS}; cat {PROGRAMS}/apparmor_shop.bin >/sys/kernel/security/apparmor/.replace",
    ),
    "netfilter rule": Row(
        PACKET,
        (
            "The chain outgoing of the nftables table ip shop dropped the packet to 127.0.0.1:81",
            "with the handle",
            "nft delete rule ip shop outgoing handle",
        ),
        f"ip link set lo up; modprobe nf_tables; python3 -S {PROGRAMS}/nft_drop.py 81",
        "rmmod nft_compat nf_tables 2>/dev/null; true",
    ),
    "netfilter namespace": Row(
        f"unshare -n sh -c {shlex.quote(OWN_FIREWALL)}",
        (
            "The chain outgoing of the nftables table ip shop in another network namespace (net:[",
            "nsenter -n -t PID nft delete rule ip shop outgoing handle",
        ),
        "modprobe nf_tables",
        "rmmod nft_compat nf_tables 2>/dev/null; true",
    ),
    "namespace": Row(
        "unshare -p sh -c '/bin/true; /bin/true; echo done'",
        ("The first process of the new PID namespace", "unshare --pid --fork"),
    ),
    "busy mount": Row(
        "umount /tmp/reasons/busy",
        ("sleep (PID", "its current directory is /tmp/reasons/busy", "kill "),
        "mkdir -p /tmp/reasons/busy; mount -t tmpfs t /tmp/reasons/busy;"
        "cd /tmp/reasons/busy; setsid sleep 1000 >/dev/null 2>&1 & cd /tmp/reasons",
    ),
    "busy program": Row(
        "sh -c 'echo >/tmp/reasons/runs'",
        ("/tmp/reasons/runs is a program that runs", "mv /tmp/reasons/runs.new"),
        "cp /bin/sleep /tmp/reasons/runs; setsid /tmp/reasons/runs 1000 >/dev/null 2>&1 &",
    ),
    "busy device": Row(
        "mkfs.ext4 -q -F /dev/loop7",
        ("The device /dev/loop7 is in use", "/tmp/reasons/ext", "umount /tmp/reasons/ext"),
        "modprobe loop; dd if=/dev/zero of=/tmp/reasons/disk bs=1M count=16 2>/dev/null;"
        "losetup /dev/loop7 /tmp/reasons/disk; mkfs.ext4 -q -F /dev/loop7;"
        "mkdir -p /tmp/reasons/ext; mount /dev/loop7 /tmp/reasons/ext",
        "umount /tmp/reasons/ext; losetup -d /dev/loop7",
    ),
    "module in use": Row(
        python(*RAW, "call(NR_delete_module, b'loop', 2048)"),
        ("The module loop is in use", "losetup -D"),
        "modprobe loop; dd if=/dev/zero of=/tmp/reasons/disk bs=1M count=1 2>/dev/null;"
        "losetup /dev/loop6 /tmp/reasons/disk",
        "losetup -d /dev/loop6",
    ),
    "unsupported file system": Row(
        python(*RAW, "call(NR_mount, b'none', b'/mnt', b'nosuchfs', 0, 0)"),
        ("does not support the file system type nosuchfs", "/lib/modules/"),
    ),
    "sysctl value": Row(
        "sysctl -w kernel.pid_max=1",
        ("kernel.pid_max takes a number from 301 to 4194304, and not the value 1",),
    ),
    "mount nodev": Row(
        "cp /tmp/reasons/nodev/null /tmp/reasons/copy",
        ("is a device, and /tmp/reasons/nodev is mounted with nodev", "mount -o remount,dev"),
        "mkdir -p /tmp/reasons/nodev; mount -t tmpfs -o nodev n /tmp/reasons/nodev;"
        "mknod /tmp/reasons/nodev/null c 1 3",
        "umount /tmp/reasons/nodev",
    ),
    "closed pipe": Row(
        python("import os", "r, w = os.pipe()", "os.close(r)", "os.write(w, b'x')"),
        ("No process has the reading end of the pipe open any more",),
    ),
    "call without arguments": Row(
        python(*RAW, "call(NR_inotify_init)"),
        ("as many inotify instances as fs.inotify.max_user_instances allows: 0",),
        "sysctl -qw fs.inotify.max_user_instances=0",
        "sysctl -qw fs.inotify.max_user_instances=128",
    ),
    "program that refuses": Row(
        "swapon /tmp/reasons/swap",
        ("The swap file /tmp/reasons/swap has holes", "dd if=/dev/zero of=FILE"),
        "truncate -s 20M /tmp/reasons/swap; chmod 600 /tmp/reasons/swap; mkswap /tmp/reasons/swap",
    ),
    "long interface name": Row(
        "ip link add averyveryverylongname0 type dummy",
        ("The name averyveryverylongname0 is too long", "at most 15 characters"),
    ),
    "not for this machine": Row(
        "bash -c /tmp/reasons/short",
        ("/tmp/reasons/short is a program for this machine", "cut short: it has 500 bytes"),
        "head -c 500 /bin/true >/tmp/reasons/short; chmod +x /tmp/reasons/short",
    ),
    "file without a terminal": Row(
        "setsid sh -c 'cat </dev/tty'",
        ("/dev/tty is the terminal of the process, and the process has none",),
    ),
    "no prohibited route": Row(
        python("import socket", "socket.socket().connect(('10.66.0.1', 5))"),
        ("A route or a routing rule of the type prohibit refuses packets to 10.66.0.1",),
        "ip link set lo up; ip route add prohibit 10.66.0.0/16",
        "ip route del prohibit 10.66.0.0/16",
    ),
    "sysctl huge pages": Row(
        python("import mmap", "mmap.mmap(-1, 2 << 20, flags=0x40022)"),
        ("vm.nr_hugepages is 0", "sysctl vm.nr_hugepages=512"),
    ),
    "cgroup file of version 1": Row(
        "sh -c 'echo 100 >/sys/fs/cgroup/old/cpu.shares'",
        ("no file cpu.shares", "version 1 of cgroups", "use cpu.weight"),
        "mkdir -p /sys/fs/cgroup/old",
        "rmdir /sys/fs/cgroup/old",
    ),
    "cgroup controller": Row(
        "sh -c 'echo 0 >/sys/fs/cgroup/top/low/cpuset.cpus'",
        (
            "The controller cpuset is not enabled for it",
            (
                "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; "
                "echo +cpuset >/sys/fs/cgroup/top/cgroup.subtree_control"
            ),
        ),
        "mkdir -p /sys/fs/cgroup/top/low",
        "rmdir /sys/fs/cgroup/top/low /sys/fs/cgroup/top",
    ),
    "CPUs of another user's process": Row(
        f"{NOBODY} taskset -pc 0 1", ("(PID 1) belongs to root", "run it as root")
    ),
    "no file system": Row(
        "mount /dev/loop5 /mnt",
        ("mount found no file system on /dev/loop5", "lsblk -f /dev/loop5"),
        "modprobe loop; dd if=/dev/zero of=/tmp/reasons/empty bs=1M count=4 2>/dev/null;"
        "losetup /dev/loop5 /tmp/reasons/empty",
        "losetup -d /dev/loop5",
    ),
    "usual meaning": Row(
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).listen()'",
        ("is a socket without connections, as of UDP", "create a stream socket (SOCK_STREAM)"),
    ),
    "setting with a handler of its own": Row(
        "sysctl -w kernel.kptr_restrict=9",
        ("kernel.kptr_restrict takes a number from 0 to 2, and not the value 9",),
    ),
    "busy lock": Row(
        "flock -n /tmp/reasons/lock true",
        ("flock /tmp/reasons/lock sleep 1000", "a lock on /tmp/reasons/lock"),
        "setsid flock /tmp/reasons/lock sleep 1000 >/dev/null 2>&1 &"
        "until grep -q FLOCK /proc/locks; do sleep 0.1; done",
    ),
    "busy with the command itself": Row(
        "sh -c 'cd /tmp/reasons/own && exec umount /tmp/reasons/own'",
        ("in use by the command itself: its current directory is /tmp/reasons/own",),
        "mkdir -p /tmp/reasons/own; mount -t tmpfs t /tmp/reasons/own",
        "umount /tmp/reasons/own",
    ),
    "swap file in memory": Row(
        "swapon /tmp/reasons/memory/swap",
        ("Files there cannot be swap space", "findmnt -t ext4,xfs,btrfs"),
        "mkdir -p /tmp/reasons/memory; mount -t tmpfs s /tmp/reasons/memory;"
        "dd if=/dev/zero of=/tmp/reasons/memory/swap bs=1M count=20 2>/dev/null;"
        "chmod 600 /tmp/reasons/memory/swap; mkswap /tmp/reasons/memory/swap",
        "umount /tmp/reasons/memory",
    ),
    "files of a cgroup": Row(
        "rm -rf /sys/fs/cgroup/unwanted",
        ("no program can remove or rename them", "rmdir /sys/fs/cgroup/unwanted"),
        "mkdir -p /sys/fs/cgroup/unwanted",
        "rmdir /sys/fs/cgroup/unwanted",
    ),
    "link of a descriptor": Row(
        "sh -c 'exec 3</tmp/reasons/listed; ln /proc/self/fd/3 /tmp/reasons/second'",
        ("is a symbolic link in /proc", "ln -L /proc/self/fd/3 /tmp/reasons/second"),
    ),
    "room that is free again": Row(
        "sh -c 'seq 1 900000 | sort -S 1M -T /tmp/reasons/little'",
        ("had no space left when the command wrote", "sort -T"),
        "mkdir -p /tmp/reasons/little; mount -t tmpfs -o size=1m s /tmp/reasons/little",
        "umount /tmp/reasons/little",
    ),
    "inodes": Row(
        "touch /tmp/reasons/few/a /tmp/reasons/few/b /tmp/reasons/few/c",
        ("all 3 inodes are in use", "mount -o remount,nr_inodes=6"),
        "mkdir -p /tmp/reasons/few; mount -t tmpfs -o nr_inodes=3 s /tmp/reasons/few",
        "umount /tmp/reasons/few",
    ),
}
#: Failures of the kinds of everyday commands.
ROWS |= {
    "words on a copy of standard error": Row(
        python(
            "import fcntl, os",
            "os.dup2(2, 9)",
            "os.close(2)",
            "try: fcntl.fcntl(2, 3)",
            "except OSError: pass",
            "os.write(9, b'no sessions\\n')",
            "os._exit(1)",
        ),
        ("No tmux server runs for this user", "tmux new"),
    ),
    "exit status": Row("grep nosuch /etc/hostname", ("No line matches the pattern",)),
    "exception": Row(
        python("import json", "json.loads('x')"),
        ("The input is not valid JSON", "The exception came from line 2 of <string>"),
    ),
    "removed directory": Row(
        "sh -c 'mkdir gone; cd gone; rmdir ../gone; touch x'",
        ("failed with ENOENT", "The current directory of the process was removed"),
    ),
    "pseudo-terminals": Row(
        python("import os", "os.open('/dev/ptmx', os.O_RDWR)"),
        ("kernel.pty.max allows 0", "sysctl kernel.pty.max="),
        *setting("kernel.pty.max", "0"),
    ),
    "descendants of a cgroup": Row(
        "mkdir /sys/fs/cgroup/full/one",
        ("cgroup.max.descendants of the cgroup /full allows 0", "echo 1 >"),
        "mkdir -p /sys/fs/cgroup/full; echo 0 >/sys/fs/cgroup/full/cgroup.max.descendants",
        "rmdir /sys/fs/cgroup/full",
    ),
    "setting for reading": Row(
        "sh -c 'echo x >/proc/sys/kernel/osrelease'",
        ("/proc/sys/kernel/osrelease can only be read",),
    ),
    "no descriptor left": Row(
        "prlimit --nofile=3 cat /etc/hostname", ("RLIMIT_NOFILE (ulimit -n) is 3",)
    ),
    "root in the mount of the root": Row(
        "unshare -m pivot_root /tmp/reasons /tmp/reasons/closed",
        ("in the mount of the current root directory", "mount --bind /tmp/reasons /tmp/reasons"),
    ),
    "attributes of a file of the kernel": Row(
        "chattr +i /proc/version",
        ("The proc file system at /proc does not support this attribute",),
    ),
}


@pytest.fixture(scope="module")
def prepared(machine: Machine) -> Machine:
    script = f"mkdir -p /tmp/reasons && chmod 777 /tmp/reasons && {FILES.strip()}"
    made = machine.run(["sh", "-ec", script])
    assert made.status == 0, made.err
    return machine


#: The rows of ``make test``: one row for each method to find a reason. A single row takes 8 s.
QUICK = (
    *("rlimit nofile", "capability", "file of a descriptor", "netlink"),
    *("lsm landlock", "busy mount"),
)


def _rows() -> Iterator[Any]:
    """The names of the rows; those that are not quick are slow."""
    assert ROWS.keys() >= {*QUICK}
    for name in ROWS:
        yield name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


def _numbered(command: str, machine: Machine) -> str:
    """The command with the machine's numbers of system calls."""
    numbers = {
        call.name: number
        for number, call in system_calls(machine.arch.gnu.partition("-")[0]).items()
    }
    return re.sub(r"NR_(\w+)", lambda found: str(numbers[found[1]]), command)


@pytest.mark.parametrize("name", list(_rows()))
def test_the_first_paragraph_names_what_to_change(name: str, prepared: Machine) -> None:
    row = ROWS[name]
    why = f"{shlex.quote(TOOL)} why --reruns 0 -- {_numbered(row.command, prepared)}"
    script = f"{row.before or ':'}\n{why}; status=$?\n{row.behind or ':'}\nexit $status"
    result = prepared.run(["sh", "-c", script], timeout=400)
    first = " ".join(result.out.partition("\n\n")[0].split())
    missing = [one for one in row.words if one not in first]
    assert not missing, result.out + result.err


@pytest.mark.only_on("6.12")
def test_a_trace_says_the_same_of_each_failing_call(prepared: Machine) -> None:
    """In text and in JSON; other calls of the process do not change the reason."""
    command = (*NOBODY.split(), "cat", "/etc/shadow", "/nonexistent/x")
    trace = (TOOL, "-e", "*_sys_openat", "-a", "inode_permission", "--explain")
    result = prepared.run([*trace, "--", *command])
    blocks = [" ".join(block.split()) for block in result.out.split("\n\n\n")]
    denied = next(one for one in blocks if "opening /etc/shadow failed with EACCES" in one)
    assert "User nobody may not read the file /etc/shadow" in denied
    assert "__x64_sys_openat" in denied
    (missing,) = [one for one in blocks if "opening /nonexistent/x failed with ENOENT" in one]
    assert "The directory /nonexistent does not exist." in missing
    told = prepared.run([*trace, "-x", "EACCES", "--format", "json", "--", *command]).out
    (session,) = [one for one in map(json.loads, told.splitlines()) if one["type"] == "session"]
    assert session["explained"]["reason"]["kind"] == "file-mode"


@pytest.mark.only_on("6.12")
def test_a_seccomp_filter_is_what_returned_the_error(machine: Machine) -> None:
    """No function of the kernel ran: what strace(1) would show as the kernel's EPERM."""
    program = str(compiled(machine, "seccomp_mkdir"))
    result = machine.run([TOOL, "why", "--reruns", "0", "--", program], timeout=400)
    answer = " ".join(result.out.split())
    assert "creating the directory /tmp/seccomp failed with EPERM" in answer
    assert "A seccomp filter of the process returned EPERM for mkdir()" in answer
