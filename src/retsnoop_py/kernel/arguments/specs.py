# SPDX-License-Identifier: BSD-2-Clause
"""Plan the capture of a function's arguments: by its prototype, or its plain registers.

For kernel objects, their names are captured as well, such as the name of a file, thread or device.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from retsnoop_py.kernel.arguments.calling_convention import (
    REGISTERS,
    STACK_SLOT,
    Location,
    Passed,
    locations,
)
from retsnoop_py.kernel.arguments.model import Argument, CallArguments, DataKind, DataType, Role
from retsnoop_py.kernel.arguments.types import TypeTable, natural_alignment
from retsnoop_py.kernel.btf import POINTER_SIZE, Btf, Kind, Param, Type
from retsnoop_py.kernel.btf_struct import BtfStruct
from retsnoop_py.value import Value

#: The path from a struct to its name, member by member; all but the last are pointers or names of
#: nested members.
NAMED: dict[str, tuple[str, ...]] = {
    "file": ("f_path.dentry", "d_name.name"),
    "path": ("dentry", "d_name.name"),
    "dentry": ("d_name.name",),
    "qstr": ("name",),
    "filename": ("name",),
    "linux_binprm": ("filename",),
    "task_struct": ("comm",),
    "net_device": ("name",),
    "super_block": ("s_id",),
    "module": ("name",),
    "file_system_type": ("name",),
    "kernfs_node": ("name",),
    "kmem_cache": ("name",),
    "kobject": ("name",),
    "device": ("kobj.name",),
    "gendisk": ("disk_name",),
    "bpf_map": ("name",),
    "bpf_prog": ("aux", "name"),
    "cgroup": ("kn", "name"),
}


def name_path(
    btf: Btf, struct_id: int, members: tuple[str, ...]
) -> tuple[tuple[int, ...], int] | None:
    """Return the path from a struct to its name: offsets of pointers, and a last offset.

    None if this kernel stores the name elsewhere. All offsets are in bytes.
    """
    hops: list[int] = []
    type_ = btf.resolve(struct_id)
    for position, dotted in enumerate(members):
        offset = 0
        for name in dotted.split("."):
            found = _member(btf, type_, name)
            if found is None:
                return None
            offset, type_ = offset + found[0], found[1]
        if type_.kind is Kind.ARRAY and position == len(members) - 1:
            return tuple(hops), offset
        if type_.kind is not Kind.PTR:
            return None
        hops.append(offset)
        type_ = btf.resolve(type_.arg)
    return tuple(hops), 0


def _member(btf: Btf, type_: Type, name: str, depth: int = 0) -> tuple[int, Type] | None:
    """Return offset in bytes and type of a member, also in anonymous structs and unions."""
    if type_.kind not in (Kind.STRUCT, Kind.UNION) or depth > _DEEPEST:
        return None
    for member in btf.members(type_.id):
        inner = btf.resolve(member.type_id)
        offset = member.bit_offset // 8
        if member.name == name:
            return offset, inner
        if not member.name:
            below = _member(btf, inner, name, depth + 1)
            if below is not None:
                return offset + below[0], below[1]
    return None


_DEEPEST = 8


#: ARGS_MAX and ARGS_HOPS of src/bpf/args.bpf.h.
MAX_SPECS = 16
_MAX_HOPS = 4
MAX_PARAMETERS = 12
#: Socket addresses that are longer than their declared struct.
_LONGER = {"sockaddr": 110, "sockaddr_unsized": 110}
_VOID = 0


class Target(IntEnum):
    """``enum arg_target`` of ``src/bpf/args.bpf.h``."""

    NONE = 0
    BYTES = 1
    STRING = 2
    GUESS = 3
    LOCATED = 4


class Limits(Value):
    """Maximum bytes of a target of fixed size, and of a string."""

    sized: int = 256
    text: int = 256


class Spec(NamedTuple):
    """``struct arg_plan``: from ``slot`` follow ``hops``, then read ``size`` target bytes."""

    slot: int
    words: int = 1
    target: Target = Target.NONE
    size: int = 0
    offset: int = 0
    hops: tuple[int, ...] = ()

    def pack(self, pack: Callable[..., bytes]) -> bytes:
        """Return the bytes for the BPF side; ``pack`` packs its struct."""
        hops = (*self.hops, *(0,) * (_MAX_HOPS - len(self.hops)))
        value = min(self.words, 2) * POINTER_SIZE
        return pack(self.slot, self.target, len(self.hops), value, self.size, self.offset, *hops)


class Capture(NamedTuple):
    """The captured arguments of a function, for programs on kprobes and on trampolines."""

    arguments: CallArguments
    by_registers: tuple[Spec, ...] = ()
    by_context: tuple[Spec, ...] = ()


def plan_packer(btf: Btf) -> Callable[[tuple[Spec, ...]], bytes]:
    """Return a function that packs specs as ``struct args_plan``, by BTF of the reading object."""
    pack = BtfStruct(btf, "arg_plan").packer(
        *("slot", "target", "hops", "value", "size", "offset", "hop")
    )
    pack_all = BtfStruct(btf, "args_plan").packer("cnt", "args")
    return lambda specs: pack_all(len(specs), b"".join([spec.pack(pack) for spec in specs]))


def registers(machine: str, note: str) -> Capture:
    """Return a capture of all argument registers, for a function with unknown parameters."""
    names = REGISTERS[machine]
    arguments = tuple(Argument(name, Role.REGISTER) for name in names)
    specs = tuple(Spec(slot) for slot in range(len(names)))
    return Capture(CallArguments(arguments, note), specs, specs)


def by_prototype(btf: Btf, func_id: int, machine: str, limits: Limits, types: TypeTable) -> Capture:
    """Return the capture for the parameters of function ``func_id``."""
    parameters = list(btf.params(btf.type(func_id).arg))
    is_variadic = bool(parameters) and parameters[-1].type_id == _VOID
    if is_variadic:
        parameters.pop()
    room = Builder(btf, limits, types, btf.type(func_id).name)
    passed = [room.passed(parameter) for parameter in parameters]
    if is_variadic:
        passed += [Passed(POINTER_SIZE)] * max(MAX_PARAMETERS - len(parameters), 0)
    both = [locations(machine, passed, trampoline=trampoline) for trampoline in (False, True)]
    by_registers, by_context = both
    for index, parameter in enumerate(parameters[:MAX_PARAMETERS]):
        name = parameter.name or f"arg{index}"
        room.parameter(name, parameter.type_id, by_registers[index], by_context[index])
    if is_variadic and room.ends_in_format():
        first = len(parameters)
        for index, place in enumerate(by_registers[first:MAX_PARAMETERS]):
            room.vararg(index, place, by_context[first + index])
    captured = room.capture()
    if len(parameters) > MAX_PARAMETERS:
        cut = captured.arguments._replace(is_cut=True)
        captured = captured._replace(arguments=cut)
    return captured


class Builder:
    """Build the capture of a function."""

    def __init__(self, btf: Btf, limits: Limits, types: TypeTable, function: str = "") -> None:
        self._btf = btf
        self._function = function
        self._limits = limits
        self._types = types
        self._arguments: list[Argument] = []
        self._by_registers: list[Spec] = []
        self._by_context: list[Spec] = []
        self._names = 0

    def capture(self) -> Capture:
        """Return the capture."""
        for position, argument in enumerate(self._arguments):
            if argument.role == Role.POINTER:
                self._add_tag(position, argument)
        arguments = CallArguments(tuple(self._arguments))
        return Capture(arguments, tuple(self._by_registers), tuple(self._by_context))

    def _add_tag(self, position: int, argument: Argument) -> None:
        """Add to a pointer the tag that selects the variant of its target, if there is one."""
        known = self._types.tagged_by_argument(argument.target)
        if known is None:
            return
        rule, told = known.rule, self._arguments
        tag = next((i for i, one in enumerate(told) if one.name == rule.argument), None)
        if tag is not None and told[tag].role == Role.VALUE:
            number = self._types.as_constants(self._btf, told[tag].type, rule.enum)
            told[tag] = told[tag]._replace(type=number)
            told[position] = argument._replace(tag=tag)
            return
        value = known.variant_in(self._function)
        if value is not None:
            variant = self._types.variant(self._btf, rule, value)
            told[position] = argument._replace(variant=variant)

    def passed(self, parameter: Param) -> Passed:
        """Return a parameter as the calling conventions need it."""
        type_ = self._btf.resolve(parameter.type_id)
        size = self._btf.size_of(type_.id)
        if type_.kind in (Kind.STRUCT, Kind.UNION):
            alignment, aligned = natural_alignment(self._btf, type_.id)
            return Passed(size, alignment, not aligned)
        if type_.kind is Kind.FLOAT:
            return Passed(0)
        return Passed(size, max(size, 1))

    def parameter(self, name: str, type_id: int, *found: Location) -> None:
        """Add a parameter of the prototype, at any location."""
        type_ = self._btf.resolve(type_id)
        spelled = self._btf.declare(type_id)
        if type_.kind is Kind.FLOAT:
            argument = Argument(name, Role.ELSEWHERE, spelled=spelled)
            self._add(argument, *(Spec(0) for _ in found))
            return
        size = self._btf.size_of(type_.id)
        in_memory = [p.by_reference or (p.on_stack and size > POINTER_SIZE) for p in found]
        if any(in_memory):
            self._whole(name, type_id, spelled, found)
        elif type_.kind is Kind.PTR:
            self.pointer(name, type_.arg, spelled, [_value(location) for location in found])
        else:
            self.value(name, type_id, spelled, [_value(location) for location in found])

    def value(self, name: str, type_id: int, spelled: str, specs: list[Spec]) -> None:
        """Add a number, or a struct in registers."""
        number = self._types.add(self._btf, type_id, max(self._btf.size_of(type_id), 1))
        enum = self._types.semantics.enum_of(self._function, name)
        if enum is not None:
            number = self._types.as_constants(self._btf, number, enum)
        self._add(Argument(name, Role.VALUE, number, spelled=spelled), *specs)

    def register(self, name: str, spelled: str, specs: list[Spec]) -> None:
        """Add a register of unknown type."""
        self._add(Argument(name, Role.REGISTER, spelled=spelled), *specs)

    def vararg(self, index: int, *found: Location) -> None:
        """Add an argument after a format: a number or possibly a string."""
        argument = Argument(f"vararg{index}", Role.VARARG)
        specs = [_value(location) for location in found]
        self._add(argument, *_reading(specs, Target.GUESS, self._limits.text))

    def ends_in_format(self) -> bool:
        """Return True if the last parameter is text and so probably a format."""
        return bool(self._arguments) and self._arguments[-1].role == Role.STRING

    def _whole(self, name: str, type_id: int, spelled: str, found: tuple[Location, ...]) -> None:
        """Add a struct in memory; trampolines do not support such functions."""
        size = min(self._btf.size_of(type_id), self._limits.sized)
        number = self._types.add(self._btf, type_id, size)
        specs = []
        for location in found:
            if location.by_reference:
                spec = _value(location)._replace(target=Target.BYTES, size=size)
            elif location.on_stack:
                spec = Spec(STACK_SLOT, 1, Target.BYTES, size, location.offset)
            else:
                spec = _value(location)
            specs.append(spec)
        self._add(Argument(name, Role.WHOLE, target=number, spelled=spelled), *specs)

    def memory(self, name: str, number: int, spelled: str, spec: Spec) -> None:
        """Add the bytes at an address, of type ``number``."""
        self._add(Argument(name, Role.WHOLE, target=number, spelled=spelled), spec, spec)

    def located(self, name: str, number: int, spelled: str, spec: Spec) -> None:
        """Add an array of type ``number``; a word has its size and its place."""
        self._add(Argument(name, Role.LOCATED, target=number, spelled=spelled), spec, spec)

    def number(self, name: str, number: int, spelled: str, spec: Spec) -> None:
        """Add a number of type ``number``."""
        self._add(Argument(name, Role.VALUE, number, spelled=spelled), spec, spec)

    def pointer(self, name: str, target_id: int, spelled: str, specs: list[Spec]) -> None:
        """Add a pointer to type ``target_id``."""
        target = self._btf.resolve(target_id)
        pointer = self._types.put(DataType(DataKind.PTR, POINTER_SIZE))
        note = self._types.semantics.note_of(self._function, name)
        if note is not None:
            self._add(Argument(name, Role.VALUE, pointer, spelled=spelled, note=note), *specs)
            return
        if target.kind is Kind.INT and target.name == "char":
            argument = Argument(name, Role.STRING, pointer, spelled=spelled)
            self._add(argument, *_reading(specs, Target.STRING, self._limits.text))
            return
        size = self._btf.size_of(target.id)
        if not size or target.kind is Kind.PTR:
            self._add(Argument(name, Role.VALUE, pointer, spelled=spelled), *specs)
            return
        size = min(_LONGER.get(target.name, size), self._limits.sized)
        number = self._types.add(self._btf, target_id, size)
        argument = Argument(name, Role.POINTER, pointer, number, spelled)
        self._add(argument, *_reading(specs, Target.BYTES, size))
        if target.name in NAMED and target.kind is Kind.STRUCT:
            self._name(target.id, NAMED[target.name], specs)

    def _name(self, struct_id: int, members: tuple[str, ...], specs: list[Spec]) -> None:
        """Add the name of a pointer's target, if this kernel stores the name at the known place."""
        path = name_path(self._btf, struct_id, members)
        if path is None or self._names == MAX_SPECS - MAX_PARAMETERS:
            return
        hops, offset = path
        found = _reading(specs, Target.STRING, self._limits.text)
        named = [spec._replace(hops=(*spec.hops, *hops), offset=offset) for spec in found]
        if all(len(spec.hops) <= _MAX_HOPS for spec in named):
            self._names += 1
            self._add(Argument("", Role.NAME), *named)

    def _add(self, argument: Argument, by_registers: Spec, by_context: Spec) -> None:
        self._arguments.append(argument)
        self._by_registers.append(by_registers)
        self._by_context.append(by_context)


def _reading(specs: list[Spec], target: Target, size: int) -> list[Spec]:
    """Return the same places, with the target to read."""
    return [spec._replace(target=target, size=size) for spec in specs]


def _value(location: Location) -> Spec:
    """Return the spec of a value at ``location``, in registers or in one word on the stack."""
    if location.on_stack:
        return Spec(STACK_SLOT, 1, hops=(location.offset,))
    return Spec(location.slot, location.words)
