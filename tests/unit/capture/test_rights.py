# SPDX-License-Identifier: BSD-2-Clause
"""Missing capabilities are told before anything is done.

Limits are raised, and a refusal is a warning that names the limit.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from retsnoop_py.capture.rights import raise_files, require_rights, reserved_files
from retsnoop_py.errors import PrivilegeError, UnavailableError

SYS_ADMIN, PERFMON, BPF = (1 << bit for bit in (21, 38, 39))


def status(folder: Path, held: int) -> Path:
    path = folder / "status"
    path.write_text(f"Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{held:016x}\n")
    return path


@pytest.mark.parametrize("held", [SYS_ADMIN, PERFMON | BPF, SYS_ADMIN | BPF])
def test_enough_is_enough(tmp_path: Path, held: int) -> None:
    require_rights(status(tmp_path, held))


@pytest.mark.parametrize(
    ("held", "names"), [(0, "CAP_BPF and CAP_PERFMON"), (BPF, "CAP_PERFMON"), (PERFMON, "CAP_BPF")]
)
def test_root_hears_which_are_missing(
    tmp_path: Path, held: int, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(PrivilegeError, match=f"needs {names}, which") as caught:
        require_rights(status(tmp_path, held))
    assert "--cap-add" in (caught.value.hint or "")


def test_others_hear_to_be_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(PrivilegeError) as caught:
        require_rights(status(tmp_path, 0))
    assert caught.value.hint == "run it as root"


def test_rights_in_a_user_namespace_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns/user").touch()
    with pytest.raises(PrivilegeError, match="user namespace") as caught:
        require_rights(status(tmp_path, SYS_ADMIN))
    assert "--userns=host" in (caught.value.hint or "")


def test_without_proc_the_kernel_decides(tmp_path: Path) -> None:
    require_rights(tmp_path / "absent")
    (tmp_path / "empty").touch()
    require_rights(tmp_path / "empty")


def open_files() -> set[int]:
    """Our descriptors, the one that lists them among them."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def test_a_limit_that_suffices_stays_as_it_is() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_files(1) is None
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_more_than_any_kernel_allows_is_warned_of() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        warning = raise_files(1 << 40)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert warning is not None
    assert "RLIMIT_NOFILE" in warning


def test_descriptors_are_kept_for_what_follows_the_probes() -> None:
    before = open_files()
    with reserved_files():
        assert len(open_files()) == len(before) + 32
    assert open_files() == before


def test_too_few_to_load_anything_are_an_error_and_none_stays_taken() -> None:
    before = open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # below the limit are no more free numbers than reading this directory takes
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before), hard))
    try:
        with (
            pytest.raises(UnavailableError, match="limit of open files is too low"),
            reserved_files(),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_files() == before


_FREED_AND_TAKEN = """
import ctypes
from retsnoop_py.capture.rights import return_large_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
return_large_memory()
libc.free(libc.malloc(8 << 20))
taken = libc.malloc(4 << 20)
with open("/proc/self/maps") as maps:
    heap = next(line for line in maps if line.rstrip().endswith("[heap]"))
start, end = (int(part, 16) for part in heap.split()[0].split("-"))
print("heap" if start <= taken < end else "mapped")
"""


def test_large_memory_never_comes_from_the_heap() -> None:
    """It would stay there: what is freed amid a heap is not given back."""
    done = subprocess.run(
        [sys.executable, "-c", _FREED_AND_TAKEN], capture_output=True, text=True, check=True
    )
    assert done.stdout == "mapped\n"
