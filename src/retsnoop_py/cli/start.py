# SPDX-License-Identifier: BSD-2-Clause
"""The entry point: the process ``retsnoop-py``, how it begins and ends.

It imports little by itself, for ``--version`` needs little: a third of its time was in modules that
it has no use for.
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

#: When the program began, by time.monotonic(): seconds.
STARTED = time.monotonic()
#: New objects after which Python looks for garbage; 700 of its own make it look 30 times in a
#: start, a tenth of the time, for what is not there.
_GC_THRESHOLD = 50_000


def program() -> NoReturn:
    """The process ``retsnoop-py``: ends it without taking the interpreter apart first.

    That takes as long as detaching, and nothing is left to be done: streams are flushed here,
    and a sub-command that has more to do at exit raises :class:`SystemExit` itself.
    """
    if os.environ.get("_RETSNOOP_PY_COMPLETE"):  # before --version: words to complete are arguments
        gc.set_threshold(_GC_THRESHOLD)
        os._exit(_complete())
    if sys.argv[1:] in (["--version"], ["-V"]) and _say_version():
        os._exit(0)
    gc.set_threshold(_GC_THRESHOLD)
    from retsnoop_py.cli.main import main

    status = main(before_work=_take_sigint)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass  # main() has told of it, or nobody is left to be told
    os._exit(status)


def _complete() -> int:
    """Answer the shell; what goes wrong must not be written into the line that is typed."""
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
    """Print the version; False where that goes wrong, so that main() tries and tells why."""
    try:
        sys.stdout.write(f"retsnoop-py {__version__}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # it may be closed, and then is None
        return False
    return True


def _take_sigint() -> None:
    """Let SIGINT end us, after what a command is to inherit has been remembered.

    Also where it was ignored when we were started. A shell does that to whatever a script starts in
    the background, since Ctrl-C is for what is in the foreground; `kill -INT` is how the script
    ends us all the same.
    """
    import signal

    from retsnoop_py.capture import inherited
    from retsnoop_py.package import leave_out_current_folder

    leave_out_current_folder()
    inherited.remember()
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """The first SIGINT ends what is going on, the second kills."""
    import signal

    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt
