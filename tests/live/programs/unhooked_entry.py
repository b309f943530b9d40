# SPDX-License-Identifier: BSD-2-Clause
"""The tool with ``--attach=kprobe``, whose last function has no probe on its entry any more."""

from __future__ import annotations

import sys

from retsnoop_py.attach.kprobe import KprobeAttachment
from retsnoop_py.cli.main import main

attach_all = KprobeAttachment.attach


def attach(self: KprobeAttachment) -> None:
    attach_all(self)
    self._entries.close_last(self.attached - 1)


KprobeAttachment.attach = attach  # type: ignore[method-assign]
sys.exit(main())
