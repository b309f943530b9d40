# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.libbpf.object import OBJECTS, BpfObject


@pytest.fixture(scope="session")
def object_btf() -> Btf:
    """The types of our own BPF object."""
    with BpfObject(OBJECTS / "trace.bpf.o") as obj:
        return Btf(obj.btf())
