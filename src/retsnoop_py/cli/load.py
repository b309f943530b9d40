# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py load OBJECT...``."""

# The options are the parameters, and those that only print are dealt with before.
# ruff: noqa: ARG001, PLR0913

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from retsnoop_py.cli import options
from retsnoop_py.cli.declare import Argument, Command, Option
from retsnoop_py.errors import InputError, OutputError, UsageError
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.load.model import LoadResult
    from retsnoop_py.load.outcome import Expectation, Reason
    from retsnoop_py.load.shape import Shape

_TEXT = """
Say on which kernels BPF objects load, and why not on the others.

Each map, extern and program of each OBJECT is tried by itself, so one failure hides no other; \
nothing stays behind. Without --on, on the kernel that runs here (as root); with --on each \
KERNEL - a name that 'vm list' knows, a bzImage, or host - boots in a guest, which can break \
nothing. The matrix is followed by one explanation for each distinct reason.

\b
Examples:
  sudo retsnoop-py load prog.bpf.o
  retsnoop-py load *.bpf.o --on 5.10,6.1,6.12,7.2
  retsnoop-py load prog.bpf.o --on 6.1 --set small:slots=16 --set large:slots=4096
  retsnoop-py load prog.bpf.o --on 5.10,7.2 --expect known.txt --junit load.xml
  retsnoop-py load prog.bpf.o --format json | jq 'select(.verdict != "ok")'

\b
Exit status: 0 if all of it loads, 2 if something was refused somewhere or a kernel
did not come to the end, 3 if it is not as --expect or --baseline say.
"""

_USAGE = """Usage: retsnoop-py load OBJECT... [--on KERNEL,...] [--attach] [--prog NAME]* ...

'retsnoop-py load --help' explains all options."""

#: Exit statuses beside those of errors.
REFUSED = 2
UNEXPECTED = 3
_HERE = "host"
_GROWTH = 10.0
_TIMEOUT = 600.0

On = Annotated[
    list[str],
    Option(
        "--on",
        metavar="KERNEL,...",
        help="Load in guests with these kernels: names of 'vm list', bzImages, or host for the "
        "kernel that runs here. May be repeated.",
        panel=options.TARGETING,
    ),
]
Prog = Annotated[
    list[str],
    Option("--prog", metavar="NAME", help="Only this program.", panel=options.TARGETING),
]
Map = Annotated[
    list[str],
    Option("--map", metavar="NAME", help="Only this map.", panel=options.TARGETING),
]
Set = Annotated[
    list[str],
    Option(
        "--set",
        metavar="[NAME:]VAR=VALUE",
        help="Set a read-only variable (const volatile) before loading. With names, each NAME is a "
        "shape, and everything is loaded in each shape.",
        panel=options.TARGETING,
    ),
]
Attach = Annotated[
    bool,
    Option("--attach", help="Also attach each program, and detach it.", panel=options.RUN_MODE),
]
Jobs = Annotated[
    str | None,
    Option("--jobs", metavar="N", help="Guests at a time (one per core).", panel=options.RUN_MODE),
]
Timeout = Annotated[
    str | None,
    Option(
        "--timeout",
        metavar="SECONDS",
        help="For all loads of one kernel (600); a guest that takes longer is given up.",
        panel=options.RUN_MODE,
    ),
]
Expect = Annotated[
    str | None,
    Option(
        "--expect",
        metavar="FILE",
        help="Failures that are no surprise, a line each: KERNEL OBJECT NAME REASON, where * is "
        "any. What is not in it, or in it and did not come, is exit status 3.",
        panel=options.FILTERING,
    ),
]
Baseline = Annotated[
    str | None,
    Option(
        "--baseline",
        metavar="FILE",
        help="An earlier --format json: a program that takes more instructions is exit status 3.",
        panel=options.FILTERING,
    ),
]
Growth = Annotated[
    str | None,
    Option("--growth", metavar="PERCENT", help="How many more (10).", panel=options.FILTERING),
]
Junit = Annotated[
    str | None,
    Option("--junit", metavar="FILE", help="Write JUnit's XML as well.", panel=options.EXTRA),
]
Github = Annotated[
    bool,
    Option(
        "--github",
        help="Write GitHub's annotations, and the table into the step summary.",
        panel=options.EXTRA,
    ),
]
Logs = Annotated[
    str | None,
    Option(
        "--logs",
        metavar="DIR",
        help="Write each refused program's log to DIR/KERNEL/OBJECT.PROGRAM.log.",
        panel=options.EXTRA,
    ),
]
Shard = Annotated[
    str | None,
    Option(
        "--shard",
        metavar="I/N",
        help="Do part I of N: every N-th kernel, counted from 1.",
        panel=options.EXTRA,
    ),
]
KeepLogs = Annotated[bool, Option("--keep-logs", hidden=True)]


