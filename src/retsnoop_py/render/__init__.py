# SPDX-License-Identifier: BSD-2-Clause
"""How sessions are written: :func:`text` and :func:`json` for callers, a module per view."""

from __future__ import annotations

from typing import Protocol

__all__ = ["json", "text"]


class _Session(Protocol):
    """A :class:`retsnoop_py.Session`."""

    def as_text(self, *, ascii_only: bool = False) -> str:
        """As a block of lines."""

    def as_json(self, *, ascii_only: bool = False) -> str:
        """As a line of JSON."""


def text(session: _Session, *, ascii: bool = False) -> str:  # noqa: A002 - as the option
    """``session`` as the block that the command line writes, two empty lines behind it.

    ``ascii``: drawn with ASCII only.
    """
    return session.as_text(ascii_only=ascii)


def json(session: _Session, *, ascii: bool = False) -> str:  # noqa: A002 - as the option
    """``session`` as the line that ``--format json`` writes, its end included; docs/json.md."""
    return session.as_json(ascii_only=ascii)
