# SPDX-License-Identifier: BSD-2-Clause
"""--user: who that is. What becomes of it is seen in tests/live/test_user.py, as root."""

from __future__ import annotations

import os
import pwd

import pytest

from retsnoop_py.capture.user import find_user
from retsnoop_py.errors import InputError


def test_a_user_is_found_by_name_and_by_number() -> None:
    known = pwd.getpwuid(os.getuid())
    user = find_user(known.pw_name)
    assert user == find_user(str(known.pw_uid))
    assert (user.uid, user.gid) == (known.pw_uid, known.pw_gid)
    assert known.pw_gid in user.groups
    assert user.environment == {
        "HOME": known.pw_dir,
        "SHELL": known.pw_shell,
        "USER": known.pw_name,
        "LOGNAME": known.pw_name,
    }


@pytest.mark.parametrize("name", ["no-such-user", "-1", "4294967294", "99999999999999999999", "٣"])
def test_one_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"--user {name}: there is no such user") as caught:
        find_user(name)
    assert caught.value.exit_status == 66
