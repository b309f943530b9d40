# SPDX-License-Identifier: BSD-2-Clause
"""Compile generated functions, run them under an emulator and grade the reported conditions.

``python -m tests.unit.path.measured`` prints the table of :func:`measure` for all compilers.
"""

from __future__ import annotations

import argparse
import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

from tests.unit.path.generated import (
    HEADER,
    Call,
    Expected,
    Function,
    Kinds,
    Obj,
    generate,
    holds,
)
from unicorn import (
    UC_ARCH_ARM64,
    UC_ARCH_X86,
    UC_HOOK_CODE,
    UC_MODE_64,
    UC_MODE_ARM,
    Uc,
    arm64_const,
    x86_const,
)

from retsnoop_py.kernel import functions
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.path.analysis import FunctionPaths
from retsnoop_py.path.blocks import cut
from retsnoop_py.path.insn import Machine
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.names import Namer
from retsnoop_py.path.text import FunctionCode, Part
from retsnoop_py.session.paths import Origin

__all__ = ["CONFIGS", "GRADES", "Config", "Program", "grade", "measure"]

GRADES = ("right", "half", "line", "unknown", "wrong")
_FLAGS = (
    *("-std=gnu17", "-g", "-ffreestanding", "-nostdlib", "-fno-pie", "-fno-strict-aliasing", "-w"),
    *("-fno-delete-null-pointer-checks", "-fno-stack-protector"),
)
_GCC = ("-fno-ipa-ra", "-fno-ipa-cp", "-fno-ipa-icf")
_OWN = {
    "x86_64": ("-mno-sse", "-mno-mmx", "-fcf-protection=none", "-fno-jump-tables"),
    "aarch64": ("-mgeneral-regs-only",),
}


@dataclass(frozen=True)
class Config:
    """A compiler, a machine and an optimization."""

    compiler: str
    machine: str
    level: str

    def __str__(self) -> str:
        return f"{self.compiler} {self.machine} {self.level}"

    def build(self, source: Path, binary: Path) -> None:
        target = f"{self.machine}-linux-gnu"
        flags = (*_FLAGS, *_OWN[self.machine], self.level)
        if self.compiler == "gcc":
            argv = [f"{target}-gcc", *flags, *_GCC]
        else:
            argv = ["clang", f"--target={target}", *flags]
        made = binary.with_suffix(".o")
        subprocess.run([*argv, "-c", "-o", str(made), str(source)], check=True)
        link = ["-e", "note", "-Ttext", "0x400000", "-o", str(binary), str(made)]
        subprocess.run([f"{target}-ld", *link], check=True)


CONFIGS = tuple(
    Config(compiler, machine, level)
    for compiler in ("gcc", "clang")
    for machine in ("x86_64", "aarch64")
    for level in ("-O2", "-Os")
)


def types_of(source: Path, folder: Path) -> Btf:
    """The types of the functions, which gcc writes as BTF."""
    made = folder / "types.o"
    subprocess.run(
        ["gcc", "-std=gnu17", "-gbtf", "-w", "-O0", "-c", "-o", str(made), str(source)], check=True
    )
    with ElfFile(made) as elf:
        return Btf(elf.read(".BTF"))


_CONDITIONS: dict[str, Callable[[int, int, int, int], bool]] = {
    "e": lambda n, z, c, v: bool(z),
    "ne": lambda n, z, c, v: not z,
    "ae": lambda n, z, c, v: bool(c),
    "b": lambda n, z, c, v: not c,
    "s": lambda n, z, c, v: bool(n),
    "ns": lambda n, z, c, v: not n,
    "o": lambda n, z, c, v: bool(v),
    "no": lambda n, z, c, v: not v,
    "a": lambda n, z, c, v: bool(c and not z),
    "be": lambda n, z, c, v: not (c and not z),
    "ge": lambda n, z, c, v: n == v,
    "l": lambda n, z, c, v: n != v,
    "g": lambda n, z, c, v: not z and n == v,
    "le": lambda n, z, c, v: not (not z and n == v),
}


