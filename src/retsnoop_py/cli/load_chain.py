# SPDX-License-Identifier: BSD-2-Clause
"""Where the kernel refuses without a word: the same once more, traced, as ``why`` does it.

The parts that were refused so are tried again by a process of their own. The first time shows which
functions failed, further times follow the innermost ones block by block, to the condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.load.model import Condition, LoadResult
from retsnoop_py.package import program

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.render.json_types import Origin
    from retsnoop_py.render.why_types import ExplainedCall, FailingChainCall

__all__ = ["PARTS", "TOLD", "with_chains"]

#: What the other process is to try again, and what became of it each time, in lines of JSON.
PARTS, TOLD = "parts", "told"
#: What attaches kprobes stands beside bpf(2), since some kernels let nobody trace
#: perf_event_open(2).
_ENTRY = ("*_sys_bpf", "register_kprobe", "register_kretprobe")
#: What makes, checks and attaches maps and programs; few enough to be hooked one by one.
_INSIDE = (
    *("map_create", "*_map_alloc_check", "*_map_alloc", "*_map_check_btf", "trie_alloc"),
    *("array_map_alloc*", "htab_map_alloc*", "*bpf_map_area_*alloc*", "bpf_map_alloc_*"),
    *("bpf_map_charge_init", "bpf_map_init_from_attr", "map_check_btf", "bpf_check_uarg_tail_zero"),
    *("bpf_prog_load", "bpf_prog_load_check_attach", "bpf_prog_alloc", "bpf_prog_charge_memlock"),
    *("bpf_check", "check_attach_btf_id", "bpf_check_attach_target", "find_prog_type"),
    *("bpf_tracing_prog_attach", "bpf_raw_tracepoint_open", "bpf_raw_tp_link_attach"),
    *("link_create", "bpf_perf_link_attach", "bpf_*_link_attach", "bpf_*_link_create"),
    *("bpf_probe_register", "bpf_prog_attach_check_attach_type", "bpf_xdp_link_attach"),
    *("bpf_trampoline_link_prog", "__bpf_trampoline_link_prog", "register_fentry"),
    *("btf_new_fd", "bpf_get_btf_vmlinux", "tracepoint_probe_register*"),
    *("check_kprobe_address_safe", "arm_kprobe"),
)
#: Runs after the first, and seconds of all of them.
_RERUNS = 2
_PATIENCE_S = 180
#: Entry functions that say nothing of their own.
_OUTER = ("__x64_sys_", "__do_sys_", "__se_sys_", "__sys_", "__arm64_sys_")
#: Times of CLOCK_MONOTONIC, in ns, between which a part was tried.
_Span = tuple[int, int]


def with_chains(
    wordless: Sequence[LoadResult], argv: Sequence[str], image: Path | None = None
) -> Iterator[LoadResult]:
    """Those of ``wordless`` of which tracing shows where the kernel refused them, with that.

    ``argv`` are the words of ``retsnoop-py load`` that load the same, ``image`` is the kernel's
    vmlinux with DWARF. Where the kernel cannot be traced there are none.
    """
    with TemporaryDirectory(prefix="retsnoop-load-") as name:
        folder = Path(name)
        (folder / PARTS).write_bytes(b"\n".join(map(msgspec.json.encode, wordless)))
        command = [*program(), "load", "--again", name, *argv]
        try:
            sessions = list(_failures(command, image))
        except RetsnoopError:
            return
        spans = _spans(folder / TOLD)
    for result in wordless:
        found = _chosen(sessions, spans.get(result.part[1:], ()), result.errno)
        if found is not None and result.explanation is not None:
            chain, conditions, said = _told(found)
            if chain:
                why = msgspec.structs.replace(
                    result.explanation, chain=chain, conditions=conditions, said=said
                )
                yield msgspec.structs.replace(result, explanation=why)


def _failures(command: Sequence[str], image: Path | None) -> Iterator[Session]:
    """The failing calls of all runs. Raises what a live run raises."""
    from retsnoop_py.api.explanation import word_probes
    from retsnoop_py.api.keywords import TraceOptions, words
    from retsnoop_py.api.runs import Run
    from retsnoop_py.options.settings import trace_settings
    from retsnoop_py.value import replace

    options: TraceOptions = {
        "entry": list(_ENTRY),
        "allow": list(_INSIDE),
        "command": command,
        "pinpoint": True,
        "reruns": _RERUNS,
        "duration": f"{_PATIENCE_S}s",
        # the kernel's own words are events of the trace
        "call_stack": True,
        "trace": True,
        "inject": word_probes(Path("/")),
    }
    if image is not None:
        options["kernel"] = image
    settings = trace_settings(words(options, TraceOptions.__optional_keys__))
    with Run(replace(settings, quiet_command=True, every_condition=True)) as run:
        for session in run:
            if session.report == "final" and session.failed and session.calls:
                yield session


def _spans(path: Path) -> dict[tuple[str, ...], list[_Span]]:
    """When each part was tried, by all of its names but the kernel's."""
    found: dict[tuple[str, ...], list[_Span]] = {}
    decoder = msgspec.json.Decoder(LoadResult)
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            result = decoder.decode(line)
        except msgspec.DecodeError:
            continue  # it was ended meanwhile
        if result.span is not None:
            found.setdefault(result.part[1:], []).append(result.span)
    return found


def _chosen(sessions: Sequence[Session], spans: Sequence[_Span], errno: str) -> Session | None:
    """The last session of those times that gave ``errno``; one that was followed, if there is."""
    inside = [
        one
        for one in sessions
        if one.calls[0].error == errno
        and any(begin <= one.start_ns and one.end_ns <= end for begin, end in spans)
    ]
    followed = [one for one in inside if one.paths]
    among = followed or inside
    return among[-1] if among else None


def _told(session: Session) -> tuple[tuple[str, ...], tuple[Condition, ...], tuple[str, ...]]:
    """The calls that failed, the conditions behind them, and what the kernel wrote."""
    from retsnoop_py.api.explanation import Explanation

    call = Explanation.of(session).call()
    return _chain(call), _conditions(call), tuple([message.text for message in call.said])


def _chain(call: ExplainedCall) -> tuple[str, ...]:
    failed = [one for one in call.chain if one.result is not None and one.result.error]
    inner = [one for one in failed if not one.function.name.startswith(_OUTER)]
    return tuple([_row(one) for one in inner or failed])


def _row(one: FailingChainCall) -> str:
    """Function and error, with the place where it called the next one, where that is known."""
    place = ""
    if one.frame is not None and one.frame.source and one.frame.source[0].line:
        source = one.frame.source[0]
        place = f"  ({source.file}:{source.line})"
    error = one.result.error if one.result is not None else ""
    return f"{one.function.name}  [{error}]{place}"


def _conditions(call: ExplainedCall) -> tuple[Condition, ...]:
    told = [one for one in (call.origin, *call.tested) if one is not None]
    return tuple(
        [
            _condition(one)
            for one in told
            if one.decided is not None or not one.function.name.startswith(_OUTER)
        ]
    )


def _condition(origin: Origin) -> Condition:
    from retsnoop_py.render.origin import origin_lines, place_text
    from retsnoop_py.render.palette import Palette

    name, decided = origin.function.name, origin.decided
    return Condition(
        name,
        place_text(origin.returned, name) if origin.returned else "",
        place_text(decided.place, name) if decided else "",
        (decided.condition or decided.place.instruction) if decided else "",
        {one.name: one.value for one in decided.operands} if decided else {},
        tuple(origin_lines(origin, 0, Palette())),
    )
