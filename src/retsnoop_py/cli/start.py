# SPDX-License-Identifier: BSD-2-Clause
"""The entry point: the start and end of the process ``retsnoop-py``.

This module imports little, because ``--version`` needs little. Before, a third of the time of
``--version`` was spent on modules that it does not use.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from retsnoop_py import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

#: The start time of the program, in seconds of time.monotonic().
STARTED = time.monotonic()
#: New objects until the next garbage collection. With Python's default of 700, a start collects 30
#: times, which costs a tenth of its time and finds no garbage.
_GC_THRESHOLD = 50_000


def program() -> NoReturn:
    """Run ``retsnoop-py`` and exit without the interpreter's shutdown.

    The shutdown takes as long as detaching, and it is not needed: the streams are flushed here. A
    sub-command with more work at exit raises :class:`SystemExit` itself.
    """
    if os.environ.get("_RETSNOOP_PY_COMPLETE"):  # before --version: words to complete are arguments
        gc.set_threshold(_GC_THRESHOLD)
        _leave_out_variables()
        os._exit(_complete())
    if sys.argv[1:] in (["--version"], ["-V"]) and _say_version():
        os._exit(0)
    gc.set_threshold(_GC_THRESHOLD)
    _leave_out_variables()
    from retsnoop_py.cli.main import main

    status = main(before_work=_take_sigint)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # main() has reported the error, or no reader is left
    os._exit(status)


def _leave_out_variables() -> None:
    from retsnoop_py.caller_environment import leave_out_unsafe_variables

    leave_out_unsafe_variables()


def _complete() -> int:
    """Print the completions for the shell; errors must not appear in the line that is typed."""
    from retsnoop_py.cli import completion

    try:
        status = completion.run()
        sys.stdout.flush()
    except Exception:
        if os.environ.get("RETSNOOP_DEBUG"):
            raise
        return 1
    return status


def _say_version() -> bool:
    """Print the version; return False on failure, so that main() tries again and reports why."""
    try:
        sys.stdout.write(f"retsnoop-py {__version__}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # a closed stdout is None
        return False
    return True


def _take_sigint() -> None:
    """Let SIGINT end this process, after recording the signals that a command inherits.

    This also applies if SIGINT was ignored at the start. A shell does that for the background
    processes of a script, because Ctrl-C is for the foreground. The script can then still use `kill
    -INT`.
    """
    import signal

    from retsnoop_py.caller_environment import leave_out_unsafe_folders
    from retsnoop_py.capture import inherited

    leave_out_unsafe_folders()
    inherited.remember()
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """End the current work at the first SIGINT; the second SIGINT kills the process."""
    import signal

    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt
