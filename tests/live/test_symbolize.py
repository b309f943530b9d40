# SPDX-License-Identifier: BSD-2-Clause
"""Source lines of a real kernel: those llvm-symbolizer gives, found where a package puts them."""

from __future__ import annotations

import os
import posixpath
import random
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from retsnoop_py.symbolize.dwarf import DwarfImage
from retsnoop_py.symbolize.paths import SourcePaths
from retsnoop_py.vm.kernels import ensure

ADDRESSES = 2000
SEED = 612
AGREEMENT = 0.999

Chain = tuple[tuple[str, str, int, int], ...]


@pytest.fixture(scope="module")
def vmlinux() -> Path:
    """Debian's vmlinux 6.12 with DWARF, fetched once into the cache."""
    found = ensure("6.12", debug=True).vmlinux
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
    """What llvm-symbolizer says, innermost first."""
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


# A choice of kernels without 6.12 (make test-live KERNEL=6.1) must not fetch its DWARF.
if "6.12" in os.environ.get("RETSNOOP_KERNELS", "6.12").split():

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
        known = sum(chain[0][0] != "??" for chain in ours)
        assert known > ADDRESSES * 0.7
        assert sum(len(chain) > 1 for chain in ours) > ADDRESSES * 0.2

    def test_source_names_are_relative_to_the_kernels_tree(vmlinux: Path) -> None:
        paths = SourcePaths()
        with DwarfImage(vmlinux) as dwarf:
            names = {paths.relative(unit.name, unit.comp_dir) for unit in dwarf.units()}
        assert {"init/main.c", "kernel/bpf/syscall.c", "arch/x86/entry/entry_64.S"} <= names
        assert not [name for name in names if name.startswith(("/", "debian/", ".."))]
