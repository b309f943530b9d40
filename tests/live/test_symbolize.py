# SPDX-License-Identifier: BSD-2-Clause
"""Source lines of a real kernel: those llvm-symbolizer gives, found where a package puts them."""

from __future__ import annotations

import json
import posixpath
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.live.support import FEW, PYTHON, WORKLOAD, read_recording, trace

from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.session.model import EventKind
from retsnoop_py.symbolize.paths import SourcePaths
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

ADDRESSES = 2000
SEED = 612
AGREEMENT = 0.999

Chain = tuple[tuple[str, str, int, int], ...]


#: Run in the guest: the functions of some files by address, as [name, module, function, file].
RESOLVE = """
import json, sys
from pathlib import Path
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.kernel import KernelSymbolizer
from retsnoop_py.symbolize.sources import KernelImages
from retsnoop_py.symbolize.kernel import CompileUnits

facts = KernelFacts()
images = KernelImages(facts, Path(sys.argv[1]))
found = []
with KernelSymbolizer(facts, SymbolizeMode.INLINES, images) as symbolizer:
    for pattern in sys.argv[2:]:
        for low, high in CompileUnits(images).functions_in(pattern):
            for address in range(low, high, 4):
                hit = facts.kallsyms.lookup(address)
                if hit and hit[1] == 0:
                    frames = symbolizer.resolve(address, is_return=False).frames
                    place = (frames[0].function, frames[0].file) if frames else (None, None)
                    found.append([hit[0].name, hit[0].module, *place])
    print(json.dumps(found + images.warnings))
"""

pytestmark = pytest.mark.one_kernel


@pytest.fixture
def vmlinux(request: pytest.FixtureRequest, machine: Machine) -> Path:
    """The guest's kernel with DWARF, fetched once into the cache."""
    found = ensure(request.node.callspec.params["machine"], debug=True).vmlinux
    assert found is not None
    return found


def text_addresses(image: Path, count: int, seed: int) -> list[int]:
    """Addresses in functions of ``.text``: a function at random, then an offset at random."""
    with image.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text")
        low, high = text["sh_addr"], text["sh_addr"] + text["sh_size"]
    listed = subprocess.run(["nm", image], capture_output=True, text=True, check=True).stdout
    starts, functions = set(), set()
    for line in listed.splitlines():
        address, kind, name = line.rsplit(" ", 2)
        if kind in "tT" and low <= int(address, 16) < high:
            starts.add(int(address, 16))
            if not name.startswith("__pfx_"):  # padding before a function
                functions.add(int(address, 16))
    ordered = sorted(starts)
    ends = dict(zip(ordered, [*ordered[1:], high], strict=True))
    chooser = random.Random(seed)
    chosen = chooser.choices(sorted(functions), k=count)
    return [start + chooser.randrange(ends[start] - start) for start in chosen]


def chains_of_llvm(image: Path, addresses: list[int]) -> list[Chain]:
    """Return the frames of llvm-symbolizer, innermost first."""
    asked = "".join(f"{address:#x}\n" for address in addresses)
    argv = ["llvm-symbolizer", "--functions=short", "--inlines", "-e", str(image)]
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, check=True)
    chains = []
    for block in done.stdout.strip("\n").split("\n\n"):
        lines = block.split("\n")
        places = [place.rsplit(":", 2) for place in lines[1::2]]
        chains.append(
            tuple(
                (function, posixpath.normpath(file), int(line), int(column))
                for function, (file, line, column) in zip(lines[0::2], places, strict=True)
            )
        )
    return chains


def chain_of_ours(dwarf: DwarfImage, address: int) -> Chain:
    found = dwarf.lookup(address)
    if found is None:
        return (("??", "??", 0, 0),)
    return tuple(
        (
            frame.function or "??",
            posixpath.normpath(posixpath.join(found.comp_dir, frame.file or "??")),
            frame.line,
            frame.column,
        )
        for frame in found.frames
    )


def test_addresses_have_the_chains_of_llvm_symbolizer(vmlinux: Path) -> None:
    addresses = text_addresses(vmlinux, ADDRESSES, SEED)
    expected = chains_of_llvm(vmlinux, addresses)
    assert len(expected) == ADDRESSES
    with DwarfImage(vmlinux) as dwarf:
        ours = [chain_of_ours(dwarf, address) for address in addresses]
    wrong = [
        f"{address:#x}: {mine} is {reference} by llvm-symbolizer"
        for address, mine, reference in zip(addresses, ours, expected, strict=True)
        if mine != reference
    ]
    assert len(wrong) <= ADDRESSES * (1 - AGREEMENT), "\n".join(wrong[:10])
    # Most addresses are in functions, and many in inlined ones, so the comparison is meaningful.
    assert sum(chain[0][0] != "??" for chain in ours) > ADDRESSES * 0.7
    assert sum(len(chain) > 1 for chain in ours) > ADDRESSES * 0.2


def test_source_names_are_relative_to_the_kernels_tree(machine: Machine, vmlinux: Path) -> None:
    entry = {"x86_64": "arch/x86/entry/entry_64.S", "arm64": "arch/arm64/kernel/entry.S"}
    paths = SourcePaths()
    with DwarfImage(vmlinux) as dwarf:
        names = {paths.relative(unit.name, unit.comp_dir) for unit in dwarf.units()}
    assert {"init/main.c", "kernel/bpf/syscall.c", entry[machine.arch.name]} <= names
    assert not [name for name in names if name.startswith(("/src", "/build", "debian/", ".."))]


