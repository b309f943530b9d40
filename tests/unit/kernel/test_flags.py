# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import re
from pathlib import Path

import pytest

from retsnoop_py.attach.fentry import COUNT_SHIFT
from retsnoop_py.kernel.errno import MAX_ERRNO
from retsnoop_py.kernel.flags import (
    HELPER_LIST,
    flags_of,
    helper_result,
    parse_header,
    result_for,
    to_python,
)
from retsnoop_py.kernel.functions import ERROR_SHIFT, FuncFlags, ResultKind, ResultType

ROOT = Path(__file__).parents[3]
U64 = ResultType(ResultKind.INT, 8, False, "u64")


@pytest.mark.parametrize(
    ("result", "flags"),
    [
        (None, FuncFlags.SIGN32 | FuncFlags.GUESSED),
        (ResultType(ResultKind.VOID, 0, False), FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.BOOL, 1, False), FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.INT, 1, True), FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.INT, 2, True), FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.INT, 4, False), FuncFlags.CANT_FAIL),
        (U64, FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.ENUM, 1, False), FuncFlags.CANT_FAIL),
        (ResultType(ResultKind.INT, 4, True), FuncFlags.SIGN32),
        (ResultType(ResultKind.ENUM, 4, False), FuncFlags.SIGN32),
        (ResultType(ResultKind.INT, 8, True), FuncFlags(0)),
        (ResultType(ResultKind.ENUM, 8, False), FuncFlags(0)),
        (ResultType(ResultKind.OTHER, 16, False), FuncFlags(0)),
        (ResultType(ResultKind.PTR, 8, False), FuncFlags.PTR),
    ],
)
def test_flags_follow_the_result_type(result: ResultType | None, flags: FuncFlags) -> None:
    assert flags_of(result_for("f", result)) == flags


@pytest.mark.parametrize(
    ("helper", "flags"),
    [
        ("bpf_map_lookup_elem", FuncFlags.PTR),
        ("bpf_map_update_elem", FuncFlags(0)),
        ("bpf_ktime_get_ns", FuncFlags.CANT_FAIL),
        ("bpf_ringbuf_submit", FuncFlags.CANT_FAIL),
        ("bpf_set_retval", FuncFlags.SIGN32),
    ],
)
def test_helpers_return_what_their_documentation_says(helper: str, flags: FuncFlags) -> None:
    assert flags_of(result_for(helper, U64)) == flags
    assert flags_of(result_for(helper, None)) == flags


@pytest.mark.parametrize(
    "name", ["do_mmap", "mmap_region.isra.0", "arch_get_unmapped_area_topdown", "unmapped_area"]
)
def test_what_gives_addresses_fails_by_an_error_in_their_place(name: str) -> None:
    assert flags_of(result_for(name, U64)) == FuncFlags(0)
    assert flags_of(result_for(name, ResultType(ResultKind.INT, 4, True))) == FuncFlags.SIGN32
    assert flags_of(result_for("mmap_base", U64)) == FuncFlags.CANT_FAIL


def test_btf_is_believed_where_it_says_more_than_u64() -> None:
    own = ResultType(ResultKind.INT, 4, True, "int")

    assert result_for("bpf_map_lookup_elem", own) is own
    assert result_for("bpf_map_alloc", U64) is U64
    assert result_for("f", None).kind is ResultKind.UNKNOWN
    assert helper_result("map_check_btf") is None


def test_the_flags_are_those_of_the_kernel_side() -> None:
    header = (ROOT / "src/bpf/records.h").read_text()
    body = re.search(r"enum rsn_func_flags \{(.*?)\}", header, re.DOTALL)
    assert body
    declared = re.findall(r"RSN_FUNC_(\w+) = (\d+)", body[1])

    # the header explains SHIFT in an enum of its own
    assert {name: int(value) for name, value in declared} == {f.name: f.value for f in FuncFlags}
    assert f"RSN_FUNC_ERROR_SHIFT = {ERROR_SHIFT}," in header


def test_the_number_of_arguments_and_an_ordinary_error_share_no_bit_of_a_cookie() -> None:
    header = (ROOT / "src/bpf/args.bpf.h").read_text()
    assert f"ARGS_IN_COOKIE = {COUNT_SHIFT}," in header
    most = re.search(r"ARGS_MAX = (\d+)", header)
    assert most
    count = int(most[1]) + 1
    flags = sum(FuncFlags) | MAX_ERRNO << ERROR_SHIFT
    assert count < 1 << 8
    assert flags << 32 < 1 << 64
    assert not flags << 32 & 0xFF << COUNT_SHIFT


def test_a_header_is_read_by_return_type() -> None:
    header = """
static void *(* const bpf_map_lookup_elem)(void *map, const void *key) = (void *) 1;
static long (* const bpf_map_update_elem)(void *map) = (void *) 2;
static __bpf_fastcall __u32 (* const bpf_get_smp_processor_id)(void) = (void *) 8;
static struct bpf_sock *(* const bpf_sk_lookup_tcp)(void *ctx) = (void *) 84;
static void (* const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *) 132;
"""
    assert parse_header(header) == {
        "void": ["bpf_ringbuf_submit"],
        "pointer": ["bpf_map_lookup_elem", "bpf_sk_lookup_tcp"],
        "long": ["bpf_map_update_elem"],
        "__u32": ["bpf_get_smp_processor_id"],
    }


def test_the_table_is_made_from_libbpfs_header() -> None:
    headers = [
        *(ROOT / "build").glob("libbpf/include/bpf/bpf_helper_defs.h"),
        *Path("/usr/include/bpf").glob("bpf_helper_defs.h"),
    ]
    assert headers, "libbpf's headers are what the BPF side is compiled with: run `make build`"

    # an other libbpf than the pinned one may know more helpers, or fewer
    made = parse_header(headers[0].read_text())
    listed = HELPER_LIST.read_text()
    if headers[0].is_relative_to(ROOT):
        assert to_python(made) == listed
    for key, names in made.items():
        for name in names:
            known = helper_result(name)
            assert known is None or f'\n    "{key}": (' in listed
