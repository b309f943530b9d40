# SPDX-License-Identifier: BSD-2-Clause
"""What a run says about functions that could not be attached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.session.records import function

from retsnoop_py.attach.mass_attacher import Attached, Rung
from retsnoop_py.attach.plan import AttachPlan, Refusal
from retsnoop_py.capture import messages
from retsnoop_py.listener import Listener, listening
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.settings import Settings

#: The first rung refuses two functions, the last one of them too.
GOOD, TAKEN, LEFT = (function(name, address) for address, name in enumerate(("f", "g", "h"), 1))


def attachment(attached: int, *refused: Any) -> Any:
    refusals = {number: Refusal(f, "no", 22) for number, f in enumerate(refused)}
    return SimpleNamespace(attached=attached, refusals=refusals)


DONE = Attached(
    (
        Rung(Mechanism.KPROBE_MULTI, attachment(1, TAKEN, LEFT)),
        Rung(Mechanism.KPROBE_EVENTS, attachment(1, LEFT)),
    ),
    (Refusal(LEFT, "no", 22),),
)
PLAN: Any = SimpleNamespace(functions=(GOOD, TAKEN, LEFT), mechanisms=())


class Heard(Listener):
    """Keeps every line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def said(**settings: Any) -> list[str]:
    plan: AttachPlan = PLAN
    heard = Heard()
    with listening(heard):
        messages.attached(Settings(**settings), DONE, plan, 0.5)
    return heard.lines


def test_their_number_is_told() -> None:
    assert said() == [
        "WARNING: 1 function could not be attached, -v tells which and why",
    ]


def test_each_is_named_with_v() -> None:
    assert "Function 'h' left out: no" in said(verbose=1)


def test_each_refusal_of_each_mechanism_is_told_on_request() -> None:
    assert said(debug_multi_kprobe=True) == [
        "Function 'g' refused by kprobe.multi: no",
        "Function 'h' refused by kprobe.multi: no",
        "Function 'h' refused by kprobe_events: no",
        "Function 'h' left out: no",
    ]


@pytest.mark.parametrize("debug", [False, True])
def test_where_the_log_is_read_is_told(debug: bool) -> None:
    heard = Heard()
    with listening(heard):
        messages.receiving(Settings(debug_bpf=debug))

    assert heard.lines[-1] == "Receiving data..."
    assert ["trace_pipe" in line for line in heard.lines[:-1]] == [True] * debug
