# SPDX-License-Identifier: BSD-2-Clause
"""What is said when libbpf fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf import object as bpf_object
from retsnoop_py.libbpf import unloadable


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


@pytest.mark.parametrize(
    ("number", "name"), [(62, "x86_64"), (183, "aarch64"), (243, "another machine (ELF 243)")]
)
def test_an_extension_of_another_machine_is_told_from_one_that_is_broken(
    number: int, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "_bpf.abi3.so"
    path.write_bytes(b"\x7fELF\2\1\1" + bytes(11) + number.to_bytes(2, "little"))
    told = unloadable(ImportError("cannot open shared object file", path=str(path)))
    here = os.uname().machine
    assert told.exit_status == 69
    if name == here:
        assert told.message.endswith("cannot be loaded: cannot open shared object file")
    else:
        assert told.message == f"this retsnoop-py is for {name}, and this machine is {here}"
        assert here in (told.hint or "")


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF"])
def test_a_file_that_is_no_extension_leaves_the_loaders_words(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "_bpf.abi3.so"
    if content is not None:
        path.write_bytes(content)
    told = unloadable(ImportError("undefined symbol: gelf_getehdr", path=str(path)))
    assert told.message.endswith("cannot be loaded: undefined symbol: gelf_getehdr")


@pytest.mark.parametrize(
    "said",
    [
        "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found (required by _bpf.so)",
        "Error loading shared library libc.so.6: No such file or directory (needed by _bpf.so)",
    ],
)
def test_a_c_library_that_is_too_old_or_none_leads_to_the_one_file(said: str) -> None:
    told = unloadable(ImportError(said, path="/nowhere/_bpf.abi3.so"))
    assert told.exit_status == 69
    assert told.message.endswith(said)
    assert f"retsnoop-py-{os.uname().machine} needs none" in (told.hint or "")
