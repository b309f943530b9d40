# SPDX-License-Identifier: BSD-2-Clause
"""The settings that a replay can change: the views and filters of the live run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import (
    ArgMode,
    ArgSettings,
    FilterSettings,
    OutputFormat,
    Settings,
    StackSettings,
    SymbolizeMode,
    VerdictSettings,
    ViewSettings,
)
from retsnoop_py.symbolize.paths import SourceTree
from retsnoop_py.value import Value, replace


class ReplayOverrides(Value):
    """The options that the user gave; ``None`` keeps the setting of the live run.

    The fields have the names and units of :class:`FilterSettings`, :class:`StackSettings`,
    :class:`ViewSettings` and :class:`ArgSettings`; ``allow_errors="any"`` is ``-x any``. If only
    one of the views ``call_stack`` and ``call_trace`` is given, only this view is shown.
    """

    pids: tuple[int, ...] | None = None
    deny_pids: tuple[int, ...] | None = None
    comms: tuple[str, ...] | None = None
    deny_comms: tuple[str, ...] | None = None
    longer_ns: int | None = None
    success: bool | None = None
    allow_errors: frozenset[int] | Literal["any"] | None = None
    deny_errors: frozenset[int] | None = None
    unfiltered: bool | None = None
    emit_addrs: bool | None = None
    dec_offs: bool | None = None
    call_stack: bool | None = None
    call_trace: bool | None = None
    interim: bool | None = None
    lbr: int | None = None
    lbr_max: int | None = None
    lbr_full: bool | None = None
    user_stack: bool | None = None
    format: OutputFormat | None = None
    ascii: bool | None = None
    self_time: bool | None = None
    cpu: bool | None = None
    capture: bool | None = None
    mode: ArgMode | None = None
    width: int | None = None
    raw_pointers: bool | None = None
    stop_count: int = 0
    counts: bool = False
    each: bool = False
    symbolize: SymbolizeMode | None = None
    kernel_image: Path | None = None
    source: Path | None = None
    verbose: int = 0
    verdict: VerdictSettings = VerdictSettings()

    def apply(self, header: StreamHeader) -> Settings:
        """The live run's settings with these in their place."""
        return Settings(
            filters=self._filters(header.filters),
            stacks=self._stacks(header.stacks),
            views=self._views(header.views),
            args=self._args(header.args),
            bpf=header.bpf,
            stop_count=self.stop_count,
            counts=self.counts,
            each=self.each,
            command=header.command,
            symbolize=self._symbolize(header.symbolize),
            kernel_image=self.kernel_image,
            source=self.source,
            verbose=self.verbose,
            verdict=self.verdict,
        )

    def missing(self, header: StreamHeader) -> list[str]:
        """One sentence for each thing asked for that the live run did not capture."""
        live = header.filters
        wanted = self.apply(header)
        said = []
        if wanted.filters.success and not live.success:
            said.append("the recording contains only failing sessions: it was recorded without -S")
        if wanted.filters.longer_ns < live.longer_ns:
            said.append(
                f"the recording holds no session shorter than {live.longer_ns // 1_000_000} ms:"
                " it was recorded with -L"
            )
        if _wider(self.pids, live.pids) or _wider(self.comms, live.comms):
            said.append("the recording contains only the processes that its -p and -n selected")
        said += self._missing_views(header)
        if wanted.kernel_image is None and _richer(wanted.symbolize, header.symbolize):
            said.append(
                f"the recording holds {_HELD[header.symbolize]};"
                " give its kernel image with -k to look them up again"
            )
        if self.source is not None:
            notice = SourceTree(self.source).notice(header.release)
            said += [notice] if notice else []
        return said

    def _missing_views(self, header: StreamHeader) -> Iterator[str]:
        live = header.views
        lacks = {
            ("no call trace", "-T"): self.call_trace and not live.call_trace,
            ("no kernel stacks", "-E"): self.call_stack and not live.call_stack,
            ("no interim stacks", "-I"): self.interim and not live.interim,
            ("no branches", "-B"): self.lbr is not None and live.lbr is None,
            ("no user stacks", "--user-stack"): self.user_stack and not live.user_stack,
            ("no arguments", "-A"): self.capture and not header.args.capture,
        }
        for (what, option), is_missing in lacks.items():
            if is_missing:
                yield f"the recording contains {what}: it was recorded without {option}"
        if self.lbr is not None and live.lbr is not None and self.lbr & ~live.lbr:
            yield "the recording contains only the kinds of branches that its -B selected"

    def _views(self, live: ViewSettings) -> ViewSettings:
        changed = self._given(
            "interim", "lbr_max", "lbr_full", "format", "ascii", "self_time", "cpu"
        )
        if self.call_stack or self.call_trace:
            trace = bool(self.call_trace and live.call_trace)
            changed |= {"call_trace": trace, "call_stack": bool(self.call_stack) or not trace}
        return replace(live, **changed)

    def _args(self, live: ArgSettings) -> ArgSettings:
        return replace(live, **self._given("mode", "width", "raw_pointers"))

    def _filters(self, live: FilterSettings) -> FilterSettings:
        changed = self._given("pids", "deny_pids", "comms", "deny_comms", "longer_ns", "success")
        if self.allow_errors is not None:
            changed["allow_errors"] = None if self.allow_errors == "any" else self.allow_errors
            # As on a live command line: -x means failing sessions only.
            changed.setdefault("success", False)
        changed |= self._given("deny_errors")
        return replace(live, **changed)

    def _stacks(self, live: StackSettings) -> StackSettings:
        return replace(live, **self._given("unfiltered", "emit_addrs", "dec_offs"))

    def _symbolize(self, live: SymbolizeMode) -> SymbolizeMode:
        if self.symbolize is None and self.kernel_image is not None:
            return SymbolizeMode.INLINES
        if self.symbolize is None or self.symbolize is SymbolizeMode.AUTO:
            return live
        return self.symbolize

    def _given(self, *names: str) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


_RICHNESS = (SymbolizeMode.NONE, SymbolizeMode.LINES, SymbolizeMode.INLINES)
_HELD = {
    SymbolizeMode.NONE: "no source lines",
    SymbolizeMode.LINES: "source lines without inlined functions",
    SymbolizeMode.INLINES: "source lines",
    SymbolizeMode.AUTO: "no source lines",
}


def _richer(wanted: SymbolizeMode, held: SymbolizeMode) -> bool:
    order = {mode: rank for rank, mode in enumerate(_RICHNESS)}
    return order.get(wanted, 0) > order.get(held, 0)


def _wider(wanted: tuple[object, ...] | None, live: tuple[object, ...]) -> bool:
    return wanted is not None and bool(live) and not set(wanted) <= set(live)
