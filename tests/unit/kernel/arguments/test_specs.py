# SPDX-License-Identifier: BSD-2-Clause
"""From prototypes to what is captured, with BTF made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter

from retsnoop_py.kernel.arguments.calling_convention import STACK_SLOT
from retsnoop_py.kernel.arguments.model import DataKind, DataType, Role
from retsnoop_py.kernel.arguments.plan import syscall_capture, syscall_name
from retsnoop_py.kernel.arguments.specs import (
    MAX_SPECS,
    Capture,
    Limits,
    Spec,
    Target,
    by_prototype,
    plan_packer,
    registers,
)
from retsnoop_py.kernel.arguments.types import TypeTable
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.btf_struct import constants


class Types:
    """A small kernel's types."""

    def __init__(self) -> None:
        w = self.writer = BtfWriter()
        self.int = w.int("int", 4, SIGNED)
        self.uint = w.int("unsigned int", 4)
        self.long = w.int("long unsigned int", 8)
        self.char = w.int("char", 1, SIGNED)
        self.text = w.ptr(w.add(Kind.CONST, "", self.char))
        self.pointer = w.ptr(0)
        self.pair = w.struct("pair", 16, [("a", self.long, 0), ("b", self.long, 64)])
        self.large = w.struct("large", 24, [(n, self.long, i * 64) for i, n in enumerate("abc")])
        qstr = w.struct("qstr", 16, [("len", self.long, 0), ("name", self.text, 64)])
        self.dentry = w.struct("dentry", 48, [("d_flags", self.long, 0), ("d_name", qstr, 128)])
        path = w.struct("path", 16, [("mnt", self.pointer, 0), ("dentry", w.ptr(self.dentry), 64)])
        # f_path is in an anonymous union since 6.12
        union = w.add(Kind.UNION, "", 16, [w.string("f_path"), path, 0], 1)
        self.file = w.struct("file", 400, [("f_mode", self.uint, 0), ("", union, 64 * 8)])
        comm = w.array(self.char, 16)
        self.task = w.struct("task_struct", 4096, [("flags", self.long, 0), ("comm", comm, 24000)])
        self.funcs: dict[str, int] = {}

    def capture(
        self, *params: tuple[str, int], machine: str = "x86_64", limits: Limits | None = None
    ) -> tuple[Capture, list[DataType]]:
        func = self.writer.func("f", self.int, params)
        table = TypeTable()
        btf = Btf(self.writer.bytes())
        found = by_prototype(btf, func, machine, limits or Limits(), table)
        return found, table.types


@pytest.fixture
def types() -> Types:
    return Types()


def roles(capture: Capture) -> list[tuple[str, int]]:
    return [(one.name, one.role) for one in capture.arguments.arguments]


def test_numbers_text_and_pointers(types: Types) -> None:
    pair = types.writer.ptr(types.pair)
    got, table = types.capture(("n", types.int), ("s", types.text), ("p", pair))
    assert roles(got) == [("n", Role.VALUE), ("s", Role.STRING), ("p", Role.POINTER)]
    assert got.by_registers == (
        Spec(0),
        Spec(1, 1, Target.STRING, 256),
        Spec(2, 1, Target.BYTES, 16),
    )
    assert got.by_context == got.by_registers
    target = table[got.arguments.arguments[2].target]
    assert (target.kind, target.name, target.size) == (DataKind.STRUCT, "pair", 16)
    assert [field.name for field in target.fields] == ["a", "b"]


def test_a_void_pointer_is_not_followed(types: Types) -> None:
    got, _ = types.capture(("p", types.pointer))
    assert (roles(got), got.by_registers) == ([("p", Role.VALUE)], (Spec(0),))


def test_structs_by_value(types: Types) -> None:
    params = (("p", types.pair), ("l", types.large), ("n", types.int))
    got, _ = types.capture(*params)
    assert roles(got) == [("p", Role.VALUE), ("l", Role.WHOLE), ("n", Role.VALUE)]
    assert got.by_registers == (
        Spec(0, 2),
        Spec(STACK_SLOT, 1, Target.BYTES, 24, 8),
        Spec(2),
    )
    got, _ = types.capture(*params, machine="aarch64")
    assert got.by_registers == (Spec(0, 2), Spec(2, 1, Target.BYTES, 24), Spec(3))


def test_more_parameters_than_registers_are_on_the_stack(types: Types) -> None:
    got, _ = types.capture(*[(f"a{i}", types.long) for i in range(14)])
    assert len(got.by_registers) == 12
    assert got.arguments.is_cut
    assert got.by_registers[6:8] == (
        Spec(STACK_SLOT, hops=(8,)),
        Spec(STACK_SLOT, hops=(16,)),
    )
    assert got.by_context[6:8] == (Spec(6), Spec(7))


def test_no_more_is_read_than_the_limits_allow_and_the_types_end_there(types: Types) -> None:
    task = types.writer.ptr(types.task)
    got, table = types.capture(("t", task), ("s", types.text), limits=Limits(64, 32))
    assert got.by_registers[0].size == 64
    assert got.by_registers[2].size == 32
    target = table[got.arguments.arguments[0].target]
    assert (target.size, [field.name for field in target.fields]) == (4096, ["flags"])


