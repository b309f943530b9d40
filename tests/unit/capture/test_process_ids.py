# SPDX-License-Identifier: BSD-2-Clause
"""Process ids across PID namespaces."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from retsnoop_py.capture.process_ids import ProcessIds, require_processes
from retsnoop_py.errors import InputError
from retsnoop_py.settings import FilterSettings

#: Processes 1, 2 and 30 of a namespace, whose /proc is that of the one above it.
INSIDE = ProcessIds({1: (4710, 11), 2: (4711, 12), 30: (4799, 45)})


def test_in_the_first_namespace_ids_are_the_kernels() -> None:
    ids, filters = ProcessIds(), FilterSettings(pids=(5,), deny_pids=(99,))
    assert (ids.kernel_id(5), ids.proc_id(5)) == (5, 5)
    assert ids.filters(filters) == filters


def test_in_a_namespace_ids_are_translated() -> None:
    assert (INSIDE.kernel_id(2), INSIDE.proc_id(2)) == (4711, 12)
    assert INSIDE.kernel_id(3) is None
    given = FilterSettings(pids=(30, 2, 0), deny_pids=(1,), comms=("x",))
    assert INSIDE.filters(given) == FilterSettings(
        pids=(4799, 4711, 0), deny_pids=(4710,), comms=("x",)
    )


@pytest.mark.parametrize("option", ["pids", "deny_pids"])
def test_an_id_that_the_namespace_does_not_have_is_refused(option: str) -> None:
    with pytest.raises(
        InputError, match="there is no process 4711 in this PID namespace"
    ) as caught:
        INSIDE.filters(FilterSettings(**{option: (4711,)}))
    assert caught.value.exit_status == 66


def test_an_id_without_a_process_is_refused_at_once() -> None:
    """It was traced, in silence."""
    require_processes(FilterSettings(pids=(os.getpid(), 1, 0), deny_pids=(os.getppid(),)))
    unused = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    for filters, option in (
        (FilterSettings(pids=(1, unused)), "-p"),
        (FilterSettings(deny_pids=(unused,)), "-P"),
    ):
        with pytest.raises(InputError) as caught:
            require_processes(filters)
        assert caught.value.message.startswith(f"{option} {unused}: there is no process {unused}")
        assert caught.value.exit_status == 66


def test_the_id_of_a_thread_is_refused_with_that_of_its_process() -> None:
    done, ids = threading.Event(), []
    thread = threading.Thread(target=lambda: (ids.append(threading.get_native_id()), done.wait()))
    thread.start()
    try:
        while not ids:
            pass
        with pytest.raises(InputError, match=f"{ids[0]} is a thread of process {os.getpid()}"):
            require_processes(FilterSettings(pids=(ids[0],)))
    finally:
        done.set()
        thread.join()
