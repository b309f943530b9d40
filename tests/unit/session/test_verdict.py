# SPDX-License-Identifier: BSD-2-Clause
"""What was caught against what was asked for."""

from __future__ import annotations

import pytest
from tests.unit.session.records import PTR, call, function, session

from retsnoop_py.session.verdict import Caught
from retsnoop_py.settings import VerdictSettings

EINVAL, ENOMEM, ENOENT, NULL = 22, 12, 2, 0
#: -ENOMEM at the surface, NULL at the bottom.
NOMEM = session(call("sys_bpf", -ENOMEM), call(function("alloc", result=PTR), 0))
INVALID = session(call("sys_bpf", -EINVAL))
GOOD = session(call("sys_bpf", 0), is_error=False)


def asked(**fields: object) -> VerdictSettings:
    return VerdictSettings(
        **{name: frozenset(v) if isinstance(v, tuple) else v for name, v in fields.items()}
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (asked(), []),
        (asked(fail_on=(ENOENT,)), []),
        (asked(fail_on=(NULL,)), ["NULL: caught 2 sessions (--fail-on)"]),
        (asked(expect=(ENOMEM, EINVAL)), []),
        (asked(expect=(ENOMEM, EINVAL), fail_on_any=True), []),
        (asked(expect=(NULL,), fail_on_any=True), ["EINVAL: caught 1 session (--fail-on any)"]),
        (asked(expect=(ENOENT,)), ["ENOENT: not caught (--expect)"]),
        (
            asked(expect_none=True),
            [
                "EINVAL: caught 1 session (--expect-none)",
                "ENOMEM: caught 2 sessions (--expect-none)",
            ],
        ),
    ],
)
def test_what_was_caught_is_held_against_what_was_asked_for(
    settings: VerdictSettings, said: list[str]
) -> None:
    caught = Caught(settings)
    for one in (NOMEM, GOOD, INVALID, NOMEM):
        caught.add(one)
    assert caught.errors == {"ENOMEM": 2, "EINVAL": 1}
    assert caught.surprises() == said


def test_nothing_caught_is_no_proof_where_something_was_lost() -> None:
    caught = Caught(asked(expect_none=True))
    caught.add(GOOD)
    assert caught.surprises() == []
    caught.lost = {"sessions_dropped": 3}
    assert "sessions_dropped 3" in caught.surprises()[0]
