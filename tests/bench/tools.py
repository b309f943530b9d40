# SPDX-License-Identifier: BSD-2-Clause
"""The compared tools: how to find, start and await each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.selections import Selection

OURS = "retsnoop-py"
PEER = "retsnoop"
NAMES = (OURS, PEER, "bpftrace", "trace-cmd")
READY = "Receiving data..."
_TRACING = "tracing-now"
_PROBES = ("kprobe", "kretprobe")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. If it is not installed, ``path`` is None and ``why`` is the reason."""

    name: str
    path: str | None
    why: str = ""

    @property
    def reports(self) -> bool:
        """True if the tool prints failing calls, which are then measured."""
        return self.name in {OURS, PEER}


@dataclass(frozen=True, slots=True)
class Start:
    """How to start a tool: arguments, environment, and the word it prints when it is ready."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: str = READY


def find_tools(names: Sequence[str]) -> tuple[Tool, ...]:
    """Find the named tools: from RETSNOOP= or PATH; retsnoop-py beside this Python."""
    return tuple(Tool(name, *_find(name)) for name in names)


def _find(name: str) -> tuple[str | None, str]:
    if name == OURS:
        return str(Path(sys.executable).parent / OURS), ""
    wanted = os.environ.get("RETSNOOP") or PEER if name == PEER else name
    path = shutil.which(wanted)
    if path:
        return str(Path(path).resolve()), ""
    return None, f"no {wanted} on this machine" + ("; see RETSNOOP=" if name == PEER else "")


def version(tool: Tool) -> str:
    """Return the version that ``--version`` prints, an empty string if the tool is absent."""
    if not tool.path:
        return ""
    argv = [tool.path, *([] if tool.name == "trace-cmd" else ["--version"])]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    words = (result.stdout or result.stderr).split()
    numbers = [word.strip("(),") for word in words if word.lstrip("v")[:1].isdigit()]
    return numbers[0] if numbers else ""


def dry_run(tool: Tool, selection: Selection, folder: Path) -> tuple[str, ...]:
    """Return the command with which retsnoop or retsnoop-py lists functions without attaching."""
    return (*_snoop(tool, selection, folder), "-v", "--dry-run")


def starting(tool: Tool, selection: Selection, folder: Path, meter: Path) -> Start:
    """Return how to start ``tool`` on ``selection``; its input files are written to ``folder``.

    bpftrace and trace-cmd print no ready word. They start a command when they trace, and the
    command prints the word.
    """
    hold = (str(meter), "hold", _TRACING)
    if tool.reports:
        return Start(_snoop(tool, selection, folder))
    if tool.name == "bpftrace":
        script = folder / f"{selection.key}.bt"
        script.write_text(_counters(selection.names or (selection.allow,)))
        argv = (str(tool.path), "-c", " ".join(hold), str(script))
        return Start(argv, {"BPFTRACE_MAX_PROBES": "200000"}, _TRACING)
    names = selection.names or (selection.allow,)
    only = () if names == ("*",) else tuple(word for name in names for word in ("-l", name))
    record = (str(tool.path), "record", "-q", "-p", "function_graph", "-o", "/tmp/bench.dat")
    return Start((*record, *only, *hold), ready=_TRACING)


def _counters(globs: Sequence[str]) -> str:
    """Return a minimal bpftrace program, which counts calls and returns."""
    entries, returns = (",".join(f"{kind}:{glob}" for glob in globs) for kind in _PROBES)
    return f"{entries} {{ @entries = count(); }}\n{returns} {{ @returns = count(); }}\n"


def _snoop(tool: Tool, selection: Selection, folder: Path) -> tuple[str, ...]:
    allow = selection.allow
    if selection.names:
        listed = folder / f"{selection.key}.globs"
        listed.write_text("".join(f"{name}\n" for name in selection.names))
        allow = f"@{listed}"
    # so many functions need an explicit limit
    many = ("--max-functions", "200000") if tool.name == OURS and allow == "*" else ()
    # no source lines, because results must not depend on DWARF
    return (str(tool.path), "-sn", *selection.options, *many, "-e", selection.entry, "-a", allow)
