# SPDX-License-Identifier: BSD-2-Clause
"""What a selection tells: always, with ``-v`` and with ``-vv``."""

from __future__ import annotations

from collections.abc import Iterator

from retsnoop_py.selection.model import Reason, Role, Selection

__all__ = ["report", "warnings"]


def warnings(selection: Selection) -> Iterator[str]:
    """What a user must hear unasked: a function named and not traced, a glob without effect."""
    for rejection in selection.rejections:
        if rejection.named and rejection.reason is not Reason.DENIED:
            yield f"function '{rejection.label}' is not traced: {rejection.text}"
    for glob in selection.globs:
        if glob.origin == "-a" and not glob.matched and not glob.untraceable:
            yield f"-a '{glob.spec}' matches no kernel function"


def report(selection: Selection, verbose: int) -> Iterator[str]:
    """The lines for verbosity ``verbose``; none for 0."""
    if verbose < 1:
        return
    if verbose > 1:
        yield from _globs(selection, internal=verbose > 2)
    yield (
        f"Discovered {selection.discovered} available kprobes, filtered down to "
        f"{selection.matched}, and compacted to {selection.unique} unique names!"
    )
    for source in selection.types:
        where = f"module [{source.module}]" if source.module else "[vmlinux]"
        if source.found:
            yield f"Loaded BTF for {where}."
        else:
            yield f"No BTF for {where}: its functions are taken to return int."
    hidden = 0
    for rejection in selection.rejections:
        # A glob such as *bpf* matches hundreds of these: tracepoint glue, .cold parts.
        if verbose < 2 and rejection.reason is Reason.NOT_TRACEABLE:
            hidden += 1
        else:
            yield f"Function '{rejection.label}' is skipped: {rejection.text}."
    if hidden:
        yield f"{hidden} more matching functions have no trace point (-vv lists them)."
    yield f"Found {len(selection.functions)} attachable functions in total."
    yield f"Skipped {selection.discovered - len(selection.functions)} functions in total."
    for function in selection.functions:
        if verbose > 1:
            yield (
                f"Function '{function.label}' (addr {function.address:#x}, "
                f"btf id {function.btf_id or 0}, flags {_flags(function.flags.name)}): "
                f"{function.prototype or 'no prototype'}."
            )
        if function.is_entry:
            yield f"Function '{function.label}' is marked as an entry point."


def _flags(names: str | None) -> str:
    return names or "none"


def _globs(selection: Selection, *, internal: bool) -> Iterator[str]:
    for glob in selection.globs:
        if glob.internal and not internal:
            continue
        kind = "Deny" if glob.role is Role.DENY else "Allow"
        mark = " (internal)" if glob.internal else ""
        yield f"{kind} glob '{glob.spec}'{mark} matched {glob.matched} functions."
