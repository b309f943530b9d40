#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Write vmlinux/ARCH/vmlinux.h: the kernel types that src/bpf uses, cut out of a kernel's BTF.

    python3 vmlinux/generate.py --btf /sys/kernel/btf/vmlinux --arch x86_64
    python3 vmlinux/generate.py --btf Image --arch aarch64

``--btf`` takes raw BTF (as in ``/sys/kernel/btf/vmlinux``), an ELF file with a ``.BTF`` section, or
an uncompressed kernel image, in which the BTF is searched. ``bpftool`` reads it.

A complete dump has 130,000 lines that change with every kernel. BPF programs need the few members
they name: CO-RE looks the others' offsets up on the kernel that loads the program. So the tables
below say what is used; a new use in src/bpf is a new word here. Take the newest kernel at hand, so
that its enumerators are known.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

TYPEDEFS = (
    *("__u8", "__s8", "__u16", "__s16", "__u32", "__s32", "__u64", "__s64"),
    *("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "bool"),
    *("__be16", "__be32", "__wsum"),  # bpf_helper_defs.h names these
)

STRUCTS: dict[str, tuple[str, ...]] = {
    "ns_common": ("inum",),
    "pid_namespace": ("ns",),
    "upid": ("nr", "ns"),
    "pid": ("level", "numbers"),
    "task_struct": (
        *("stack", "pid", "tgid", "group_leader", "thread_pid", "nvcsw", "nivcsw", "comm"),
        *("files", "signal"),
    ),
    "bpf_iter_meta": ("seq",),
    "bpf_iter__task": ("meta", "task"),
    "kprobe": ("addr",),
}

# What is the same on every kernel: the loader would go through all of the kernel's types for each.
FIXED: dict[str, tuple[str, ...]] = {
    "bpf_raw_tracepoint_args": ("args",),
}

# The registers that the macros of bpf_tracing.h name.
REGISTERS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "pt_regs": ("bp", "r9", "r8", "ax", "cx", "dx", "si", "di", "ip", "sp"),
    },
    "aarch64": {
        "user_pt_regs": ("regs", "sp", "pc"),
    },
}

ENUMS: dict[str, tuple[str, ...]] = {
    "bpf_map_type": (
        "BPF_MAP_TYPE_HASH",
        "BPF_MAP_TYPE_ARRAY",
        "BPF_MAP_TYPE_PERF_EVENT_ARRAY",
        "BPF_MAP_TYPE_PERCPU_ARRAY",
        "BPF_MAP_TYPE_RINGBUF",
    ),
}

#: Enumerators of enums that have no name.
CONSTANTS = (
    "false",
    "true",
    "BPF_ANY",
    "BPF_F_CURRENT_CPU",
    "BPF_F_USER_STACK",
    "BPF_F_USER_BUILD_ID",
    "BPF_RB_NO_WAKEUP",
    "BPF_RB_FORCE_WAKEUP",
    "BPF_RB_AVAIL_DATA",
)

MODIFIERS = {"CONST": "const ", "VOLATILE": "volatile ", "RESTRICT": "", "TYPE_TAG": ""}

HEADER = """\
/* SPDX-License-Identifier: BSD-2-Clause */
/* Made by vmlinux/generate.py for {arch}: change its tables, not this file. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
"""

MIDDLE = "#pragma clang attribute pop"

FOOTER = """
#endif
"""

Type = dict[str, Any]


class GenerateError(Exception):
    """The BTF could not be read, or lacks something the tables ask for."""


class Types:
    """The types of one kernel, and how C spells them."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._by_id: dict[int, Type] = {int(one["id"]): one for one in types}
        self._named: dict[tuple[str, str], Type] = {}
        for one in types:
            self._named.setdefault((one["kind"], one["name"]), one)

    def named(self, kind: str, name: str) -> Type:
        """The first type of this kind and name; GenerateError if there is none."""
        try:
            return self._named[kind, name]
        except KeyError:
            raise GenerateError(f"this BTF has no {kind.lower()} {name}") from None

    def enums(self) -> Iterator[Type]:
        """Every enum that has no name."""
        for one in self._by_id.values():
            if one["kind"] in ("ENUM", "ENUM64") and one["name"] == "(anon)":
                yield one

    def members(self, one: Type) -> Iterator[Type]:
        """A struct's members, those of anonymous structs and unions in it included."""
        for member in one["members"]:
            inner = self._by_id.get(member["type_id"], {})
            if member["name"] == "(anon)" and inner.get("kind") in ("STRUCT", "UNION"):
                yield from self.members(inner)
            else:
                yield member

    def declare(self, type_id: int, name: str) -> str:
        """The C declaration of ``name`` as this type, without the semicolon."""
        one = self._by_id.get(type_id, {"kind": "VOID"})
        kind = one["kind"]
        if kind == "PTR":
            return self.declare(one["type_id"], f"*{name}")
        if kind == "ARRAY":
            return self.declare(one["type_id"], f"{name}[{one['nr_elems']}]")
        if kind in MODIFIERS:
            return MODIFIERS[kind] + self.declare(one["type_id"], name)
        if kind in ("STRUCT", "UNION", "ENUM"):
            return f"{kind.lower()} {one['name']} {name}"
        if kind in ("INT", "TYPEDEF", "VOID"):
            spelling = "void" if kind == "VOID" else one["name"]
            return f"{spelling} {name}"
        raise GenerateError(f"cannot declare {name}: a {kind.lower()} is not handled")

    def typedefs(self, type_id: int) -> Iterator[Type]:
        """The typedefs a declaration needs, the innermost first."""
        one = self._by_id.get(type_id, {"kind": "VOID"})
        if one["kind"] in ("PTR", "ARRAY", "TYPEDEF", *MODIFIERS):
            yield from self.typedefs(one["type_id"])
        if one["kind"] == "TYPEDEF":
            yield one

    def structs(self, type_id: int) -> Iterator[str]:
        """The structs a declaration points to."""
        one = self._by_id.get(type_id, {"kind": "VOID"})
        if one["kind"] in ("PTR", "ARRAY", *MODIFIERS):
            yield from self.structs(one["type_id"])
        elif one["kind"] == "STRUCT":
            yield one["name"]


