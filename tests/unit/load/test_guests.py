# SPDX-License-Identifier: BSD-2-Clause
"""What a guest prints, and what its kernel's own functions add to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from retsnoop_py.cli.load_chain import _chain, _chosen, _conditions, _spans
from retsnoop_py.load.guests import _results
from retsnoop_py.load.model import VERSION, Explanation, LoadResult
from retsnoop_py.render import json_types as to
from retsnoop_py.render import why_types
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.palette import Palette

NOTHING = Explanation("invalid", "Kernel Support: Refused without a word", "EINVAL.")


def refused(name: str, why: Explanation = NOTHING) -> LoadResult:
    return LoadResult(
        VERSION, "host", "x.o", "map", "refused", name, errno="EINVAL", span=(5, 9), explanation=why
    )


def test_a_part_that_comes_again_says_more() -> None:
    more = msgspec.structs.replace(NOTHING, chain=("map_create  [EINVAL]",))
    told = [refused("a"), refused("b"), refused("a", more)]
    out = b"\n".join(map(msgspec.json.encode, told)) + b'\n{"type":"load","ver'
    first, second = _results("5.10", "5.10.0", out)
    assert (first.name, first.kernel, first.explanation) == ("a", "5.10", more)
    assert second.explanation == NOTHING


@pytest.mark.parametrize(
    ("why", "wordless"),
    [
        (NOTHING, True),
        (msgspec.structs.replace(NOTHING, words=("libbpf: map 'a': failed to create",)), True),
        (msgspec.structs.replace(NOTHING, words=("R1 !read_ok",)), False),
        (msgspec.structs.replace(NOTHING, kernel=("Verification failed",)), False),
    ],
)
def test_what_has_a_log_needs_no_tracing(why: Explanation, wordless: bool) -> None:
    assert refused("a", why).is_wordless is wordless


class Traced:
    """What is asked of a session to choose it."""

    report = "final"
    failed = True

    def __init__(self, begin: int, end: int, error: str, paths: tuple[str, ...] = ()) -> None:
        self.start_ns, self.end_ns, self.paths = begin, end, paths
        self.calls = (SimpleNamespace(error=error),)


def test_the_call_is_the_last_of_that_time_and_error_and_best_one_that_was_followed() -> None:
    before, other = Traced(1, 2, "EINVAL"), Traced(6, 7, "ENOENT")
    plain, followed, later = (
        Traced(6, 8, "EINVAL"),
        Traced(16, 18, "EINVAL", ("path",)),
        Traced(19, 20, "EINVAL"),
    )
    sessions: Any = [before, other, plain, followed, later]
    assert _chosen(sessions, [(5, 9)], "EINVAL") is plain
    assert _chosen(sessions, [(5, 9), (15, 20)], "EINVAL") is followed
    assert _chosen(sessions, [(30, 40)], "EINVAL") is None


def test_a_part_has_a_time_for_each_run_of_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    first, again = refused("a"), msgspec.structs.replace(refused("a"), span=(15, 19))
    told.write_bytes(b"\n".join(map(msgspec.json.encode, (first, again))) + b'\n{"type":"load","v')
    assert _spans(told) == {first.part[1:]: [(5, 9), (15, 19)]}
    assert _spans(tmp_path / "nothing") == {}


def call(name: str, error: str | None, line: int = 0) -> why_types.FailingChainCall:
    result = to.Result(-22, f"-{error}", None, error)
    source = (to.Source(name, "kernel/bpf/syscall.c", line),) if line else ()
    return why_types.FailingChainCall(
        to.Func(name, "0x1", None), result, to.Frame("0x1", name, 1, source=source)
    )


def test_what_is_told_are_the_calls_inside_bpf_and_the_condition_as_why_has_it() -> None:
    place = to.CodePlace("0x2", 0x98, "cmp", "kernel/bpf/arraymap.c", 58, 29)
    decided = to.Decision(
        place, "attr->key_size != 4", True, (to.ConditionOperand("attr->key_size", 8),)
    )
    origin = to.Origin(
        to.Func("array_map_alloc_check", "0x1", None),
        3,
        to.Result(-22, "-EINVAL", -22, "EINVAL"),
        "constant",
        None,
        to.CodePlace("0x3", 0xA0, "mov", "kernel/bpf/arraymap.c", 63, 10),
        decided,
    )
    chain = (
        call("__x64_sys_bpf", "EINVAL"),
        call("map_create", "EINVAL", 1269),
        call("array_map_alloc_check", "EINVAL"),
    )
    explained = why_types.ExplainedCall(
        "bpf", "EINVAL", 1, 1, "x", "x", "", chain=chain, origin=origin
    )
    assert _chain(explained) == (
        "map_create  [EINVAL]  (kernel/bpf/syscall.c:1269)",
        "array_map_alloc_check  [EINVAL]",
    )
    (condition,) = _conditions(explained)
    assert (condition.function, condition.condition) == (
        "array_map_alloc_check",
        "attr->key_size != 4",
    )
    assert condition.place == "kernel/bpf/arraymap.c:58:29"
    assert condition.values == {"attr->key_size": 8}
    why = msgspec.structs.replace(
        NOTHING, chain=_chain(explained), conditions=(condition,), said=("no such key",)
    )
    shown = list(explanation_lines(why, Palette()))
    at = shown.index("In the kernel:")
    assert shown[at + 1 : at + 6] == [
        "    map_create  [EINVAL]  (kernel/bpf/syscall.c:1269)",
        "  ! array_map_alloc_check  [EINVAL]",
        "        kernel/bpf/arraymap.c:63:10   returned -EINVAL",
        "        kernel/bpf/arraymap.c:58:29   because attr->key_size != 4   attr->key_size = 8",
        "  the kernel said: no such key",
    ]
