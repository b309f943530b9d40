# SPDX-License-Identifier: BSD-2-Clause
"""Messages that the kernel did not write because there was no log, formatted as it would.

A BPF loader without a log buffer gets only an error number, and the kernel formats no text. The
kernel side captures the format and its arguments (``struct rsn_words``). For a rejected request of
io_uring, it captures the request itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.session.model import KernelMessage, MessageSource

__all__ = ["Unwritten", "formatted"]

_WORDS = tuple(f"word{number}" for number in range(8))
_MEMBERS = (*_WORDS, "item", "texts", "format")
#: The verifier prints this at the end of each program, rejected or not.
_STATISTICS = b"processed %d insns"
#: A conversion of the kernel's printf(): flags, width, precision, size, kind, letters behind %p.
_CONVERSION = re.compile(
    r"%(?:%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|z|t|j|L)?([diouxXcs]|p[A-Za-z]*))"
)
_BITS = {"hh": 8, "h": 16, "l": 64, "ll": 64, "z": 64, "t": 64, "j": 64, "L": 64}
#: ``struct io_uring_sqe`` of <linux/io_uring.h>, as far as all operations have it.
_REQUEST = struct.Struct("=BBHiQQIIQ")
#: IORING_OP_* of <linux/io_uring.h>, in their order.
_OPERATIONS = """
NOP READV WRITEV FSYNC READ_FIXED WRITE_FIXED POLL_ADD POLL_REMOVE SYNC_FILE_RANGE SENDMSG
RECVMSG TIMEOUT TIMEOUT_REMOVE ACCEPT ASYNC_CANCEL LINK_TIMEOUT CONNECT FALLOCATE OPENAT CLOSE
FILES_UPDATE STATX READ WRITE FADVISE MADVISE SEND RECV OPENAT2 EPOLL_CTL SPLICE PROVIDE_BUFFERS
REMOVE_BUFFERS TEE SHUTDOWN RENAMEAT UNLINKAT MKDIRAT SYMLINKAT LINKAT MSG_RING FSETXATTR
SETXATTR FGETXATTR GETXATTR SOCKET URING_CMD SEND_ZC SENDMSG_ZC READ_MULTISHOT WAITID FUTEX_WAIT
FUTEX_WAKE FUTEX_WAITV FIXED_FD_INSTALL FTRUNCATE BIND LISTEN RECV_ZC EPOLL_WAIT READV_FIXED
WRITEV_FIXED PIPE
"""


class Unwritten:
    """Reads such messages, as ``layouts`` say. DataError if these do not describe them."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        layout = layout_named(layouts, "rsn_words")
        self._format = layout.format()
        self._pick = layout.picker(_MEMBERS, text=("texts", "format"))
        self._order = layout.order

    def message(self, source: int, data: bytes) -> tuple[KernelMessage | None, bool]:
        """Return a message, and whether its line ends with it; None if it is not a reason."""
        if len(data) < self._format.size:
            raise DataError(f"{len(data)} bytes are too few for a message of the kernel")
        *words, item, texts, text = self._pick((*self._format.unpack_from(data), 0))
        name = MessageSource(source).name.lower()
        if source == MessageSource.IO_URING:
            request = struct.pack(f"{self._order}8Q", *words)
            return KernelMessage(name, _refused(request, item)), True
        size = len(texts) // len(words)
        strings = [_text(texts[at : at + size]) for at in range(0, len(texts), size)]
        if text.startswith(_STATISTICS):
            return None, True
        said = formatted(_text(text), words, strings)
        if len(text.rstrip(b"\0")) == len(text) - 1:  # the kernel side cut it
            said += "..."
        if source == MessageSource.BTF and item:
            said = f"[{item}] {said}"
        instruction = item if source == MessageSource.VERIFIER and item else None
        return KernelMessage(name, said.rstrip("\n"), 0, instruction), said.endswith("\n")


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def formatted(text: str, words: Sequence[int], strings: Sequence[str]) -> str:
    """Return ``text`` formatted like the kernel's printf(), with ``words`` and their targets.

    Conversions without a word stay unchanged.
    """
    given = iter(zip(words, strings, strict=False))

    def one(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        try:
            return _converted(match, given)
        except StopIteration:
            return match[0]

    return _CONVERSION.sub(one, text)


def _converted(match: re.Match[str], given: Iterator[tuple[int, str]]) -> str:
    flags, width, precision, size, kind = match.groups()
    width = str(_signed(next(given)[0], 32)) if width == "*" else width or ""
    if precision == "*":
        precision = str(max(_signed(next(given)[0], 32), 0))
    word, string = next(given)
    shape = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
    value: int | str = string
    if kind == "s":
        value = string if word else "(null)"
    elif kind == "c":
        value = chr(word & 0xFF)
    elif kind.startswith("p"):
        return f"{word:#x}"
    elif kind in "di":
        value = _signed(word, _BITS.get(size, 32))
    else:
        value = word & ((1 << _BITS.get(size, 32)) - 1)
        kind = "d" if kind == "u" else kind
        if "#" in flags and kind == "o":  # Python writes 0o
            return f"{value:#o}".replace("0o", "0")
    return f"{shape}{kind}" % (value,)


def _signed(word: int, bits: int) -> int:
    value = word & ((1 << bits) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def _refused(request: bytes, error: int) -> str:
    """Describe a request of io_uring that was rejected before it started."""
    operation, flags, _, fd, offset, address, length, more, user_data = _REQUEST.unpack_from(
        request
    )
    names = _OPERATIONS.split()
    name = f"IORING_OP_{names[operation]}" if operation < len(names) else f"operation {operation}"
    return (
        f"{name} refused with {ERRNO_NAMES.get(-error, error)}: fd {fd}, flags {flags:#x}, "
        f"off {offset:#x}, addr {address:#x}, len {length}, rw_flags {more:#x}, "
        f"user_data {user_data:#x}"
    )