def raw_btf(data: bytes) -> bytes:
    """The BTF inside ``data``: the whole of it, or the largest one in a kernel image."""
    best = b""
    for found in re.finditer(rb"\x9f\xeb\x01\x00", data):
        at = found.start()
        if len(data) < at + 24:
            break
        size, _, type_len, str_off, str_len = struct.unpack_from("<IIIII", data, at + 4)
        end = at + size + str_off + str_len
        if size >= 24 and type_len <= str_off and len(best) < end - at <= len(data) - at:
            best = data[at:end]
    if not best:
        raise GenerateError("no BTF in this file; a compressed kernel image must be unpacked first")
    return best


def read_types(path: Path) -> Types:
    """The types of the BTF in ``path``."""
    with tempfile.NamedTemporaryFile(suffix=".btf") as raw:
        raw.write(raw_btf(path.read_bytes()))
        raw.flush()
        command = ["bpftool", "--json", "btf", "dump", "file", raw.name, "format", "raw"]
        run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode:
        raise GenerateError(f"bpftool: {run.stdout.decode().strip() or run.stderr.decode()}")
    return Types(json.loads(run.stdout)["types"])


def render_enum(name: str, values: Sequence[tuple[str, int]]) -> str:
    """An enum in C."""
    rows = "".join(f"\t{value} = {number},\n" for value, number in values)
    return f"enum {name + ' ' if name else ''}{{\n{rows}}};"


def pick_values(one: Type, names: Sequence[str]) -> list[tuple[str, int]]:
    """The enumerators of ``one`` that are in ``names``."""
    return [(value["name"], value["val"]) for value in one["values"] if value["name"] in names]


def render(types: Types, arch: str) -> str:
    """The header for one architecture."""
    kept = {**STRUCTS, **REGISTERS[arch], **FIXED}
    members = {
        name: [one for one in types.members(types.named("STRUCT", name)) if one["name"] in wanted]
        for name, wanted in kept.items()
    }
    typedefs = [types.named("TYPEDEF", name)["id"] for name in TYPEDEFS]
    used = [member["type_id"] for row in members.values() for member in row]
    needed = {one["name"]: one for root in [*typedefs, *used] for one in types.typedefs(root)}
    forward = dict.fromkeys(
        name for root in used for name in types.structs(root) if name not in kept
    )

    parts = [types_block(types, list(needed.values()))]
    constants: dict[str, int] = {}
    for one in types.enums():
        constants.update(pick_values(one, [name for name in CONSTANTS if name not in constants]))
    enums = {name: pick_values(types.named("ENUM", name), keep) for name, keep in ENUMS.items()}
    check_complete(members, kept, enums, constants)
    parts += [render_enum("", list(constants.items()))]
    parts += [render_enum(name, values) for name, values in enums.items()]
    parts += [f"struct {name};" for name in forward]
    for name, row in members.items():
        if name in FIXED and MIDDLE not in parts:
            parts.append(MIDDLE)
        body = "".join(f"\t{types.declare(one['type_id'], one['name'])};\n" for one in row)
        parts.append(f"struct {name} {{\n{body}}};")
    return HEADER.format(arch=arch) + "\n" + "\n\n".join(parts) + "\n" + FOOTER


def types_block(types: Types, needed: Sequence[Type]) -> str:
    """The typedefs, one a line."""
    return "\n".join(f"typedef {types.declare(one['type_id'], one['name'])};" for one in needed)


def check_complete(
    members: dict[str, list[Type]],
    kept: dict[str, tuple[str, ...]],
    enums: dict[str, list[tuple[str, int]]],
    constants: dict[str, int],
) -> None:
    """GenerateError when the kernel lacks something that the tables name."""
    have = {name: {one["name"] for one in row} for name, row in members.items()}
    lacking = [
        f"{name}.{one}" for name, row in kept.items() for one in row if one not in have[name]
    ]
    for name, row in ENUMS.items():
        lacking += sorted(set(row) - {value for value, _ in enums[name]})
    lacking += [name for name in CONSTANTS if name not in constants]
    if lacking:
        raise GenerateError(f"this BTF lacks {', '.join(lacking)}; take a newer kernel's")


def main() -> int:
    """Write the header; 1 if it cannot be made."""
    parser = argparse.ArgumentParser(description="Cut vmlinux.h out of a kernel's BTF.")
    parser.add_argument("--btf", type=Path, required=True, help="raw BTF, ELF or kernel image")
    parser.add_argument("--arch", choices=sorted(REGISTERS), required=True)
    options = parser.parse_args()
    try:
        text = render(read_types(options.btf), options.arch)
    except (GenerateError, OSError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    target = HERE / options.arch / "vmlinux.h"
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
