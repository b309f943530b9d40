# SPDX-License-Identifier: BSD-2-Clause
"""Where the kernel refuses without a word: the same load once more, traced by this very tool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from retsnoop_py.load.model import LoadResult
from retsnoop_py.package import program

__all__ = ["with_chains"]

_ENTRY = "*_sys_bpf"
#: What makes, checks and attaches maps and programs; few enough to be hooked one by one. What
#: attaches kprobes and tracepoints is perf's, which has no trace points on some kernels.
_INSIDE = (
    *("map_create", "*_map_alloc_check", "*_map_alloc", "*_map_check_btf", "trie_alloc"),
    "bpf_map_area_*alloc*",
    *("bpf_prog_load", "bpf_check", "check_attach_btf_id", "bpf_check_attach_target"),
    *("bpf_tracing_prog_attach", "bpf_raw_tracepoint_open", "bpf_raw_tp_link_attach"),
    *("link_create", "bpf_perf_link_attach", "bpf_*_link_attach", "bpf_probe_register"),
    *("bpf_trampoline_link_prog", "register_fentry"),
)
_TIMEOUT_S = 120
#: Entry functions that say nothing of their own.
_OUTER = ("__x64_sys_", "__do_sys_", "__se_sys_", "__sys_", "__arm64_sys_")


def with_chains(wordless: Sequence[LoadResult], argv: Sequence[str]) -> Iterator[LoadResult]:
    """Those of ``wordless`` of which tracing shows where the kernel refused them, with that.

    ``argv`` are the words of ``retsnoop-py load`` that load the same. Where the kernel cannot be
    traced there are none.
    """
    tool = program()
    words = [f"--entry={_ENTRY}", *(f"--allow={one}" for one in _INSIDE)]
    command = [*tool, "--format=json", *words, "--", *tool, "load", "--format=json", *argv]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    sessions = [one for one in _lines(done.stdout, "session") if one.get("failed")]
    again: dict[tuple[str, ...], dict[str, Any]] = {
        (one["object"], one["kind"], one.get("name", ""), one.get("shape", "")): one
        for one in _lines(done.stderr, "load")  # where the output of a command goes
    }
    for result in wordless:
        same = again.get(result.part[1:])
        chain = _chain(sessions, same["span"], result.errno) if same and same.get("span") else ()
        if chain and result.explanation is not None:
            why = msgspec.structs.replace(result.explanation, chain=chain)
            yield msgspec.structs.replace(result, explanation=why)


def _lines(out: bytes, kind: str) -> list[dict[str, Any]]:
    found = []
    for line in out.splitlines():
        if line.startswith(b"{"):
            try:
                one = json.loads(line)
            except ValueError:
                continue  # CMD may print what it likes
            if isinstance(one, dict) and one.get("type") == kind:
                found.append(one)
    return found


def _chain(sessions: Sequence[dict[str, Any]], span: Sequence[int], errno: str) -> tuple[str, ...]:
    """The failing calls of the last session of that time that returned ``errno``."""
    begin, end = span
    for session in reversed(sessions):
        if not (begin <= session["start_ns"] and session["end_ns"] <= end):
            continue
        rows = [_row(entry) for entry in session.get("stack") or () if "call" in entry]
        failed = [(name, text) for name, error, text in rows if error]
        if failed and rows[0][1] == errno:
            inner = [text for name, text in failed if not name.startswith(_OUTER)]
            return tuple(inner or [text for _, text in failed])
    return ()


def _row(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Function, error, and both as a line, with its place where that is known."""
    name = entry["call"]["function"]["name"]
    error = entry["call"].get("result", {}).get("error") or ""
    frame = entry.get("frame") or {}
    source = (frame.get("source") or [{}])[0] if isinstance(frame.get("source"), list) else {}
    place = f"  ({source['file']}:{source['line']})" if source.get("line") else ""
    return name, error, f"{name}  [{error}]{place}"
