# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py vm``: run a command on another kernel, fetch kernels, list them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from retsnoop_py.cli.guest_signals import ended_by_signals, heeded
from retsnoop_py.cli.guest_terminal import is_terminal, run_on_terminal
from retsnoop_py.cli.report import say
from retsnoop_py.errors import Interrupted, RetsnoopError, UsageError
from retsnoop_py.options import values
from retsnoop_py.package import expanded
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.vm.command import Command
    from retsnoop_py.vm.kernels import Kernel
    from retsnoop_py.vm.machine import Machine

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="""Run commands on other kernels, in a QEMU guest that shares this machine's files.

    The guest has all files of this machine, under the same paths. What it writes is discarded at
    the end: nothing it does can change a file here. It boots in a few seconds, also without KVM,
    and needs no network and no root file system of its own. The kernels are Debian packages, or a
    file that you give. Required packages: qemu-system-x86, busybox-static and, for the small
    "cloud" kernels, virtiofsd; for arm64 kernels qemu-system-arm.
    """,
)

_RUN_HELP = """Boot a kernel, run CMD in it as root, and exit with CMD's exit status.

The output appears at once, standard output and standard error separately. Signals, also Ctrl-C,
are passed on to CMD. A kernel that is not in the cache is fetched first.

\b
Examples:
  retsnoop-py vm run -- uname -r
  retsnoop-py vm run --on 6.1 -- retsnoop-py -c bpf -- ./loader
  retsnoop-py vm run --on arm64/7.2 -- retsnoop-py doctor
  retsnoop-py vm run --on path/to/bzImage --modules ./mods -- ./test.sh
  retsnoop-py vm run --rw ./results -- sh -c 'dmesg > results/dmesg'

\b
Exit status: that of CMD (128+N if signal N ended it), or
  121  the kernel did not boot
  122  the kernel panicked or oopsed
  124  the time ran out
  64   wrong usage
  66   unknown kernel
  69   QEMU is missing
"""


_SHORT = {
    "": """Usage: retsnoop-py vm COMMAND [OPTIONS]

Run commands on other kernels, in virtual machines with this machine's files.

  retsnoop-py vm run --on 6.1 -- uname -r    run a command on Linux 6.1
  retsnoop-py vm shell --on 6.1              open a shell on Linux 6.1
  retsnoop-py vm list                        list the kernels
  retsnoop-py vm fetch 5.10 7.2              fetch kernels into the cache

'retsnoop-py vm --help' explains more.""",
    "run": """Usage: retsnoop-py vm run [OPTIONS] -- CMD...

Boot a kernel, run CMD in it as root, and exit with CMD's exit status.

Examples:
  retsnoop-py vm run -- uname -r
  retsnoop-py vm run --on 6.1 -- retsnoop-py -c bpf -- ./loader
  retsnoop-py vm run --rw ./results -- sh -c 'dmesg > results/dmesg'

  --on KERNEL        A name that 'vm list' prints, or the path of a bzImage.
  --rw DIR           Let the guest write DIR of this machine.
  --memory SIZE      Memory of the guest (default 3G).
  --cpus N           Number of CPUs (default 2).
  --timeout TIME     End CMD after this time: 90s, 20min.
  -v, --verbose      Print which kernel booted, and how long that took.

'retsnoop-py vm run --help' explains all options.""",
    "shell": """Usage: retsnoop-py vm shell [OPTIONS]

Boot a kernel and open a shell in it, as root. exit or Ctrl-D ends it.

  --on KERNEL        A name that 'vm list' prints, or the path of a bzImage.
  --rw DIR           Let the guest write DIR of this machine.
  --memory SIZE      Memory of the guest (default 3G).
  --cpus N           Number of CPUs (default 2).

'retsnoop-py vm shell --help' explains all options.""",
    "fetch": """Usage: retsnoop-py vm fetch KERNEL... [OPTIONS]

Fetch the newest version of each KERNEL into the cache.

  --arch NAME   x86_64 or arm64.
  --debug-info  Also fetch the kernel's debug files.

'retsnoop-py vm fetch --help' explains all options.""",
    "list": """Usage: retsnoop-py vm list

List the known kernels, and the version of each in the cache.""",
}


