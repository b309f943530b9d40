# SPDX-License-Identifier: BSD-2-Clause
"""Write sessions: :func:`text` and :func:`json` for callers, and a module for each view."""

from __future__ import annotations

from typing import Protocol

__all__ = ["json", "text"]


class _Session(Protocol):
    """A :class:`retsnoop_py.Session`."""

    def as_text(self, *, ascii_only: bool = False) -> str:
        """Return the session as a block of lines."""

    def as_json(self, *, ascii_only: bool = False) -> str:
        """Return the session as a line of JSON."""


def text(session: _Session, *, ascii: bool = False) -> str:  # noqa: A002 - as the option
    """Return ``session`` as the command line prints it: a block, then two empty lines.

    ``ascii``: use ASCII only.
    """
    return session.as_text(ascii_only=ascii)


def json(session: _Session, *, ascii: bool = False) -> str:  # noqa: A002 - as the option
    """Return ``session`` as the line of ``--format json``, with its end; see docs/json.md."""
    return session.as_json(ascii_only=ascii)
