# SPDX-License-Identifier: BSD-2-Clause
"""The plan of attachments: pure values, made without attaching."""

from __future__ import annotations

import errno as errnos
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from retsnoop_py.attach.features import Features, Verdict
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import Function
from retsnoop_py.mechanism import LADDER, Mechanism
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.libbpf.object import BpfObject

_REASONS = {
    errnos.EPERM: "the kernel forbids it",
    errnos.EACCES: "the kernel forbids it",
    errnos.EMFILE: "no file descriptors are left",
    errnos.ENOENT: "the kernel cannot decode the instruction at this address",
    errnos.ENOMEM: "the kernel is out of memory",
    errnos.EBUSY: "another tracer uses this function",
    errnos.EINVAL: "the kernel rejects probes on this function",
    errnos.EILSEQ: "the address is not at an instruction boundary",
    errnos.EOPNOTSUPP: "the kernel cannot probe this function",
    errnos.EADDRNOTAVAIL: "the address is not in a function that can be probed",
}


class Refusal(Value):
    """A function that is not attached, and the reason as text.

    ``errno`` is the kernel's error, positive; 0 if the kernel did not decide.
    """

    function: Function
    reason: str
    errno: int = 0


def refused(function: Function, errno: int) -> Refusal:
    """Return the refusal of ``function`` by the kernel with ``errno`` (positive)."""
    name = errno_name(errno)
    words = _REASONS.get(errno)
    return Refusal(function, f"{words} (-{name})" if words else f"-{name}", errno)


class RungPlan(Value):
    """The functions, by id, that ``mechanism`` is to attach."""

    mechanism: Mechanism
    ids: tuple[int, ...]