class Program:
    """Generated functions, compiled."""

    DATA, STACK, END, PAGE = 0x10000000, 0x20000000, 0x30000000, 0x1000
    OBJECT = 0x200

    def __init__(
        self, config: Config, binary: Path, btf: Btf, results: Mapping[str, functions.ResultType]
    ) -> None:
        self.machine: Machine = machine_named(config.machine)
        self.binary = binary
        self.is_arm = config.machine == "aarch64"
        with ElfFile(binary) as elf:
            self._segments = [
                (one.address, elf.read(name))
                for name, one in elf.sections.items()
                if one.address and name in (".text", ".rodata", ".data")
            ]
        listed = subprocess.run(
            [f"{config.machine}-linux-gnu-nm", "-S", str(binary)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        self.symbols = {
            row[3]: (int(row[0], 16), int(row[1], 16))
            for row in rows
            if len(row) == 4 and row[2] in "tT"
        }
        self._names = {start: name for name, (start, _) in self.symbols.items()}
        self._facts = cast("KernelFacts", SimpleNamespace(btf=btf, root=Path("/nowhere")))
        self._btf = btf
        self._results = results
        self._core = Uc(UC_ARCH_ARM64, UC_MODE_ARM) if self.is_arm else Uc(UC_ARCH_X86, UC_MODE_64)
        self._core.mem_map(0x400000, 0x400000)
        for start, data in self._segments:
            self._core.mem_write(start, bytes(data))
        for place in (self.DATA, self.STACK, self.END):
            self._core.mem_map(place, 4 * self.PAGE)
        self._known: dict[str, FunctionPaths] = {}
        self._image = DwarfImage(binary).__enter__()

    def read(self, address: int, size: int) -> bytes:
        return bytes(self._core.mem_read(address, size))

    def paths(self, name: str) -> FunctionPaths:
        """Return the analysis of a function with probes in all blocks."""
        if name not in self._known:
            names = [name, *(one for one in self.symbols if one.startswith(f"{name}.cold"))]
            parts = tuple(
                Part(start, self.read(start, size))
                for start, size in map(self.symbols.get, names)  # type: ignore[misc]
            )
            graph = cut(FunctionCode(name, None, parts), self.machine, self._names.get, self.read)
            function = functions.Function(
                name,
                parts[0].address,
                len(parts[0].code),
                functions.FuncFlags(0),
                self._results[name],
                btf_id=self._btf.find(name, Kind.FUNC),
            )
            namer = Namer(
                self._facts, function, self._names.get, self.machine, self._image.variables
            )
            paths = FunctionPaths(function, graph, namer)
            for probe in paths.probes:
                paths.probed.setdefault(probe.block, probe)
            self._known[name] = paths
        return self._known[name]

    def _objects(self, call: Call) -> None:
        values = call.env.values
        made = Obj(**{k: v for k, v in values.items() if k not in ("arg", "len")})
        places = [self.DATA + self.OBJECT * (n + 1) for n in range(len(call.env.chain))]
        head = self.DATA + Obj.list.offset
        nodes = [*(place + Obj.node.offset for place in places), head]
        made.next = places[0] if places else 0
        made.list.next = nodes[0]
        made.nr = len(call.env.array)
        made.arr[: made.nr] = call.env.array
        self._core.mem_write(self.DATA, bytes(made))
        for number, (type_, kind) in enumerate(call.env.chain):
            one = Obj(type=type_, kind=kind)
            one.next = places[number + 1] if number + 1 < len(places) else 0
            one.node.next = nodes[number + 1]
            self._core.mem_write(places[number], bytes(one))
        self._core.mem_write(self.DATA + 0x800, bytes(Obj()))

    def run(self, name: str, call: Call) -> tuple[int, Origin]:
        """Return the result of a call and the report about the call."""
        core, stack = self._core, self.STACK + 2 * self.PAGE
        self._objects(call)
        if self.is_arm:
            core.reg_write(arm64_const.UC_ARM64_REG_X30, self.END)
            arguments = [getattr(arm64_const, f"UC_ARM64_REG_X{n}") for n in range(3)]
            core.reg_write(arm64_const.UC_ARM64_REG_SP, stack)
        else:
            stack -= 8
            core.mem_write(stack, struct.pack("=Q", self.END))
            arguments = [getattr(x86_const, f"UC_X86_REG_{n}") for n in ("RDI", "RSI", "RDX")]
            core.reg_write(x86_const.UC_X86_REG_RSP, stack)
        values = (self.DATA, call.env.values["arg"], call.env.values["len"])
        for register, value in zip(arguments, values, strict=True):
            core.reg_write(register, value & (1 << 64) - 1)
        paths = self.paths(name)
        graph = paths.graph
        starts = {block.start: block.index for block in graph.blocks}
        conditions = {
            insn.address: insn.steps[-1].condition
            for block in graph.blocks
            for insn in block.insns
            if any(one.op == "ccmp" for one in insn.steps)
        }
        hits: list[int] = []
        held: list[bool | None] = []

        def came(uc: Uc, address: int, *_: object) -> None:
            if address not in starts:
                return
            hits.append(starts[address])
            condition = conditions.get(address)
            if condition is None:
                held.append(None)
            else:
                flags = uc.reg_read(arm64_const.UC_ARM64_REG_NZCV)
                bits = [flags >> at & 1 for at in (31, 30, 29, 28)]
                held.append(_CONDITIONS[condition](*bits))

        hook = core.hook_add(UC_HOOK_CODE, came)
        core.emu_start(self.symbols[name][0], self.END, count=20000)
        core.hook_del(hook)
        result = core.reg_read(
            arm64_const.UC_ARM64_REG_X0 if self.is_arm else x86_const.UC_X86_REG_RAX
        )
        origin = paths.origin(hits, result, is_cut=False, held=held, targets=[0] * len(hits))
        width = 8 * self._results[name].size
        return result & (1 << width) - 1, origin

    def line(self, address: int) -> int:
        found = self._image.lookup(address)
        return found.frames[0].line if found is not None else 0


# -- grades --

_SAMPLES = 200


class Leaf:
    """Names that a text reads."""

    PATTERN: ClassVar = re.compile(r"\b(?:arg|len|[a-z_]\w*\(\)|(?:\w+(?:->|\.))+\w+)")


def _same(one: str, other: str, function: Function, rng: random.Random) -> bool:
    """Return whether two conditions are equivalent: in many calls both hold, or neither holds."""
    for _ in range(_SAMPLES):
        names = function.env(rng).names()
        if holds(one, names) != holds(other, names):
            return False
    return True


def _joined(atoms: Iterable[str]) -> str:
    return " && ".join(f"({one})" for one in atoms)


def grade(call: Call, function: Function, origin: Origin, line: int, lines: set[int]) -> str:
    """One of GRADES."""
    expected: Expected = call.expected
    if expected.callee:
        if origin.made != "callee" or origin.callee != expected.callee:
            return "unknown" if origin.made == "unknown" or origin.unknown else "wrong"
        text = origin.condition.text if origin.condition else ""
        if origin.decided is None or line in lines:
            return "right"
        return "right" if text and text in expected.atoms else "wrong"
    if _is_passed(call, origin):
        return (
            "right" if origin.condition is None else _by_text(call, function, origin, line, lines)
        )
    is_null = origin.made == "memory" and not call.result  # the NULL that was found is returned
    if origin.made not in ("constant", "computed") and not is_null:
        return "unknown" if origin.made == "unknown" or origin.decided is None else "wrong"
    return _by_text(call, function, origin, line, lines)


def _is_passed(call: Call, origin: Origin) -> bool:
    """Return whether the function returns the deciding call's own result, as false or NULL."""
    asked = f"{origin.callee}()"
    if origin.made != "callee" or not any(asked in one for one in call.expected.atoms):
        return False
    return holds(f"{asked} == {call.result}", call.env.names())


def _by_text(call: Call, function: Function, origin: Origin, line: int, lines: set[int]) -> str:
    if origin.decided is None or origin.condition is None:
        return "unknown"
    text = origin.condition.text
    if not text:
        return "line" if line in lines or not line else "wrong"  # clang gives some no line
    return _grade_text(call, function, text, line in lines or not line)


def _grade_text(call: Call, function: Function, text: str, is_line: bool) -> str:
    expected = call.expected
    try:
        is_true = holds(text, call.env.names())
    except Exception:  # noqa: BLE001 - a name that only the compiler knows
        return "right" if is_line and expected.loose else "line" if is_line else "wrong"
    if not is_true:
        return "wrong"
    if expected.loose and is_line and any(one in text for one in expected.loose):
        return "right"
    rng = random.Random(text)
    whole = _joined(expected.atoms)
    rights = [one for one in (whole, expected.whole) if one]
    singles = [*expected.atoms, *expected.either]
    try:
        if any(_same(text, one, function, rng) for one in rights):
            return "right"
        if any(_same(text, one, function, rng) for one in singles):
            is_all = len(expected.atoms) < 2 and not expected.whole.count("&&")
            return "right" if is_all or text_either(text, expected, function, rng) else "half"
        if any(_same(text, one, function, rng) for one in _subsets(singles)):
            return "right"
        return "half" if _has_part(text, expected, function, rng) else "wrong"
    except Exception:  # noqa: BLE001
        return "wrong"


def _has_part(text: str, expected: Expected, function: Function, rng: random.Random) -> bool:
    """Return whether the text has the condition among those that the compiler joined by ``||``."""
    parts = text.split(" || ")
    singles = (*expected.atoms, *expected.either)
    is_single = any(_same(one, other, function, rng) for one in parts for other in singles)
    is_loose = any(name in one for one in parts for name in expected.loose)
    return len(parts) > 1 and (is_single or is_loose)


def text_either(text: str, expected: Expected, function: Function, rng: random.Random) -> bool:
    """Whether a single test of those that decide is all that is needed."""
    if len(expected.atoms) == 1:
        return True
    return any(_same(text, one, function, rng) for one in expected.either)


def _subsets(atoms: list[str]) -> Iterable[str]:
    for bits in range(3, 1 << min(len(atoms), 6)):
        chosen = [one for at, one in enumerate(atoms) if bits >> at & 1]
        if len(chosen) > 1:
            yield _joined(chosen)


@dataclass
class Found:
    """A graded call."""

    config: Config
    function: Function
    call: Call
    grade: str
    text: str
    line: int
    lines: set[int]
    origin: Origin | None


def measure(
    seed: int,
    count: int,
    configs: Iterable[Config],
    folder: Path,
    calls: int = 6,
    kinds: Kinds = (),
) -> list[Found]:
    """Grade the calls of ``count`` functions in each of ``configs``."""
    made = generate(seed, count, calls, kinds=kinds)
    source = folder / "generated.c"
    text = HEADER + "\n".join(one.source for one in made)
    source.write_text(text)
    lines: dict[str, set[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for mark in re.findall(r"/\* (\w+) \*/", line):
            lines.setdefault(mark, set()).add(number)
    btf = types_of(source, folder)
    found = []
    for config in configs:
        binary = folder / str(config).replace(" ", "")
        config.build(source, binary)
        program = Program(config, binary, btf, {one.name: one.result.type for one in made})
        for function in made:
            for call in function.calls:
                result, origin = program.run(function.name, call)
                width = 8 * function.result.type.size
                assert result == call.result & (1 << width) - 1, (
                    config,
                    function.source,
                    call,
                    result,
                )
                own = {one for mark in call.expected.marks for one in lines[mark]}
                line = program.line(origin.decided.address) if origin.decided else 0
                grade_ = grade(call, function, origin, line, own)
                told = origin.condition.text if origin.condition else ""
                found.append(Found(config, function, call, grade_, told, line, own, origin))
    return found


def table(found: Iterable[Found]) -> str:
    """Per cent of each grade by shape."""
    counts: dict[str, Counter[str]] = {}
    for one in found:
        for key in (one.call.expected.shape, "all"):
            counts.setdefault(key, Counter())[one.grade] += 1
    rows = [f"{'shape':28}{'calls':>7}" + "".join(f"{name:>9}" for name in GRADES)]
    for shape, each in sorted(counts.items(), key=lambda row: (row[0] == "all", row[0])):
        total = sum(each.values())
        cells = "".join(f"{100 * each[name] / total:9.1f}" for name in GRADES)
        rows.append(f"{shape:28}{total:7}{cells}")
    return "\n".join(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--config", default="")
    parser.add_argument("--show", default="", help="print calls of this grade")
    parser.add_argument("--shape", default="")
    parser.add_argument("--most", type=int, default=10)
    args = parser.parse_args()
    configs = [one for one in CONFIGS if args.config in str(one)]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args.seed, args.count, configs, Path(folder))
    print(table(found))
    for config in configs:
        own = [one for one in found if one.config == config]
        print(config, {g: sum(one.grade == g for one in own) for g in GRADES})
    shown = [
        one for one in found if args.show == one.grade and args.shape in one.call.expected.shape
    ]
    rng = random.Random(args.seed)
    for one in rng.sample(shown, min(args.most, len(shown))):
        used = sorted({name.removeprefix("a.") for name, _ in one.function.pools.used})
        values = {k: one.call.env.values.get(k) for k in used}
        print("=" * 20, one.config, one.call.expected)
        print(one.function.source)
        print("values", values, one.call.env.chain, one.call.env.array, "=", one.call.result)
        origin = one.origin
        print("told", repr(one.text), one.line, one.lines)
        print(*origin[1:5], origin.unknown, sep="\n   ")


if __name__ == "__main__":
    sys.exit(main())
