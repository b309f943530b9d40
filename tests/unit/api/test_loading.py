# SPDX-License-Identifier: BSD-2-Clause
"""What keywords ask of a load, and where a kernel that says nothing refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.load.test_guests import NOTHING, refused

import retsnoop_py as rs
from retsnoop_py.api.loading import Loading, _chain, _chosen, _conditions, _spans, in_order
from retsnoop_py.cli import declare, load
from retsnoop_py.cli.argv import normalise
from retsnoop_py.model import session as to
from retsnoop_py.model import why as why_types
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.palette import Palette

LOG = """0: (79) r0 = *(u64 *)(r1 +0)
1: (61) r0 = *(u32 *)(r0 +0)
R0 invalid mem access 'scalar'
"""


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, ""),
        ({"on": "6.1"}, "--on 6.1"),
        ({"on": ["5.10", "host"], "jobs": 1}, "--on 5.10,host --jobs 1"),
        ({"programs": "p", "maps": ["a", "b"]}, "--prog p --map a --map b"),
        ({"variables": {"slots": 16, "on": True}}, "--set slots=16 --set on=1"),
        (
            {"variables": {"few": {"n": 1}, "many": {"n": 9, "m": -1}}},
            "--set few:n=1 --set many:n=9 --set many:m=-1",
        ),
        ({"attach": True, "trace": False, "timeout": 7}, "--try-attach --no-trace --timeout 7"),
        ({"logs": True, "kernel": Path("vm")}, "--keep-logs -k vm"),
    ],
)
def test_keywords_mean_what_options_mean(
    options: dict[str, Any], line: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.bpf.o"
    path.touch()
    words = normalise([*line.split(), str(path)], declare.command_table(load.COMMAND))
    assert Loading.of([path], options) == load.COMMAND.call(words).loading  # type: ignore[arg-type]


def test_what_makes_no_sense_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.bpf.o"
    with pytest.raises(rs.UsageError, match="programms: no such option") as caught:
        rs.load_objects(path, programms="p")  # type: ignore[call-arg]
    assert caught.value.hint == "did you mean programs?; docs/api.md lists the keywords"
    with pytest.raises(rs.UsageError, match="no object"):
        rs.load_objects(on="6.1")
    with pytest.raises(rs.InputError, match=r"x\.bpf\.o: No such file"):
        rs.load_objects(path, on="6.1")


def test_the_last_word_about_a_part_counts_in_the_order_of_the_kernels() -> None:
    first, other = (msgspec.structs.replace(refused("a"), kernel=name) for name in ("5.10", "6.1"))
    more = msgspec.structs.replace(first, errno="EPERM")
    assert in_order([other, first, more], ("5.10", "6.1")) == [more, other]


def test_a_log_is_explained_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LOG)
    (found,) = rs.explain(LOG)
    assert found.explanation.words[-1] == "R0 invalid mem access 'scalar'"
    assert rs.explain(path) == rs.explain(LOG.encode()) == [found]
    assert rs.explain("all is well\n") == []
    with pytest.raises(rs.InputError, match="No such file"):
        rs.explain(tmp_path / "nothing")
    with pytest.raises(rs.InputError, match="No such file"):
        rs.explain(LOG, target=tmp_path / "nothing")


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
        "bpf", "EINVAL", 1, 1, "x", "x", "", "observed", chain=chain, origin=origin
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
