# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import errno

import pytest

from retsnoop_py.errors import UsageError
from retsnoop_py.kernel.errno import ERRNO_NAMES, by_name


def test_numbers_below_512_are_those_of_the_c_library() -> None:
    user = {number: name for number, name in ERRNO_NAMES.items() if number < 512}

    assert set(user) == set(range(1, 134)) - {41, 58}
    for number, name in user.items():
        # Python 3.11 knows all of them but one
        assert getattr(errno, name, number) == number


def test_kernel_internal_numbers_have_names() -> None:
    internal = {number for number in ERRNO_NAMES if number >= 512}

    assert internal == set(range(512, 531)) - {520}
    assert ERRNO_NAMES[512] == "ERESTARTSYS"
    assert ERRNO_NAMES[517] == "EPROBE_DEFER"
    assert ERRNO_NAMES[524] == "ENOTSUPP"
    assert ERRNO_NAMES[530] == "ERECALLCONFLICT"


def test_every_name_leads_back_to_its_number() -> None:
    for number, name in ERRNO_NAMES.items():
        assert by_name(name) == by_name(f"-{name}") == number
    assert by_name("NULL") == 0


@pytest.mark.parametrize("name", ["EFOO", "enomem", "12", "", "--ENOMEM", "EWOULDBLOCK"])
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown error name"):
        by_name(name)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        by_name("enomen")
    assert "ENOMEM" in (caught.value.hint or "")
