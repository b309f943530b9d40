# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of reasons: what each one means, and so what its sentence names.

docs/why.md and the skill for agents (docs/agents/SKILL.md) list the same kinds; unit tests compare
them.
"""

from __future__ import annotations

__all__ = ["KINDS"]

#: By value of ``reason.kind`` in JSON.
KINDS = {
    "not-found": "a part of a path, an interpreter, a library, a program or a process is missing",
    "not-a-directory": "a part of the path is a file",
    "is-a-directory": "the path is a directory, and the call needs a file",
    "not-a-link": "the path is not a symbolic link",
    "loop": "symbolic links lead in a circle, or must not be followed",
    "too-long": "a name or a path is too long",
    "special-file": "the path is a socket, a FIFO or a device that cannot be opened now",
    "file-mode": "the owner and mode of a file or directory do not allow the access",
    "owner": "only the owner of the file or process may do this",
    "sticky": "the sticky bit of the directory protects files of other users",
    "immutable": "the file has the attribute i",
    "append-only": "the file has the attribute a",
    "capability": "the kernel tested a capability that the process does not have",
    "seccomp": "a seccomp filter returned the error; the kernel did not run the call",
    "lsm": "a security module refused: its profile, rule, contexts, setting or BPF program",
    "netfilter": "a firewall rule of this machine dropped the packet: table, chain, rule",
    "rlimit": "a resource limit of the process (ulimit) is reached",
    "sysctl": "a setting below /proc/sys forbids it",
    "cgroup": "a limit of a cgroup is reached, or a file of a cgroup rejects the value",
    "namespace": "a namespace has ended, or the process lacks rights in it",
    "killed": "a signal ended the process: who sent it, or the memory limit",
    "mount-option": "the mount is read-only, or has noexec, nodev or nosuid",
    "no-mount-point": "nothing is mounted at the path",
    "two-file-systems": "the two paths are in different file systems",
    "exists": "a file of that name exists",
    "into-itself": "a directory would be moved to a place inside of it",
    "not-empty": "the directory has entries",
    "busy": "a process, a mount, a device or a module uses it: its name and PID",
    "space": "the file system is full",
    "inodes": "the file system has no free inode",
    "quota": "a disk quota is used up",
    "encrypted": "the directory is encrypted, and its key is not loaded",
    "name": "a host name has no address, or the name server did not answer",
    "elsewhere": "the process used the path in its own mount namespace, out of reach",
    "not-listening": "no process listens on the address",
    "no-route": "no route leads to the address",
    "unreachable": "a router or the local network reports the host as unreachable",
    "no-answer": "the address did not answer in time",
    "not-local": "no network interface has the address",
    "out-of-range": "a value that the caller passed is not one that the kernel allows there",
    "unsupported": "this kernel does not have the call, file system, socket family or option",
    "module": "the kernel did not load or remove a module: symbol, version, signature",
    "closed": "the other end of the pipe or the connection is closed",
    "format": "the file is not a program for this machine",
    "descriptor": "the descriptor is not open, or its file is not of the kind that is needed",
    "program": "the program itself refused, and its own message is explained",
    "kernel-message": "the kernel wrote a message about this failure, which the sentence quotes",
}
