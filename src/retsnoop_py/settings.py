# SPDX-License-Identifier: BSD-2-Clause
"""The settings of a run, made from the parsed command line.

This module has only values: it does not read files or the kernel. The command line makes a
:class:`Settings`, and all other code only reads it.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.value import Value


class SymbolizeMode(Enum):
    """How much source information a stack shows.

    ``AUTO`` is ``INLINES`` if a kernel image with DWARF is found, else ``NONE``.
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
    """The functions to trace, as the user's glob specs with ``@FILE`` already expanded.

    Each spec is ``NAME``, ``NAME[MOD]``, ``NAME [MOD]`` or ``:SOURCE/PATH*.c``.
    """

    entry: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    #: Beside the entry functions, trace only functions with a result that can be a failure or
    #: false. A third of the kernel's functions have no result.
    telling: bool = False


class FilterSettings(Value):
    """The sessions to report. Empty tuples mean no filter."""

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
    """The format of stacks: ``-C stacks.*``."""

    unfiltered: bool = False
    emit_addrs: bool = False
    dec_offs: bool = False


class ArgMode(Enum):
    """The layout of captured arguments."""

    #: After the row, values cut to a width.
    COMPACT = "compact"
    #: A line for each argument.
    MULTILINE = "multiline"
    #: A line for each argument, nested data over several lines, values not cut.
    VERBOSE = "verbose"


class ArgSettings(Value):
    """Arguments of calls and the context of injected probes: ``-A`` and ``-C args.*``.

    The sizes are the captured bytes of a call, of an argument with a fixed size, and of a string.
    ``width`` is in columns, 0 for no limit.
    """

    capture: bool = False
    max_total: int = 3072
    max_sized: int = 256
    max_str: int = 256
    raw_pointers: bool = False
    mode: ArgMode = ArgMode.COMPACT
    width: int = 120


class OutputFormat(Enum):
    """The format of standard output."""

    TEXT = "text"
    #: One JSON object for each session, one per line.
    JSON = "json"


class ViewSettings(Value):
    """The parts of a session that are recorded and shown.

    ``lbr`` is None, or the ``PERF_SAMPLE_BRANCH_*`` flags of the branches that the CPU records.
    """

    call_stack: bool = True
    call_trace: bool = False
    interim: bool = False
    lbr: int | None = None
    #: The maximum number of shown branches; None for all.
    lbr_max: int | None = None
    #: Show all branches, including those of the tracing code.
    lbr_full: bool = False
    user_stack: bool = False
    #: Explain why each failing system call of the command failed, in the user's terms.
    explain: bool = False
    format: OutputFormat = OutputFormat.TEXT
    ascii: bool = False
    #: More columns of the call trace: time without callees, and the CPU.
    self_time: bool = False
    cpu: bool = False


class BpfSettings(Value):
    """Sizes of buffers between the kernel and the output: ``-C bpf.*``; bytes, or sessions."""

    ringbuf_size: int = 8 << 20
    sessions_size: int = 4096
    transport: TransportKind = TransportKind.AUTO
    #: The maximum size, in bytes, of the records that wait in memory to be shown.
    queue_size: int = 64 << 20
    #: Further records wait in a file of at most this many bytes; None: a quarter of the free space.
    spool_size: int | None = None
    #: After a signal or ``--for``, waiting records are shown for up to this many seconds; 0: until
    #: all are shown.
    drain_seconds: int = 8


class ResultSettings(Value):
    """The meaning of results: ``-C results.*``.

    ``ordinary``: the lists of ordinary results apply; such results look like failures, but do not
    count as failures. ``no_failure`` is a further list, from the user.
    """

    ordinary: bool = True
    no_failure: Path | None = None


class VerdictSettings(Value):
    """The failures that set the exit status: ``--fail-on``, ``--expect``, ``--expect-none``.

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
    #: Injected probes as the user wrote them, with ``@FILE`` expanded.
    probes: tuple[str, ...] = ()
    #: Globs of the functions that have their executed path recorded in each call.
    paths: tuple[str, ...] = ()
    #: Record the path of the innermost function of each failing chain, after its first failure.
    pinpoint: bool = False
    #: Show all recorded conditions of further runs of the command, not only the new conditions.
    every_condition: bool = False
    #: The maximum number of further runs of the command to find conditions.
    reruns: int = 2
    #: The maximum number of basic blocks of a function that are followed.
    max_blocks: int = 1000
    #: Stop after this many reported sessions, or after this many ns of tracing; 0 for no limit.
    stop_count: int = 0
    stop_after_ns: int = 0
    #: End the command and its children if they still run after ``stop_after_ns``.
    ends_command: bool = False
    #: End with a summary line of the calls. On a terminal, print identical chains a few times and
    #: then count them, unless ``each`` is set. True for command lines; a run inside another run has
    #: neither.
    counts: bool = False
    each: bool = False
    #: Let the BPF programs log to the kernel's trace_pipe. Find the functions that do not attach
    #: by bisection.
    debug_bpf: bool = False
    debug_multi_kprobe: bool = False
    mechanism: Mechanism = Mechanism.AUTO
    symbolize: SymbolizeMode = SymbolizeMode.AUTO
    kernel_image: Path | None = None
    #: The kernel's source tree, for the text of lines.
    source: Path | None = None
    command: tuple[str, ...] = ()
    #: Hide the output of the command, because the user has seen it in an earlier run.
    quiet_command: bool = False
    #: The user that the command runs as, by name or number; None: the user of this process.
    user: str | None = None
    keep_env: bool = False
    #: Trace the tool's own processes, too.
    trace_self: bool = False
    output: Path | None = None
    dry_run: bool = False
    verbose: int = 0
    #: The maximum number of functions; more are an error before any function is attached.
    max_functions: int = 10_000
    #: Show kernel messages that arrive during the run.
    messages: bool = True
    #: Allow brief changes of system-wide settings to attach and detach faster.
    system_changes: bool = True
    results: ResultSettings = ResultSettings()
    verdict: VerdictSettings = VerdictSettings()
    #: The JSON file for the summary of the run.
    summary: Path | None = None

    @property
    def follows(self) -> bool:
        """Return whether calls are followed block by block."""
        return bool(self.paths) or self.pinpoint
