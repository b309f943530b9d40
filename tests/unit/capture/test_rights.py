# SPDX-License-Identifier: BSD-2-Clause
"""Missing capabilities are told before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.capture.rights import require_rights
from retsnoop_py.errors import PrivilegeError

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
