# SPDX-License-Identifier: BSD-2-Clause
"""Bits of memory that a comparison reads, and the struct members that contain these bits.

Compilers read a bit field, or several small members at once, by a load with shifts and masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.path.insn import INT
from retsnoop_py.path.values import Flags, Node

__all__ = ["BitTest", "Field", "bit_test", "fields_in", "sign_bit"]

_MAX_DEPTH = 12
_ORDERED = {"a": ">", "ae": ">=", "b": "<", "be": "<=", "g": ">", "ge": ">=", "l": "<", "le": "<="}


class _Bits(NamedTuple):
    """``(load & mask) >> shift``, where a negative ``shift`` is to the left; ``mask`` is in place.

    ``size``: bytes of the value. ``signed``: the highest bit of the mask is its sign.
    """

    load: Node
    mask: int
    shift: int
    size: int


class BitTest(NamedTuple):
    """``load & mask`` compared with ``value``, in place, by a sign of C."""

    load: Node
    mask: int
    sign: str
    value: int


class Field(NamedTuple):
    """A member, ``bits`` wide, ``start`` bits behind the beginning of its struct."""

    text: str
    type: int
    start: int
    bits: int
    is_bits: bool


def bit_test(flags: Flags, condition: str) -> BitTest | None:
    """Return the comparison as a test of a load's bits against a constant; None for others."""
    left, right, size = flags.left, flags.right, flags.size
    if flags.op in ("test", "and"):
        if left is right:
            mask = None
        elif right.kind == "const":
            mask = right.value
        else:
            return None
        found = _bits(left, size)
        return found and _with_zero(found, mask, size, condition)
    if flags.op == "result":
        found = _bits(left, size)
        return found and _with_zero(found, None, size, condition)
    if flags.op == "bt" and right.kind == "const" and condition in ("b", "ae"):
        found = _bits(left, size)
        bit = 1 << right.value % (8 * size)
        return found and _with_zero(found, bit, size, "ne" if condition == "b" else "e")
    if flags.op not in ("cmp", "sub") or right.kind != "const":
        return None
    found = _bits(left, size)
    if found is None:
        return None
    if not right.value and condition in ("s", "ns", "l", "ge"):
        return _with_zero(found, None, size, condition)
    return _compared(found, right.value & (1 << 8 * size) - 1, size, condition)


def _compared(found: _Bits, value: int, size: int, condition: str) -> BitTest | None:
    sign = {"e": "==", "ne": "!=", **_ORDERED}.get(condition)
    if sign is None:
        return None
    if condition in ("g", "ge", "l", "le") and _in_value(found) >> (8 * size - 1):
        return None  # one of the bits is a sign
    in_place = value << found.shift if found.shift >= 0 else value >> -found.shift
    if found.shift < 0 and value & (1 << -found.shift) - 1:
        if sign in ("==", "!="):
            return None
        # (x << n) >= value: x >= value / 2**n, rounded up
        in_place += sign in (">=", "<")
    if sign in ("==", "!=") and in_place & ~found.mask:
        return None
    return BitTest(found.load, found.mask, sign, in_place)


def _in_value(found: _Bits) -> int:
    return found.mask >> found.shift if found.shift >= 0 else found.mask << -found.shift


def _with_zero(found: _Bits, mask: int | None, size: int, condition: str) -> BitTest | None:
    if condition in ("s", "l", "ns", "ge"):
        mask = (1 << 8 * size - 1) & (-1 if mask is None else mask)
        condition = "ne" if condition in ("s", "l") else "e"
    if condition not in ("e", "ne"):
        return None
    if mask is None:
        mask = (1 << 8 * size) - 1
    mask &= (1 << 8 * size) - 1
    in_place = (mask << found.shift if found.shift >= 0 else mask >> -found.shift) & found.mask
    return (
        BitTest(found.load, in_place, "!=" if condition == "ne" else "==", 0) if in_place else None
    )


def _bits(node: Node, size: int, depth: int = 0) -> _Bits | None:
    """Return the bits of a load that form the lower ``size`` bytes of a value."""
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "load":
        if node.name or not node.args:
            return None
        return _Bits(node, (1 << 8 * min(node.size, size)) - 1, 0, size)
    if node.kind != "op" or len(node.args) != 2 or node.args[1].kind != "const":
        return None
    by, name, width = node.args[1].value, node.name, 8 * max(node.size, INT)
    if name in (">>", "sar", "<<"):
        by %= width
    inner = _bits(node.args[0], size if name in ("&", "<<") else max(node.size, 1), depth + 1)
    if inner is None:
        return None
    shift, mask = inner.shift, inner.mask
    if name == "&":
        by &= (1 << 8 * size) - 1
        mask &= by << shift if shift >= 0 else by >> -shift
    elif name == "<<":
        shift -= by
    elif name == ">>":
        shift += by
    elif name == "sar":
        if _in_value(inner) >> (width - 1):
            return None
        shift += by
    else:
        return None
    kept = (1 << 8 * size) - 1
    mask &= kept << shift if shift >= 0 else kept >> -shift
    return _Bits(inner.load, mask, shift, size)


def sign_bit(node: Node, size: int) -> tuple[Node, int]:
    """Return the value and the number of its bit that is the sign of the lower ``size`` bytes.

    The value is the one before shifts and masks. The number is -1 if the sign is always 0.
    """
    bit = 8 * size - 1
    for _ in range(_MAX_DEPTH):
        if node.kind != "op" or len(node.args) != 2 or node.args[1].kind != "const":
            break
        by, width = node.args[1].value, 8 * node.size
        by = by if node.name == "&" else by % max(width, 8 * INT)
        match node.name:
            case "&":
                bit = bit if by >> bit & 1 else -1
            case "<<":
                bit -= by
            case ">>":
                bit = bit + by if bit + by < width else -1
            case "sar":
                bit = min(bit + by, width - 1)
            case _:
                break
        if bit < 0:
            return node.args[0], -1
        node = node.args[0]
    return node, bit


def fields_in(btf: Btf, struct: int, start: int, mask: int) -> list[Field] | None:
    """Return the members with bits in ``mask``, from the bit ``start`` of a struct on.

    Return None for bits outside all members, or in several members of a union.
    """
    lowest = start + (mask & -mask).bit_length() - 1
    end = start + mask.bit_length()
    found, rest = [], mask
    for one in _flat(btf, struct, 0, ""):
        if one.start >= end or one.start + one.bits <= lowest:
            continue
        if one.start < start:
            return None
        own = mask & (1 << one.bits) - 1 << (one.start - start)
        if own & ~rest:
            return None  # several members of a union
        rest &= ~own
        found += [one] if own else []
    return None if rest or not found else found


def _flat(btf: Btf, struct: int, start: int, prefix: str, depth: int = 0) -> Iterator[Field]:
    if depth > _MAX_DEPTH:
        return
    for member in btf.members(struct):
        kind = btf.resolve(member.type_id)
        at = start + member.bit_offset
        if kind.kind in (Kind.STRUCT, Kind.UNION):
            inner = f"{prefix}{member.name}." if member.name else prefix
            yield from _flat(btf, kind.id, at, inner, depth + 1)
        elif member.name:
            bits = member.bit_size or 8 * btf.size_of(member.type_id)
            if bits:
                yield Field(prefix + member.name, member.type_id, at, bits, bool(member.bit_size))