def test_names_of_files_and_threads_are_found_by_following_members(types: Types) -> None:
    file, task = types.writer.ptr(types.file), types.writer.ptr(types.task)
    got, _ = types.capture(("f", file), ("t", task))
    assert [role for _, role in roles(got)] == [Role.POINTER, Role.NAME, Role.POINTER, Role.NAME]
    assert got.by_registers[1] == Spec(0, 1, Target.STRING, 256, 0, (64 + 8, 16 + 8))
    assert got.by_registers[3] == Spec(1, 1, Target.STRING, 256, 3000)


def test_names_take_no_parameters_place(types: Types) -> None:
    file = types.writer.ptr(types.file)
    got, _ = types.capture(*[(f"f{i}", file) for i in range(12)])
    assert [role for _, role in roles(got)].count(Role.POINTER) == 12
    assert len(got.by_registers) == 16
    assert not got.arguments.is_cut


def test_what_follows_a_format_is_captured(types: Types) -> None:
    got, _ = types.capture(("n", types.int), ("fmt", types.text), ("", 0))
    assert roles(got)[1:4] == [
        ("fmt", Role.STRING),
        ("vararg0", Role.VARARG),
        ("vararg1", Role.VARARG),
    ]
    assert len(got.by_registers) == 12
    assert got.by_registers[2] == Spec(2, 1, Target.GUESS, 256)
    assert got.by_registers[6] == Spec(STACK_SLOT, 1, Target.GUESS, 256, hops=(8,))
    got, _ = types.capture(("n", types.int), ("", 0))
    assert roles(got) == [("n", Role.VALUE)]


def test_registers_of_functions_nothing_is_known_of() -> None:
    got = registers("aarch64", "no BTF")
    assert [name for name, _ in roles(got)] == [f"x{i}" for i in range(8)]
    assert (got.arguments.note, got.by_registers[7]) == ("no BTF", Spec(7))


def test_a_plan_as_the_kernel_side_reads_it(object_btf: Btf) -> None:
    packed = plan_packer(object_btf)((Spec(3, 2, Target.STRING, 0x1234, 0x56, (1, 2)),))
    assert len(packed) == 8 + MAX_SPECS * 16
    assert packed[:24] == bytes.fromhex("0100000000000000 0302021034125600 0100020000000000")


def test_targets_are_those_of_the_kernel_side(object_btf: Btf) -> None:
    assert {f"ARG_{one.name}": one.value for one in Target} == constants(object_btf, "arg_target")


FORMAT = """name: sys_enter_openat
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:struct pair * p;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned long n;\toffset:40;\tsize:8;\tsigned:0;
\tfield:unknown_t u;\toffset:48;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] __filename_val;\toffset:56;\tsize:4;\tsigned:0;
"""


@pytest.fixture
def syscall(types: Types, tmp_path: Path) -> Callable[[str], Capture]:
    def capture(function: str) -> Capture:
        btf = Btf(types.writer.bytes())
        return syscall_capture(tmp_path, btf, function, Limits(), TypeTable())

    return capture


def test_a_system_calls_own_arguments_by_its_event(
    syscall: Callable[[str], Capture], tmp_path: Path
) -> None:
    folder = tmp_path / "sys/kernel/tracing/events/syscalls/sys_enter_openat"
    folder.mkdir(parents=True)
    (folder / "format").write_text(FORMAT)
    got = syscall("__x64_sys_openat")
    assert roles(got) == [
        ("dfd", Role.VALUE),
        ("filename", Role.STRING),
        ("p", Role.POINTER),
        ("n", Role.VALUE),
        ("u", Role.REGISTER),
    ]
    assert got.by_registers[1] == Spec(0, 1, Target.STRING, 256, hops=(104,))
    assert got.by_context == got.by_registers
    assert syscall("__arm64_sys_openat").by_registers[1].hops == (8,)


def test_a_system_calls_own_arguments_by_its_body(
    types: Types, syscall: Callable[[str], Capture]
) -> None:
    types.writer.func("__do_sys_openat", types.long, [("dfd", types.int), ("name", types.text)])
    got = syscall("__ia32_sys_openat")
    assert roles(got) == [("dfd", Role.VALUE), ("name", Role.STRING)]
    assert [spec.hops for spec in got.by_registers] == [(40,), (88,)]


def test_a_system_call_nothing_tells_of_has_its_registers(
    syscall: Callable[[str], Capture],
) -> None:
    got = syscall("__x64_sys_openat")
    assert got.arguments.note
    assert roles(got) == [(f"arg{i}", Role.REGISTER) for i in range(6)]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("__x64_sys_openat", "openat"),
        ("__arm64_sys_read", "read"),
        ("__ia32_compat_sys_ioctl", "ioctl"),
        ("__se_sys_openat", None),
        ("x64_sys_call", None),
        ("ksys_read", None),
    ],
)
def test_wrappers_of_system_calls(function: str, name: str | None) -> None:
    assert syscall_name(function) == name
