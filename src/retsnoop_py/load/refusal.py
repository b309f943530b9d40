# SPDX-License-Identifier: BSD-2-Clause
"""Explain why a part of an object is rejected: verifier log, libbpf's messages, or errno.

Messages are checked first. If they are not sufficient, the object's requirements are compared with
this version of Linux.
"""

from __future__ import annotations

import errno
from io import BytesIO
from pathlib import Path

from retsnoop_py.libbpf.links import has_program_type
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.load import since
from retsnoop_py.load.attaching import explain_attachment, of_this_kernel
from retsnoop_py.load.attempt import STRUCT_OPS
from retsnoop_py.load.diagnose import diagnose
from retsnoop_py.load.errno_rules import errno_name, explain_errno, explain_size, why_denied
from retsnoop_py.load.loader_rules import explain_line
from retsnoop_py.load.map_rules import MapFacts, explain_map
from retsnoop_py.load.model import Explanation, about_line
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.read_log import ProgramLog, Segment, read_log, segments

__all__ = ["Refusals", "last_verdict"]

#: The first Linux with addresses of functions (callbacks).
_FUNCTIONS_PASSED = (5, 13)
#: The map flag BPF_F_LINK, and the first Linux that supports it.
_LINK, _LINK_SINCE = 1 << 13, (6, 4)
_FRAGS_SINCE = (5, 18)

#: Rules that are skipped: BTF has its own result, and ``why_denied`` explains rights.
_NO_REASONS = ("btf-refused", "rights")


def last_verdict(text: str) -> ProgramLog:
    """Return the last segment of a program's log that has a verdict."""
    parts = segments(BytesIO(text.encode()), only_ends=True)
    found = [read_log(segment) for segment in parts]
    ended = [log for log in found if log.processed is not None or log.followed or log.said]
    return ended[-1] if ended else read_log(Segment(1, (), 0, 0))