class AttachPlan(Value):
    """Functions in the order of their ids, and their planned mechanisms, best first.

    If the kernel rejects functions of a rung, the next rung tries them; that rung may have no
    planned functions. ``passed_over`` explains why better mechanisms are not used, ``unfit``
    contains functions that none of the rungs can attach.
    """

    functions: Sequence[Function]
    rungs: tuple[RungPlan, ...]
    unfit: tuple[Refusal, ...] = ()
    passed_over: tuple[tuple[Mechanism, str], ...] = ()

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms of the rungs."""
        return tuple(rung.mechanism for rung in self.rungs)

    @property
    def files(self) -> int:
        """The maximum number of descriptors that attaching needs."""
        return max((one.row.files(len(self.functions)) for one in self.mechanisms), default=0)

    def addresses(self, ids: Iterable[int]) -> list[int]:
        """Return the addresses of functions."""
        addresses = FunctionTable.of(self.functions).addresses
        return [addresses[i] for i in ids]

    def cookies(self, ids: Iterable[int]) -> list[int]:
        """Return the cookies of functions for the BPF side: id below, flags above (records.h)."""
        flags = FunctionTable.of(self.functions).flags
        return [i | flags[i] << 32 for i in ids]


class Miss(Value):
    """Calls that a mechanism missed; ``function`` is None if it is unknown.

    ``told``: the affected session reports the miss itself, or no session is affected.
    """

    function: Function | None
    count: int
    what: str
    told: bool = True


class Attachment(Protocol):
    """Functions attached by one mechanism."""

    #: Functions that the kernel rejected, by id.
    refusals: dict[int, Refusal]

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        """Prepare functions ``ids`` of ``plan``, which :meth:`attach` is to attach."""
        ...

    @classmethod
    def trial(cls, features: Features, /) -> int | str:
        """Test if the mechanism works here: return 0 if so, else an errno or the reason."""
        ...

    @property
    def attached(self) -> int:
        """The number of attached functions."""
        ...

    def attach(self) -> None:
        """Attach all functions; rejected ones are in ``refusals``.

        Stops early when the run is stopping. Raises UnavailableError if the kernel turns out to
        lack the mechanism.
        """
        ...

    def misses(self) -> list[Miss]:
        """Return the calls missed so far, if the kernel counts them. Call it before detaching."""
        ...

    def detach(self, context: AttachContext) -> None:
        """Detach all. Idempotent."""
        ...


#: Called from time to time with (functions done, total number of functions).
ProgressCallback = Callable[[int, int], None]


class AttachContext(Value):
    """The context in which a mechanism works.

    ``system_changes``: system-wide settings may be changed for a moment. ``argument_counts``: the
    number of captured arguments of each function, by its id; empty if none are captured;
    ``probe_counts``: the same for injected probes.
    """

    obj: BpfObject
    features: Features
    facts: KernelFacts
    progress: ProgressCallback
    stopping: Callable[[], bool]
    system_changes: bool = True
    argument_counts: tuple[int, ...] = ()
    probe_counts: tuple[int, ...] = ()


class Fitness(Protocol):
    """Finds functions that a mechanism cannot attach, before the kernel rejects them."""

    def unfit(self, mechanism: Mechanism, ids: Iterable[int]) -> dict[int, str]:
        """Return why ``mechanism`` cannot attach functions, by id; others are not included."""
        ...


class Verdicts(Protocol):
    """The working mechanisms here: :class:`~retsnoop_py.attach.features.Features`."""

    def verdict(self, mechanism: Mechanism) -> Verdict:
        """Return whether ``mechanism`` works, and why not."""
        ...

    def require(self, mechanism: Mechanism) -> None:
        """Raise UnavailableError unless ``mechanism`` works."""
        ...

    def require_any(self) -> None:
        """Raise UnavailableError unless some mechanism of the ladder works."""
        ...


def make_plan(
    functions: Sequence[Function], mechanism: Mechanism, features: Verdicts, fitness: Fitness
) -> AttachPlan:
    """Plan to attach ``functions`` by ``mechanism`` alone, or by the best ones that work.

    The function tests mechanisms on the kernel until it has enough. Raises UnavailableError if a
    forced mechanism, or every mechanism, is missing.
    """
    if mechanism is not Mechanism.AUTO:
        features.require(mechanism)
        ladder: Sequence[Mechanism] = (mechanism,)
    else:
        ladder = LADDER
    rungs: list[RungPlan] = []
    passed_over: list[tuple[Mechanism, str]] = []
    table = FunctionTable.of(functions)
    left = dict.fromkeys(range(len(table)), "")
    for one in ladder:
        if rungs and not left and not rungs[-1].mechanism.row.all_or_none:
            break
        verdict = features.verdict(one)
        if not verdict.works:
            passed_over.append((one, verdict.reason or "it does not work here"))
            continue
        reasons = fitness.unfit(one, left)
        rungs.append(RungPlan(one, tuple([i for i in left if i not in reasons])))
        left = reasons
    if not rungs:
        features.require_any()
    unfit = tuple(Refusal(table[i], reason) for i, reason in left.items())
    return AttachPlan(table, tuple(rungs), unfit, tuple(passed_over))


def slow_attach(plan: AttachPlan, root: Path = Path("/")) -> str | None:
    """Return a warning before attaching ``plan``; None if attaching is fast."""
    for rung in plan.rungs:
        row, count = rung.mechanism.row, len(rung.ids)
        if count > row.quick:
            return (
                f"{count} functions by {rung.mechanism.value} take long to attach and to let go "
                "of; fewer are faster (-a, -d)"
            )
        if row.quick_with_ibt and count > row.quick_with_ibt and _has_ibt(root):
            return (
                f"{count} functions take long to attach on a CPU with indirect branch tracking "
                "(IBT), the kernel looks up each one by its symbol; fewer are faster (-a, -d)"
            )
    return None


def _has_ibt(root: Path) -> bool:
    """Return True if the CPU tracks indirect branches and the kernel uses this."""
    try:
        with (root / "proc/cpuinfo").open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return "ibt" in flags.split()
