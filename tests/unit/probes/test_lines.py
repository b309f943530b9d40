# SPDX-License-Identifier: BSD-2-Clause
"""Source lines of a little kernel, compiled here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.conftest import KASLR, MAIN, SYSCALL, Tree

from retsnoop_py.errors import InputError, UnavailableError
from retsnoop_py.probes.choose import SourceLines
from retsnoop_py.symbolize.sources import KernelImages


@pytest.fixture
def images(tree: Tree) -> Iterator[KernelImages]:
    with KernelImages(tree.facts, tree.vmlinux) as opened:
        yield opened


def line_of(source: str, text: str) -> int:
    """The number of the first line that has ``text``."""
    return next(i for i, line in enumerate(source.splitlines(), 1) if text in line)


def functions(tree: Tree, places: list[tuple[int, str]]) -> list[str]:
    found = [tree.facts.kallsyms.lookup(address) for address, _ in places]
    return [hit[0].name for hit in found if hit]


def chains(images: KernelImages, places: list[tuple[int, str]]) -> list[tuple[str | None, ...]]:
    """The functions at each place, innermost first."""
    image = images.vmlinux()
    assert image is not None
    found = [image.dwarf.lookup(address - KASLR) for address, _ in places]
    return [tuple(frame.function for frame in hit.frames) for hit in found if hit]


def test_a_line_has_code_in_its_function(tree: Tree, images: KernelImages) -> None:
    line = line_of(MAIN, "return value + 1;")
    for path in ("init/main.c", "main.c"):
        places = SourceLines(images).addresses_of(path, line)
        assert functions(tree, places) == ["plain"]
        assert places[0][1] == "init/main.c"


def test_a_line_of_a_header_has_code_wherever_it_is_inlined(
    tree: Tree, images: KernelImages
) -> None:
    line = 3  # if (value > 4096)
    places = SourceLines(images).addresses_of("include/check.h", line)
    assert {path for _, path in places} == {"include/check.h"}
    assert sorted(set(functions(tree, places))) == ["map_create", "start_kernel"]
    # check() is inlined twice in outer(), which is inlined in start_kernel(), and in map_create()
    inlined = chains(images, places)
    assert sum("outer" in chain for chain in inlined) == 2
    assert sum("map_create" in chain for chain in inlined) == 2
    assert len(places) == len(set(places))


def test_a_line_without_code_names_the_nearest_with(images: KernelImages) -> None:
    above = line_of(SYSCALL, "int plain(int value);")
    with pytest.raises(InputError, match="this line has no code") as caught:
        SourceLines(images).addresses_of("kernel/bpf/syscall.c", above)
    assert caught.value.hint == f"the nearest line with code is {above + 2}"


def test_a_file_that_nothing_comes_from_names_others(images: KernelImages) -> None:
    with pytest.raises(InputError, match=r"no code of this kernel comes from 'bpf/sycall.c'") as e:
        SourceLines(images).addresses_of("bpf/sycall.c", 1)
    assert e.value.hint == "did you mean kernel/bpf/syscall.c?"
    with pytest.raises(InputError, match="no code of this kernel comes from"):
        SourceLines(images).addresses_of("net/syscall.c", 12)


def test_without_an_image_nothing_is_known(tree: Tree) -> None:
    with pytest.raises(UnavailableError, match="needs a kernel image with DWARF"):
        SourceLines(None).addresses_of("init/main.c", 1)
