# SPDX-License-Identifier: BSD-2-Clause
"""What a guest prints, and what its kernel's own functions add to it."""

from __future__ import annotations

import msgspec
import pytest

from retsnoop_py.cli.load_chain import _chain, _lines
from retsnoop_py.load.guests import _results
from retsnoop_py.load.model import VERSION, Explanation, LoadResult

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


def session(begin: int, end: int, *calls: tuple[str, str | None]) -> bytes:
    stack = [
        {"call": {"function": {"name": name}, "result": {"error": error} if error else {}}}
        for name, error in calls
    ]
    told = {"type": "session", "failed": True, "start_ns": begin, "end_ns": end, "stack": stack}
    return msgspec.json.encode(told)


def test_the_chain_is_the_last_of_that_time_and_error() -> None:
    failing = (("__x64_sys_bpf", "EINVAL"), ("map_create", "EINVAL"), ("check", "EINVAL"))
    out = b"\n".join(
        [
            session(1, 2, ("__x64_sys_bpf", "EINVAL"), ("before", "EINVAL")),
            session(6, 7, ("__x64_sys_bpf", "ENOENT"), ("other", "ENOENT")),
            session(6, 8, *failing),
            b"{ no JSON",
            b"a word of the command",
        ]
    )
    sessions = _lines(out, "session")
    assert _chain(sessions, (5, 9), "EINVAL") == ("map_create  [EINVAL]", "check  [EINVAL]")
    assert _chain(sessions, (10, 20), "EINVAL") == ()
