# SPDX-License-Identifier: BSD-2-Clause
"""The initial signal actions of processes in tests, independent of the caller."""

from __future__ import annotations

import signal

#: nohup(1) ignores the first, and a shell ignores the others for a script's background job.
_INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def restore_for_children() -> None:
    """Let processes that tests start have the default actions of signals that are ignored here.

    An ignored signal stays ignored after exec, a handler becomes the default action. The handler
    does nothing, so this process still survives the signal.
    """
    for number in _INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
