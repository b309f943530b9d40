# SPDX-License-Identifier: BSD-2-Clause
"""Plan what to capture for each traced function, from facts, before any program is loaded.

The arguments of a system call are in the registers of the process, which its wrapper receives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from retsnoop_py.kernel.arguments.calling_convention import REGISTERS
from retsnoop_py.kernel.arguments.model import ArgumentFacts
from retsnoop_py.kernel.arguments.semantics import load_semantics
from retsnoop_py.kernel.arguments.specs import (
    Builder,
    Capture,
    Limits,
    Spec,
    by_prototype,
    plan_packer,
    registers,
)
from retsnoop_py.kernel.arguments.types import TypeTable
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function
from retsnoop_py.kernel.tracefs import TRACEFS
from retsnoop_py.value import Value

#: Wrappers such as ``__x64_sys_bpf``, by the wrapper's ABI.
_WRAPPER = re.compile(r"__(x64|ia32|arm64)_((?:compat_)?sys)_(\w+)")
#: Offsets of the arguments in ``struct pt_regs`` (uapi/asm/ptrace.h), in bytes.
_OFFSETS = {
    "x64": (112, 104, 96, 56, 72, 64),  # di, si, dx, r10, r8, r9
    "ia32": (40, 88, 96, 104, 112, 32),  # bx, cx, dx, si, di, bp
    "arm64": (0, 8, 16, 24, 32, 40),  # x0 to x5
}
_FORMAT = "events/syscalls/sys_enter_{}/format"
_FIELD = re.compile(r"\sfield:(.+?)\s*(\w+);\s*offset:(\d+);")
#: Fields with copies of strings for readers of the event (Linux 7.x) are not arguments.
_COPIES = "__data_loc"
#: End of the fields that every event has, in bytes.
_COMMON_END = 16
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__user|__force|restrict)\b")
_TAGS = {"struct": Kind.STRUCT, "union": Kind.UNION, "enum": Kind.ENUM}
#: BTF's spelling of types that C spells differently.
_SPELLINGS = {
    "long": "long int",
    "unsigned long": "long unsigned int",
    "unsigned": "unsigned int",
    "short": "short int",
    "unsigned short": "short unsigned int",
    "long long": "long long int",
    "unsigned long long": "long long unsigned int",
}


def syscall_name(function: str) -> str | None:
    """Return the system call of which ``function`` is the wrapper, or None."""
    match = _WRAPPER.fullmatch(function)
    return match and match[3]


def syscall_capture(
    root: Path, btf: Btf, function: str, limits: Limits, types: TypeTable
) -> Capture:
    """Return the capture of a system call's own arguments; of plain registers if unknown.

    ``root`` is the folder that contains sys/, in which tracefs is mounted.
    """
    match = _WRAPPER.fullmatch(function)
    assert match is not None
    abi, kind, name = match.groups()
    places = [Spec(0, hops=(offset,)) for offset in _OFFSETS[abi]]
    builder = Builder(btf, limits, types, function)
    body = btf.find(f"__do_{kind}_{name}", Kind.FUNC)
    if body is not None:
        for place, (word, type_id) in zip(places, btf.params(btf.type(body).arg), strict=False):
            _add(builder, btf, word, type_id, place)
        return builder.capture()
    fields = _fields(root, name) if kind == "sys" else None
    if fields is None:
        for index, place in enumerate(places):
            builder.register(f"arg{index}", "", [place, place])
        captured = builder.capture()
        note = f"sys_{name}: its types are not known"
        return captured._replace(arguments=captured.arguments._replace(note=note))
    for place, (text, word) in zip(places, fields, strict=False):
        add_by_name(builder, btf, text, word, place)
    return builder.capture()


def syscall_parameters(root: Path, btf: Btf, function: str) -> list[tuple[int, str, int]]:
    """Return a system call's own parameters: offset in ``struct pt_regs``, name, type (0: unknown).

    Empty if ``function`` is not a wrapper, or if its parameters are unknown. ``root``: see
    :func:`syscall_capture`.
    """
    match = _WRAPPER.fullmatch(function)
    if match is None:
        return []
    abi, kind, name = match.groups()
    body = btf.find(f"__do_{kind}_{name}", Kind.FUNC)
    if body is not None:
        params = btf.params(btf.type(body).arg)
        return [
            (offset, one.name, one.type_id)
            for offset, one in zip(_OFFSETS[abi], params, strict=False)
        ]
    fields = _fields(root, name) if kind == "sys" else None
    return [
        (offset, word, 0 if "*" in text else find_type(btf, _plain_type(text)) or 0)
        for offset, (text, word) in zip(_OFFSETS[abi], fields or (), strict=False)
    ]


def _plain_type(text: str) -> str:
    return " ".join(_QUALIFIERS.sub(" ", text).split())


def _add(builder: Builder, btf: Btf, name: str, type_id: int, place: Spec) -> None:
    type_ = btf.resolve(type_id)
    spelled = btf.declare(type_id)
    if type_.kind is Kind.PTR:
        builder.pointer(name, type_.arg, spelled, [place, place])
    else:
        builder.value(name, type_id, spelled, [place, place])


def add_by_name(builder: Builder, btf: Btf, text: str, name: str, place: Spec) -> None:
    """Add an argument with a type in C, such as ``const char *``."""
    plain = " ".join(_QUALIFIERS.sub(" ", text).replace("*", " * ").split())
    base = plain.rstrip("* ")
    stars = plain.count("*")
    type_id = 0 if base == "void" or stars > 1 else find_type(btf, base)
    if stars and type_id is not None:
        builder.pointer(name, type_id, text, [place, place])
    elif type_id:
        builder.value(name, type_id, text, [place, place])
    else:
        builder.register(name, text, [place, place])


def find_type(btf: Btf, base: str) -> int | None:
    """Return the type that C calls ``base``, without pointers and qualifiers, or None.

    A module's own types come before those of the kernel.
    """
    tag, _, name = base.rpartition(" ")
    kinds = (_TAGS[tag],) if tag in _TAGS else (Kind.INT, Kind.TYPEDEF)
    word = name if tag in _TAGS else _SPELLINGS.get(base, base)
    found = btf.find(word, *kinds)
    if found is None and btf.base is not None:
        return btf.base.find(word, *kinds)
    return found


def _fields(root: Path, name: str) -> list[tuple[str, str]] | None:
    """Return type and name of each argument from the call's event in tracefs, or None."""
    for folder in TRACEFS:
        try:
            text = (root / folder / _FORMAT.format(name)).read_text()
        except OSError:
            continue
        found = _FIELD.findall(text)
        return [
            (kind, word)
            for kind, word, offset in found
            if int(offset) >= _COMMON_END and not kind.startswith(_COPIES)
        ]
    return None


