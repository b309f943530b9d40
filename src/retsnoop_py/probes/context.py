# SPDX-License-Identifier: BSD-2-Clause
"""The data at an injected probe: registers, or the arguments of a tracepoint.

A program on a kprobe gets the registers. A program on a raw tracepoint gets its arguments as 64-bit
words. A program on a tracepoint gets its record, in the format of tracefs' ``format`` file.
"""

from __future__ import annotations

from collections.abc import Sequence

from retsnoop_py.kernel.arguments.calling_convention import Location
from retsnoop_py.kernel.arguments.model import (
    Argument,
    CallArguments,
    DataKind,
    DataType,
    Field,
    IntFlags,
    Role,
)
from retsnoop_py.kernel.arguments.plan import add_by_name, find_type
from retsnoop_py.kernel.arguments.specs import (
    MAX_PARAMETERS,
    MAX_SPECS,
    Builder,
    Capture,
    Limits,
    Spec,
    Target,
)
from retsnoop_py.kernel.arguments.types import TypeTable
from retsnoop_py.kernel.btf import POINTER_SIZE, Btf, Kind, Param
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.tracefs import TraceField, Tracepoint, Tracepoints, parse_format
from retsnoop_py.probes.spec import Probe

__all__ = ["ContextPlanner"]

_REGISTERS = "pt_regs"
#: The struct with arm64's registers: the array ``regs[31]``, which is x0 to x30, and named ones.
_NUMBERED, _ARRAY = "user_pt_regs", "regs"
_ITERATOR, _TYPEDEF = "__traceiter_", "btf_trace_"
#: The records of these tracepoints have no dynamic data for BPF, and begin with the number.
_SYSCALLS, _SYSCALL_NUMBER = "syscalls", "__syscall_nr"
#: The first parameter of a tracepoint's function is not the tracepoint's own.
_OWN = 1
#: The capture at a raw tracepoint with unknown parameters: it has at least one.
_FIRST_WORD = Capture(
    CallArguments(
        (Argument("arg0", Role.REGISTER),), "its first argument: no BTF describes the others"
    ),
    (Spec(0),),
    (Spec(0),),
)


class ContextPlanner:
    """Plans what to capture at ``probes``."""

    def __init__(self, facts: KernelFacts, probes: Sequence[Probe]) -> None:
        self._facts = facts
        self._probes = probes
        self._tracepoints = Tracepoints(facts.root)

    def plan(self, limits: Limits, types: TypeTable) -> tuple[Capture, ...]:
        """Return the capture of each probe."""
        return tuple([self._capture(probe, limits, types) for probe in self._probes])

    def _capture(self, probe: Probe, limits: Limits, types: TypeTable) -> Capture:
        btf = self._facts.require_btf()
        tracepoint = probe.tracepoint
        if tracepoint is None:
            return _registers(Builder(btf, limits, types), btf, limits, types)
        own = self._btf_of(tracepoint.name)
        if tracepoint.category:
            fields = _own_fields(tracepoint, self._tracepoints.format_of(tracepoint))
            return _Record(own or btf, limits, types).capture(fields)
        return _words(own, tracepoint.name, limits, types)

    def _btf_of(self, name: str) -> Btf | None:
        """Return the BTF of the module with tracepoint ``name``; it includes the kernel's types."""
        symbols = self._facts.kallsyms.named(_ITERATOR + name)
        module = symbols[0].module if symbols else None
        return self._facts.module_btf(module) if module else self._facts.btf


def _words(btf: Btf | None, name: str, limits: Limits, types: TypeTable) -> Capture:
    """Return the capture of a raw tracepoint's arguments."""
    parameters = _parameters(btf, name) if btf else None
    if btf is None or parameters is None:
        return _FIRST_WORD
    builder = Builder(btf, limits, types)
    for slot, parameter in enumerate(parameters[:MAX_PARAMETERS]):
        location = Location(slot, 1)
        builder.parameter(parameter.name or f"arg{slot}", parameter.type_id, location, location)
    return builder.capture()


def _parameters(btf: Btf, name: str) -> tuple[Param, ...] | None:
    """Return the parameters of a tracepoint; without names if BTF has only its typedef."""
    function = btf.find(_ITERATOR + name, Kind.FUNC)
    if function is not None:
        return btf.params(btf.type(function).arg)[_OWN:]
    alias = btf.find(_TYPEDEF + name, Kind.TYPEDEF)
    pointer = btf.resolve(alias) if alias is not None else None
    if pointer is None or pointer.kind is not Kind.PTR:
        return None
    return btf.params(btf.resolve(pointer.arg).id)[_OWN:]


