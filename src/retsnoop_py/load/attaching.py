# SPDX-License-Identifier: BSD-2-Clause
"""Attach a program and detach it again; explain why a program cannot be attached.

libbpf and the kernel name the missing target. The symbols, the BTF and ftrace's list of the running
kernel show similar targets, and why a function cannot be probed.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from retsnoop_py.cause.shell import shell_path
from retsnoop_py.errors import BpfError, RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.object import BpfMap, Program
from retsnoop_py.load.errno_rules import errno_name
from retsnoop_py.load.loader_rules import explain_line
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.value import Value

__all__ = [
    "Attached",
    "attach_once",
    "btf_target",
    "explain_attachment",
    "explain_registering",
    "explain_replacement",
    "explain_table",
    "explain_target",
    "is_attachable",
    "of_this_kernel",
    "register_once",
    "why_no_kprobe",
    "why_no_trampoline",
]

#: Errors that libbpf returns if a program names no target (ENOTSUPP is 524).
_UNATTACHED = frozenset({errno.EOPNOTSUPP, errno.ESRCH, 524})
_TARGET = re.compile(r"type ID of '([^']+)'")
_KPROBE = re.compile(r"k(?:ret)?probe '([^+']+)")
_ADDRESS = re.compile(r"address of function (\w+) cannot be found")
_TITLE = "Kernel Support: Attach target"
_MOST_COPIES = 3
#: Maximum number of kernel log lines, and maximum size of a record in bytes.
_MOST_LOGGED, _LONGEST_LOGGED = 100, 8192
#: A record of /dev/kmsg from the kernel begins with a number below this one. User space records
#: have a facility in the higher bits.
_LEVELS = 8
_REGISTERED = "bpftool struct_ops list has those that are registered; bpftool link list who does."


class Attached(Value):
    """The result of attaching a program.

    ``error``: an errno, 0 on success. ``said``: libbpf's messages. ``span``: start and end of the
    attempt, in ns of CLOCK_MONOTONIC.
    """

    error: int
    said: str
    span: tuple[int, int]

    @property
    def has_no_target(self) -> bool:
        """Return True if the program names no target, so that its loader must name one."""
        said = self.said.splitlines()
        return self.error in _UNATTACHED and all(explain_line(line) is None for line in said)


def attach_once(program: Program | BpfMap) -> Attached:
    """Attach and detach a program or a struct_ops map."""
    begin = time.monotonic_ns()
    error, said = 0, ""
    try:
        program.attach().close()
    except BpfError as failure:
        error, said = failure.errno or errno.EINVAL, failure.log
    return Attached(error, said, (begin, time.monotonic_ns()))


def register_once(table: BpfMap) -> Attached:
    """Attach and detach a struct_ops map; ``said`` has the kernel messages of that time.

    The subsystem that registers the map reports missing functions only in the kernel's log.
    """
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return attach_once(table)
    try:
        os.lseek(log, 0, os.SEEK_END)
        end = attach_once(table)
        return Attached(end.error, "\n".join(_logged(log)), end.span)
    finally:
        os.close(log)


def _logged(log: int) -> Iterator[str]:
    """Yield the kernel's own lines that can be read from ``log``, without lines of user space."""
    for _ in range(_MOST_LOGGED):
        try:
            record = os.read(log, _LONGEST_LOGGED).decode(errors="replace")
        except OSError:  # no further lines, or lines were overwritten
            return
        facts, _, text = record.partition(";")
        level = facts.partition(",")[0]
        if level.isdigit() and int(level) < _LEVELS:
            yield text.partition("\n")[0]


def of_this_kernel(why: Explanation, section: str, target: ObjectFile) -> Explanation:
    """Return ``why`` for a program of ``section`` without a target, plus similar targets."""
    from msgspec.structs import replace

    words = "\n".join(why.words)
    more = ""
    if why.id == "attach-target-missing" and (found := _TARGET.search(words)):
        why = explain_target(found[1], section, words)
        prefix = btf_target(section)[1]
        near = [name.removeprefix(prefix) for name in target.functions_like(prefix + found[1])]
        more = f"It has {' and '.join(near)}." if near else ""
    elif why.id == "attach-target" and (found := _ADDRESS.search(words)):
        more = why_no_trampoline(found[1])  # the function is in the kernel's BTF but has no symbol
    elif why.id == "kprobe-target" and (found := _KPROBE.search(words)):
        more = why_no_kprobe(found[1])
    elif why.id == "attach-hook":
        more = why_no_trampoline(section.rpartition("/")[2])
    return replace(why, reason=f"{why.reason} {more}") if more else why