def short_help(words: Sequence[str]) -> str | None:
    """Return the text for ``-h`` if it is among the options of ``words``, or None."""
    name = words[0] if words and words[0] in _SHORT else ""
    for word in words[1 if name else 0 :]:
        if word == "-h":
            return _SHORT[name]
        if not word.startswith("-") or word == "--":
            break
    return None


_MOST_CPUS = 64


def _kernel_names(incomplete: str) -> list[str]:
    from retsnoop_py.vm.catalog import all_known

    try:
        return [name for name in all_known() if name.startswith(incomplete)]
    except RetsnoopError:  # the command itself will report the error
        return []


def _architectures(incomplete: str) -> list[str]:
    from retsnoop_py.vm.architecture import ARCHITECTURES

    return [name for name in ARCHITECTURES if name.startswith(incomplete)]


On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="KERNEL",
        help="A name that `vm list` prints, such as 5.10, 7.3 or newest (in sid), or the path of a "
        "bzImage or of an arm64 Image. 7.2-full is the ordinary kernel instead of the small cloud "
        "kernel, arm64/7.2 that of another architecture.",
        autocompletion=_kernel_names,
    ),
]


Modules = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Modules for a kernel given by path: DIR, DIR/RELEASE or DIR/lib/modules/RELEASE. "
        "Default: beside the image.",
    ),
]


Writable = Annotated[
    list[Path],
    typer.Option(
        metavar="DIR",
        help="Let the guest, which is root, write DIR of this machine. Can be repeated.",
    ),
]


Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Memory of the guest, for example 2G or 1500M.")
]


Cpus = Annotated[str, typer.Option(metavar="N", help="Number of CPUs, 1 to 64.")]


Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Print which kernel booted, and how long that took."),
]


DebugInfo = Annotated[
    bool,
    typer.Option(
        "--debug-info",
        help="Also fetch the kernel's debug files (300 MB, 2 GB unpacked). The guest has them in "
        "/usr/lib/debug, where retsnoop-py finds them without -k.",
    ),
]


Arch = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="x86_64 or arm64; this machine's by default. --arch arm64 with 7.2 is the same as "
        "arm64/7.2.",
        autocompletion=_architectures,
    ),
]


@app.callback()
def _group(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        print(context.get_help())
    return 0


@app.command(
    help=_RUN_HELP,
    short_help="Boot a kernel and run CMD in it, as root.",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] --",
)
def run(  # noqa: PLR0913 - one parameter per option
    command: Annotated[list[str], typer.Argument(metavar="CMD...", show_default=False)],
    kernel: On = "6.12",
    old_kernel: Annotated[str | None, typer.Option("--kernel", hidden=True)] = None,
    arch: Arch = None,
    modules: Modules = None,
    rw: Writable = [],  # noqa: B006 - typer makes a new one
    memory: Memory = "3G",
    cpus: Cpus = "2",
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="End CMD after this time: 90s, 20min. A plain number counts in seconds, and 0 "
            "means never.",
        ),
    ] = "0",
    debug_info: DebugInfo = False,
    verbose: Verbose = False,
) -> int:
    """Boot a kernel and run CMD in it; return CMD's exit status."""
    if old_kernel is not None:
        say("NOTE: --kernel is now --on; the old spelling still works")
        kernel = old_kernel
    wanted = _Guest(kernel, arch, modules, tuple(rw), memory, cpus, debug_info, verbose)
    return _run_in(wanted, command, None if timeout == "0" else values.timeout(timeout))


_SHELL_HELP = """Boot a kernel and open a shell in it, as root.

The shell has a terminal of its own: job control, Ctrl-C and the size of the window work as usual.
exit or Ctrl-D ends it and the guest. Ctrl-] twice ends a guest that hangs. Files written in the
guest are discarded at the end, except below --rw.

\b
Examples:
  retsnoop-py vm shell
  retsnoop-py vm shell --on 6.1
  retsnoop-py vm shell --on 5.10 --rw ./results

Exit status: that of the shell; 121, 122 and the others as for `vm run`.
"""


