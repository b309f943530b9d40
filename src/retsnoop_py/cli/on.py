# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py --on KERNEL,... -- CMD``: run the same command in a guest of each kernel."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self, TextIO

import msgspec

from retsnoop_py import own_file
from retsnoop_py.cli.argv import Normalised
from retsnoop_py.cli.guest_signals import ended_by_signals
from retsnoop_py.cli.report import harmless
from retsnoop_py.errors import DataError, OutputError, RetsnoopError, UsageError
from retsnoop_py.foreign_json import decode, encode, valid_text
from retsnoop_py.model.session import VERSION, RunResult
from retsnoop_py.options import values
from retsnoop_py.options.table import HOST
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.settings import OutputFormat, Settings
from retsnoop_py.text import display_width, pad, printable, printable_json
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.vm.kernels import Kernel
    from retsnoop_py.vm.machine import Machine


_TITLES = ("kernel", "release", "failing sessions", "lost", "CMD", "verdict")
#: Maximum number of names in a cell; others are counted. A guest may send any names.
_MOST = 4
#: Characters of a name in a cell, number of reasons below a row, characters of a reason.
_LONGEST, _MOST_REASONS, _LONGEST_REASON = 40, 50, 2000


def run_lines(results: Sequence[RunResult], palette: Palette) -> Iterator[str]:
    """Yield the lines of the table; below a row that is not ``ok``, the reasons."""
    rows = [tuple(map(printable, _cells(one))) for one in results]
    widths = [max(map(display_width, column)) for column in zip(_TITLES, *rows, strict=True)]
    yield paint(_joined(_TITLES, widths), palette.name)
    for result, row in zip(results, rows, strict=True):
        colour = palette.good if result.verdict == "ok" else palette.error
        before = _joined(row[:-1], widths[:-1], cut=False)
        yield f"{before}  {paint(row[-1], colour)}".rstrip()
        for line in _few(list(result.why), "reasons", _MOST_REASONS):
            yield f"{'':{widths[0]}}  {_cut(printable(line), _LONGEST_REASON)}"


def _few(texts: list[str], what: str, most: int = _MOST) -> list[str]:
    """Return the first texts, and the number of the others."""
    others = len(texts) - most
    return [*texts[:most], f"{others} more {what}"] if others > 0 else texts


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _cells(one: RunResult) -> tuple[str, ...]:
    told = _few([f"{count} {_cut(name)}" for name, count in one.sessions.items()], "errors")
    lost = _few([f"{_cut(name)} {count}" for name, count in one.lost.items()], "counters")
    ended = one.verdict not in ("error", "crashed", "unbooted", "timeout")
    return (
        one.on,
        one.kernel or "-",
        ", ".join(told) or ("none" if ended else "-"),
        ", ".join(lost) or "-",
        "-" if one.command_status is None else str(one.command_status),
        one.verdict,
    )


def _joined(cells: Sequence[str], widths: Sequence[int], *, cut: bool = True) -> str:
    line = "  ".join(pad(cell, width) for cell, width in zip(cells, widths, strict=True))
    return line.rstrip() if cut else line


#: Exit statuses: a run failed; the failures differ from the expected ones.
FAILED = 2
UNEXPECTED = 3
#: Options for the host.
_OURS = frozenset({"on", "jobs", "timeout", "output", "summary"})
#: Options that need the running kernel or its processes.
_NOT_THERE = ("pid", "no-pid", "user", "keep-env", "kernel")
_OUT, _ERR = 1, 2
#: Maximum number of bytes of a guest's waiting output in memory.
_IN_MEMORY = 1 << 20
#: Maximum length of a guest's line of JSON in bytes. Longer lines are skipped.
_MAX_LINE = 64 << 20
_SUMMARY, _RECORDING = "summary.json", "run.rsn"
#: Number of console lines that show why a kernel crashed.
_CONSOLE = 12


class OnRequest(Value):
    """The run and its kernels. ``words``: the command line for retsnoop-py in each guest."""

    settings: Settings
    kernels: tuple[str, ...]
    words: tuple[str, ...]
    jobs: int
    timeout: float


def request(line: Normalised, settings: Settings) -> OnRequest:
    """Return the request of ``line``, with its ``settings``. Raise :class:`UsageError`."""
    said: dict[str, list[str]] = {}
    for name, text in line.options:
        said.setdefault(name, []).append(text or "")
    kernels = values.kernels(said["on"])
    if HOST in kernels:
        raise UsageError(
            "--on host: tracing the running kernel needs no guest",
            "leave out --on: retsnoop-py ... -- CMD",
        )
    for name in _NOT_THERE:
        if name in said:
            raise UsageError(
                f"--{name} is about this machine, but --on traces in guests",
                "leave one of them out; in a guest CMD runs as root",
            )
    if not settings.command and not settings.dry_run:
        raise UsageError("--on needs a command to run in the guests", "... -- CMD")
    kept = [one for one in line.options if one[0] not in _OURS]
    words = [f"--{name}" if text is None else f"--{name}={text}" for name, text in kept]
    last = {name: texts[-1] for name, texts in said.items()}
    return OnRequest(
        settings,
        kernels,
        tuple(words),
        values.jobs(last.get("jobs")),
        values.timeout(last.get("timeout")),
    )


