# SPDX-License-Identifier: BSD-2-Clause
"""Work on a user's settings that can take for ever: TOML, and a regular expression of the user.

Under ``sudo -E`` the settings are another user's. One key of a million parts keeps Python's TOML
parser busy very long, and a pattern such as ``(a+)+b`` for ever. A child without privileges does
this work, and it has a time limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_json import decode
from retsnoop_py.unprivileged.process import Unprivileged, answer_requests

__all__ = ["matching", "toml"]

#: Seconds of one request. A file of 1 MiB with ordinary keys takes less than one.
_SECONDS = 20.0
_MOST_ANSWER = 64 << 20


def toml(text: str, source: str) -> dict[str, Any]:
    """Return the parsed text of the file ``source``. Raises DataError for all that is wrong."""
    found: dict[str, Any] = _ask("toml", text, (), source, dict[str, Any])
    return found


def matching(pattern: str, names: Sequence[str], source: str) -> list[str]:
    """Return the ``names`` that ``pattern`` of ``source`` matches as a whole. Raises DataError."""
    found: list[str] = _ask("matching", pattern, names, source, list[str])
    return found


def _ask(work: str, text: str, names: Sequence[str], source: str, kind: Any) -> Any:
    request = msgspec.msgpack.encode((work, text, names))
    child = Unprivileged(__name__, _MOST_ANSWER)
    try:
        try:
            child.start()
        except OSError as error:
            if os.geteuid() != 0:  # the settings are this user's own
                return _result(_answer(request, []), source, kind)
            raise DataError(
                f"no process without rights can be started to read {source}: {error.strerror}"
            ) from error
        answer = child.ask(request, (), _SECONDS)
    except TimeoutError:
        raise DataError(f"{source}: it keeps the processor busy for {_SECONDS:.0f} s") from None
    except OSError:
        raise DataError(f"{source}: the process that reads it ended") from None
    finally:
        child.stop()
    return _result(answer, source, kind)


def _result(answer: bytes, source: str, kind: Any) -> Any:
    if answer[:1] == b"r":
        return decode(msgspec.msgpack.Decoder(kind), answer[1:])
    raise DataError(f"{source}: {answer[1:].decode(errors='replace')}")


def _answer(request: bytes, _: list[int]) -> bytes:
    """Return ``r`` and the result, or ``e`` and the error."""
    try:
        work, text, names = msgspec.msgpack.decode(request)
        result: Any
        if work == "toml":
            import tomllib

            result = tomllib.loads(text)
        else:
            compiled = re.compile(text)
            result = [name for name in names if compiled.fullmatch(name)]
        return b"r" + msgspec.msgpack.encode(result)
    except RecursionError:
        return b"etoo many brackets or parts of a key inside each other"
    except (MemoryError, OverflowError):
        return b"ea number or the file is too large"
    except (ValueError, re.error) as error:  # of TOML, and text that is not UTF-8
        return b"e" + str(error).encode(errors="replace")


def serve(descriptor: int) -> None:
    """Run the child: do each piece of work that the parent sends."""
    import tomllib as _  # noqa: F401 - it is imported before rights go

    answer_requests(descriptor, _answer)
