# SPDX-License-Identifier: BSD-2-Clause
"""What a guest prints, and what its kernel's own functions add to it."""

from __future__ import annotations

import msgspec
import pytest

from retsnoop_py.load.guests import _results
from retsnoop_py.load.model import VERSION, Explanation, LoadResult

NOTHING = Explanation("invalid", "Kernel Support: Refused without a word", "EINVAL.")


def refused(name: str, why: Explanation = NOTHING) -> LoadResult:
    return LoadResult(
        VERSION, "host", "x.o", "map", "refused", name, errno="EINVAL", span=(5, 9), explanation=why
    )


def test_a_part_that_comes_again_says_more() -> None:
    more = msgspec.structs.replace(NOTHING, chain=("map_create  [EINVAL]",))
    told = [refused("a"), refused("b"), refused("a", more)]
    out = b"\n".join(map(msgspec.json.encode, told)) + b'\n{"type":"load","ver'
    first, second = _results("5.10", "5.10.0", out)
    assert (first.name, first.kernel, first.explanation) == ("a", "5.10", more)
    assert second.explanation == NOTHING


@pytest.mark.parametrize(
    ("why", "wordless"),
    [
        (NOTHING, True),
        (msgspec.structs.replace(NOTHING, words=("libbpf: map 'a': failed to create",)), True),
        (msgspec.structs.replace(NOTHING, words=("R1 !read_ok",)), False),
        (msgspec.structs.replace(NOTHING, kernel=("Verification failed",)), False),
    ],
)
def test_what_has_a_log_needs_no_tracing(why: Explanation, wordless: bool) -> None:
    assert refused("a", why).is_wordless is wordless