def run(asked: OnRequest) -> int:
    """Run on each kernel; print the outputs, each with its kernel's name, and the table.

    Return the exit status. Raise InputError for an unknown kernel, UnavailableError without QEMU or
    if a kernel cannot be fetched, OutputError if a recording cannot be written.
    """
    from retsnoop_py.vm.machine import prepare

    is_json = asked.settings.views.format is OutputFormat.JSON
    _check_folder(asked.settings.output)
    _check_folder(asked.settings.summary)
    with ended_by_signals():
        kernels = prepare(asked.kernels)
        results = []
        for result in _results(asked, kernels, is_json=is_json):
            results.append(result)
            if is_json:
                _print_json(result)
    _write_summary(asked.settings.summary, results)
    if not is_json:
        _print_table(results)
    return _status(results)


def _check_folder(path: Path | None) -> None:
    if path is not None and not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path}", "its folder must exist, and be writable")


def _results(
    asked: OnRequest, kernels: Sequence[tuple[str, Kernel]], *, is_json: bool
) -> Iterator[RunResult]:
    from retsnoop_py.vm.machine import in_guests

    with _Outlet([name for name, _ in kernels], is_json=is_json) as outlet:

        def visit(name: str, machine: Machine) -> RunResult:
            return _in_guest(asked, name, machine, outlet)

        def failed(name: str, kernel: Kernel, error: RetsnoopError) -> RunResult:
            return _lost(name, kernel.release, error, outlet)

        with closing(in_guests(kernels, visit, failed, asked.jobs)) as found:
            for name, result in found:
                outlet.end(name)
                yield result


# --- one guest -----------------------------------------------------------------------------------


def _in_guest(asked: OnRequest, name: str, machine: Machine, outlet: _Outlet) -> RunResult:
    """Run the command in a guest and fetch its results, even if the guest crashes."""
    from msgspec.structs import replace

    from retsnoop_py.vm.errors import VmError

    share, settings = machine.share, asked.settings
    argv = [*machine.program, *asked.words]
    if not settings.dry_run:
        argv.append(f"--summary={share / _SUMMARY}")
    if settings.output is not None:
        argv.append(f"--output={share / _RECORDING}")
    argv += ["--", *settings.command] if settings.command else []
    passed = ("TERM", "NO_COLOR", "LC_ALL", "TZ")
    env = {name: os.environ[name] for name in passed if name in os.environ}
    try:
        command = machine.start(argv, env=env)
        status = command.wait(
            asked.timeout, lambda stream, data: outlet.write(name, stream, data)
        ).status
        result = _summary(share / _SUMMARY, name, machine.release, status)
    except VmError as error:
        result = _lost(name, machine.release, error, outlet)
    if settings.output is not None:
        kept = recording_path(settings.output, name)
        if _fetch(share / _RECORDING, kept):
            result = replace(result, recording=str(kept))
    return result


def recording_path(path: Path, kernel: str) -> Path:
    """Return the path for the recording of ``kernel``: ``bad.rsn`` becomes ``bad.5.10.rsn``."""
    return path.with_name(f"{path.stem}.{kernel.replace('/', '_')}{path.suffix}")


def _open_shared(path: Path) -> BinaryIO | None:
    """Open a file that a guest wrote, which may be anything; return None if not regular."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return os.fdopen(handle, "rb")


def _fetch(source: Path, target: Path) -> bool:
    """Copy a file out of the guest's folder; return True if it exists. Raise OutputError."""
    file = _open_shared(source)
    if file is None:
        return False
    with file:
        own_file.copy(file, target)
    return True


def _summary(path: Path, name: str, release: str, status: int) -> RunResult:
    """Return the summary that the run wrote; without it, the run ended with a printed error."""
    file = _open_shared(path)
    if file is not None:
        with file:
            try:
                found = decode(msgspec.json.Decoder(RunResult), file.read(_IN_MEMORY))
                return msgspec.structs.replace(found, on=name, kernel=release, recording="")
            except DataError:
                pass  # the run could not write its summary
    if not status:  # a dry run
        return RunResult(VERSION, "ok", 0, on=name, kernel=release)
    return RunResult(
        VERSION,
        "error",
        status,
        on=name,
        kernel=release,
        why=(f"retsnoop-py ended with {status}, see above",),
    )


