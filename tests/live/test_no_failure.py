# SPDX-License-Identifier: BSD-2-Clause
"""Ordinary results that look like failures do not become the origin of an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.live.support import WORKLOAD, system_call, trace

from retsnoop_py.vm.machine import Machine

OPEN = ("-e", "do_sys_openat2", "-a", "do_fil?_open", "-a", "__d_lookup_rcu", "--format", "json")


def sessions(machine: Machine, *args: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in trace(machine, *args).out.splitlines()]
    return [line for line in lines if line["type"] == "session"]


def origin(session: dict[str, Any]) -> tuple[str, str]:
    """Return the deepest traced call; inlined functions may be below it."""
    call = [row["call"] for row in session["stack"] if "call" in row][-1]
    return call["function"]["name"], call["result"]["text"]


def missing(machine: Machine, name: str, *options: str) -> tuple[str, str]:
    """Return the origin of the last failed open(), of a missing file that was not looked up before.

    The file system has no other file system below, because that would search the file later. The
    program prints the error without opening message catalogs.
    """
    return origin(sessions(machine, *OPEN, *options, "--", "sh", "-c", f": < /dev/{name}")[-1])


@pytest.mark.one_kernel
def test_a_miss_in_a_cache_is_no_origin_unless_the_list_is_switched_off(machine: Machine) -> None:
    where, result = missing(machine, "missing-1")
    assert where in ("do_filp_open", "do_file_open"), where
    assert result == "-ENOENT"
    assert missing(machine, "missing-2", "-C", "results.ordinary=n") == ("__d_lookup_rcu", "NULL")


@pytest.mark.one_kernel
def test_the_users_own_list_is_taken_from_a_file(machine: Machine) -> None:
    """This also works if the same cookie has the number of arguments for a trampoline."""
    own = machine.share / "no-failure.txt"
    own.write_text("do_fil?_open -ENOENT * never mind\n")
    file = ("-C", f"results.no-failure={own}")
    for options in ((), ("-A", "--attach=fentry")):
        found = missing(machine, f"missing-3{len(options)}", *file, *options)
        assert found == ("do_sys_openat2", "-ENOENT"), options


@pytest.mark.oldest_and_newest
def test_no_failing_map_creation_ends_in_a_log_that_nobody_asked_for(machine: Machine) -> None:
    """Linux 5.10 has map_create() inline; kernels before 7.0 have no such log to call."""
    cases = ("bpf-map-key-size-array", "bpf-map-max-entries-array", "bpf-map-too-large")
    told = ("-e", "*_sys_bpf", "-a", "map_create", "-a", "*bpf_log_attr*")
    found = sessions(machine, *told, "--format", "json", "--", *WORKLOAD, *cases)
    origins = [origin(session)[0] for session in found if session["failed"]]
    assert len(origins) == len(cases)
    assert set(origins) in ({"map_create"}, {system_call(machine, "bpf")})