def _registers(builder: Builder, btf: Btf, limits: Limits, types: TypeTable) -> Capture:
    numbered = btf.find(_NUMBERED, Kind.STRUCT)
    struct = btf.find(_REGISTERS, Kind.STRUCT) if numbered is None else numbered
    if struct is not None:
        size = min(btf.size_of(struct), limits.sized)
        if numbered is None:
            number = types.add(btf, struct, size)
        else:
            number = types.put(_with_names(btf, struct, size, types))
        builder.memory("regs", number, f"struct {_REGISTERS}", Spec(0, 1, Target.BYTES, size))
    return builder.capture()


def _with_names(btf: Btf, struct: int, limit: int, types: TypeTable) -> DataType:
    """Return ``struct user_pt_regs`` with a member per register, up to ``limit`` bytes."""
    fields = []
    for member in btf.members(struct):
        kind, count = member.type_id, 1
        if member.name == _ARRAY:
            kind, count = btf.element(kind)
        number, bits = types.add(btf, kind, limit), 8 * btf.size_of(kind)
        for index in range(count):
            name = f"x{index}" if member.name == _ARRAY else member.name
            fields.append(Field(name, member.bit_offset + index * bits, number))
    kept = tuple(one for one in fields if one.bit_offset < 8 * limit)
    return DataType(DataKind.STRUCT, btf.size_of(struct), _REGISTERS, fields=kept)


def _own_fields(tracepoint: Tracepoint, text: str) -> list[TraceField]:
    fields = parse_format(text)
    if tracepoint.category != _SYSCALLS:
        return list(fields)
    return [one for one in fields if one.name != _SYSCALL_NUMBER and not one.is_dynamic]


class _Record:
    """Plans the capture of a tracepoint's fields."""

    def __init__(self, btf: Btf, limits: Limits, types: TypeTable) -> None:
        self._btf = btf
        self._limits = limits
        self._types = types
        self._builder = Builder(btf, limits, types)

    def capture(self, fields: Sequence[TraceField]) -> Capture:
        """Return the capture of ``fields``, up to the maximum number."""
        for field in fields[:MAX_SPECS]:
            self._add(field)
        captured = self._builder.capture()
        left = len(fields) - MAX_SPECS
        if left <= 0:
            return captured
        note = f"{left} more fields are not captured"
        return captured._replace(arguments=captured.arguments._replace(note=note))

    def _add(self, field: TraceField) -> None:
        builder, limits = self._builder, self._limits
        at = Spec(0, hops=(field.offset,))
        if field.is_dynamic:
            element = self._element(field)
            size = limits.text if self._is_char(element) else limits.sized
            start = field.offset + field.size if field.is_relative else 0
            spec = at._replace(target=Target.LOCATED, size=size, offset=start)
            builder.located(field.name, element, f"{field.type} []", spec)
        elif field.is_array:
            element = self._element(field)
            length = field.size // (self._types.types[element].size or 1)
            array = DataType(DataKind.ARRAY, field.size, element=element, length=length)
            self._memory(field, self._types.put(array), f"{field.type} [{length}]")
        elif "*" in field.type:
            add_by_name(builder, self._btf, field.type, field.name, at)
        elif field.size > POINTER_SIZE:
            known = self._known(field, field.size)
            self._memory(field, self._bytes(field) if known is None else known, field.type)
        else:
            known = self._known(field, field.size)
            number = self._integer(field, field.size) if known is None else known
            builder.number(field.name, number, field.type, at)

    def _memory(self, field: TraceField, number: int, spelled: str) -> None:
        size = min(field.size, self._limits.sized)
        spec = Spec(0, 1, Target.BYTES, size, field.offset)
        self._builder.memory(field.name, number, spelled, spec)

    def _known(self, field: TraceField, size: int) -> int | None:
        """Return the type by its name, if BTF has it and it is not larger than the field."""
        type_id = find_type(self._btf, field.type)
        found = self._btf.size_of(type_id) if type_id else 0
        if not type_id or not 0 < found <= size:
            return None
        return self._types.add(self._btf, type_id, min(found, self._limits.sized))

    def _element(self, field: TraceField) -> int:
        known = self._known(field, max(field.size, POINTER_SIZE))
        return self._integer(field, 1) if known is None else known

    def _integer(self, field: TraceField, size: int) -> int:
        flags = IntFlags.SIGNED if field.is_signed else 0
        return self._types.put(DataType(DataKind.INT, size, field.type, flags=flags))

    def _bytes(self, field: TraceField) -> int:
        element = self._types.put(DataType(DataKind.INT, 1, "u8"))
        return self._types.put(DataType(DataKind.ARRAY, field.size, "", "", 0, element, field.size))

    def _is_char(self, number: int) -> bool:
        return bool(self._types.types[number].flags & IntFlags.CHAR)