def why_no_kprobe(function: str, root: Path = Path("/")) -> str:
    """Return why a kprobe cannot be at ``function`` on the kernel below ``root``, or ""."""
    facts = KernelFacts(root)
    try:
        there = facts.kallsyms.named(function)
        if not there:
            return _missing(function, root)
        if all(facts.kprobe_blacklist.covers(one.address) for one in there):
            return (
                f"{function} is there, and on the kernel's list of functions closed to kprobes"
                " (NOKPROBE_SYMBOL, __kprobes, entry code)."
            )
        if len(there) > 1:
            return (
                f"{len(there)} functions have the name {function}, and since Linux 6.7 the kernel"
                " refuses to choose (EADDRNOTAVAIL)."
            )
        if not facts.traceable.contains(function):
            return (
                f"{function} is there, but ftrace has no hook in it (notrace, or a file compiled"
                " without): kernels without CONFIG_KPROBE_EVENTS_ON_NOTRACE refuse kprobes there."
            )
    except RetsnoopError:
        pass  # unreadable files of the kernel lead to no conclusion
    return ""


def why_no_trampoline(function: str, root: Path = Path("/")) -> str:
    """Return why ``function``, which has BTF, cannot have an fentry program; empty if unknown."""
    facts = KernelFacts(root)
    try:
        there = facts.kallsyms.named(function)
        if not there:
            return _missing(function, root)
        if not facts.traceable.contains(function):
            return f"{function} is there, and ftrace has no hook in it."
        if len(there) > 1:
            return (
                f"{len(there)} functions have the name {function}, and the kernel used one of them."
            )
    except RetsnoopError:
        pass
    return ""


def _missing(function: str, root: Path) -> str:
    """Return a sentence about a missing function and its variants, such as ``vfs_read.isra.0``."""
    pattern = re.compile(rf" [tTwW] ({re.escape(function)}\.[\w.]+)")
    try:
        found = pattern.findall((root / "proc/kallsyms").read_text(errors="replace"))
    except OSError:
        return ""
    copies = list(dict.fromkeys(found))[:_MOST_COPIES]
    if copies:
        return (
            f"This kernel has {' and '.join(copies)}, variants that the compiler created from it."
        )
    return f"This kernel has no symbol {function}, and no variant of it."


#: BTF targets that are not functions: for each section name the noun, the prefix in BTF and where
#: the kernel lists such targets.
_BTF_TARGETS = {
    "tp_btf": (
        "tracepoint",
        "btf_trace_",
        (
            "List them: ls /sys/kernel/tracing/events. Tracepoints come and go with kernels and"
            " modules."
        ),
    ),
    "lsm": (
        "hook of security modules",
        "bpf_lsm_",
        "Compare with include/linux/lsm_hook_defs.h of that kernel: hooks come and go.",
    ),
    "iter": (
        "iterator",
        "bpf_iter_",
        (
            "Require a kernel that has it, or leave the program out there"
            " (bpf_program__set_autoload())."
        ),
    ),
}


def btf_target(section: str) -> tuple[str, str]:
    """Return the kind of BTF target for a program of ``section``, and its prefix in BTF."""
    kind = section.partition("/")[0].partition(".")[0]
    what, prefix, _ = _BTF_TARGETS.get(kind, ("function", "", ""))
    return what, prefix


def explain_target(name: str, section: str, line: str) -> Explanation:
    """Return the explanation for a target that the section names and the kernel's BTF lacks."""
    what, _ = btf_target(section)
    kind = section.partition("/")[0].partition(".")[0]
    if kind not in _BTF_TARGETS:
        found = explain_line(line)
        assert found is not None
        return found
    return about_line(
        "attach-target-missing",
        _TITLE,
        f"The program is to be attached to the {what} {name}, which this kernel does not have.",
        _BTF_TARGETS[kind][2],
        line,
    )


#: Iterators that receive their object (a map, a cgroup) when they are attached.
_ITERATES_OVER = ("cgroup", "bpf_map_elem", "bpf_sk_storage_map", "sockmap")


def is_attachable(section: str, error: int) -> bool:
    """Return True if ``error`` is a real error; False if ``section`` cannot name the target."""
    kind, _, rest = section.partition("/")
    is_told = kind.partition(".")[0] == "iter" and rest in _ITERATES_OVER
    return not (is_told and error == errno.EINVAL)


