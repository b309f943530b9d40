# SPDX-License-Identifier: BSD-2-Clause
"""The ladder: the best mechanism that works here attaches what the plan says."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from retsnoop_py.attach.kprobe import KprobeAttachment
from retsnoop_py.attach.kprobe_multi import KprobeMultiAttachment
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Refusal
from retsnoop_py.errors import PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.libbpf import BpfObject
from retsnoop_py.settings import Mechanism


class Attachment(Protocol):
    """Functions attached by one mechanism."""

    refusals: list[Refusal]

    @property
    def attached(self) -> int:
        """How many functions are attached."""
        ...

    def attach(self) -> None:
        """Attach what can be; what refuses is in ``refusals``.

        Raises UnavailableError where the kernel lacks the mechanism.
        """
        ...

    def detach(self, context: AttachContext) -> None:
        """Detach everything. Idempotent."""
        ...


class Loaded(Protocol):
    """A loaded object, as the attacher needs it."""

    @property
    def obj(self) -> BpfObject:
        """The object with the programs ``rsn_entry`` and ``rsn_exit``."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


L = TypeVar("L", bound=Loaded)


@dataclass(frozen=True, slots=True)
class Rung(Generic[L]):
    """Where the ladder ended.

    The mechanism, its object, what is attached, and why the better mechanisms were passed over.
    """

    mechanism: Mechanism
    loaded: L
    attachment: Attachment
    passed_over: tuple[tuple[Mechanism, str], ...]


def climb(
    plan: AttachPlan,
    load: Callable[[Mechanism], L],
    context: AttachContext,
    *,
    has_cookies: bool,
) -> Rung[L]:
    """Attach ``plan`` by the first of its mechanisms that works.

    ``has_cookies``: this kernel has attach cookies (5.15). Raises the last mechanism's
    UnavailableError where none works; nothing stays attached then.
    """
    passed_over: list[tuple[Mechanism, str]] = []
    for mechanism in plan.mechanisms:
        last = mechanism is plan.mechanisms[-1]
        try:
            loaded = load(mechanism)
            try:
                attachment = _attachment(
                    mechanism, loaded.obj, plan, context, has_cookies=has_cookies
                )
                _attach(mechanism, attachment, context)
            except BaseException:
                loaded.close()
                raise
        except UnavailableError as error:
            if last:
                raise
            passed_over.append((mechanism, error.message))
            continue
        return Rung(mechanism, loaded, attachment, tuple(passed_over))
    raise UnavailableError("no attach mechanism was planned")


def _attach(mechanism: Mechanism, attachment: Attachment, context: AttachContext) -> None:
    try:
        attachment.attach()
        if not attachment.attached and not context.stopping():
            raise _nothing_attached(mechanism, attachment.refusals)
    except BaseException:
        attachment.detach(context)
        raise


def _nothing_attached(mechanism: Mechanism, refusals: list[Refusal]) -> RetsnoopError:
    first = refusals[0]
    message = (
        f"no function could be attached by {mechanism.value}; "
        f"'{first.function.label}': {first.reason}"
    )
    if first.errno in (errno.EPERM, errno.EACCES):
        return PrivilegeError(
            message, "run as root, or after `sysctl kernel.perf_event_paranoid=2`"
        )
    if first.errno in (errno.EMFILE, errno.ENFILE):
        return UnavailableError(message, "allow more open files: `ulimit -n`")
    return UnavailableError(message, "choose other functions")


def _attachment(
    mechanism: Mechanism,
    obj: BpfObject,
    plan: AttachPlan,
    context: AttachContext,
    *,
    has_cookies: bool,
) -> Attachment:
    if mechanism is Mechanism.KPROBE_MULTI:
        return KprobeMultiAttachment(obj, plan, context)
    return KprobeAttachment(obj, plan, context, use_link=has_cookies, entries_first=has_cookies)