@app.command(help=_SHELL_HELP)
def shell(  # noqa: PLR0913 - one parameter per option
    kernel: On = "6.12",
    arch: Arch = None,
    modules: Modules = None,
    rw: Writable = [],  # noqa: B006 - typer makes a new one
    memory: Memory = "3G",
    cpus: Cpus = "2",
    debug_info: DebugInfo = False,
    verbose: Verbose = False,
) -> int:
    """Boot a kernel and open a shell in it; return the shell's exit status."""
    if not is_terminal():
        raise UsageError(
            "vm shell needs a terminal for input and output",
            "run a command: retsnoop-py vm run -- CMD",
        )
    wanted = _Guest(kernel, arch, modules, tuple(rw), memory, cpus, debug_info, verbose)
    found = "command -v bash >/dev/null && exec bash; exec sh"
    return _run_in(wanted, ["sh", "-c", found], None)


class _Guest(Value):
    """The guest of a command line."""

    kernel: str
    arch: str | None
    modules: Path | None
    rw: tuple[Path, ...]
    memory: str
    cpus: str
    debug_info: bool
    verbose: bool


def _run_in(wanted: _Guest, command: list[str], timeout: float | None) -> int:
    from retsnoop_py.vm.machine import Machine

    size, cpus = parse_memory(wanted.memory), parse_cpus(wanted.cpus)
    for folder in wanted.rw:
        if not folder.is_dir():
            raise UsageError(f"--rw {folder}: not a directory", "create it first")
    chosen = _choose(wanted.kernel, wanted.arch, wanted.modules, wanted.debug_info)
    with ended_by_signals():
        machine = Machine(chosen, memory=size, cpus=cpus, shares=wanted.rw, debug=wanted.debug_info)
        with machine:
            if wanted.verbose:
                words = f"Linux {machine.release} booted in {machine.boot_seconds:.1f} s"
                say(words)
            return _attend(machine, command, timeout)


@app.command()
def fetch(
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="KERNEL...", show_default=False, autocompletion=_kernel_names),
    ],
    arch: Arch = None,
    debug_info: DebugInfo = False,
) -> int:
    """Fetch the newest version of each KERNEL into the cache.

    The packages come from the Debian mirror that apt uses on this machine. Nothing is installed.
    fetch prints what it found, and keeps a kernel that is already the newest. For kernels of
    another architecture it also fetches the programs that their guests need.
    """
    from retsnoop_py.vm import kernels as known
    from retsnoop_py.vm import userland

    names = [known.of_architecture(name, arch) if arch else name for name in kernels]
    for name in names:
        known.known(name)
    foreign = {one for one in (known.split(name)[0] for name in names) if one.is_foreign}
    for each in foreign:
        userland.check_supported(each)
    with ended_by_signals():
        for name in names:
            known.fetch(name, debug_info)
        for each in foreign:
            userland.fetch(each)
    return 0


@app.command(name="list")
def list_kernels() -> int:
    """List the known kernels, and the version of each in the cache."""
    from textwrap import wrap

    from retsnoop_py.terminal import terminal_width
    from retsnoop_py.vm import kernels as known

    rows: list[tuple[str, ...]] = []
    for name, spec in known.all_known().items():
        have = known.cached(name)
        if have is None and name.endswith("-full"):
            continue
        size = f"{known.tree_size(known.kernel_dir(name)) >> 20} MB" if have else ""
        release = have.release if have else "-"
        release += " +debug" if have and have.vmlinux else ""
        rows.append((name, ", ".join(spec.suites), size, release, spec.about))
    width = terminal_width(sys.stdout)
    told = (
        "Most are also there as NAME-full, the ordinary flavour (larger, with more drivers).",
        "A guest of another architecture has programs of its own: retsnoop-py help architectures.",
        f"Kernels of your own: {known.user_file()}",
    )
    lines = [line for text in told for line in (wrap(text, width) if width else [text])]
    print("\n".join([*_table(rows, width), "", *lines]))
    return 0


#: Minimum number of columns for the descriptions of kernels; narrower tables omit them.
_LEAST_ABOUT = 16


