# SPDX-License-Identifier: BSD-2-Clause
"""Stacks that are merged once and those that are merged again are the same."""

from __future__ import annotations

from tests.unit.session.records import FUNCTIONS, KSTACK, call, session, symbols

from retsnoop_py.session.model import Call
from retsnoop_py.session.stacks import Stack, Stacker, build_stack
from retsnoop_py.settings import StackSettings


def calls(scale: int = 1, **last: bool) -> tuple[Call, ...]:
    made = [call(function, -scale, 1000 * scale) for function in FUNCTIONS]
    made[-1] = made[-1]._replace(**last)
    return tuple(made)


def test_stacks_of_equal_calls_share_their_shape_and_keep_their_values() -> None:
    stacker, settings = Stacker(symbols(), StackSettings()), StackSettings()
    for scale in (1, 2, 3):
        subject = session(*calls(scale), kstack=KSTACK)
        stack = stacker.stack(subject)

        assert tuple(stack) == build_stack(subject, symbols(), settings)
        assert stack.shape is stacker.stack(session(*calls(), kstack=KSTACK)).shape


def test_other_calls_or_addresses_are_another_shape() -> None:
    stacker = Stacker(symbols(), StackSettings())
    subjects = (
        session(*calls(), kstack=KSTACK),
        session(*calls(finished=False), kstack=KSTACK),
        session(*calls(stitched=True), kstack=KSTACK),
        session(*calls()[:2], kstack=KSTACK),
        session(*calls(), kstack=KSTACK[1:]),
        session(*calls(), kstack=KSTACK, call_sites=True),
    )

    assert len({id(stacker.stack(subject).shape) for subject in subjects}) == len(subjects)


def test_a_stack_of_traced_calls_alone_is_bare() -> None:
    stacker = Stacker(symbols(), StackSettings())

    assert stacker.stack(session(*calls())).shape.is_bare
    assert not stacker.stack(session(*calls(), kstack=KSTACK)).shape.is_bare
    assert tuple(Stack.of(stacker.stack(session(*calls())))) == tuple(
        stacker.stack(session(*calls()))
    )
