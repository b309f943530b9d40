# SPDX-License-Identifier: BSD-2-Clause
"""vmlinux/generate.py, which cuts the kernel types that src/bpf uses out of a kernel's BTF."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType

import pytest

VMLINUX = Path(__file__).resolve().parents[3] / "vmlinux"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", VMLINUX / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blob(types: bytes, strings: bytes) -> bytes:
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return header + types + strings


KERNEL_TYPES = [
    {"id": 1, "kind": "INT", "name": "int", "size": 4},
    {"id": 2, "kind": "TYPEDEF", "name": "__kernel_pid_t", "type_id": 1},
    {"id": 3, "kind": "TYPEDEF", "name": "pid_t", "type_id": 2},
    {"id": 4, "kind": "STRUCT", "name": "task_struct", "members": []},
    {"id": 5, "kind": "PTR", "name": "(anon)", "type_id": 4},
    {"id": 6, "kind": "INT", "name": "char", "size": 1},
    {"id": 7, "kind": "ARRAY", "name": "(anon)", "type_id": 6, "nr_elems": 16},
    {"id": 8, "kind": "CONST", "name": "(anon)", "type_id": 6},
    {"id": 9, "kind": "PTR", "name": "(anon)", "type_id": 8},
    {"id": 10, "kind": "UNION", "name": "(anon)", "members": [{"name": "pid", "type_id": 3}]},
    {
        "id": 11,
        "kind": "STRUCT",
        "name": "outer",
        "members": [{"name": "(anon)", "type_id": 10}, {"name": "tgid", "type_id": 3}],
    },
]


@pytest.mark.parametrize(
    ("type_id", "text"),
    [
        (3, "pid_t x"),
        (5, "struct task_struct *x"),
        (7, "char x[16]"),
        (9, "const char *x"),
        (0, "void x"),
    ],
)
def test_types_are_declared_as_c_does(generate: ModuleType, type_id: int, text: str) -> None:
    assert generate.Types(KERNEL_TYPES).declare(type_id, "x") == text


def test_typedefs_come_before_what_needs_them(generate: ModuleType) -> None:
    found = [one["name"] for one in generate.Types(KERNEL_TYPES).typedefs(3)]
    assert found == ["__kernel_pid_t", "pid_t"]


def test_members_of_anonymous_unions_count_as_the_structs_own(generate: ModuleType) -> None:
    types = generate.Types(KERNEL_TYPES)
    outer = types.named("STRUCT", "outer")
    assert [one["name"] for one in types.members(outer)] == ["pid", "tgid"]


def test_btf_is_found_in_a_kernel_image(generate: ModuleType) -> None:
    small, large = blob(b"", b"\0"), blob(bytes(64), b"\0name\0")
    image = b"MZ" + bytes(100) + small + b"\x9f\xeb\x01\x00" + bytes(10) + large + bytes(50)
    assert generate.raw_btf(image) == large


def test_file_without_btf_is_refused_with_a_reason(generate: ModuleType) -> None:
    with pytest.raises(generate.GenerateError, match="must be unpacked first"):
        generate.raw_btf(b"\x1f\x8b" + bytes(1000))


def test_kernel_that_lacks_a_type_is_refused_by_name(generate: ModuleType) -> None:
    with pytest.raises(generate.GenerateError, match="no struct kprobe"):
        generate.Types(KERNEL_TYPES).named("STRUCT", "kprobe")


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_header_holds_what_the_tables_ask_for(generate: ModuleType, arch: str) -> None:
    text = (VMLINUX / arch / "vmlinux.h").read_text()
    for name, members in {**generate.STRUCTS, **generate.REGISTERS[arch]}.items():
        body = re.search(rf"^struct {name} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)
        assert body is not None, name
        found = re.findall(r"(\w+)(?:\[\d+\])?;", body.group(1))
        assert sorted(found) == sorted(members)
    for names in (*generate.ENUMS.values(), generate.CONSTANTS):
        for name in names:
            assert re.search(rf"^\t{name} = \d+,$", text, re.MULTILINE), name
    for name in generate.TYPEDEFS:
        assert re.search(rf"^typedef .*\b{name};$", text, re.MULTILINE), name
