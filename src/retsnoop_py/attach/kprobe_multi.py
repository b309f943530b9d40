# SPDX-License-Identifier: BSD-2-Clause
"""kprobe.multi: one link for all entries, one for all returns (5.18+, CONFIG_FPROBE)."""

from __future__ import annotations

import errno

from retsnoop_py.attach.plan import AttachContext, AttachPlan, Refusal
from retsnoop_py.errors import BpfError
from retsnoop_py.kernel.features import no_kprobe_multi
from retsnoop_py.libbpf import BpfObject, Link

#: The whole mechanism is missing, not one function unfit.
_ABSENT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EACCES})


class KprobeMultiAttachment:
    """Everything attached by kprobe.multi.

    The kernel takes all functions of a link or none, so a set it refuses is halved until the
    functions at fault are alone; they are left out. The same halving serves ENOMEM, which
    6.7-6.11 return for large sets because of a limit in their object pool.
    """

    def __init__(self, obj: BpfObject, plan: AttachPlan, context: AttachContext) -> None:
        self._entry = obj.program("rsn_entry")
        self._exit = obj.program("rsn_exit")
        self._addresses = plan.addresses
        self._cookies = plan.cookies
        self._functions = plan.functions
        self._context = context
        self._links: list[Link] = []
        self._done = 0
        self.refusals: list[Refusal] = []

    @property
    def attached(self) -> int:
        """How many functions are attached."""
        return len(self._functions) - len(self.refusals)

    def attach(self) -> None:
        """Attach; raises UnavailableError where the kernel has no kprobe.multi at all."""
        pending = [range(len(self._functions))]
        while pending and not self._context.stopping():
            ids = pending.pop()
            err = self._try(ids)
            if err in _ABSENT and not self._links:
                raise no_kprobe_multi()
            if err and len(ids) > 1:
                middle = len(ids) // 2
                pending += [ids[middle:], ids[:middle]]
                continue
            if err:
                self.refusals.append(Refusal(self._functions[ids[0]], err))
            self._done += len(ids)
            self._context.progress(self._done, len(self._functions))

    def _try(self, ids: range) -> int:
        """Attach the functions ``ids`` together; 0 or the errno that refused them.

        The entry link comes first: the kernel calls the handlers of an address newest first,
        so the entry program runs when the return is hooked and can tell if it is not.
        """
        addresses = self._addresses[ids.start : ids.stop]
        cookies = self._cookies[ids.start : ids.stop]
        links: list[Link] = []
        try:
            for program, on_return in ((self._entry, False), (self._exit, True)):
                links.append(program.attach_kprobe_multi(addresses, cookies, on_return=on_return))
        except BpfError as error:
            for link in links:
                link.close()
            return error.errno
        self._links += links
        return 0

    def detach(self, context: AttachContext) -> None:
        """Detach everything. Idempotent."""
        links, self._links = self._links, []
        for done, link in enumerate(reversed(links), 1):
            link.close()
            context.progress(done, len(links))
