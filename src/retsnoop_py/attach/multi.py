# SPDX-License-Identifier: BSD-2-Clause
"""Mechanisms with one link for many functions: fprobe links, and tracing-multi links.

kprobe.multi is a pair of links for entries and returns (5.18), kprobe.session one for both (6.10),
fsession.multi one that goes through BPF trampolines (7.x).
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.errors import BpfError, UnavailableError
from retsnoop_py.libbpf import links
from retsnoop_py.libbpf.object import FdLink, Link
from retsnoop_py.mechanism import Mechanism

#: A function of kernels with a pool of hooks in fprobe (5.18-6.13; 4346ba160409 removed it).
_POOL_USER = "fprobe_exit_handler"
#: Minimum number of hooks per link: threads that may sleep in its functions. Some 80 bytes each.
_HOOKS = 4096

#: Reasons for missed calls.
TRAMPOLINE_BUSY = "retsnoop-py's BPF program was already running on that CPU"
KPROBE_BUSY = "a BPF program was running, or a BPF map was being changed, on that CPU"
NO_HOOK = "the kernel could not hook more returns, or another probe was being handled"

#: Errors of a missing mechanism, rather than an unsuitable function.
_ABSENT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EACCES})


class MultiAttachment(ABC):
    """Functions ``ids`` of ``plan``, attached by as few links as the kernel allows.

    The kernel accepts all functions of a link or none. A rejected set is halved until the
    unsuitable functions are alone; they are skipped. The same halving handles ENOMEM, which
    6.7-6.11 return for large sets because of a limit in their object pool (4bbd93455659, lifted by
    aff1871bfc81).
    """

    mechanism: ClassVar[Mechanism]
    #: Why the kernel skips a program of its links for a call.
    busy: ClassVar[str]

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        self._plan = plan
        self._ids = ids
        self._context = context
        self._links: list[Link | FdLink] = []
        self._done = 0
        self.attached = 0
        self.refusals: dict[int, Refusal] = {}

    @classmethod
    @abstractmethod
    def trial(cls, features: Features, /) -> int | str:
        """Attach a function for an instant; see :class:`~retsnoop_py.attach.plan.Attachment`."""

    @abstractmethod
    def _link(self, ids: Sequence[int]) -> Sequence[Link | FdLink]:
        """Attach the functions ``ids`` together; raises BpfError, then none is attached."""

    def attach(self) -> None:
        """Attach; raises UnavailableError if the kernel lacks the mechanism altogether."""
        pending = [self._ids]
        while pending and not self._context.stopping():
            ids = pending.pop()
            error = self._try(ids)
            if error in _ABSENT and not self._links:
                raise UnavailableError(
                    f"{self.mechanism.value} does not work here ({errno.errorcode[error]})",
                    "leave out --attach, or see `retsnoop-py doctor`",
                )
            if error and len(ids) > 1:
                middle = len(ids) // 2
                pending += [ids[middle:], ids[:middle]]
                continue
            if error:
                self.refusals[ids[0]] = refused(self._plan.functions[ids[0]], error)
            else:
                self.attached += len(ids)
            self._done += len(ids)
            self._context.progress(self._done, len(self._ids))

    def _try(self, ids: Sequence[int]) -> int:
        """Attach ``ids`` together; return 0 or the errno of the rejection."""
        try:
            self._links += self._link(ids)
        except BpfError as error:
            return error.errno
        return 0

    def misses(self) -> list[Miss]:
        """Return calls for which the kernel did not run our programs."""
        counts = (
            (self._program_misses(), self.busy, True),
            (self._link_misses(), NO_HOOK, False),
        )
        return [Miss(None, count, what, told) for count, what, told in counts if count]

    def _program_misses(self) -> int:
        """Return the larger count of missed entries and missed returns: a call may miss both."""
        programs = map(self._context.obj.program, self.mechanism.row.programs)
        return max(map(links.unrun, programs))

    def _link_misses(self) -> int:
        return 0

    def detach(self, context: AttachContext) -> None:
        """Detach everything. Idempotent."""
        attached, self._links = self._links, []
        for done, link in enumerate(reversed(attached), 1):
            link.close()
            context.progress(done, len(attached))


class FprobeAttachment(MultiAttachment):
    """The common part of the two kinds of fprobe links."""

    busy = KPROBE_BUSY

    @classmethod
    def trial(cls, _: Features) -> int | str:
        """Test without hooking: see ``rsn_try_kprobe_multi`` of ``src/native/attach.h``."""
        return links.kprobe_multi(session=cls.mechanism is Mechanism.KPROBE_SESSION)

    def _link_misses(self) -> int:
        return sum(links.unhooked(link.fd) for link in self._links)

    def _targets(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return addresses and cookies for a link with enough hooks.

        Until 6.13 a link has a pool of two return hooks per CPU and address. With few functions,
        that is not enough if many threads sleep in them. The kernel counts an address as often as
        it is given, but hooks it once.
        """
        times = 1
        if self._has_pool:
            times = -(-_HOOKS // (2 * (os.cpu_count() or 1) * len(ids)))
        return self._plan.addresses(ids) * times, self._plan.cookies(ids) * times

    @cached_property
    def _has_pool(self) -> bool:
        return self._context.facts.kallsyms.address_of(_POOL_USER) is not None


class KprobeMultiAttachment(FprobeAttachment):
    """kprobe.multi: one link for all entries, one for all returns."""

    mechanism = Mechanism.KPROBE_MULTI

    def _link(self, ids: Sequence[int]) -> list[Link]:
        """Attach both sides.

        The entry link comes first: the kernel calls the handlers of an address newest first. Then
        the return is already hooked when the entry program runs, and it can detect a missing hook.
        """
        addresses, cookies = self._targets(ids)
        entry = self._context.obj.program("rsn_multi_entry")
        made = [entry.attach_kprobe_multi(addresses, cookies)]
        try:
            back = self._context.obj.program("rsn_multi_return")
            made.append(back.attach_kprobe_multi(addresses, cookies, on_return=True))
        except BpfError:
            made[0].close()
            raise
        return made


class KprobeSessionAttachment(FprobeAttachment):
    """kprobe.session: a link with a program for both entries and returns."""

    mechanism = Mechanism.KPROBE_SESSION

    def _link(self, ids: Sequence[int]) -> list[Link]:
        program = self._context.obj.program("rsn_session")
        addresses, cookies = self._targets(ids)
        return [program.attach_kprobe_multi(addresses, cookies, session=True)]


class FsessionMultiAttachment(MultiAttachment):
    """fsession.multi: a link that finds functions by their BTF ids."""

    mechanism = Mechanism.FSESSION_MULTI
    busy = TRAMPOLINE_BUSY

    @classmethod
    def trial(cls, features: Features) -> int | str:
        """Hook ``vfs_read`` for an instant."""
        return links.fsession_multi(features.btf_id or 0)

    def _link(self, ids: Sequence[int]) -> list[FdLink]:
        program = self._context.obj.program("rsn_fsession")
        _, attach_type = self.mechanism.row.kind or (0, 0)
        btf_ids = [self._plan.functions[i].btf_id or 0 for i in ids]
        return [links.attach_tracing_multi(program, attach_type, btf_ids, self._plan.cookies(ids))]
