# SPDX-License-Identifier: BSD-2-Clause
"""Close many attachments at the same time.

When a program is detached, the kernel waits until no CPU runs it: 10 to 70 ms. Attachments that are
closed one after the other wait one after the other. Attachments that are closed together wait
together.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Protocol

__all__ = ["Closing", "close_all", "together"]


class Closing(Protocol):
    """An attachment that lasts until it is closed."""

    def close(self) -> None:
        """Detach. Idempotent."""


def close_all(attachments: Sequence[Closing]) -> None:
    """Close all attachments, each in a thread of its own; return when all are closed.

    Raises the first error, after all others are closed.
    """
    together([one.close for one in attachments])


def together(steps: Sequence[Callable[[], object]]) -> None:
    """Run all steps at the same time, the last one in this thread; return when all have ended.

    A step in another thread sees no signals, and must not print progress. If a step or the handler
    of a signal raises an error, this function still waits for all steps, and raises the first
    error.
    """
    if not steps:
        return
    import threading  # not before tracing begins

    failed: list[BaseException] = []
    threads = [threading.Thread(target=_run, args=(step, failed)) for step in steps[:-1]]
    # a new thread inherits the mask; a signal must reach the thread that handles signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        for thread in threads:
            thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _run(steps[-1], failed)
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:  # noqa: BLE001 - of a signal's handler
                failed.append(error)
    if failed:
        raise failed[0]


def _run(step: Callable[[], object], failed: list[BaseException]) -> None:
    try:
        step()
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        failed.append(error)
