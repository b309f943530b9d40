# SPDX-License-Identifier: BSD-2-Clause
"""What is planned before the kernel is touched, and how a refused set is taken apart.

Plans that take long are told before anything is attached.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from retsnoop_py.attach.features import Verdict
from retsnoop_py.attach.multi import KprobeMultiAttachment
from retsnoop_py.attach.plan import (
    LADDER,
    AttachContext,
    AttachPlan,
    RungPlan,
    make_plan,
    refused,
    slow_attach,
)
from retsnoop_py.errors import BpfError, UnavailableError
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.mechanism import Mechanism

BASE = 0xFFFFFFFF81000000


def functions(count: int) -> list[Function]:
    result = ResultType(ResultKind.INT)
    return [
        Function(f"f{i}", BASE + 16 * i, 16, FuncFlags.ENTRY | FuncFlags.SIGN32, result)
        for i in range(count)
    ]


class Here:
    """A kernel on which ``works`` work, and whose ``picky`` mechanism takes even ids only."""

    def __init__(self, *works: Mechanism, picky: Mechanism | None = None) -> None:
        self.works, self.picky = works, picky

    def verdict(self, mechanism: Mechanism) -> Verdict:
        return Verdict(True) if mechanism in self.works else Verdict(False, "not here")

    def require(self, mechanism: Mechanism) -> None:
        if mechanism not in self.works:
            raise UnavailableError(f"no {mechanism.value}")

    def require_any(self) -> None:
        if not self.works:
            raise UnavailableError("no mechanism")

    def unfit(self, mechanism: Mechanism, ids: Iterable[int]) -> dict[int, str]:
        return {one: "it is odd" for one in ids if mechanism is self.picky and one % 2}


def plan_of(count: int, mechanism: Mechanism, here: Here) -> AttachPlan:
    return make_plan(functions(count), mechanism, here, here)


def test_auto_takes_the_first_that_works_and_says_why_not_the_others() -> None:
    plan = plan_of(3, Mechanism.AUTO, Here(Mechanism.KPROBE))
    assert plan.rungs == (RungPlan(Mechanism.KPROBE, (0, 1, 2)),)
    assert [mechanism for mechanism, _ in plan.passed_over] == list(LADDER[:-1])


def test_what_the_first_cannot_take_is_for_the_next_that_works() -> None:
    first, last = LADDER[0], LADDER[-1]
    plan = plan_of(5, Mechanism.AUTO, Here(first, last, picky=first))
    assert plan.rungs == (RungPlan(first, (0, 2, 4)), RungPlan(last, (1, 3)))
    assert plan.unfit == ()


def test_a_forced_mechanism_is_used_alone() -> None:
    here = Here(*Mechanism, picky=Mechanism.FENTRY)
    plan = plan_of(3, Mechanism.FENTRY, here)
    assert plan.rungs == (RungPlan(Mechanism.FENTRY, (0, 2)),)
    assert [(one.function.name, one.reason) for one in plan.unfit] == [("f1", "it is odd")]


@pytest.mark.parametrize("mechanism", [Mechanism.AUTO, Mechanism.KPROBE_SESSION])
def test_a_missing_mechanism_is_an_error(mechanism: Mechanism) -> None:
    with pytest.raises(UnavailableError):
        plan_of(1, mechanism, Here())


def test_a_cookie_is_the_id_below_and_the_flags_above() -> None:
    flags = int(FuncFlags.ENTRY | FuncFlags.SIGN32)
    plan = plan_of(3, Mechanism.AUTO, Here(Mechanism.KPROBE))
    assert plan.cookies([2, 0]) == [2 | flags << 32, flags << 32]


def test_a_refusal_names_the_errno_and_says_it_in_words() -> None:
    reason = refused(functions(1)[0], errno.EINVAL).reason
    assert "EINVAL" in reason
    assert "rejects" in reason


class Kernel:
    """A program whose links fail when a function of ``bad`` is among theirs: what the kernel
    does with kprobe.multi, which no test machine can be made to do at will."""

    def __init__(self, bad: dict[int, int]) -> None:
        self.bad = bad
        self.attached: dict[bool, set[int]] = {False: set(), True: set()}
        self.asked: list[Sequence[int]] = []

    def program(self, name: str) -> Kernel:
        return self

    def attach_kprobe_multi(
        self, addresses: Sequence[int], cookies: Sequence[int], *, on_return: bool = False
    ) -> KernelLink:
        self.asked.append(addresses)
        for address in addresses:
            if address in self.bad:
                raise BpfError("attach", self.bad[address])
        self.attached[on_return] |= set(addresses)
        return KernelLink(self, set(addresses), on_return)


class KernelLink:
    def __init__(self, kernel: Kernel, addresses: set[int], on_return: bool) -> None:
        self.kernel, self.addresses, self.on_return = kernel, addresses, on_return

    def close(self) -> None:
        self.kernel.attached[self.on_return] -= self.addresses


def attach(kernel: Kernel, plan: AttachPlan) -> KprobeMultiAttachment:
    attachment = KprobeMultiAttachment(plan, range(len(plan.functions)), context_of(kernel))
    attachment.attach()
    return attachment


def context_of(kernel: Kernel, *, pool: bool = False) -> AttachContext:
    """``pool``: the kernel's fprobe has a pool of return hooks."""
    unused: Any = None
    symbols = {"fprobe_exit_handler": BASE} if pool else {}
    facts: Any = SimpleNamespace(kallsyms=SimpleNamespace(address_of=symbols.get))
    return AttachContext(
        cast("BpfObject", kernel), unused, facts, lambda done, total: None, lambda: False
    )