def explain_attachment(said: str, error: int, name: str, section: str) -> Explanation | None:
    """Return an explanation that is more exact than libbpf's messages, or None."""
    from msgspec.structs import replace

    kind, _, rest = section.partition("/")
    line = said.splitlines()[-1] if said else ""
    if kind in ("tp", "tracepoint"):
        if "/" not in rest:
            return _half(name, section, f"{kind}/CATEGORY/NAME", line)
        if error == errno.EACCES:
            return about_line(
                "tracepoint-arguments",
                _TITLE,
                f"The program reads or writes beyond what tracepoint {rest} records on this kernel:"
                " EACCES at attaching.",
                f"Compare with /sys/kernel/tracing/events/{rest}/format: fields come, go and move"
                " with"
                " kernels; CO-RE finds them by their names in struct trace_event_raw_*.",
                line,
            )
    if kind in ("kprobe", "kretprobe", "ksyscall", "kretsyscall") and section.endswith("/"):
        return _half(name, section, f"{kind}/FUNCTION", line)
    if kind in ("kprobe", "kretprobe") and error == errno.EILSEQ:
        return about_line(
            "kprobe-target",
            _TITLE,
            f"A kprobe must be at the start of an instruction, and {rest} is not one (EILSEQ).",
            "Attach to the function, or look for instructions' offsets in its disassembly; they"
            " differ"
            " between kernels.",
            line,
        )
    if kind in ("kprobe.multi", "kretprobe.multi", "kprobe.session") and error == errno.ENOENT:
        return about_line(
            "kprobe-target",
            _TITLE,
            f"No function of this kernel that can be traced matches {rest}.",
            f"retsnoop-py functions {shell_path(rest)} lists what can be traced, and why others"
            " cannot.",
            line,
        )
    if kind in ("kprobe.multi", "kretprobe.multi", "kprobe.session") and error == errno.EOPNOTSUPP:
        return about_line(
            "attach-unsupported",
            _TITLE,
            "This kernel is built without CONFIG_FPROBE, by which one program is attached to many"
            " functions at once.",
            "Attach a kprobe to each of these functions. `retsnoop-py doctor` reports what a"
            " kernel supports.",
            line,
        )
    if kind.startswith(("uprobe", "uretprobe")) and error == errno.ENOENT:
        why = explain_line(f"failed to attach to uprobe '{rest}': no such file")
        return why and replace(why, words=(line,) if line else ())
    return None


def _half(name: str, section: str, whole: str, line: str) -> Explanation:
    return about_line(
        "attach-section",
        "Object File: Section without a target",
        f"Program '{name}' is in section '{section}', which does not name all of its target.",
        f'Name it in full - SEC("{whole}") - or attach it with a call that takes the target.',
        line,
    )


def explain_table(refused: str) -> Explanation:
    """Explain a struct_ops map if its program ``refused`` does not load."""
    return Explanation(
        "struct-ops-program",
        "Object File: Table of functions",
        f"Program '{refused}' of this table of functions (struct_ops) does not load, and the"
        " kernel registers a table as a whole.",
        f"Read the message about '{refused}'.",
    )


def explain_registering(table: str, error: int, said: str = "") -> Explanation:
    """Explain a struct_ops map that loads but is not registered by the kernel.

    ``said``: the kernel messages of that time, one line or several.
    """
    name = errno_name(error)
    known = explain_line(f"failed to attach struct_ops '{table}': {name}")
    assert known is not None
    if error == errno.EEXIST:
        reason = (
            f"Another table of functions (struct_ops) has the name that '{table}' gives itself, and"
            " is registered: EEXIST."
        )
        return Explanation(known.id, known.title, reason, _REGISTERED)
    if error == errno.EBUSY:
        reason = f"Another table of functions (struct_ops) is in the place of '{table}': EBUSY."
        return Explanation(known.id, known.title, reason, _REGISTERED)
    reason = (
        f"The kernel knows the table of functions (struct_ops) '{table}' and does not register it"
        f" ({name})"
    )
    if said:
        told = "; ".join(said.splitlines())
        suggestion = "Set the field of the table that the kernel's message names."
        return Explanation(known.id, known.title, f"{reason}. Its log says: {told}", suggestion)
    reason += ": a function that it must have is missing, or a value in it is not allowed."
    return Explanation(known.id, known.title, reason, known.suggestion)


def explain_replacement(function: str) -> Explanation:
    """Explain a program that replaces ``function`` of a program that no object has."""
    return Explanation(
        "freplace-target",
        _TITLE,
        f"The program takes the place of {function}() of another program, and no object here has a"
        " program that calls a global function of that name, and loads.",
        "Give the object with that program as well: the function must not be static or inlined.",
    )
