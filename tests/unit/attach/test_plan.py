# SPDX-License-Identifier: BSD-2-Clause
"""What is planned before the kernel is touched, and how a refused set is taken apart."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from retsnoop_py.attach.kprobe_multi import KprobeMultiAttachment
from retsnoop_py.attach.plan import LADDER, AttachContext, AttachPlan, Refusal, make_plan
from retsnoop_py.errors import BpfError, UnavailableError
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.settings import Mechanism

BASE = 0xFFFFFFFF81000000


def functions(count: int) -> list[Function]:
    result = ResultType(ResultKind.INT)
    return [
        Function(f"f{i}", BASE + 16 * i, 16, FuncFlags.ENTRY | FuncFlags.SIGN32, result)
        for i in range(count)
    ]


def test_auto_tries_the_ladder_and_a_forced_mechanism_only_itself() -> None:
    assert make_plan(functions(1), Mechanism.AUTO).mechanisms == LADDER
    assert make_plan(functions(1), Mechanism.KPROBE).mechanisms == (Mechanism.KPROBE,)


def test_a_cookie_is_the_id_below_and_the_flags_above() -> None:
    flags = int(FuncFlags.ENTRY | FuncFlags.SIGN32)
    plan = make_plan(functions(3), Mechanism.AUTO)
    assert plan.cookies == [i | flags << 32 for i in range(3)]


def test_a_refusal_names_the_errno_and_says_it_in_words() -> None:
    reason = Refusal(functions(1)[0], errno.EINVAL).reason
    assert "EINVAL" in reason
    assert "refuses" in reason


class Kernel:
    """A program whose links fail when a function of ``bad`` is among theirs: what the kernel
    does with kprobe.multi, which no test machine can be made to do at will."""

    def __init__(self, bad: dict[int, int]) -> None:
        self.bad = bad
        self.attached: dict[bool, set[int]] = {False: set(), True: set()}

    def program(self, name: str) -> Kernel:
        return self

    def attach_kprobe_multi(
        self, addresses: Sequence[int], cookies: Sequence[int], *, on_return: bool
    ) -> KernelLink:
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
    context = AttachContext(lambda done, total: None, lambda: False)
    attachment = KprobeMultiAttachment(kernel, plan, context)  # type: ignore[arg-type]
    attachment.attach()
    return attachment


@pytest.mark.parametrize("bad", [[], [0], [99], [13, 14], list(range(0, 100, 7))])
def test_only_the_functions_at_fault_are_left_out(bad: list[int]) -> None:
    plan = make_plan(functions(100), Mechanism.KPROBE_MULTI)
    kernel = Kernel({plan.addresses[i]: errno.EINVAL for i in bad})
    attachment = attach(kernel, plan)
    good = {address for i, address in enumerate(plan.addresses) if i not in bad}
    assert kernel.attached == {False: good, True: good}
    assert attachment.attached == len(good)
    refused = sorted(refusal.function.name for refusal in attachment.refusals)
    assert refused == sorted(f"f{i}" for i in bad)
    attachment.detach(AttachContext(lambda done, total: None, lambda: False))
    assert kernel.attached == {False: set(), True: set()}


def test_a_missing_mechanism_is_not_taken_for_a_refusing_function() -> None:
    plan = make_plan(functions(4), Mechanism.KPROBE_MULTI)
    kernel = Kernel(dict.fromkeys(plan.addresses, errno.EOPNOTSUPP))
    with pytest.raises(UnavailableError):
        attach(kernel, plan)
