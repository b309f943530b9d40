# SPDX-License-Identifier: BSD-2-Clause
"""Load BPF objects, here and on other kernels, and explain the logs of loads.

If the kernel rejects a part without a message, the load is repeated under tracing, like ``why``: a
separate process tries the rejected parts again. The first run shows which functions failed. Further
runs follow the innermost functions block by block, down to the condition.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self, Unpack

import msgspec

from retsnoop_py.api.keywords import LoadOptions, Texts, no_such_keyword
from retsnoop_py.capture.rights import raise_memlock
from retsnoop_py.errors import DataError, InputError, RetsnoopError, UsageError, no_proc
from retsnoop_py.foreign_json import decode, encode
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.listener import current
from retsnoop_py.load.checked_object import open_object
from retsnoop_py.load.model import Condition, Explained, LoadResult
from retsnoop_py.load.shape import Shape, parse_shapes
from retsnoop_py.options import values
from retsnoop_py.options.table import HOST
from retsnoop_py.own_file import temporary_base
from retsnoop_py.package import program
from retsnoop_py.settings import SelectionSettings, Settings, ViewSettings
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.model.session import Origin
    from retsnoop_py.model.why import ExplainedCall, FailingChainCall

__all__ = ["Loading", "explain", "load_again", "load_objects", "load_results", "object_path"]

#: Files for the other process: the parts to try again, and each result, in lines of JSON.
_PARTS, _TOLD = "parts", "told"
#: Functions that attach kprobes, in addition to bpf(2): some kernels do not allow tracing of
#: perf_event_open(2).
_ENTRY = ("*_sys_bpf", "register_kprobe", "register_kretprobe")
#: Functions that create, check and attach maps and programs; few enough to hook each by itself.
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
#: Runs after the first, and seconds for all runs.
_RERUNS = 2
#: Maximum number of names in a suggestion for an unknown name.
_MOST_NAMES = 20
_PATIENCE_S = 180
#: Prefixes of outer functions, which add no information.
_OUTER = ("__x64_sys_", "__do_sys_", "__se_sys_", "__sys_", "__arm64_sys_")
#: Times of CLOCK_MONOTONIC, in ns, between which a part was tried.
_Span = tuple[int, int]


class Loading(Value):
    """A load request: the options of ``retsnoop-py load``.

    ``variables`` are in the format of ``--set``. ``image`` is a vmlinux with DWARF of the running
    kernel, ``source`` the folder with the objects' source files. ``jobs`` is the number of
    simultaneous guests, ``timeout`` in seconds for each.
    """

    objects: tuple[Path, ...]
    kernels: tuple[str, ...] = (HOST,)
    programs: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    attach: bool = False
    jobs: int = 1
    timeout: float = values.timeout(None)
    keep_logs: bool = False
    traces: bool = True
    image: Path | None = None
    source: Path | None = None

    @classmethod
    def of(cls, objects: Sequence[str | PathLike[str]], options: LoadOptions) -> Self:
        """Return the request for these keywords. Raises UsageError and InputError."""
        known = LoadOptions.__optional_keys__
        if unknown := options.keys() - known:
            raise no_such_keyword(min(unknown), known)
        if not objects:
            raise UsageError("no object to load", "give the paths of compiled BPF objects")
        jobs, timeout = options.get("jobs"), options.get("timeout")
        kernel, source = options.get("kernel"), options.get("source")
        return cls(
            tuple(object_path(fspath(one)) for one in objects),
            values.kernels(_texts(options.get("on", ()))) or (HOST,),
            tuple(_texts(options.get("programs", ()))),
            tuple(_texts(options.get("maps", ()))),
            tuple(_variable_words(options.get("variables", {}))),
            options.get("attach", False),
            values.jobs(None if jobs is None else str(jobs)),
            values.timeout(None if timeout is None else str(timeout)),
            options.get("logs", False),
            options.get("trace", True),
            None if kernel is None else Path(fspath(kernel)),
            values.source_folder(None if source is None else fspath(source)),
        )

    @property
    def here(self) -> bool:
        """True if the running kernel is one of the kernels."""
        return HOST in self.kernels

    def argv(self) -> list[str]:
        """Return the arguments that request the same from another process."""
        words = [str(path) for path in self.objects]
        words += [word for name in self.programs for word in ("--prog", name)]
        words += [word for name in self.maps for word in ("--map", name)]
        words += [word for each in self.variables for word in ("--set", each)]
        # the user who started this process has agreed, or this is a guest
        words += ["--try-attach", "--yes"] if self.attach else []
        words += ["--keep-logs"] if self.keep_logs else []
        words += [] if self.traces else ["--no-trace"]
        words += [] if self.source is None else ["--source", str(self.source)]
        return words


def load_objects(*objects: str | PathLike[str], **options: Unpack[LoadOptions]) -> list[LoadResult]:
    """Load BPF objects on kernels, and return a result for each part, with the reasons of failures.

    The parts of an object are its BTF, maps, externs and programs. Each part is tried by itself,
    and nothing remains loaded. Results are in the order of the kernels. A kernel that does not boot
    or that crashes is also a result. Raises InputError for a file that cannot be read and for a
    variable that no object has, UsageError without objects, UnavailableError for a kernel that does
    not exist.
    """
    asked = Loading.of(objects, options)
    return in_order(load_results(asked), asked.kernels)


def _texts(said: Texts) -> list[str]:
    return [said] if isinstance(said, str) else [str(one) for one in said]


def _variable_words(variables: Mapping[str, int | Mapping[str, int]]) -> Iterator[str]:
    """Yield variables in the format of ``--set``."""
    for name, value in variables.items():
        if isinstance(value, Mapping):
            yield from (f"{name}:{each}={int(number)}" for each, number in value.items())
        else:
            yield f"{name}={int(value)}"


def object_path(word: str) -> Path:
    """Return the absolute path of the object. Raises InputError if it cannot be read."""
    path = Path(word).absolute()
    try:
        os.close(open_regular(path))
    except OSError as err:
        hint = "it must be a compiled BPF object that this user may read"
        raise InputError(f"{word}: {err.strerror}", hint) from err
    return path


def in_order(told: Iterable[LoadResult], kernels: Sequence[str]) -> list[LoadResult]:
    """Return the last result of each part, in the order of ``kernels``."""
    found = {result.part: result for result in told}
    order = {kernel: number for number, kernel in enumerate(kernels)}
    return sorted(found.values(), key=lambda one: order.get(one.kernel, len(order)))


def load_results(asked: Loading) -> Iterator[LoadResult]:
    """Yield the result of each part as soon as it is known; a later result has more details.

    Raises the errors of :func:`load_objects`, before any load.
    """
    shapes = parse_shapes(asked.variables)
    _check(asked, shapes)
    if asked.here:
        yield from _here(asked, shapes)
    guests = [name for name in asked.kernels if name != HOST]
    if guests:
        yield from _there(asked, guests)


def _check(asked: Loading, shapes: Sequence[Shape]) -> None:
    """Detect errors here that would occur in every guest."""
    targets = []
    for path in asked.objects:
        try:
            targets.append(open_object(path))
        except DataError:
            continue  # this is a result
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
    for shape in shapes:
        shape.check(targets)
    for option, wanted, known in (
        ("--prog", asked.programs, [name for one in targets for name in one.programs()]),
        ("--map", asked.maps, [name for one in targets for name in one.maps()]),
    ):
        for name in wanted:
            if name not in known and len(targets) == len(asked.objects):
                shown = ", ".join(sorted(set(known))[:_MOST_NAMES]) or "none"
                raise InputError(
                    f"{option} {name}: no object has one of that name", f"there are: {shown}"
                )


def _here(asked: Loading, shapes: Sequence[Shape]) -> Iterator[LoadResult]:
    from retsnoop_py.load.trial import TrialRequest, try_object

    # libbpf opens the object from memory by a path in /proc/self/fd
    if not Path("/proc/self/fd").is_dir():
        raise no_proc("objects cannot be loaded")
    raise_memlock()
    trial = TrialRequest(
        HOST,
        asked.programs,
        asked.maps,
        asked.attach,
        asked.objects,
        asked.keep_logs,
        source=asked.source,
    )
    wordless = []
    for path in asked.objects:
        for shape in shapes:
            for result in try_object(path, shape, trial):
                yield result
                wordless += [result] if result.is_wordless else []
    if wordless and asked.traces:
        yield from _with_chains(wordless, asked.argv(), asked.image)


def _there(asked: Loading, guests: Sequence[str]) -> Iterator[LoadResult]:
    from retsnoop_py.load.guests import load_in_guests
    from retsnoop_py.vm.machine import prepare

    with current().progress("loading on", "kernels") as progress:
        kernels = prepare(guests)
        progress.update(0, len(kernels))
        with closing(load_in_guests(kernels, asked.argv(), asked.jobs, asked.timeout)) as found:
            for done, (_, results) in enumerate(found, 1):
                yield from results
                progress.update(done, len(kernels))


def load_again(asked: Loading, folder: Path) -> None:
    """Try the parts in ``folder`` once more under tracing, and write down the times."""
    from retsnoop_py.load.trial import TrialRequest, try_object

    raise_memlock()
    decoder = msgspec.json.Decoder(LoadResult)
    parts = [decoder.decode(line) for line in (folder / _PARTS).read_bytes().splitlines()]
    with (folder / _TOLD).open("ab", buffering=0) as told:
        for shape in parse_shapes(asked.variables):
            for path in asked.objects:
                only = [
                    (one.kind, one.name)
                    for one in parts
                    if (one.object, one.shape) == (str(path), shape.name)
                ]
                if not only:
                    continue
                trial = TrialRequest(HOST, beside=asked.objects, only=tuple(only))
                for result in try_object(path, shape, trial):
                    told.write(encode(result) + b"\n")


def explain(
    log: str | bytes | PathLike[str],
    target: str | PathLike[str] | None = None,
    *,
    source: str | PathLike[str] | None = None,
) -> list[Explained]:
    """Return every failure in a loader's log, with the reason why BPF programs or maps failed.

    ``log`` is the text, or the path (a :class:`~pathlib.Path`) of a file. ``target`` is the object
    that failed, for source lines and CO-RE relocations. ``source`` is the folder with the object's
    source files, for the lines around a place. This requires neither root nor a kernel. A log
    without failures returns an empty list. If a log needs more than 18 s of CPU time, the rest is
    skipped, and the listener gets a warning. Raises InputError for a file that cannot be read and
    for a ``source`` that is not a folder, DataError for a target that is not an object.
    """
    from retsnoop_py.load.explain import explain_log

    try:
        folder = values.source_folder(None if source is None else fspath(source))
        known = None if target is None else open_object(Path(fspath(target)), source=folder)
        if isinstance(log, PathLike):
            with Path(fspath(log)).open("rb") as stream:
                return _all_of(explain_log(stream, known))
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from None
    data = log.encode(errors="surrogateescape") if isinstance(log, str) else log
    return _all_of(explain_log(io.BytesIO(data), known))


def _all_of(found: Iterator[Explained]) -> list[Explained]:
    """Return the failures of a log that may be too long to be read to its end."""
    from retsnoop_py.load.time_limit import PartlyReadError

    failures = []
    try:
        for failure in found:
            failures.append(failure)  # noqa: PERF402 - kept if the next one raises
    except PartlyReadError as error:
        current().warn(f"{error.message}; {error.hint}")
    return failures


def _with_chains(
    wordless: Sequence[LoadResult], argv: Sequence[str], image: Path | None = None
) -> Iterator[LoadResult]:
    """Yield the results of ``wordless`` for which tracing finds where the kernel rejected them.

    ``argv`` are the arguments of ``retsnoop-py load`` for the same load, ``image`` is the kernel's
    vmlinux with DWARF. If the kernel cannot be traced, yield no result.
    """
    try:
        made = TemporaryDirectory(prefix="retsnoop-load-", dir=temporary_base())
    except OSError as error:
        current().warn(
            f"retsnoop-py cannot trace loads that fail without a message: {error.strerror}; "
            "set TMPDIR to a writable folder"
        )
        return
    with made as name:
        folder = Path(name)
        (folder / _PARTS).write_bytes(b"\n".join(map(encode, wordless)))
        command = [*program(), "load", "--again", name, *argv]
        try:
            sessions = list(_failures(command, image))
        except RetsnoopError:
            return
        spans = _spans(folder / _TOLD)
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
    """Yield the failing calls of all runs. Raises the errors of a live run."""
    from retsnoop_py.api.runs import Run

    settings = Settings(
        selection=SelectionSettings(entry=_ENTRY, allow=_INSIDE),
        # the trace contains the paths of calls that did not fail
        views=ViewSettings(call_stack=True, call_trace=True),
        command=tuple(command),
        quiet_command=True,
        pinpoint=True,
        every_condition=True,
        reruns=_RERUNS,
        stop_after_ns=_PATIENCE_S * 1_000_000_000,
        kernel_image=image,
    )
    with Run(settings) as run:
        for session in run:
            if session.report == "final" and session.failed and session.calls:
                yield session


def _spans(path: Path) -> dict[tuple[str, ...], list[_Span]]:
    """Return the times of each part's tries, by all of its names except the kernel's."""
    found: dict[tuple[str, ...], list[_Span]] = {}
    decoder = msgspec.json.Decoder(LoadResult)
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            result = decode(decoder, line)
        except DataError:
            continue  # the process was ended while it wrote
        if result.span is not None:
            found.setdefault(result.part[1:], []).append(result.span)
    return found


def _chosen(sessions: Sequence[Session], spans: Sequence[_Span], errno: str) -> Session | None:
    """Return the last session in these times with error ``errno``, preferably a followed one."""
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
    """Return the failed calls, the conditions behind them, and the kernel's messages."""
    from retsnoop_py.api.explanation import Explanation

    call = Explanation.of(session).call()
    return _chain(call), _conditions(call), tuple([message.text for message in call.said])


def _chain(call: ExplainedCall) -> tuple[str, ...]:
    failed = [one for one in call.chain if one.result is not None and one.result.error]
    inner = [one for one in failed if not one.function.name.startswith(_OUTER)]
    return tuple([_row(one) for one in inner or failed])


def _row(one: FailingChainCall) -> str:
    """Return function and error, with the place of its call to the next function if known."""
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
