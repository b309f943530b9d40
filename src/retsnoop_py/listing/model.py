# SPDX-License-Identifier: BSD-2-Clause
"""A list of functions as values, and as JSON."""

from __future__ import annotations

import msgspec

from retsnoop_py import __version__
from retsnoop_py.errors import RetsnoopError

__all__ = ["LeftOut", "Listed", "Listing", "Near"]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A function that would be traced.

    ``address`` is hexadecimal text, for JSON's numbers are not exact there; ``size`` is in
    bytes. None: ``module`` for vmlinux, ``mechanism`` where it cannot be tried, ``prototype``
    and ``btf_id`` where BTF does not know the function, ``source`` without DWARF.
    ``no_failure`` are results that look like failures and are none: ``NULL``, ``-ENOENT``.
    """

    name: str
    module: str | None
    entry: bool
    mechanism: str | None
    prototype: str | None
    source: str | None
    btf_id: int | None
    address: str
    size: int
    no_failure: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A function that matches and would not be traced.

    ``reason`` is a word for programs, ``text`` says it to people.
    """

    name: str
    module: str | None
    reason: str
    text: str

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A glob that missed something, and the names it might have meant.

    ``copies``: it matched, and the compiler made copies of the function, which it does not.
    """

    glob: str
    names: tuple[str, ...]
    copies: bool


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. ``notes`` is what cannot be told, and why."""

    functions: tuple[Listed, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    near: tuple[Near, ...] = ()
    notes: tuple[str, ...] = ()

    def as_json(self, release: str, error: RetsnoopError | None = None) -> bytes:
        """One JSON document; ``error`` is why nothing can be traced."""
        told = {"message": error.message, "hint": error.hint} if error else None
        document = {
            "version": __version__,
            "kernel": release,
            "error": told,
            "functions": self.functions,
            "left_out": self.left_out,
            "near": self.near,
            "notes": self.notes,
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=2)