class LoadRequest(Value):
    """What to load where, and what to make of it."""

    objects: tuple[Path, ...]
    kernels: tuple[str, ...]
    programs: tuple[str, ...]
    maps: tuple[str, ...]
    settings: tuple[str, ...]
    attach: bool
    json: bool
    jobs: int
    timeout: float
    expect: Path | None
    baseline: Path | None
    growth: float
    junit: Path | None
    github: bool
    logs: Path | None
    keep_logs: bool
    verbose: int


def load(
    *,
    objects: Annotated[list[str], Argument("OBJECT...", help="Compiled BPF objects.")],
    on: On,
    prog: Prog,
    map: Map,  # noqa: A002
    set: Set,  # noqa: A002
    attach: Attach = False,
    format: options.Format = None,  # noqa: A002
    jobs: Jobs = None,
    timeout: Timeout = None,
    expect: Expect = None,
    baseline: Baseline = None,
    growth: Growth = None,
    junit: Junit = None,
    github: Github = False,
    logs: Logs = None,
    keep_logs: KeepLogs = False,
    shard: Shard = None,
    verbose: options.Verbose = 0,
    version: options.Version = False,
    help_: options.Help = False,
    usage: options.Usage = False,
) -> LoadRequest:
    """What the command line asks for. Raises :class:`UsageError` or :class:`InputError`."""
    if not objects:
        raise UsageError("no object to load", "retsnoop-py load OBJECT.bpf.o [--on KERNEL,...]")
    if format not in (None, "text", "json"):
        raise UsageError(f"unknown --format '{format}'", "text or json")
    kernels = [name for word in on for name in word.split(",") if name]
    if on and not kernels:
        raise UsageError("--on: the name of a kernel is missing", "'retsnoop-py vm list' has them")
    return LoadRequest(
        tuple(_object_path(word) for word in objects),
        _sharded(tuple(dict.fromkeys(kernels)) or (_HERE,), shard),
        tuple(prog),
        tuple(map),
        tuple(set),
        attach,
        format == "json",
        int(_number("--jobs", jobs, os.cpu_count() or 1)),
        _number("--timeout", timeout, _TIMEOUT),
        Path(expect) if expect else None,
        Path(baseline) if baseline else None,
        _number("--growth", growth, _GROWTH),
        Path(junit) if junit else None,
        github,
        Path(logs) if logs else None,
        keep_logs or logs is not None,
        verbose,
    )


def _object_path(word: str) -> Path:
    path = Path(word)
    if not path.is_file():
        raise InputError(f"{word}: no such file")
    return path.absolute()


def _number(option: str, word: str | None, default: float) -> float:
    if word is None:
        return default
    try:
        value = float(word)
    except ValueError:
        raise UsageError(f"{option} {word}: not a number") from None
    if not 0 < value < 1e9:
        raise UsageError(f"{option} {word}: must be more than 0")
    return value


def _sharded(kernels: tuple[str, ...], shard: str | None) -> tuple[str, ...]:
    if shard is None:
        return kernels
    part, _, count = shard.partition("/")
    if not (part.isdigit() and count.isdigit() and 0 < int(part) <= int(count)):
        raise UsageError(f"--shard {shard}: not of the form I/N", "such as 1/3, 2/3 and 3/3")
    return kernels[int(part) - 1 :: int(count)]


def run(request: LoadRequest) -> int:
    """Load everything, tell of it, and give the exit status."""
    from retsnoop_py.load.outcome import read_expectations, reasons
    from retsnoop_py.load.shape import parse_shapes

    shapes = parse_shapes(request.settings)
    wanted = read_expectations(request.expect) if request.expect else None  # before all the work
    _check(request, shapes)
    results: list[LoadResult] = []
    for result in _results(request, shapes):
        results.append(result)
        if request.json:
            _print_json(result, keep_log=request.logs is None)
    order = {kernel: number for number, kernel in enumerate(request.kernels)}
    results.sort(key=lambda one: order.get(one.kernel, len(order)))
    why = reasons(results)
    _tell(request, results, why)
    _write_files(request, results)
    return _status(request, results, wanted)


