# SPDX-License-Identifier: BSD-2-Clause
"""fprobe links: a pair for entries and returns (5.18), or one session link for both (6.10)."""

from __future__ import annotations

from collections.abc import Sequence

from retsnoop_py.attach.multi import MultiAttachment
from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf import Link
from retsnoop_py.settings import Mechanism


class KprobeMultiAttachment(MultiAttachment):
    """kprobe.multi: one link for all entries, one for all returns."""

    mechanism = Mechanism.KPROBE_MULTI

    def _link(self, ids: Sequence[int]) -> list[Link]:
        """Attach both sides.

        The entry link comes first: the kernel calls the handlers of an address newest first,
        so the entry program runs when the return is hooked and can tell if it is not.
        """
        addresses, cookies = self._plan.addresses(ids), self._plan.cookies(ids)
        entry = self._context.obj.program("rsn_multi_entry")
        links = [entry.attach_kprobe_multi(addresses, cookies)]
        try:
            back = self._context.obj.program("rsn_multi_return")
            links.append(back.attach_kprobe_multi(addresses, cookies, on_return=True))
        except BpfError:
            links[0].close()
            raise
        return links


class KprobeSessionAttachment(MultiAttachment):
    """kprobe.session: one link whose program sees entries and returns."""

    mechanism = Mechanism.KPROBE_SESSION

    def _link(self, ids: Sequence[int]) -> list[Link]:
        program = self._context.obj.program("rsn_session")
        addresses, cookies = self._plan.addresses(ids), self._plan.cookies(ids)
        return [program.attach_kprobe_multi(addresses, cookies, session=True)]