def multi_plan(count: int) -> AttachPlan:
    return plan_of(count, Mechanism.KPROBE_MULTI, Here(Mechanism.KPROBE_MULTI))


@pytest.mark.parametrize("bad", [[], [0], [99], [13, 14], list(range(0, 100, 7))])
def test_only_the_functions_at_fault_are_left_out(bad: list[int]) -> None:
    plan = multi_plan(100)
    addresses = plan.addresses(range(100))
    kernel = Kernel({addresses[i]: errno.EINVAL for i in bad})
    attachment = attach(kernel, plan)
    good = {address for i, address in enumerate(addresses) if i not in bad}
    assert kernel.attached == {False: good, True: good}
    assert attachment.attached == len(good)
    assert sorted(attachment.refusals) == bad
    assert all(plan.functions[i] is one.function for i, one in attachment.refusals.items())
    attachment.detach(context_of(kernel))
    assert kernel.attached == {False: set(), True: set()}


def test_a_missing_mechanism_is_not_taken_for_a_refusing_function() -> None:
    plan = multi_plan(4)
    kernel = Kernel(dict.fromkeys(plan.addresses(range(4)), errno.EOPNOTSUPP))
    with pytest.raises(UnavailableError):
        attach(kernel, plan)


@pytest.mark.parametrize("count", [1, 3, 2000])
def test_where_hooks_are_pooled_a_link_of_few_functions_asks_for_enough(count: int) -> None:
    plan = multi_plan(count)
    for pool, least in ((False, count), (True, max(count, 2048 // (os.cpu_count() or 1)))):
        kernel = Kernel({})
        context = context_of(kernel, pool=pool)
        attachment = KprobeMultiAttachment(plan, range(count), context)
        attachment.attach()
        assert attachment.attached == count
        assert set(kernel.asked[0]) == set(plan.addresses(range(count)))
        assert least <= len(kernel.asked[0]) <= least + count


def plan(mechanism: Mechanism, count: int) -> AttachPlan:
    return AttachPlan((), (RungPlan(mechanism, tuple(range(count))),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    return tmp_path


def write_flags(root: Path, flags: str) -> None:
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")


@pytest.mark.parametrize(
    ("mechanism", "quick", "slow"),
    [
        (Mechanism.KPROBE, 100, 1_000),
        (Mechanism.FENTRY, 10, 1_000),
        (Mechanism.KPROBE_EVENTS, 1_000, 10_000),
        (Mechanism.KPROBE_SESSION, 1_500, 60_000),
    ],
)
def test_what_takes_long_is_told_with_its_number_and_the_next_step(
    mechanism: Mechanism, quick: int, slow: int, root: Path
) -> None:
    assert slow_attach(plan(mechanism, quick), root) is None
    text = slow_attach(plan(mechanism, slow), root)
    assert text is not None
    assert text.startswith(f"{slow} functions by {mechanism.value} take long")
    assert "-a, -d" in text


def test_branch_tracking_makes_many_functions_slow(root: Path) -> None:
    many = plan(Mechanism.KPROBE_SESSION, 30_000)
    write_flags(root, "fpu user_shstk")
    assert slow_attach(many, root) is None
    write_flags(root, "fpu user_shstk ibt")
    text = slow_attach(many, root)
    assert text is not None
    assert "IBT" in text
    assert slow_attach(plan(Mechanism.KPROBE_SESSION, 1_500), root) is None


def test_every_mechanism_has_its_number(root: Path) -> None:
    for mechanism in set(Mechanism) - {Mechanism.AUTO}:
        assert slow_attach(plan(mechanism, 100_000), root)
