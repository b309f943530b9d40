# SPDX-License-Identifier: BSD-2-Clause
"""What the mechanisms with one link for many functions have in common: taking refusals apart."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from retsnoop_py._bpf import lib
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.errors import BpfError, UnavailableError
from retsnoop_py.libbpf import FdLink, Link
from retsnoop_py.settings import Mechanism

#: Why calls are missed.
TRAMPOLINE_BUSY = "our program was already running on that CPU"
KPROBE_BUSY = "a BPF program or a change of a BPF map was already under way on that CPU"
NO_HOOK = "the kernel had no hook left for their returns, or was handling another probe"

#: The whole mechanism is missing, not one function unfit.
_ABSENT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EACCES})


class MultiAttachment(ABC):
    """Functions ``ids`` of ``plan``, attached by as few links as the kernel allows.

    The kernel takes all functions of a link or none, so a set it refuses is halved until the
    functions at fault are alone; they are left out. The same halving serves ENOMEM, which
    6.7-6.11 return for large sets because of a limit in their object pool.
    """

    mechanism: ClassVar[Mechanism]
    #: The programs of its links.
    programs: ClassVar[tuple[str, ...]]
    #: Why one of them is not run for a call.
    busy: ClassVar[str]

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        self._plan = plan
        self._ids = ids
        self._context = context
        self._links: list[Link | FdLink] = []
        self._done = 0
        self.attached = 0
        self.refusals: dict[int, Refusal] = {}

    @abstractmethod
    def _link(self, ids: Sequence[int]) -> Sequence[Link | FdLink]:
        """Attach the functions ``ids`` together; raises BpfError, leaving nothing attached."""

    def attach(self) -> None:
        """Attach; raises UnavailableError where the kernel lacks the mechanism altogether."""
        pending = [self._ids]
        while pending and not self._context.stopping():
            ids = pending.pop()
            error = self._try(ids)
            if error in _ABSENT and not self._links:
                raise UnavailableError(
                    f"{self.mechanism.value} does not work here ({errno.errorcode[error]})",
                    "leave the mechanism to retsnoop-py, or see `retsnoop-py doctor`",
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
        """Attach ``ids`` together; 0 or the errno that refused them."""
        try:
            self._links += self._link(ids)
        except BpfError as error:
            return error.errno
        return 0

    def misses(self) -> list[Miss]:
        """Calls the kernel did not hand to our programs."""
        counts = (
            (self._program_misses(), self.busy, True),
            (self._link_misses(), NO_HOOK, False),
        )
        return [Miss(None, count, what, told) for count, what, told in counts if count]

    def _program_misses(self) -> int:
        """A call may be missed at its entry, its return or both: the worse of the two counts."""
        obj = self._context.obj
        return max(int(lib.rsn_prog_misses(obj.program(name).fd)) for name in self.programs)

    def _link_misses(self) -> int:
        return 0

    def detach(self, context: AttachContext) -> None:
        """Detach everything. Idempotent."""
        links, self._links = self._links, []
        for done, link in enumerate(reversed(links), 1):
            link.close()
            context.progress(done, len(links))
