# SPDX-License-Identifier: BSD-2-Clause
"""What comes in structs of the kernel's own ABI, which are the same everywhere and for ever."""

from __future__ import annotations

import struct

from retsnoop_py.session.model import Branch, BranchRecords
from retsnoop_py.session.parts import Branches
from retsnoop_py.symbolize.frames import UserAddress

#: ``struct perf_branch_entry``: from, to, and flags, which are not used.
_BRANCH = "QQ8x"
#: ``struct bpf_stack_build_id``: status, build id, offset in the file or address.
_USER_FRAME = "i20sQ"
_NO_FRAME, _HAS_BUILD_ID = 0, 1


def read_branches(order: str, raw: Branches) -> BranchRecords:
    """Branch records in byte order ``order``; a rest that is no whole record is left out."""
    record = struct.Struct(order + _BRANCH)
    whole = raw.data[: len(raw.data) // record.size * record.size]
    return BranchRecords(-raw.error, tuple(map(Branch._make, record.iter_unpack(whole))))


def read_user_stack(order: str, data: bytes) -> tuple[UserAddress, ...]:
    """A user stack in byte order ``order``; a rest that is no whole frame is left out."""
    frame = struct.Struct(order + _USER_FRAME)
    whole = data[: len(data) // frame.size * frame.size]
    return tuple(
        UserAddress(build_id.hex() if status == _HAS_BUILD_ID else "", place)
        for status, build_id, place in frame.iter_unpack(whole)
        if status != _NO_FRAME
    )
