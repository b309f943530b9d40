# SPDX-License-Identifier: BSD-2-Clause
"""How refusals go down the ladder, and what is left when attaching fails."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from typing import Any

import pytest
from tests.unit.session.records import ALLOC, MAP_CREATE

from retsnoop_py.attach import mass_attacher
from retsnoop_py.attach.mass_attacher import attach, since
from retsnoop_py.attach.plan import (
    AttachContext,
    AttachPlan,
    Miss,
    Refusal,
    RungPlan,
    refused,
)
from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.mechanism import Mechanism

FIRST, SECOND = Mechanism.KPROBE_SESSION, Mechanism.KPROBE


class Attaching:
    """A mechanism that the kernel lets attach to all functions but ``refuses``."""

    def __init__(
        self, plan: AttachPlan, ids: list[int], refuses: Collection[int], err: int = errno.EINVAL
    ) -> None:
        self.plan, self.ids, self.refuses, self.errno = plan, ids, refuses, err
        self.attached = 0
        self.detached = False
        self.refusals: dict[int, Refusal] = {}

    def attach(self) -> None:
        bad = [i for i in self.ids if i in self.refuses]
        self.refusals = {i: refused(self.plan.functions[i], self.errno) for i in bad}
        self.attached = len(self.ids) - len(bad)

    def misses(self) -> list[Miss]:
        return [Miss(None, self.attached, "a reason")]

    def detach(self, context: AttachContext) -> None:
        self.detached = True


class Kernel:
    """What the mechanisms of one test refuse, and the attachments that were made."""

    def __init__(self, **refuses: Collection[int]) -> None:
        self.refuses = {Mechanism.named(name): ids for name, ids in refuses.items()}
        self.errno = errno.EINVAL
        self.made: dict[Mechanism, Attaching] = {}

    def attachment_of(self, mechanism: Mechanism) -> Callable[..., Attaching]:
        def make(plan: AttachPlan, ids: list[int], context: AttachContext) -> Attaching:
            refuses = self.refuses.get(mechanism, ())
            self.made[mechanism] = Attaching(plan, ids, refuses, self.errno)
            return self.made[mechanism]

        return make


def plan(first: int, second: int = 0) -> AttachPlan:
    """A plan with ``first`` functions on the first rung and ``second`` on the other."""
    total = first + second
    result = ResultType(ResultKind.INT)
    functions = tuple(Function(f"f{i}", 16 * i, 16, FuncFlags(0), result) for i in range(total))
    rungs = (
        RungPlan(FIRST, tuple(range(first))),
        RungPlan(SECOND, tuple(range(first, total))),
    )
    return AttachPlan(functions, rungs)


def context(stopping: bool = False) -> AttachContext:
    unused: Any = None
    return AttachContext(unused, unused, unused, lambda done, total: None, lambda: stopping)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(kernel: Kernel) -> Kernel:
        monkeypatch.setattr(mass_attacher, "attachment_of", kernel.attachment_of)
        return kernel

    return use


def test_a_rung_with_nothing_to_do_is_not_made(use: Any) -> None:
    kernel = use(Kernel())
    done = attach(plan(3), context())
    assert list(kernel.made) == [FIRST]
    assert (done.count, done.by, done.refusals) == (3, "kprobe.session", ())


def test_what_the_first_rung_refuses_goes_to_the_next(use: Any) -> None:
    kernel = use(Kernel(**{FIRST.value: [1]}))
    done = attach(plan(3, 2), context())
    assert kernel.made[SECOND].ids == [1, 3, 4]
    assert (done.count, done.refusals) == (5, ())
    assert done.by == "kprobe.session and kprobe"
    assert [miss.count for miss in done.misses()] == [2, 3]


def test_what_all_refuse_is_left_out_and_named(use: Any) -> None:
    use(Kernel(**{FIRST.value: [1], SECOND.value: [1, 3]}))
    done = attach(plan(3, 2), context())
    assert [one.function.name for one in done.refusals] == ["f1", "f3"]
    assert done.count == 3


def test_detaching_reaches_every_rung(use: Any) -> None:
    kernel = use(Kernel())
    attach(plan(1, 1), context()).detach(context())
    assert all(made.detached for made in kernel.made.values())


def test_nothing_attached_is_an_error_and_leaves_nothing(use: Any) -> None:
    kernel = use(Kernel(**{FIRST.value: [0], SECOND.value: [0]}))
    with pytest.raises(UnavailableError, match="no function could be attached"):
        attach(plan(1), context())
    assert all(made.detached for made in kernel.made.values())


def test_a_refusal_for_want_of_rights_says_so(use: Any) -> None:
    kernel = use(Kernel(**{FIRST.value: [0], SECOND.value: [0]}))
    kernel.errno = errno.EPERM
    with pytest.raises(PrivilegeError):
        attach(plan(1), context())


def test_an_interrupted_run_attaches_nothing_more(use: Any) -> None:
    kernel = use(Kernel())
    assert attach(plan(1), context(stopping=True)).count == 0
    assert not kernel.made


def test_an_error_midway_detaches_what_was_attached(use: Any) -> None:
    kernel = use(Kernel(**{FIRST.value: [0]}))

    class Broken(Attaching):
        def attach(self) -> None:
            raise UnavailableError("gone")

    def break_second(mechanism: Mechanism) -> Callable[..., Attaching]:
        def make(plan: AttachPlan, ids: list[int], context: AttachContext) -> Attaching:
            kernel.made[mechanism] = Broken(plan, ids, ())
            return kernel.made[mechanism]

        return kernel_gives(mechanism) if mechanism is FIRST else make

    kernel_gives = kernel.attachment_of
    kernel.attachment_of = break_second
    use(kernel)
    with pytest.raises(UnavailableError, match="gone"):
        attach(plan(2), context())
    assert kernel.made[FIRST].detached


def test_what_was_missed_before_tracing_began_does_not_count() -> None:
    before = [Miss(None, 2, "busy"), Miss(ALLOC, 1, "busy")]
    now = [Miss(None, 2, "busy"), Miss(ALLOC, 4, "busy"), Miss(MAP_CREATE, 1, "busy", told=False)]
    assert since(now, before) == [
        Miss(ALLOC, 3, "busy"),
        Miss(MAP_CREATE, 1, "busy", told=False),
    ]
