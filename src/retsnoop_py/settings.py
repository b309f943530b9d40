# SPDX-License-Identifier: BSD-2-Clause
"""What the user asked for, once the command line has been understood.

Values only: nothing here reads a file or the kernel. The command line makes a
:class:`Settings`, everything behind it only reads it.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.value import Value


class SymbolizeMode(Enum):
    """How much source information a stack shows.

    ``AUTO`` is ``INLINES`` where a kernel image with DWARF is found, else ``NONE``.
    """

    AUTO = "auto"
    NONE = "none"
    LINES = "linenum"
    INLINES = "inlines"


class TransportKind(Enum):
    """The buffer that carries records to user space; ``AUTO`` prefers the ring buffer."""

    AUTO = "auto"
    RINGBUF = "ringbuf"
    PERFBUF = "perfbuf"


class SelectionSettings(Value):
    """Which functions to trace, as the user wrote it: glob specs with ``@FILE`` already expanded.

    Each spec is ``NAME``, ``NAME[MOD]``, ``NAME [MOD]`` or ``:SOURCE/PATH*.c``.
    """

    entry: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    #: Only functions whose result can be a failure or false, beside the entry functions. A third
    #: of the kernel's functions have no result.
    telling: bool = False


class FilterSettings(Value):
    """Which sessions to report. Empty tuples mean no filter."""

    pids: tuple[int, ...] = ()
    deny_pids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    deny_comms: tuple[str, ...] = ()
    longer_ns: int = 0
    success: bool = False
    #: Error numbers, positive; 0 stands for NULL. ``None``: every error.
    allow_errors: frozenset[int] | None = None
    deny_errors: frozenset[int] = frozenset()


class StackSettings(Value):
    """How a stack is shown: ``-C stacks.*``."""

    unfiltered: bool = False
    emit_addrs: bool = False
    dec_offs: bool = False


class ArgMode(Enum):
    """How captured arguments are laid out."""

    #: Behind the row, values cut to a width.
    COMPACT = "compact"
    #: A line for each argument.
    MULTILINE = "multiline"
    #: The same, nested data over several lines, nothing cut.
    VERBOSE = "verbose"


class ArgSettings(Value):
    """Arguments of calls and the context of injected probes: ``-A`` and ``-C args.*``.

    Sizes are bytes captured for each call, argument of fixed size, and string; ``width`` is in
    columns, 0 for no limit.
    """

    capture: bool = False
    max_total: int = 3072
    max_sized: int = 256
    max_str: int = 256
    raw_pointers: bool = False
    mode: ArgMode = ArgMode.COMPACT
    width: int = 120


class OutputFormat(Enum):
    """What is written to standard output."""

    TEXT = "text"
    #: One JSON object for each session, one per line.
    JSON = "json"


class ViewSettings(Value):
    """What of a session is recorded and shown.

    ``lbr`` is None, or the ``PERF_SAMPLE_BRANCH_*`` flags of what the CPU is to keep.
    """

    call_stack: bool = True
    call_trace: bool = False
    interim: bool = False
    lbr: int | None = None
    #: Show no more branches than this; None for all.
    lbr_max: int | None = None
    #: Show all branches, tracing's own as well.
    lbr_full: bool = False
    user_stack: bool = False
    #: Say of each failing system call of the command why it failed, in the user's terms.
    explain: bool = False
    format: OutputFormat = OutputFormat.TEXT
    ascii: bool = False
    #: More columns of the call trace: time without callees, and the CPU.
    self_time: bool = False
    cpu: bool = False


class BpfSettings(Value):
    """Sizes on the way from the kernel: ``-C bpf.*``; bytes, and a number of sessions."""

    ringbuf_size: int = 8 << 20
    sessions_size: int = 4096
    transport: TransportKind = TransportKind.AUTO
    #: Records that wait to be shown stay in memory up to so many bytes.
    queue_size: int = 64 << 20
    #: Further ones wait in a file of so many bytes at most; None: a quarter of what is free there.
    spool_size: int | None = None
    #: How long after a signal or ``--for`` records that wait are still shown, in seconds; 0: until
    #: all are.
    drain_seconds: int = 8


class ResultSettings(Value):
    """What results mean: ``-C results.*``.

    ``ordinary``: results that look like failures and are none by the lists are none;
    ``no_failure`` is a further list of the user's.
    """

    ordinary: bool = True
    no_failure: Path | None = None


class VerdictSettings(Value):
    """Which failures make the exit status: ``--fail-on``, ``--expect``, ``--expect-none``.

    Error numbers, positive; 0 stands for NULL. ``fail_on_any``: all errors but the expected ones.
    """

    fail_on: frozenset[int] = frozenset()
    fail_on_any: bool = False
    expect: frozenset[int] = frozenset()
    expect_none: bool = False


class Settings(Value):
    """The whole command line of a trace or a replay."""

    selection: SelectionSettings = SelectionSettings()
    filters: FilterSettings = FilterSettings()
    stacks: StackSettings = StackSettings()
    views: ViewSettings = ViewSettings()
    args: ArgSettings = ArgSettings()
    bpf: BpfSettings = BpfSettings()
    #: Injected probes as they were written, ``@FILE`` expanded.
    probes: tuple[str, ...] = ()
    #: Globs of functions through which the way of each call is followed.
    paths: tuple[str, ...] = ()
    #: Follow the innermost function of each failing chain, once it was seen to fail.
    pinpoint: bool = False
    #: Of further runs of the command show all that was followed, not what is new alone.
    every_condition: bool = False
    #: For that, run the command again so often at most.
    reruns: int = 2
    #: More blocks of one function than this are not followed.
    max_blocks: int = 1000
    #: Stop after so many reported sessions, and after so many ns of tracing; 0 for neither.
    stop_count: int = 0
    stop_after_ns: int = 0
    #: Whether a command that outlives ``stop_after_ns`` is ended then, with its children.
    ends_command: bool = False
    #: End with a line that says what became of the calls; on a terminal, print identical chains a
    #: few times and then count them, unless ``each`` is to be printed. For who reads the output of
    #: a command; a run of ours inside another one has neither.
    counts: bool = False
    each: bool = False
    #: Let the programs log to the kernel's trace_pipe, and find by halving what does not attach.
    debug_bpf: bool = False
    debug_multi_kprobe: bool = False
    mechanism: Mechanism = Mechanism.AUTO
    symbolize: SymbolizeMode = SymbolizeMode.AUTO
    kernel_image: Path | None = None
    #: The kernel's source tree, for the text of lines.
    source: Path | None = None
    command: tuple[str, ...] = ()
    #: Nobody is to see what the command writes: it has been run, and seen, before.
    quiet_command: bool = False
    #: Whom the command runs as, by name or number; None: as we do.
    user: str | None = None
    keep_env: bool = False
    #: Trace the tool's own processes, too.
    trace_self: bool = False
    output: Path | None = None
    dry_run: bool = False
    verbose: int = 0
    #: More functions than this are an error before anything is attached.
    max_functions: int = 10_000
    #: Whether what the kernel says in words meanwhile is shown.
    messages: bool = True
    #: Whether system-wide settings may be changed for a moment to attach and detach faster.
    system_changes: bool = True
    results: ResultSettings = ResultSettings()
    verdict: VerdictSettings = VerdictSettings()
    #: Where what came of the run is written as JSON.
    summary: Path | None = None

    @property
    def follows(self) -> bool:
        """Whether calls are followed block by block."""
        return bool(self.paths) or self.pinpoint
