# SPDX-License-Identifier: BSD-2-Clause
"""What is said when libbpf fails."""

from __future__ import annotations

import errno

import pytest

from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf import object as bpf_object


def test_btf_that_libbpf_cannot_read_is_told_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = "libbpf: failed to find valid kernel BTF\nlibbpf: Error loading vmlinux BTF: -3\n"
    monkeypatch.setattr(bpf_object, "take_log", lambda: log)
    with pytest.raises(BpfError) as caught:
        bpf_object.fail("load trace.bpf.o", -errno.ESRCH)
    assert "/sys/kernel/btf/vmlinux" in (caught.value.hint or "")
    assert "RETSNOOP_LIBBPF=system" in (caught.value.hint or "")
    assert caught.value.exit_status == 69
