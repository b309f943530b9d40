# SPDX-License-Identifier: BSD-2-Clause
"""Map process ids in a container's PID namespace to the kernel's own ids.

Inside a PID namespace, all visible ids belong to that namespace: the held command's, and the ids of
``-p``. BPF programs use the kernel's own ids. A BPF iterator (Linux 5.8) reports both ids of each
thread in this namespace, and the id in the namespace of the mounted /proc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from retsnoop_py.errors import InputError, UnavailableError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct
from retsnoop_py.kernel.namespaces import in_first, levels_above
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.settings import FilterSettings
from retsnoop_py.value import Value, replace

PROGRAM = "rsn_pids"


class ProcessIds(Value):
    """The processes of this PID namespace: their ids there, the kernel's ids, and the ids in /proc.

    ``rows`` is None in the first namespace, where all ids are equal. ``threads``: the ids of
    threads in /proc, by the kernel's id, as far as /proc shows them.
    """

    rows: Mapping[int, tuple[int, int]] | None = None
    threads: Mapping[int, int] = MappingProxyType({})

    def kernel_id(self, pid: int) -> int | None:
        """Return the kernel's id of the process ``pid``; None if the process does not exist."""
        if self.rows is None or not pid:  # 0 is the idle threads in every namespace
            return pid
        return self.rows[pid][0] if pid in self.rows else None

    def proc_id(self, pid: int) -> int:
        """Return the id of the process ``pid`` in /proc."""
        return pid if self.rows is None or pid not in self.rows else self.rows[pid][1]

    def proc_thread(self, kernel_id: int) -> int | None:
        """Return the id in /proc of the thread with this kernel id, or None."""
        return kernel_id if self.rows is None else self.threads.get(kernel_id)

    def filters(self, given: FilterSettings) -> FilterSettings:
        """Return ``given`` with the kernel's ids.

        Raises InputError for an id that does not exist.
        """
        if self.rows is None:
            return given
        pids, deny_pids = self._known("-p", given.pids), self._known("-P", given.deny_pids)
        return replace(given, pids=pids, deny_pids=deny_pids)

    def _known(self, option: str, pids: Iterable[int]) -> tuple[int, ...]:
        known = tuple((pid, self.kernel_id(pid)) for pid in pids)
        for pid, kernel_id in known:
            if kernel_id is None:
                raise _no_process(option, pid, is_inside=True)
        return tuple(kernel_id for _, kernel_id in known if kernel_id is not None)


def require_processes(filters: FilterSettings) -> None:
    """Check the ids of ``-p`` and ``-P``. Raises InputError for an id without a process."""
    for option, pids in (("-p", filters.pids), ("-P", filters.deny_pids)):
        for pid in pids:
            _require_process(option, pid)


def _require_process(option: str, pid: int) -> None:
    if not pid:  # the idle threads
        return
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass
    except (ProcessLookupError, OverflowError):
        raise _no_process(option, pid, is_inside=not in_first("pid")) from None
    if levels_above():  # /proc has other ids
        return
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:  # the process has ended since, or /proc hides it
        return
    found = re.search(r"^Tgid:\s+(\d+)$", status, re.MULTILINE)
    if found and int(found[1]) != pid:
        raise InputError(
            f"{option} {pid}: {pid} is a thread of process {found[1]}",
            f"{option} {found[1]} selects the whole process, -n NAME threads by their name",
        )


def _no_process(option: str, pid: int, *, is_inside: bool) -> InputError:
    """Return the error; ``is_inside``: this process is in a separate PID namespace."""
    if not is_inside:
        return InputError(
            f"{option} {pid}: there is no process {pid}",
            "`ps -e` lists the processes; -n NAME selects threads by their name, also of processes "
            "that do not exist yet",
        )
    return InputError(
        f"{option} {pid}: there is no process {pid} in this PID namespace",
        "-p expects an id of the container that retsnoop-py runs in (see `ps -e`); "
        "-n NAME selects processes outside the container",
    )


def choose_program(obj: BpfObject) -> str | None:
    """Return the program that reports the ids if it is needed; call this before the load."""
    if in_first("pid"):
        return None
    obj.set_global(".rodata", "in_pid_ns", 1)
    obj.set_global(".rodata", "proc_above", levels_above())
    return PROGRAM


def process_ids(obj: BpfObject) -> ProcessIds:
    """Return the current ids; call this after the load, for an object of :func:`choose_program`.

    Raises UnavailableError if the kernel does not report the ids.
    """
    if in_first("pid"):
        return ProcessIds()
    rows = list(BtfStruct(Btf(obj.btf()), "pid_row").rows(obj.program(PROGRAM).iterate()))
    found = {row["own"]: (row["kernel"], row["proc"]) for row in rows if row["leads"]}
    if not found:
        raise UnavailableError(
            "this process is in a PID namespace, and the kernel does not report global process IDs",
            "run retsnoop-py outside the container, or in a container with --pid=host",
        )
    return ProcessIds(found, {row["kernel"]: row["proc"] for row in rows if row["proc"]})
