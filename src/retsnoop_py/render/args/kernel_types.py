# SPDX-License-Identifier: BSD-2-Clause
"""Kernel types with their own notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from retsnoop_py.kernel.arguments.model import DataKind, DataType
from retsnoop_py.render.args.node import Leaf, number, plain_text, quoted

__all__ = [
    "ADDRESS_SIZES",
    "EXTENSIBLE",
    "OWN_SIZES",
    "SIZES",
    "WRAPPERS",
    "enum",
    "flag_names",
    "is_comm",
    "is_socket_address",
    "mac",
    "scalar",
    "sentinel",
    "struct",
]

#: Structs that wrap a single number and are printed as this number.
WRAPPERS = frozenset(
    {"atomic_t", "atomic64_t", "atomic_long_t", "refcount_t", "kuid_t", "kgid_t", "vfsuid_t"}
    | {"vfsgid_t", "ktime_t", "kernel_cap_t"}
)
_ADDRESS_NAME = re.compile(r"addr|^[sd]?ip4?$")
#: Structs that system calls read with their size in another argument, which has one of these names.
#: A program for an older kernel passes a shorter struct, and the kernel uses zeros for the rest.
EXTENSIBLE = frozenset({"bpf_attr", "clone_args", "mount_attr", "open_how"})
SIZES = frozenset({"size", "usize"})
#: Structs with their size in a member: its offset in bytes, and the size for zero.
OWN_SIZES = {"perf_event_attr": (4, 64), "sched_attr": (0, 48)}
#: Names of arguments with the size of a socket address, which depends on its family.
ADDRESS_SIZES = frozenset({"addrlen", "addr_len", "ulen", "klen"})
#: A task's name: ``comm``, ``prev_comm``, ``newcomm`` and similar, of TASK_COMM_LEN bytes.
_COMM_NAME = re.compile(r"comm$")
_COMM_BYTES = 16
_PORT_NAME = re.compile(r"port|^source$|^dest$")
_MAC_BYTES = 6
_POINTER_MASK = (1 << 64) - 1
_NS = 1_000_000_000
_KTIME_MAX = (1 << 63) - 1
_MINOR_BITS = 20
_INET, _INET6, _UNIX = 2, 10, 1
_SECONDS = {
    "timespec64": _NS,
    "__kernel_timespec": _NS,
    "timespec": _NS,
    "old_timespec32": _NS,
    "timeval": 1_000_000,
    "__kernel_old_timeval": 1_000_000,
    "old_timeval32": 1_000_000,
}
#: Usual names for sets of allocation flags (linux/gfp_types.h), largest first.
_RECLAIM = frozenset({"__GFP_DIRECT_RECLAIM", "__GFP_KSWAPD_RECLAIM"})
_GFP_SETS: tuple[tuple[str, frozenset[str]], ...] = (
    ("GFP_USER", _RECLAIM | {"__GFP_IO", "__GFP_FS", "__GFP_HARDWALL"}),
    ("GFP_KERNEL", _RECLAIM | {"__GFP_IO", "__GFP_FS"}),
    ("GFP_NOFS", _RECLAIM | {"__GFP_IO"}),
    ("GFP_NOIO", _RECLAIM),
    ("GFP_ATOMIC", frozenset({"__GFP_HIGH", "__GFP_KSWAPD_RECLAIM"})),
)


def scalar(kind: DataType, value: int, name: str) -> Leaf | None:
    """Return a number with its own notation, or None. ``value`` is unsigned."""
    reader = _SCALARS.get(kind.alias)
    return reader(kind, value, name) if reader else None


def struct(kind: DataType, data: bytes) -> Leaf | None:
    """Return a struct with its own notation; None for others, and for truncated ones."""
    if kind.kind == DataKind.STRUCT and is_socket_address(kind):
        address = _sockaddr(data)
        if address is not None:
            return address
    if len(data) < kind.size or kind.kind != DataKind.STRUCT:
        return None
    if kind.name == "in_addr":
        return _text(_ipv4(data[:4]))
    if kind.name == "in6_addr":
        return _text(_ipv6(data[:16]))
    unit = _SECONDS.get(kind.name)
    return None if unit is None else _seconds(kind, data, unit)


def is_socket_address(kind: DataType) -> bool:
    """Return True for socket addresses of any family."""
    return kind.name.startswith(("sockaddr", "__kernel_sockaddr_storage"))


def mac(kind: DataType, element: DataType, data: bytes) -> Leaf | None:
    """Return an Ethernet address, which is six unsigned bytes, or None."""
    if kind.length != _MAC_BYTES or element.size != 1 or len(data) != _MAC_BYTES:
        return None
    if element.kind != DataKind.INT or element.flags:
        return None
    return _text(":".join(f"{byte:02x}" for byte in data))


def is_comm(data: bytes, name: str) -> bool:
    """Return True for the name of a task, which ends at the first NUL.

    The bytes after the NUL can be left over from an older and longer name.
    """
    return len(data) == _COMM_BYTES and _COMM_NAME.search(name) is not None


def sentinel(kind: DataType, value: int) -> Leaf | None:
    """Return the name of a special pointer value that is not an address; None for others."""
    for name, constant in kind.values:
        if value == constant & _POINTER_MASK:
            return _text(name)
    return None


def enum(kind: DataType, value: int) -> Leaf:
    """Return a constant by name, a set of flags by their names, or a number."""
    names = _names_of(kind.values)
    name = names.get(value)
    if name is not None:
        return _text(name)
    text = flag_names(kind.values, value) if value > 0 and _are_flags(kind.values) else ""
    return Leaf(text, text) if text else Leaf(number(value, kind.size * 8), value)


def flag_names(constants: Sequence[tuple[str, int]], value: int) -> str:
    """Return the flags in ``value`` joined by ``|``, unknown bits as a number; empty for 0."""
    found = []
    for name, bit in constants:
        if bit and not bit & (bit - 1) and value & bit:
            found.append(name)
            value &= ~bit
    if value and found:
        found.append(f"{value:#x}")
    return "|".join(found)


@lru_cache(maxsize=4096)
def _names_of(constants: tuple[tuple[str, int], ...]) -> dict[int, str]:
    # if a value has two names, the first is the usual one
    return {value: name for name, value in reversed(constants)}


@lru_cache(maxsize=4096)
def _are_flags(constants: tuple[tuple[str, int], ...]) -> bool:
    """Return True if an enum has at least three constants, all single bits, and is not a count."""
    bits = {value for _, value in constants if value > 0 and not value & (value - 1)}
    every = sum(bits)
    combined = [value for _, value in constants if value not in bits]
    return len(bits) > 2 and all(not value & ~every and value != 3 for value in combined)


def _gfp(kind: DataType, value: int, name: str) -> Leaf | None:
    del name
    text = flag_names(kind.values, value)
    if not text:
        return None
    names = text.split("|")
    for short, members in _GFP_SETS:
        if members <= set(names):
            names = [short, *(name for name in names if name not in members)]
            break
    return _text("|".join(names))


def _mode(kind: DataType, value: int, name: str) -> Leaf:
    del kind, name
    return Leaf(f"0{value:o}" if value else "0", value)


def _device(kind: DataType, value: int, name: str) -> Leaf:
    del kind, name
    return _text(f"{value >> _MINOR_BITS}:{value & ((1 << _MINOR_BITS) - 1)}")


def _big_endian(kind: DataType, value: int, name: str) -> Leaf:
    """Return a number in network order: an address, a port, or another number."""
    raw = value.to_bytes(kind.size, "little")
    if kind.size == 4 and _ADDRESS_NAME.search(name):
        return _text(_ipv4(raw))
    swapped = int.from_bytes(raw, "big")
    if _PORT_NAME.search(name):
        return Leaf(str(swapped), swapped)
    return Leaf(f"{swapped:#x}" if swapped else "0", swapped)


def _ktime(kind: DataType, value: int, name: str) -> Leaf | None:
    del name
    if kind.kind != DataKind.INT:
        return None
    if value == _KTIME_MAX:
        return Leaf("KTIME_MAX", value)
    signed = value - (1 << 64) if value >> 63 else value
    return Leaf(_span(signed), signed)


def _user(kind: DataType, value: int, name: str) -> Leaf | None:
    del name
    nobody = kind.kind == DataKind.INT and value == (1 << 32) - 1
    return Leaf("-1", -1) if nobody else None


_SCALARS: dict[str, Callable[[DataType, int, str], Leaf | None]] = {
    "gfp_t": _gfp,
    "umode_t": _mode,
    "dev_t": _device,
    "__be16": _big_endian,
    "__be32": _big_endian,
    "__be64": _big_endian,
    "ktime_t": _ktime,
    "uid_t": _user,
    "gid_t": _user,
}


def _span(ns: int) -> str:
    """Return a time in the largest unit in which it is at least one."""
    for unit, size in (("s", _NS), ("ms", 1_000_000), ("us", 1000)):
        if abs(ns) >= size:
            whole, part = divmod(abs(ns), size)
            digits = f"{part:0{len(str(size)) - 1}d}".rstrip("0")
            return f"{'-' if ns < 0 else ''}{whole}{'.' + digits if digits else ''}{unit}"
    return f"{ns}ns"


def _seconds(kind: DataType, data: bytes, unit: int) -> Leaf | None:
    if len(kind.fields) != 2 or kind.size % 2:
        return None
    half = kind.size // 2
    seconds = int.from_bytes(data[:half], "little", signed=True)
    part = int.from_bytes(data[half : 2 * half], "little", signed=True)
    if not 0 <= part < unit or seconds < 0:
        return None
    digits = f"{part:0{len(str(unit)) - 1}d}".rstrip("0")
    text = f"{seconds}{'.' + digits if digits else ''}s"
    fields = (kind.fields[0].name, kind.fields[1].name)
    return Leaf(text, {fields[0]: seconds, fields[1]: part})


def _sockaddr(data: bytes) -> Leaf | None:
    """Return a socket address by its family; None for unknown families."""
    family = int.from_bytes(data[:2], "little")
    if family == _INET and len(data) >= 8:
        port = int.from_bytes(data[2:4], "big")
        return _text(f"{_ipv4(data[4:8])}:{port}")
    if family == _INET6 and len(data) >= 24:
        port = int.from_bytes(data[2:4], "big")
        flow, scope = int.from_bytes(data[4:8], "big"), int.from_bytes(data[24:28], "little")
        zone = (f"%{scope}" if scope else "") + (f" flow {flow:#x}" if flow else "")
        return _text(f"[{_ipv6(data[8:24])}{zone}]:{port}")
    if family == _UNIX:
        path = data[2:]
        named = path.partition(b"\0")[0] if path[:1] != b"\0" else path.rstrip(b"\0")
        is_cut = len(named) == len(path)
        text = quoted(named, is_cut=is_cut)
        return Leaf(f"unix:{text}", f"unix:{plain_text(named, is_cut=is_cut)}")
    return None


def _ipv4(raw: bytes) -> str:
    return ".".join(map(str, raw))


def _ipv6(raw: bytes) -> str:
    from ipaddress import IPv6Address

    return str(IPv6Address(raw))


def _text(text: str) -> Leaf:
    return Leaf(text, text)
