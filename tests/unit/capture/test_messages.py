# SPDX-License-Identifier: BSD-2-Clause
"""What a run says about functions that could not be attached."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.session.records import function

from retsnoop_py.attach.mass_attacher import Attached, Rung
from retsnoop_py.attach.plan import AttachPlan, Refusal
from retsnoop_py.capture import messages
from retsnoop_py.kernel.functions import FuncFlags
from retsnoop_py.listener import Listener, listening
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.settings import SelectionSettings, Settings

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
        "WARNING: 1 function could not be attached; -v lists them with the reason",
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


def warned(act: Callable[[], None]) -> list[str]:
    heard = Heard()
    with listening(heard):
        act()
    return heard.lines


def test_one_warning_tells_of_all_entry_functions_that_cannot_fail() -> None:
    """``-e '*'`` printed 17,857 of them."""
    void = [
        function(f"f{number}", number, flags=FuncFlags.ENTRY | FuncFlags.CANT_FAIL)
        for number in range(1, 1006)
    ]
    chosen: Any = SimpleNamespace(
        functions=(*void, function("g", 9999)), rejections=(), globs=(), types=()
    )

    own = Settings(selection=SelectionSettings(entry=("*",)))
    preset = Settings(selection=SelectionSettings(presets=("lsm",)))
    assert warned(lambda: messages.selection(preset, chosen)) == []
    assert warned(lambda: messages.selection(own, chosen)) == [
        (
            "WARNING: 1,005 entry functions cannot fail by their return types: 'f1', 'f2', 'f3' "
            "and 1,002 more. They report only what fails inside them; -S shows their successes"
        )
    ]


def test_one_warning_tells_of_all_functions_that_are_not_followed() -> None:
    texts = ["f: no code", "g: no code"]

    def lines(**settings: Any) -> list[str]:
        return warned(lambda: messages.not_followed(Settings(**settings), "--path", texts))

    assert lines() == [
        "WARNING: --path: 2 functions are not followed, the first: f: no code; -v lists all"
    ]
    assert lines(verbose=1) == [
        "WARNING: --path: 2 functions are not followed, the first: f: no code",
        "--path: f: no code",
        "--path: g: no code",
    ]
    del texts[1:]
    assert lines() == ["WARNING: --path: f: no code"]
