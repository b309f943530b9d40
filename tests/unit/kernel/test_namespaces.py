# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's first namespaces and those of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.kernel.namespaces import in_first, levels_above


@pytest.mark.parametrize(("line", "above"), [("5", 0), ("4711\t5", 1), ("4711\t12\t5", 2)])
def test_the_namespace_of_proc_may_be_above_ours(tmp_path: Path, line: str, above: int) -> None:
    (tmp_path / "status").write_text(f"Name:\tx\nNSpid:\t{line}\nNSsid:\t1\n")
    assert levels_above(tmp_path) == above


@pytest.mark.parametrize("kind", ["pid", "user"])
def test_a_kernel_without_namespaces_has_the_first(tmp_path: Path, kind: str) -> None:
    assert in_first(kind, tmp_path)
    (tmp_path / "ns").mkdir()
    (tmp_path / "ns" / kind).touch()  # its inode is not that of the first
    assert not in_first(kind, tmp_path)
