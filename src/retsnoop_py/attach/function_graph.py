# SPDX-License-Identifier: BSD-2-Clause
"""List the functions inside calls of a function, by the kernel's function_graph tracer.

This is for kernels without a BPF mechanism that hooks all functions at once. The machine has only
one such tracer: if another user has it, it is left alone. A guard restores all settings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from retsnoop_py.attach.guard import Guard
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.tracefs import folder_with

__all__ = ["FunctionGraph"]

_TRACER = "function_graph"
#: A call, with or without callees; its indentation shows its depth.
_CALL = re.compile(r"\|( +)([\w.]+)(?: \[(\w+)\])?\(\)(?:;| \{)")
#: Functions that interrupts and the scheduler run in the middle of a call.
_ELSEWHERE = re.compile(
    r"(?:__)?(?:sysvec_|asm_|common_interrupt|irq_enter|irq_exit|do_softirq|handle_softirqs)"
    r"|(?:__)?schedule$|preempt_schedule|__cond_resched$|_cond_resched$"
)
#: In the head of the buffer, of which _HEAD characters are read.
_ENTRIES = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/", re.MULTILINE)
_HEAD = 1024
#: Maximum time to restore everything, in ms: the kernel patches all its functions.
_PATIENCE_MS = 60_000


class FunctionGraph:
    """Calls of ``function`` by the process ``pid`` and its children, while this is entered.

    Entering raises UnavailableError if the tracer is missing, in use, or not permitted. A context
    manager that restores all settings.
    """

    def __init__(self, root: Path, function: str, pid: int) -> None:
        folder = folder_with(root, "set_graph_function")
        if folder is None:
            raise UnavailableError(
                "this kernel has no function_graph tracer", "mount tracefs, or use -e and -a"
            )
        self._folder = folder
        self._function = function
        self._pid = pid
        self._guard: Guard | None = None

    def __enter__(self) -> Self:
        used_by = self._read("current_tracer")
        if used_by != "nop" or "all functions enabled" not in self._read("set_graph_function"):
            raise UnavailableError(
                f"the kernel's function tracer is in use ({used_by})",
                "stop it, or select functions with -e and -a",
            )
        self._check_buffer()
        self._guard = Guard(system_changes=False)
        try:
            for name, text, before in (
                ("trace", "", ""),
                ("set_ftrace_pid", str(self._pid), ""),
                ("set_graph_function", self._function, ""),
                ("options/function-fork", "1", self._read("options/function-fork")),
                ("tracing_on", "1", self._read("tracing_on")),
                ("current_tracer", _TRACER, "nop"),
            ):
                self._guard.restore(self._folder / name, before)
                self._write(name, text)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _check_buffer(self) -> None:
        """Raise UnavailableError if another tool's events are in the buffer, or may get there.

        The tracer's buffer belongs to the whole machine, and this class empties it.
        """
        events = self._read("set_event").split()
        if events:
            raise UnavailableError(
                f"another tool traces events into the kernel's trace buffer ({events[0]})",
                "stop it, or select functions with -e and -a",
            )
        found = _ENTRIES.search(self._read("trace", _HEAD))
        if found and int(found[1]):
            raise UnavailableError(
                f"the kernel's trace buffer contains {int(found[1]):,} entries of another tool",
                f"save {self._folder}/trace and empty it (echo > {self._folder}/trace)",
            )

    def calls(self) -> list[str]:
        """Return the functions that ran in the recorded calls, newest first.

        Each appears once, as ``NAME`` or ``NAME[MODULE]``, including functions that run everywhere.
        """
        self._write("tracing_on", "0")
        text = self._read("trace")
        found: dict[str, None] = {}
        outside = 0  # the depth of a call with callees that are not part of our call
        for blanks, name, module in _CALL.findall(text):
            depth = len(blanks)
            if outside and depth > outside:
                continue
            outside = depth if _ELSEWHERE.match(name) else 0
            if not outside:
                label = f"{name}[{module}]" if module else name
                found.pop(label, None)
                found[label] = None
        return list(reversed(found))

    def _end(self) -> None:
        guard, self._guard = self._guard, None
        if guard:
            guard.finish(_PATIENCE_MS)

    def _read(self, name: str, most: int = -1) -> str:
        try:
            with (self._folder / name).open() as file:
                return file.read(most).strip()
        except OSError as error:
            raise UnavailableError(
                f"{self._folder}/{name} cannot be read: {error.strerror}", "run as root"
            ) from error

    def _write(self, name: str, text: str) -> None:
        try:
            with (self._folder / name).open("w") as file:
                file.write(text)
        except OSError as error:
            raise UnavailableError(
                f"{self._folder}/{name} cannot be written: {error.strerror}",
                "`dmesg` may report a lockdown",
            ) from error
