# SPDX-License-Identifier: BSD-2-Clause
"""fprobe links: a pair for entries and returns (5.18), or one session link for both (6.10)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

from retsnoop_py._bpf import lib
from retsnoop_py.attach.multi import KPROBE_BUSY, MultiAttachment
from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf import Link
from retsnoop_py.settings import Mechanism

#: A function of kernels whose fprobe has a pool of hooks (5.18-6.13).
_POOL_USER = "fprobe_exit_handler"
#: Hooks a link has at the least: threads that may sleep in its functions. Some 80 bytes each.
_HOOKS = 4096


class FprobeAttachment(MultiAttachment):
    """What the two kinds of fprobe links have in common."""

    busy = KPROBE_BUSY

    def _link_misses(self) -> int:
        return sum(int(lib.rsn_kprobe_multi_misses(link.fd)) for link in self._links)

    def _targets(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Addresses and cookies for a link that has enough hooks.

        Until 6.13 a link has a pool of two return hooks per CPU and address: for few functions
        too few, as soon as many threads sleep in them. The kernel counts an address as often as
        it is given, and hooks it once.
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
    programs = ("rsn_multi_entry", "rsn_multi_return")

    def _link(self, ids: Sequence[int]) -> list[Link]:
        """Attach both sides.

        The entry link comes first: the kernel calls the handlers of an address newest first,
        so the entry program runs when the return is hooked and can tell if it is not.
        """
        addresses, cookies = self._targets(ids)
        entry = self._context.obj.program("rsn_multi_entry")
        links = [entry.attach_kprobe_multi(addresses, cookies)]
        try:
            back = self._context.obj.program("rsn_multi_return")
            links.append(back.attach_kprobe_multi(addresses, cookies, on_return=True))
        except BpfError:
            links[0].close()
            raise
        return links


class KprobeSessionAttachment(FprobeAttachment):
    """kprobe.session: one link whose program sees entries and returns."""

    mechanism = Mechanism.KPROBE_SESSION
    programs = ("rsn_session",)

    def _link(self, ids: Sequence[int]) -> list[Link]:
        program = self._context.obj.program("rsn_session")
        addresses, cookies = self._targets(ids)
        return [program.attach_kprobe_multi(addresses, cookies, session=True)]
