# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import struct

from retsnoop_py.capture.running import places_in_use

TASK = 0xFFFF888012345600


def bucket(*places: int) -> bytes:
    tasks = [TASK + place if place in places else 0 for place in range(8)]
    return struct.pack("=8Q", *tasks) + b"\xff" * 104


def test_places_in_use_are_found_in_their_order() -> None:
    buckets = bucket() + bucket(7, 0) + bucket() + bucket(3) + bucket()

    assert places_in_use(buckets, len(bucket())) == [8, 15, 27]
    assert places_in_use(bucket() * 4, len(bucket())) == []
