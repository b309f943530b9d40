# SPDX-License-Identifier: BSD-2-Clause
"""Thousands of damaged recordings, damaged objects and odd globs. None may reveal a bug.

Each case runs in a process with 500 MB and half a minute. A case depends only on its number and the
seed, so a failing case can be created again.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.soak.results import Outcome
from tests.unit.selection.kernels import Kernel

from retsnoop_py.cli.main import main as retsnoop_py
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.libbpf.object import OBJECTS
from retsnoop_py.recording.format import FrameKind, file_header, pack_frame
from retsnoop_py.recording.reader import RecordingFrame, read_frames

GOLDEN = Path(__file__).parents[1] / "golden"
#: Memory limit of a case, in bytes.
MEMORY = 500 << 20
SECONDS = 30
#: Cases per process. If a case kills the process, the remaining cases of the batch are lost.
BATCH = 100
#: Exit statuses for success and for invalid input.
TOLD = {0, 64, 65, 66, 69}
VIEWS = (
    (),
    ("-T",),
    ("-T", "-A"),
    ("-T", "-I", "-S"),
    ("--format", "json", "-S"),
    ("-T", "-A", "-B", "-E", "-S", "--ascii"),
    ("-x", "EINVAL", "-L", "1us"),
    ("-C", "stacks.emit-addrs=y", "-C", "args.fmt-max-arg-width=3", "-A"),
)
ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1),
    *("", "x", "\x1b[2J", "\x00", "\u202e", "a" * 100_000, "%s" * 50, "/", "../" * 30),
    *([], {}, None, True, 0.5, [[]] * 50, {"a": {"b": {}}}),
)


class Damage:
    """Random ways to damage input, all derived from one number."""

    def __init__(self, seed: int, number: int) -> None:
        self.random = random.Random(f"{seed}/{number}")

    def damaged(self, data: bytes) -> bytes:
        """Return the data with some bytes changed, removed, added or moved."""
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 4, 16))):
            at = self.random.randrange(len(changed) + 1)
            length = min(self.random.choice((1, 2, 4, 8, 64, 1024)), len(changed) - at)
            odd = self.random.choice((b"\xff", b"\0", b"\x7f\xff", b"\x80", b"\x01\0\0\0"))
            match self.random.randrange(5):
                case 0 if length:
                    changed[at] ^= 1 << self.random.randrange(8)
                case 1:
                    changed[at : at + length] = (odd * length)[:length]
                case 2:
                    del changed[at : at + length]
                case 3:
                    changed[at:at] = self.random.randbytes(length)
                case _:
                    other = self.random.randrange(len(changed) + 1)
                    changed[at : at + length] = changed[other : other + length]
        return bytes(changed)

    def value(self, value: Any) -> Any:
        """Return the JSON or MessagePack value with an odd value somewhere in it."""
        if isinstance(value, dict) and value and self.random.random() < 0.9:
            key = self.random.choice(list(value))
            return {**value, key: self.value(value[key])}
        if isinstance(value, list) and value and self.random.random() < 0.9:
            at = self.random.randrange(len(value))
            rest = value[at + 1 :]
            return [
                *value[:at],
                *([] if self.random.random() < 0.1 else [self.value(value[at])]),
                *rest,
            ]
        return self.random.choice(ODD)

    def frames(self, frames: list[RecordingFrame]) -> list[tuple[int, bytes]]:
        """Return valid frames of a recording with odd contents."""
        made = [(int(frame.kind), bytes(frame.payload)) for frame in frames]
        at = self.random.randrange(len(made))
        kind, payload = made[at]
        match self.random.randrange(8):
            case 0:
                del made[at]
            case 1:
                made.insert(self.random.randrange(len(made)), (kind, payload))
            case 2:
                made[at] = (self.random.choice(list(FrameKind)), payload)
            case 3 | 4:
                made[at] = (kind, self.damaged(payload))
            case _:
                made[at] = (kind, self._decoded(kind, payload))
        return made

    def _decoded(self, kind: int, payload: bytes) -> bytes:
        if kind in (FrameKind.FACTS, FrameKind.END):
            value = self.value(json.loads(payload))
            return json.dumps(value, default=str).encode(errors="surrogatepass")
        if kind in (FrameKind.SYMBOLS, FrameKind.USER_SYMBOLS):
            return msgspec.msgpack.encode(self._small(self.value(msgspec.msgpack.decode(payload))))
        return self.damaged(payload)

    def _small(self, value: Any) -> Any:
        """Return the value with integers that fit into MessagePack."""
        if isinstance(value, dict):
            return {key: self._small(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._small(each) for each in value]
        return min(value, 2**64 - 1) if isinstance(value, int) else value

    def glob(self, names: list[str]) -> str:
        """Return a glob: an existing name, with or without special characters, or random text."""
        if self.random.random() < 0.2:
            return "".join(
                chr(self.random.choice((self.random.randrange(1, 128), 0x2190, 0xFF)))
                for _ in range(self.random.randrange(1, 40))
            )
        text = list(self.random.choice(names))
        for _ in range(self.random.randrange(6)):
            what = self.random.choice(
                ("*", "?", "[", "]", ":", "/", "@", "[x]", "**", "\\", "!", " ", "*" * 60)
            )
            text.insert(self.random.randrange(len(text) + 1), what)
        return "".join(text)


class Cases:
    """The cases of each kind, by number, and a folder for their files."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self._sources: dict[str, Any] = {}

    def recording(self, number: int) -> None:
        """Replay a damaged golden recording; its exit status must be a documented one."""
        damage = Damage(self._seed, number)
        golden = sorted(GOLDEN.glob("*.rsn"))
        source = golden[number % len(golden)]
        if damage.random.random() < 0.3:
            data = damage.damaged(source.read_bytes())
        else:
            frames = damage.frames(self._once(source.name, lambda: list(read_frames(source))))
            data = file_header() + b"".join(pack_frame(kind, payload) for kind, payload in frames)
        path = self._folder / "case.rsn"
        path.write_bytes(data)
        status = retsnoop_py(["replay", str(path), *damage.random.choice(VIEWS)])
        if status not in TOLD:
            raise AssertionError(f"exit status {status}")

    def object(self, number: int) -> None:
        """Read a damaged image: its headers, its BTF, its DWARF."""
        damage = Damage(self._seed, number)
        sources = self._once("objects", self._objects)
        data = damage.damaged(damage.random.choice(sources))
        path = self._folder / "case.o"
        path.write_bytes(data)
        try:
            with ElfFile(path) as elf:
                facts = (elf.build_id, elf.debug_link, elf.alternate_link, elf.has_dwarf)
                assert all(fact is None or isinstance(fact, str | bool) for fact in facts)
                blob = elf.read(".BTF") if ".BTF" in elf.sections else b""
            if blob:
                read_btf(blob)
        except RetsnoopError:
            pass
        try:
            with DwarfImage(path) as image:
                units = image.units()
                for unit in units[:20]:
                    for low, high in unit.ranges[:20]:
                        image.lookup(low)
                        image.lookup((low + high) // 2)
        except RetsnoopError:
            pass

    def btf(self, number: int) -> None:
        """Read damaged BTF."""
        damage = Damage(self._seed, number)
        try:
            read_btf(damage.damaged(self._once("btf", lambda: _section(OBJECTS / "trace.bpf.o"))))
        except RetsnoopError:
            pass

    def globs(self, number: int) -> None:
        """Select functions with odd globs."""
        damage = Damage(self._seed, number)
        names, kernel = self._once("kernel", self._kernel)
        globs = [damage.glob(names) for _ in range(damage.random.randrange(1, 4))]
        try:
            kernel.select(entry=globs[:1], allow=globs[1:2], deny=globs[2:])
        except RetsnoopError:
            pass

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._sources:
            self._sources[name] = make()
        return self._sources[name]

    def _objects(self) -> list[bytes]:
        """Return a BPF object, and a program with DWARF from the compilers of this machine."""
        source, program = self._folder / "program.c", self._folder / "program"
        source.write_text(
            "static inline int check(int v) { return v > 7 ? -22 : v * 3; }\n"
            "int main(int argc, char **argv) { return check(argc) + (argv[0] != 0); }\n"
        )
        subprocess.run(["gcc", "-g", "-O2", "-o", str(program), str(source)], check=True)
        return [(OBJECTS / "trace.bpf.o").read_bytes(), program.read_bytes()]

    def _kernel(self) -> tuple[list[str], Kernel]:
        names = ["__sys_bpf", "array_map_alloc", "helper", "__x64_sys_bpf", "bpf_map_alloc.isra.0"]
        names += [f"vfs_function_{number}" for number in range(500)]
        kernel = Kernel(self._folder / "kernel")
        for name in names:
            kernel.add(name, "btrfs" if name.endswith("7") else None)
        return names, kernel


def _section(path: Path) -> bytes:
    with ElfFile(path) as elf:
        return elf.read(".BTF")


def read_btf(blob: bytes) -> None:
    """Make all queries that retsnoop-py makes of a BTF blob."""
    btf = Btf(blob)
    for type_id in range(1, min(btf.end, 500)):
        try:
            type_ = btf.type(type_id)
            btf.size_of(type_id)
            btf.declare(type_id, "x")
            if type_.kind in (Kind.STRUCT, Kind.UNION):
                btf.members(type_id)
            elif type_.kind is Kind.FUNC:
                btf.prototype(type_id)
            elif type_.kind in (Kind.ENUM, Kind.ENUM64):
                btf.enumerators(type_id)
        except RetsnoopError:
            pass


KINDS = {"recording": 12_000, "object": 3_000, "btf": 3_000, "globs": 2_000}


def mutated_inputs(scale: float, seed: int, say: Callable[[str], None]) -> Iterator[Outcome]:
    """Run all cases of each kind."""
    for kind, full in KINDS.items():
        outcome = Outcome("inputs", f"damaged {kind}" if kind != "globs" else "odd globs")
        began = time.monotonic()
        cases = max(round(full * scale), 1)
        for start in range(0, cases, BATCH):
            for problem in _batch(kind, seed, range(start, min(start + BATCH, cases))):
                outcome.fail(problem)
        outcome.told = f"{cases:,} cases"
        outcome.seconds = time.monotonic() - began
        say(outcome.line())
        yield outcome


def _batch(kind: str, seed: int, numbers: range) -> Iterator[str]:
    """Run cases in a process of their own. Return the failures."""
    left = numbers
    while left:
        argv = [sys.executable, "-m", "tests.soak.inputs", kind, str(seed), *map(str, left)]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        said = [int(line) for line in done.stdout.splitlines() if line.isdecimal()]
        if done.returncode == 0:
            return
        failed = said[-1] if said else left[0]
        why = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        yield f"{kind} {failed} (seed {seed}): {why[0]} ({done.returncode})"
        left = left[left.index(failed) + 1 :]


def main() -> int:
    """Entry point of a batch: print the number of each case before trying it."""
    kind, seed, *numbers = sys.argv[1:]
    told = os.dup(1)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        Path(os.devnull).open("w") as nowhere,
    ):
        cases = Cases(int(seed), Path(name))
        run = getattr(cases, kind)
        os.dup2(nowhere.fileno(), 1)
        errors = os.dup(2)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in map(int, numbers):
            os.write(told, b"%d\n" % number)
            os.dup2(nowhere.fileno(), 2)
            signal.alarm(SECONDS)
            try:
                run(number)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is a bug
                os.dup2(errors, 2)
                print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr)
                return 1
            finally:
                signal.alarm(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
