# SPDX-License-Identifier: BSD-2-Clause
"""The ways each golden recording is shown."""

from __future__ import annotations

import io
from pathlib import Path

from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.replay import replay
from retsnoop_py.settings import SymbolizeMode

KERNELS = ("5.10", "6.1", "6.12", "7.2")
VIEWS = {
    "errors": ReplayOverrides(success=False),
    "raw": ReplayOverrides(success=False, unfiltered=True, emit_addrs=True, dec_offs=True),
    "filtered": ReplayOverrides(
        success=False,
        allow_errors=frozenset({12, 22}),
        deny_errors=frozenset({0}),
        symbolize=SymbolizeMode.LINES,
    ),
    "long": ReplayOverrides(longer_ns=150_000_000),
}


def replay_text(path: Path, overrides: ReplayOverrides) -> str:
    """What a replay prints on stdout."""
    out = io.StringIO()
    assert replay(path, overrides, out, io.StringIO()) == 0
    return out.getvalue()
