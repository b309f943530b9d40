# SPDX-License-Identifier: BSD-2-Clause
"""Describe a selection: its numbers, or why an entry glob matches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from retsnoop_py.errors import InputError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.facts import Functions, glob_match
from retsnoop_py.selection import deny_list
from retsnoop_py.selection.globs import NameGlob
from retsnoop_py.selection.model import Reason, Rejection, Role, Selection
from retsnoop_py.text import close_names, did_you_mean, named

#: Maximum number of names that are compared one by one.
_MAX_CANDIDATES = 3000
_SHOWN = 3


class NoMatch(InputError):
    """No selected function can be traced; ``rejections`` has the rejected functions."""

    def __init__(
        self, message: str, hint: str | None = None, rejections: Sequence[Rejection] = ()
    ) -> None:
        super().__init__(message, hint)
        self.rejections = tuple(rejections)


def no_match(
    facts: KernelFacts, glob: NameGlob, functions: Functions, rejections: list[Rejection]
) -> NoMatch:
    """Return the error, with the likely cause, for a mandatory entry glob without a match."""
    what = f"entry glob '{glob.spec}'"
    refused = [r for r in rejections if _matches(glob, r)]
    if refused:
        shown = "; ".join(f"{r.label}: {r.text}" for r in refused[:_SHOWN])
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        return NoMatch(
            f"{what} matches no traceable function: {shown}{more}",
            did_you_mean(near_names(facts, glob, functions, only_variants=True)),
            refused,
        )
    module = glob.module
    if module and not set("*?") & set(module) and module not in {m.name for m in facts.modules}:
        return NoMatch(f"{what}: module '{module}' is not loaded", f"run `modprobe {module}`")
    message = f"{what} matches no kernel function"
    # A name that the shell expanded is a file name and has no wildcards.
    if glob.is_exact and Path(glob.name).exists():
        return NoMatch(
            message,
            f"'{glob.name}' is a file here: did the shell expand a glob? Quote it: -e 'ovl_*'",
        )
    if glob.is_exact and facts.kallsyms.lists(glob.name, module):
        return NoMatch(f"{message}: '{glob.name}' is data, or code that is freed after boot")
    return NoMatch(message, did_you_mean(near_names(facts, glob, functions)))


def _matches(glob: NameGlob, rejection: Rejection) -> bool:
    if not glob_match(glob.name, rejection.name):
        return False
    return glob.module is None or (
        rejection.module is not None and glob_match(glob.module, rejection.module)
    )


def near_names(
    facts: KernelFacts, glob: NameGlob, functions: Functions, *, only_variants: bool = False
) -> list[str]:
    """Return a few names of traceable functions that are similar to ``glob``.

    ``only_variants``: the function exists, so only the compiler's variants of it are returned.
    """
    bare = glob.name.strip("*?")
    if not bare:
        return []
    find = _Finder(facts, functions)
    near = find.all(f"{bare}.isra.*", f"{bare}.constprop.*", f"{bare}.part.*")
    if not near and not only_variants:
        near = sorted(find.all(f"*{bare}*"), key=len) or find.similar(bare)
    denied = [entry.glob for entry in deny_list.load()]
    welcome = (name for name in near if not any(glob_match(glob, name) for glob in denied))
    return list(islice(welcome, _SHOWN))


class _Finder:
    """Search names among the traceable functions."""

    def __init__(self, facts: KernelFacts, functions: Functions) -> None:
        self._kallsyms = facts.kallsyms
        self._listed = functions.listed

    def all(self, *patterns: str) -> list[str]:
        found = self._kallsyms.table.match(self._listed, [(p, None) for p in patterns]).symbols
        return sorted({self._kallsyms.symbol(index).name for index in found[:_MAX_CANDIDATES]})

    def similar(self, bare: str) -> list[str]:
        words = [word for word in re.split(r"[_.*?\W]+", bare) if len(word) > 2]
        patterns = [f"*{word}*" for word in words] + [f"{bare[:3]}*", f"*{bare[-3:]}"]
        return close_names(bare, self.all(*patterns), 3 * _SHOWN)


def warnings(selection: Selection) -> Iterator[str]:
    """Yield the warnings: named functions that are not traced, and globs without effect.

    There is one warning for each kind, because a file of names (``@FILE``) may have thousands.
    """
    refused: dict[str, list[str]] = {}
    for rejection in selection.rejections:
        if rejection.named and rejection.reason is not Reason.DENIED:
            refused.setdefault(rejection.text, []).append(rejection.label)
    for reason, labels in refused.items():
        if len(labels) == 1:
            yield f"function '{labels[0]}' is not traced: {reason}"
        else:
            yield f"{len(labels):,} functions are not traced ({named(labels)}): {reason}"
    useless = [
        glob.spec
        for glob in selection.globs
        if glob.origin == "-a" and not glob.matched and not glob.untraceable
    ]
    if len(useless) == 1:
        yield f"-a '{useless[0]}' matches no kernel function"
    elif useless:
        yield f"{len(useless):,} globs of -a match no kernel function: {named(useless)}"


def report(selection: Selection, verbose: int) -> Iterator[str]:
    """Yield the lines for verbosity ``verbose``; none for 0."""
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
            yield f"No BTF for {where}: its functions are assumed to return int."
    hidden = 0
    for rejection in selection.rejections:
        # A glob such as *bpf* matches hundreds of functions without a trace point: tracepoint glue,
        # .cold parts.
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
