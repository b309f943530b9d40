# SPDX-License-Identifier: BSD-2-Clause
"""The tool with ``--attach=kprobe``, whose last function has no probe on its return any more.

It cannot see that at the entry either, as it is with mechanisms that hook after it was called.
"""

from __future__ import annotations

import sys

from retsnoop_py.attach.kprobe import KprobeAttachment
from retsnoop_py.capture import configure
from retsnoop_py.cli.main import main

attach_all = KprobeAttachment.attach


def attach(self: KprobeAttachment) -> None:
    attach_all(self)
    self._returns.close_last(self.attached - 1)


KprobeAttachment.attach = attach  # type: ignore[method-assign]
configure._tell_return_hooks = lambda obj, facts: None
sys.exit(main())