def test_functions_of_the_running_kernel_and_a_module_have_their_file(
    machine: Machine, vmlinux: Path
) -> None:
    assert machine.run(["modprobe", "dummy"]).status == 0
    files = ("kernel/bpf/syscall.c", "drivers/net/dummy.c")
    result = machine.run([PYTHON, "-c", RESOLVE, str(vmlinux), *files], timeout=120)
    assert result.status == 0, result.err
    found = json.loads(result.out)
    # gcc folds identical functions: such a second name has no code of its own in DWARF
    folded = [entry for entry in found if entry[2] is None]
    assert len(folded) < len(found) * 0.05, folded
    wrong = [entry for entry in found if entry[2] not in (None, entry[0].split(".")[0])]
    assert not wrong, wrong
    assert {entry[1] for entry in found} == {None, "dummy"}
    assert "map_create" in {entry[0] for entry in found if entry[3] == files[0]}
    assert "dummy_xmit" in {entry[0] for entry in found if entry[3] == files[1]}


def test_stacks_show_lines_and_inlined_frames(machine: Machine, vmlinux: Path) -> None:
    traced = trace(machine, *FEW, "-k", str(vmlinux), "--", *WORKLOAD, "bpf-map-bad-flags")
    assert traced.status == 0, traced.err
    rows = [line for line in traced.out.splitlines() if "(" in line]
    assert [
        row for row in rows if re.search(r"map_create\+0x\w+ .*\(kernel/bpf/syscall.c:\d+\)$", row)
    ]
    assert [row for row in rows if re.search(r"^ +\. \w+ +\([a-z0-9_/]+\.[ch]:\d+\)$", row)]


def test_a_source_path_traces_what_was_compiled_from_it(machine: Machine, vmlinux: Path) -> None:
    path = machine.share / "source.rsn"
    options = ("-e", "*_sys_bpf", "-a", ":kernel/bpf/arraymap.c", "-k", str(vmlinux))
    run = (*options, "-o", str(path), "--", *WORKLOAD, "bpf-map-bad-flags")
    traced = trace(machine, *run)
    assert traced.status == 0, traced.err
    recording = read_recording(path)
    names = {function.name for function in recording.header.functions if not function.is_entry}
    assert {"array_map_alloc", "array_map_alloc_check", "fd_array_map_alloc_check"} <= names
    assert not [name for name in names if name.startswith(("htab_", "ringbuf_", "bpf_prog_"))]
    assert [session.calls[-1].function.name for session in recording.sessions] == [
        "array_map_alloc_check"
    ]


def test_a_source_path_takes_a_file_that_another_one_includes(
    machine: Machine, vmlinux: Path
) -> None:
    """kernel/sched/build_policy.c is the compile unit of deadline.c and rt.c; lines have these."""
    asked = ("functions", ":kernel/sched/deadline.c", "-k", str(vmlinux))
    listed = trace(machine, *asked)
    assert listed.status == 0, listed.err
    names = {line.split("\t")[1] for line in listed.out.splitlines()}
    assert "enqueue_task_dl" in names
    assert not {"enqueue_task_rt", "sched_rr_get_interval"} & names


def test_a_probe_on_a_source_line_is_hit_as_often_as_that_runs(
    machine: Machine, vmlinux: Path
) -> None:
    function, file, times = "array_map_alloc_check", "kernel/bpf/arraymap.c", 11
    listed = subprocess.run(["nm", vmlinux], capture_output=True, text=True, check=True).stdout
    start = next(line for line in listed.splitlines() if line.endswith(f" {function}")).split()[0]
    with DwarfImage(vmlinux) as dwarf:
        opening = dwarf.lookup(int(start, 16))
    assert opening is not None
    path, place = machine.share / "line.rsn", f"{file}:{opening.frames[0].line}"
    options = ("-T", "-S", "-e", "*_sys_bpf", "-k", str(vmlinux), "-J", f"kprobe:{place}")
    failing = (*WORKLOAD, "-n", str(times), "bpf-map-bad-flags")
    traced = trace(machine, *options, "-o", str(path), "--", *failing)
    assert traced.status == 0, traced.err
    recording = read_recording(path)
    labels = recording.header.probes
    events = [event for session in recording.sessions for event in session.events.each()]
    hits = Counter(labels[event.id] for event in events if event.kind == EventKind.PROBE)
    assert hits[f"kprobe:{function}+0x0 ({place})"] == times


def test_an_image_of_another_kernel_is_refused(machine: Machine, vmlinux: Path) -> None:
    other = machine.share / "vmlinux"
    image = bytearray(vmlinux.read_bytes())
    build_id = bytes.fromhex(_build_id(vmlinux))
    at = image.index(build_id)
    image[at] ^= 0xFF
    other.write_bytes(image)
    traced = trace(machine, *FEW, "-k", str(other), "--", "true")
    assert traced.status == 65
    assert "wrong build id" in traced.err


def _build_id(image: Path) -> str:
    with ElfFile(image) as elf:
        assert elf.build_id is not None
        return elf.build_id