#: Suffixes that compilers append to a copy of a function with changed parameters.
_CLONE = re.compile(r"\.(?:isra|constprop|part|cold)\b.*")
#: The suffix that clang appends to a static function that it exports to other units, unchanged.
_RENAMED = re.compile(r"\.llvm\.\d+$")
_NO_BTF = "registers: no BTF"
_CLONED = "registers: a clone of {}, its arguments may have moved"


class CapturePlan(Value):
    """The captures of functions and injected probes by id, and the facts for a reader."""

    captures: tuple[Capture, ...]
    facts: ArgumentFacts
    probes: tuple[Capture, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of captured arguments of each function."""
        return tuple([len(capture.by_context) for capture in self.captures])

    @property
    def probe_counts(self) -> tuple[int, ...]:
        """Return the number of captured arguments of each injected probe."""
        return tuple([len(capture.by_context) for capture in self.probes])

    def packed(self, btf: Btf, *, trampolines: bool) -> list[bytes]:
        """Return ``struct args_plan`` for each function, then again for ``trampolines`` if set.

        The plans of injected probes come last. ``btf``: the BTF of the object that reads the plans.
        """
        pack = plan_packer(btf)
        plans = [pack(capture.by_registers) for capture in self.captures]
        if trampolines:
            plans += [pack(capture.by_context) for capture in self.captures]
        return plans + [pack(capture.by_context) for capture in self.probes]


def plan_captures(
    facts: KernelFacts,
    functions: Sequence[Function],
    limits: Limits,
    plan_probes: Callable[[Limits, TypeTable], tuple[Capture, ...]] = lambda *_: (),
) -> CapturePlan:
    """Return the plan of what to capture of ``functions``, within ``limits``.

    ``plan_probes`` returns the captures of the injected probes. Raise DataError if the user's own
    semantics are invalid.
    """
    types = TypeTable(load_semantics())
    captures = tuple([_capture(facts, function, limits, types) for function in functions])
    probes = plan_probes(limits, types)
    told = ArgumentFacts(
        functions=tuple([one.arguments for one in captures]),
        probes=tuple([one.arguments for one in probes]),
        types=tuple(types.types),
        tags=tuple(types.tags),
    )
    return CapturePlan(captures, told, probes)


def _capture(facts: KernelFacts, function: Function, limits: Limits, types: TypeTable) -> Capture:
    btf: Btf | None = facts.btf if function.module is None else facts.module_btf(function.module)
    machine = facts.machine if facts.machine in REGISTERS else "x86_64"
    if btf is not None and syscall_name(function.name):
        return syscall_capture(facts.root, btf, function.name, limits, types)
    btf_id = function.btf_id
    if btf is not None and btf_id is None and _RENAMED.search(function.name):
        btf_id = btf.find(_RENAMED.sub("", function.name), Kind.FUNC)
    if btf is not None and btf_id is not None:
        return by_prototype(btf, btf_id, machine, limits, types)
    origin = _CLONE.sub("", function.name)
    note = _NO_BTF if origin == function.name else _CLONED.format(origin)
    return registers(machine, note)