def _lost(name: str, release: str, error: RetsnoopError, outlet: _Outlet) -> RunResult:
    """Return the result of a guest that did not boot, crashed or hung; print its console."""
    from retsnoop_py.vm.errors import KernelCrashed, VmTimeout

    lines = [line for line in (error.hint or "").splitlines() if line.strip()][-_CONSOLE:]
    # the guest has written these lines, too
    text = harmless("\n".join([f"retsnoop-py: {error.message}", *lines]))
    outlet.write(name, _ERR, text.encode(errors="replace") + b"\n")
    verdict = "unbooted"
    if isinstance(error, KernelCrashed):
        verdict = "crashed"
    elif isinstance(error, VmTimeout):
        verdict = "timeout"
    return RunResult(
        VERSION,
        verdict,  # type: ignore[arg-type]
        error.exit_status,
        on=name,
        kernel=release,
        why=(error.message,),
    )


# --- output and exit status ----------------------------------------------------------------------


class _Outlet:
    """Write the guests' outputs one after another, in the order of ``names``.

    The output of the current guest is written at once. Other outputs wait, in a file if they are
    long. Each output begins with the kernel's name. With ``is_json``, each line of standard output
    gets the name instead.
    """

    def __init__(self, names: Sequence[str], *, is_json: bool) -> None:
        self._names = list(names)
        self._is_json = is_json
        self._lock = threading.Lock()
        self._parts: dict[str, tuple[_Waiting, list[tuple[int, int]]]] = {}
        self._begun = False
        self._line = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file, _sizes in self._parts.values():
            file.close()

    def write(self, name: str, stream: int, data: bytes) -> None:
        """Write or store output of the guest ``name``; called from the guest's thread."""
        with self._lock:
            if self._names[:1] == [name]:
                self._show(stream, data)
                return
            if name not in self._parts:
                spool: _Waiting = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - kept
                    _IN_MEMORY, dir=str(own_file.temporary_base())
                )
                self._parts[name] = (spool, [])
            file, sizes = self._parts[name]
            file.write(data)
            if sizes and sizes[-1][0] == stream:
                data_before = sizes.pop()[1]
                sizes.append((stream, data_before + len(data)))
            else:
                sizes.append((stream, len(data)))

    def end(self, name: str) -> None:
        """End the output of the guest ``name``, the current one, and begin the next."""
        with self._lock:
            assert self._names[:1] == [name]
            self._head()
            self._end_line()
            del self._names[0]
            self._begun = False
            if self._names and self._names[0] in self._parts:
                file, sizes = self._parts.pop(self._names[0])
                file.seek(0)
                for stream, size in sizes:
                    self._show_all(file, stream, size)
                file.close()

    def _show_all(self, file: _Waiting, stream: int, size: int) -> None:
        while size and (data := file.read(min(size, _IN_MEMORY))):
            self._show(stream, data)
            size -= len(data)

    def _head(self) -> None:
        """Print the kernel's name once, on each stream with a destination of its own."""
        if self._begun:
            return
        self._begun = True
        head = f"==> {self._names[0]} <==\n"
        outs = [sys.stderr] if self._is_json else [sys.stdout]
        if not self._is_json and not _same_file(sys.stdout, sys.stderr):
            outs.append(sys.stderr)
        for out in outs:
            out.write(head)
            out.flush()

    def _show(self, stream: int, data: bytes) -> None:
        self._head()
        out = sys.stdout if stream == _OUT else sys.stderr
        if self._is_json and stream == _OUT:
            data = self._named(data)
        out.buffer.write(data)
        out.flush()

    def _named(self, data: bytes) -> bytes:
        """Return whole lines, each an object with the kernel's name as its first field.

        Lines that are not objects are skipped, and a name from the guest is replaced.
        """
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > _MAX_LINE:
            self._line = b"-"  # the rest of the line is then not an object, and is skipped
        return b"".join([_with_name(line, self._names[0]) for line in lines])

    def _end_line(self) -> None:
        self._line = b""  # an incomplete line of a guest that crashed


def _with_name(line: bytes, name: str) -> bytes:
    try:
        fields = decode(msgspec.json.Decoder(dict[str, msgspec.Raw]), line)
        fields.pop("on", None)
        text = encode({"on": valid_text(name), **fields}).decode()
    except (DataError, UnicodeDecodeError):  # msgspec leaves a Raw as it is
        return b""
    if not text.isprintable():  # also carriage returns and tabs between values
        text = printable_json(msgspec.json.format(text, indent=-1))
    return text.encode() + b"\n"


_Waiting = tempfile.SpooledTemporaryFile[bytes]


def _same_file(one: TextIO, other: TextIO) -> bool:
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def _print_json(result: RunResult) -> None:
    print(printable_json(encode(result).decode()), flush=True)


def _write_summary(path: Path | None, results: Sequence[RunResult]) -> None:
    """Write the results, an object per line for each kernel."""
    if path is None:
        return
    lines = b"".join(encode(one) + b"\n" for one in results)
    own_file.write(path, lines, own_file.SHARED)


def _print_table(results: Sequence[RunResult]) -> None:
    print()
    for line in run_lines(results, Palette.of(sys.stdout)):
        print(line)


def _status(results: Sequence[RunResult]) -> int:
    verdicts = {one.verdict for one in results}
    if "unexpected" in verdicts:
        return UNEXPECTED
    return 0 if verdicts <= {"ok"} else FAILED