class Refusals:
    """The reasons for rejected parts of the object at ``path`` on Linux ``release``."""

    def __init__(self, path: Path, target: ObjectFile, release: tuple[int, int]) -> None:
        self._path = path
        self._target = target
        self._release = release
        #: The sections of the programs, by name; set after libbpf has opened the object.
        self.sections: dict[str, str] = {}

    def of_program(self, name: str, log: ProgramLog, said: str, error: int) -> Explanation:
        """Explain a program by the verifier's ``log``, or by libbpf's messages and the errno."""
        from msgspec.structs import replace

        why = diagnose(log, self._target, name)
        if why is None:
            return self.of_loader(said, error, name)
        if why.id == "unknown" and (told := explain_line(why.reason)) is not None:
            return self.placed(replace(told, place=why.place), name)
        if why.id == "function-table" and self._release < _FUNCTIONS_PASSED:
            return self._callback_reason(name) or why
        if why.id == "attach-target":
            return of_this_kernel(why, self.sections[name], self._target)
        return why

    def of_map(self, it: MapFacts, error: int, line: str) -> Explanation:
        """Explain a map that could not be created, as reported by ``line``."""
        if error == errno.EPERM:
            return why_denied(self._release)
        if it.kind == STRUCT_OPS and it.flags & _LINK and self._release < _LINK_SINCE:
            return about_line(
                "map-flags",
                "Kernel Support: Map flags",
                f"Table '{it.name}' is in section .struct_ops.link, to be attached by a link"
                " (BPF_F_LINK),"
                f" which came with Linux 6.4; this is {self._release[0]}.{self._release[1]}.",
                'Put it into SEC(".struct_ops") there, or require that kernel.',
                line,
            )
        if it.kind == STRUCT_OPS and "failed to create" not in line:
            return explain_line(line) or explain_errno(errno_name(error), it.label, line)
        return explain_map(it, errno_name(error), self._release, line)

    def of_loader(self, said: str, error: int, name: str = "") -> Explanation:
        """Explain program ``name``, or the object, by libbpf's messages or the errno."""
        label = f"program '{name}'" if name else "the object"
        for line in said.splitlines():
            why = explain_line(line)
            if why is not None and why.id not in _NO_REASONS:
                section = self.sections.get(name, "")
                return self.placed(of_this_kernel(why, section, self._target), name)
        if error == errno.EPERM:
            return why_denied(self._release)
        found = self._size_reason(name, error) or self._type_reason(name, error)
        lines = [line for line in said.splitlines() if "failed to load" not in line]
        why = found or explain_errno(errno_name(error), label, lines[-1] if lines else "")
        return self.placed(why, name)

    def of_extern(self, name: str, error: int, line: str) -> Explanation:
        """Explain extern ``name``, which the kernel lacks or has with another type."""
        if "incompat" not in line:
            return explain_line(line) or explain_errno(errno_name(error), name, line)
        id_, what = (
            ("kfunc-missing", "Kernel function")
            if "func" in line
            else (
                "ksym-missing",
                "Kernel symbol",
            )
        )
        return about_line(
            id_,
            f"Kernel Support: {what} that is not there",
            f"This kernel has {name}, with other parameters, another result or another type than"
            " the"
            " object declares.",
            "Declare it as this kernel does: bpftool btf dump file /sys/kernel/btf/vmlinux format"
            " c;"
            " where kernels differ, under two names (NAME___old), both __weak.",
            line,
        )

    def of_opening(self, said: str, error: int) -> Explanation:
        """Explain an object that libbpf cannot parse, without a system call."""
        told = [line.removeprefix("libbpf: ") for line in said.splitlines()]
        if not told or not any(map(explain_line, told)):
            last = told[-1] if told else "it does not say why"
            return about_line(
                "elf",
                "Object File: Not a BPF object",
                f"libbpf cannot open the object ({errno_name(error)}): {last}.",
                "The file is damaged, or libbpf does not know its compiler. Compile it again with"
                " clang -target bpf -g -O2.",
                said.strip(),
            )
        return self.of_loader(said, error)

    def of_attachment(self, said: str, error: int, name: str) -> Explanation:
        """Explain program ``name``, which loads but cannot be attached."""
        why = explain_attachment(said, error, name, self.sections.get(name, ""))
        why = why or self._type_reason(name, error)  # libbpf reports only an errno for it
        return self.placed(why, name) if why is not None else self.of_loader(said, error, name)

    def _callback_reason(self, name: str) -> Explanation | None:
        """Explain a callback on a kernel that treats its function as one without a caller."""
        if not self._target.passes_functions(name):
            return None
        late = [
            (known, at)
            for number, at in self._target.helpers_of(name)
            if (known := since.by_number("helpers", number)) and known.release > self._release
        ]
        told, place = "", None
        if late:
            known, at = late[0]
            told = f" bpf_{known.name}() came with Linux {known.since}."
            place = self._target.place_at(name, at)
        major, minor = self._release
        return Explanation(
            "helper-unknown" if late else "callback",
            "Kernel Support: Functions that are called back",
            "The program passes a function to a helper that calls it back, which came with Linux"
            " 5.13;"
            f" this is {major}.{minor}.{told}",
            "Require that kernel, or make a loop of it that the verifier can follow.",
            place=place,
        )

    def placed(self, why: Explanation, name: str) -> Explanation:
        """Return ``why`` with the place of function ``name``, unless it has a place."""
        from msgspec.structs import replace

        if why.place is not None or not name:
            return why
        return replace(why, place=self._target.function_place(name))

    def _size_reason(self, name: str, error: int) -> Explanation | None:
        """Explain E2BIG before verification: the program has too many instructions."""
        count = self._target.instruction_count(name) if name else 0
        if error != errno.E2BIG or not count:
            return None
        return explain_size(name, count)

    def _type_reason(self, name: str, error: int) -> Explanation | None:
        """Explain a program type or attach type that this kernel does not support."""
        if not name or error not in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        with BpfObject(self._path) as opened:
            program = next((one for one in opened.programs() if one.name == name), None)
            kind, section = (program.kind, program.section) if program else (0, "")
        known = since.by_number("program_types", kind)
        if known is not None and known.release > self._release:
            return self._too_old(name, "program-type-unsupported", "Program type", known)
        if known is not None and not has_program_type(kind):
            return Explanation(
                "program-type-unsupported",
                "Kernel Support: Program type",
                f"Program '{name}' is of program type BPF_PROG_TYPE_{known.name}. It came with"
                " Linux"
                f" {known.since}, and this kernel was built without it.",
                "Look for it in /boot/config-$(uname -r): CONFIG_BPF_LIRC_MODE2, CONFIG_BPF_LSM,"
                " CONFIG_CGROUP_BPF, CONFIG_BPF_EVENTS, CONFIG_NETFILTER_BPF_LINK have types of"
                " their own.",
            )
        if section.startswith("xdp.frags") and self._release < _FRAGS_SINCE:
            return Explanation(
                "attach-type-unsupported",
                "Kernel Support: Attach type",
                f"Program '{name}' takes packets in several buffers (section xdp.frags), which came"
                f" with Linux 5.18; this is {self._release[0]}.{self._release[1]}.",
                'Put it into SEC("xdp") there, or require that kernel.',
            )
        attached = since.attach_type_of(section)
        if attached is not None and attached.release > self._release:
            return self._too_old(name, "attach-type-unsupported", "Attach type", attached)
        return None

    def _too_old(self, name: str, id_: str, title: str, known: since.Known) -> Explanation:
        major, minor = self._release
        prefix = "PROG_TYPE_" if id_ == "program-type-unsupported" else ""
        return Explanation(
            id_,
            f"Kernel Support: {title}",
            f"Program '{name}' is of {title.lower()} BPF_{prefix}{known.name}, which came with"
            f" Linux {known.since}; this is {major}.{minor}.",
            "Require that kernel, or leave the program out there (bpf_program__set_autoload()).",
        )
