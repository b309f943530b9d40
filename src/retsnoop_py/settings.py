# SPDX-License-Identifier: BSD-2-Clause
"""What the user asked for, once the command line has been understood.

Values only: nothing here reads a file or the kernel. The command line makes a
:class:`Settings`, everything behind it only reads it.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from retsnoop_py.value import Value


class Mechanism(Enum):
    """How functions are hooked; ``AUTO`` takes the best that works here."""

    AUTO = "auto"
    #: One BPF trampoline link for many functions, both sides in one program (Linux 7.x).
    FSESSION_MULTI = "fsession.multi"
    #: One fprobe link for many functions, both sides in one program (6.10).
    KPROBE_SESSION = "kprobe.session"
    #: A pair of fprobe links for many functions (5.18, CONFIG_FPROBE).
    KPROBE_MULTI = "kprobe.multi"
    #: A pair of programs per function, through a BPF trampoline (5.5).
    FENTRY = "fentry"
    #: Two tracefs events with a kprobe or kretprobe per function.
    KPROBE_EVENTS = "kprobe_events"
    #: Two perf events per function.
    KPROBE = "kprobe"


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


class BpfSettings(Value):
    """Sizes on the kernel side: ``-C bpf.*``; bytes, and a number of sessions."""

    ringbuf_size: int = 8 << 20
    sessions_size: int = 4096
    transport: TransportKind = TransportKind.AUTO


class Settings(Value):
    """The whole command line of a trace or a replay."""

    selection: SelectionSettings = SelectionSettings()
    filters: FilterSettings = FilterSettings()
    stacks: StackSettings = StackSettings()
    bpf: BpfSettings = BpfSettings()
    mechanism: Mechanism = Mechanism.AUTO
    symbolize: SymbolizeMode = SymbolizeMode.AUTO
    kernel_image: Path | None = None
    command: tuple[str, ...] = ()
    output: Path | None = None
    dry_run: bool = False
    verbose: int = 0
    #: More functions than this are an error before anything is attached.
    max_functions: int = 10_000
    #: Whether system-wide settings may be changed for a moment to attach and detach faster.
    system_changes: bool = True