def _check(request: LoadRequest, shapes: Sequence[Shape]) -> None:
    """Find on this side what would fail in every guest."""
    from retsnoop_py.errors import DataError
    from retsnoop_py.load.object_file import ObjectFile

    targets = []
    for path in request.objects:
        try:
            targets.append(ObjectFile(path))
        except DataError:
            continue  # which is a result
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
    for shape in shapes:
        shape.check(targets)


def _results(request: LoadRequest, shapes: Sequence[Shape]) -> Iterator[LoadResult]:
    guests = [name for name in request.kernels if name != _HERE]
    if _HERE in request.kernels:
        yield from _here(request, shapes)
    if guests:
        yield from _there(request, guests)


def _here(request: LoadRequest, shapes: Sequence[Shape]) -> Iterator[LoadResult]:
    from retsnoop_py.capture.limits import raise_memlock
    from retsnoop_py.load.trial import TrialRequest, try_object

    raise_memlock()
    trial = TrialRequest(_HERE, request.programs, request.maps, request.attach, request.keep_logs)
    for path in request.objects:
        for shape in shapes:
            yield from try_object(path, shape, trial)


def _there(request: LoadRequest, guests: Sequence[str]) -> Iterator[LoadResult]:
    from retsnoop_py.load.guests import load_in_guests, prepare_kernel
    from retsnoop_py.terminal import Bar

    kernels = [(name, prepare_kernel(name)) for name in guests]
    with Bar("loading on", "kernels", sys.stderr) as bar:
        bar.update(0, len(kernels))
        found = load_in_guests(kernels, _argv(request), request.jobs, request.timeout)
        for done, (_, results) in enumerate(found, 1):
            yield from results
            bar.update(done, len(kernels))


def _argv(request: LoadRequest) -> list[str]:
    """The words of the same request in a guest."""
    words = [str(path) for path in request.objects]
    words += [word for name in request.programs for word in ("--prog", name)]
    words += [word for name in request.maps for word in ("--map", name)]
    words += [word for each in request.settings for word in ("--set", each)]
    words += ["--attach"] if request.attach else []
    words += ["--keep-logs"] if request.keep_logs else []
    return words


def _print_json(result: LoadResult, *, keep_log: bool) -> None:
    import msgspec

    shown = result if keep_log else msgspec.structs.replace(result, log="")
    print(msgspec.json.encode(shown).decode(), flush=True)


def _tell(request: LoadRequest, results: Sequence[LoadResult], why: Sequence[Reason]) -> None:
    from retsnoop_py.render.load_matrix import matrix_lines, matrix_rows, reason_lines
    from retsnoop_py.render.load_reports import github_lines, github_summary
    from retsnoop_py.render.palette import Palette
    from retsnoop_py.terminal import terminal_width

    rows = matrix_rows(results, request.kernels, why)
    if not request.json:
        palette, width = Palette.of(sys.stdout), terminal_width(sys.stdout)
        for line in matrix_lines(rows, request.kernels, palette):
            print(line)
        for reason in why:
            print()
            print("\n".join(reason_lines(reason, palette, width)))
    if request.github:
        out = sys.stderr if request.json else sys.stdout
        for line in github_lines(why):
            print(line, file=out)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            _append(Path(summary), github_summary(rows, request.kernels, why))


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a") as file:
            file.write(text)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def _write_files(request: LoadRequest, results: Sequence[LoadResult]) -> None:
    from retsnoop_py.render.load_reports import junit

    try:
        if request.junit:
            request.junit.write_text(junit(results))
        if request.logs:
            for result in results:
                if result.log:
                    folder = request.logs / result.kernel.replace("/", "_")
                    folder.mkdir(parents=True, exist_ok=True)
                    shape = f".{result.shape}" if result.shape else ""
                    name = f"{Path(result.object).name}.{result.name}{shape}.log"
                    (folder / name).write_text(result.log)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename}: {error.strerror}") from None


def _status(
    request: LoadRequest, results: Sequence[LoadResult], wanted: Sequence[Expectation] | None
) -> int:
    from retsnoop_py.load.outcome import compare, expected

    said: list[str] = []
    if request.expect is not None and wanted is not None:
        said += expected(results, wanted, request.expect)
    if request.baseline is not None:
        said += compare(results, request.baseline, request.growth)
    for line in said:
        print(f"retsnoop-py: {line}", file=sys.stderr)
    if said:
        return UNEXPECTED
    if request.expect is not None:
        return 0
    return REFUSED if any(one.is_failure for one in results) else 0


COMMAND = Command(
    function=load,
    name="retsnoop-py load",
    synopsis="OBJECT... [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
)