def _table(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Return ``rows`` below their titles: drawn on a terminal of ``width``, plain in a pipe.

    Names of kernels and releases are never cut, because people copy them.
    """
    from retsnoop_py import terminal

    titles = ("KERNEL", "SUITES", "SIZE", "IN THE CACHE", "WHAT IT IS")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    if width:
        shown = len(titles)
        if sum(widths[:-1]) + 2 * shown + _LEAST_ABOUT > width:
            shown -= 1
        columns = [
            terminal.Column("KERNEL", "bold", width=widths[0]),
            terminal.Column("SUITES"),
            terminal.Column("SIZE", is_right=True, width=widths[2]),
            terminal.Column("IN THE CACHE", width=widths[3]),
            terminal.Column("WHAT IT IS", "dim"),
        ][:shown]
        cells = [row[:shown] for row in rows]
        colour = terminal.has_colour(sys.stdout)
        return terminal.table_lines(columns, cells, width, colour=colour)
    row = "{:{}}  {:{}}  {:>{}}  {:{}}  {}"
    return [
        row.format(*(part for pair in zip(cells, widths, strict=True) for part in pair))
        for cells in (titles, *rows)
    ]


def parse_cpus(text: str) -> int:
    """Return the number of CPUs. Raise UsageError."""
    if not re.fullmatch(r"[0-9]{1,2}", text) or not 1 <= int(text) <= _MOST_CPUS:
        raise UsageError(f"--cpus {text}: not a number of CPUs", f"give 1 to {_MOST_CPUS}")
    return int(text)


def parse_memory(text: str) -> int:
    """Return MiB for ``2G``, ``1500M`` or plain MiB. Raise UsageError."""
    found = re.fullmatch(r"(\d+)([MmGg]?)(?:i?[Bb])?", text)
    if not found:
        raise UsageError(f"--memory {text}: not a size", "give it like 2G or 1500M")
    size = int(found[1]) * (1024 if found[2] in ("G", "g") else 1)
    if size < 256:
        raise UsageError(f"--memory {text}: too small for a kernel", "give at least 256M")
    return size


def _choose(kernel: str, arch: str | None, modules: Path | None, debug_info: bool) -> str | Kernel:
    """Return the requested kernel: a known name, or an image with its modules."""
    from retsnoop_py.vm.kernels import from_path, is_name, known, of_architecture

    if is_name(kernel):
        if modules is not None:
            raise UsageError(
                f"--modules requires the path of a kernel image; {kernel} is a name",
                "leave it out: Debian's kernels include their modules",
            )
        return known(of_architecture(kernel, arch) if arch else kernel).name
    if debug_info:
        raise UsageError(
            "--debug-info supports Debian's kernels only, not the path of an image",
            "give its vmlinux to the command in the guest: retsnoop-py -k PATH",
        )
    return from_path(expanded(kernel), modules, arch)


def _attend(machine: Machine, argv: list[str], timeout: float | None) -> int:
    """Run ``argv`` with its output, input and signals forwarded; return its exit status."""
    from retsnoop_py.vm.machine import BASE_ENV

    passed = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "LANG", "LC_ALL", "TZ")
    env = {name: os.environ[name] for name in passed if name in os.environ}
    # so that the guest finds `retsnoop-py` even if it is not installed for all users
    env["PATH"] = f"{BASE_ENV['PATH']}:{Path(sys.argv[0]).resolve().parent}"
    if is_terminal():
        return run_on_terminal(machine, argv, env, timeout)
    feed = not sys.stdin.isatty() if sys.stdin else False
    command = machine.start(argv, env=env, live_stdin=feed)
    if feed:
        threading.Thread(target=_feed, args=(machine,), daemon=True).start()
    with _signals_passed_to(command):
        return command.wait(timeout, _write).status


def _write(stream: int, data: bytes) -> None:
    target = sys.stdout if stream == 1 else sys.stderr
    target.buffer.write(data)
    target.flush()


def _feed(machine: Machine) -> None:
    """Forward standard input until its end, then end the command's input."""
    import socket

    with contextlib.suppress(OSError):  # the guest has ended
        while data := os.read(0, 65536):
            machine.stdin.sendall(data)
        machine.stdin.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _signals_passed_to(command: Command) -> Iterator[None]:
    """Forward signals to ``command`` instead of handling them; a third Ctrl-C ends the VM."""
    interrupts = 0

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 2:
            raise Interrupted("interrupted")
        command.send_signal(number)

    numbers = heeded(signal.SIGTERM, signal.SIGQUIT)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
