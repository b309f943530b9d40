# SPDX-License-Identifier: BSD-2-Clause
"""Why a part of an object is refused here: by the verifier's log, libbpf's words, or an errno.

What was said is looked at first. Where it says too little, what the object asks for is compared
with what this Linux has.
"""

from __future__ import annotations

import errno
from io import BytesIO
from pathlib import Path

from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.load import since
from retsnoop_py.load.attaching import of_this_kernel
from retsnoop_py.load.attempt import STRUCT_OPS
from retsnoop_py.load.diagnose import diagnose
from retsnoop_py.load.errno_rules import errno_name, explain_errno, explain_size, why_denied
from retsnoop_py.load.loader_rules import explain_line
from retsnoop_py.load.map_rules import MapFacts, explain_map
from retsnoop_py.load.model import Explanation
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.read_log import ProgramLog, Segment, read_log, segments

__all__ = ["Refusals", "last_verdict"]

#: Rules that are not asked here: BTF has a result of its own, and ``why_denied`` knows of rights.
_NO_REASONS = ("btf-refused", "rights")


def last_verdict(text: str) -> ProgramLog:
    """The last segment of one program's log that has a verdict."""
    found = [read_log(segment) for segment in segments(BytesIO(text.encode()))]
    ended = [log for log in found if log.processed is not None or log.followed or log.said]
    return ended[-1] if ended else read_log(Segment(1, (), 0, 0))


class Refusals:
    """Why parts of the object at ``path`` are refused on Linux ``release``."""

    def __init__(self, path: Path, target: ObjectFile, release: tuple[int, int]) -> None:
        self._path = path
        self._target = target
        self._release = release
        #: Those of its programs, by their names; known once libbpf has opened it.
        self.sections: dict[str, str] = {}

    def of_program(self, name: str, log: ProgramLog, said: str, error: int) -> Explanation:
        """By the verifier's ``log``, or what libbpf ``said`` and the errno where it has nothing."""
        why = diagnose(log, self._target, name)
        if why is None:
            return self.of_loader(said, error, name)
        if why.id == "attach-target":
            return of_this_kernel(why, self.sections[name], self._target)
        return why

    def of_map(self, it: MapFacts, error: int, line: str) -> Explanation:
        """Of a map that could not be created, as ``line`` says."""
        if error == errno.EPERM:
            return why_denied(self._release)
        if it.kind == STRUCT_OPS:
            return explain_line(line) or explain_errno(errno_name(error), it.label, line)
        return explain_map(it, errno_name(error), self._release, line)

    def of_loader(self, said: str, error: int, name: str = "") -> Explanation:
        """Of program ``name``, or the object, from what libbpf said, or the errno."""
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

    def placed(self, why: Explanation, name: str) -> Explanation:
        """``why`` with the place of function ``name``, where it has none."""
        from msgspec.structs import replace

        if why.place is not None or not name:
            return why
        return replace(why, place=self._target.function_place(name))

    def _size_reason(self, name: str, error: int) -> Explanation | None:
        """A program of more instructions than the kernel looks at: E2BIG before the verifier."""
        count = self._target.instruction_count(name) if name else 0
        if error != errno.E2BIG or not count:
            return None
        return explain_size(name, count)

    def _type_reason(self, name: str, error: int) -> Explanation | None:
        """A type of program or attachment that this kernel is too old for."""
        if not name or error not in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        with BpfObject(self._path) as opened:
            program = next((one for one in opened.programs() if one.name == name), None)
            kind, section = (program.kind, program.section) if program else (0, "")
        known = since.by_number("program_types", kind)
        if known is not None and known.release > self._release:
            return self._too_old(name, "program-type-unsupported", "Program type", known)
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
