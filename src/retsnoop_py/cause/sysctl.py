# SPDX-License-Identifier: BSD-2-Clause
"""Settings below /proc/sys that caused a call to fail: the rows of ``sysctl.toml``.

The value is read after the command ended.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from retsnoop_py.cause.denied import denials, has_capability
from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.limits import size
from retsnoop_py.cause.operation import opens_to_create, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.tables import read_table
from retsnoop_py.kernel.capabilities import capability_name
from retsnoop_py.kernel.errno import errno_name

__all__ = ["Setting", "settings", "sysctl"]

_PROC = Path("/proc")
_ROOT = _PROC / "sys"
#: Huge pages to add if a program finds too few.
_MORE_PAGES = 512


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the head of ``sysctl.toml`` explains each field."""

    name: str
    calls: tuple[str, ...]
    errors: tuple[str, ...]
    text: str
    set: str = ""
    advice: str = ""
    risk: str = ""
    functions: tuple[str, ...] = ()
    not_functions: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    tests: str = ""
    equals: int | None = None
    above: int | None = None
    given: tuple[int, int] | None = None
    given_equals: tuple[int, int, int] | None = None
    asked: int | None = None
    mappings: bool = False
    port: bool = False
    port_of_choice: bool = False
    rows: str = ""
    others_than_root: bool = False
    sticky: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    setting: tuple[Setting, ...]


@lru_cache(1)
def settings() -> tuple[Setting, ...]:
    """Return all rows."""
    return read_table("sysctl.toml", _File).setting


def sysctl(scene: Scene) -> Reason | None:
    """Return the reason of the first row that matches."""
    error = errno_name(scene.call.error)
    for row in settings():
        if error in row.errors and any(fnmatchcase(scene.call.name, one) for one in row.calls):
            found = _reason(row, scene)
            if found is not None:
                return found
    return None


def _reason(row: Setting, scene: Scene) -> Reason | None:
    value = _value(row.name)
    if value is None or not _value_fits(row, value) or not _call_fits(row, scene):
        return None
    fields = {"name": row.name, "value": value, "user": user_name(scene.call.uid)}
    fields["more"] = str(max(2 * int(value), 1)) if _is_number(value) else value
    fields["raised"] = _raised(value, scene)
    fields["pages"] = str(int(value) + _MORE_PAGES) if _is_number(value) else value
    fields["room"] = str(int(value) + _pages(scene)) if _is_number(value) else value
    if scene.call.address is not None:
        fields["port"] = str(scene.call.address.port)
    if row.asked is not None:
        asked = scene.call.arguments[row.asked]
        most = value.partition(" ")[0]
        if not _is_number(most) or asked <= int(most):
            return None
        fields["asked"] = str(asked)
        shown = size(int(most))
        is_plain = most != value or shown == f"{most} bytes"
        fields["value"] = most if is_plain else f"{value}, {shown}"
    if row.sticky:
        place = _in_sticky(row.sticky, scene)
        if place is None:
            return None
        fields |= place
    return Reason("sysctl", row.text.format(**fields), tuple(_advice(row, fields)))


def _raised(value: str, scene: Scene) -> str:
    """Return larger numbers for kernel.sem: doubled, or enough for the requested set."""
    numbers = [int(one) for one in value.split() if _is_number(one)]
    most = scene.call.arguments[1] if scene.call.name == "semget" else 0
    if numbers and most > numbers[0]:
        numbers[:2] = [max(one, most) for one in numbers[:2]]
    else:
        numbers = [2 * one for one in numbers]
    return " ".join(map(str, numbers))


def _pages(scene: Scene) -> int:
    """Return the size, in pages of memory, of the segment for shmget(2)."""
    return -(-scene.call.arguments[1] // mmap.PAGESIZE) if scene.call.name == "shmget" else 0


def _advice(row: Setting, fields: Mapping[str, str]) -> Sequence[str]:
    found = [row.advice.format(**fields)] if row.advice else []
    if row.set:
        value = row.set.format(**fields)
        value = f'"{value}"' if " " in value else value
        risk = f" ({row.risk})" if row.risk else ""
        found.append(f"{'or ' if found else ''}sysctl {row.name}={value}{risk}")
        if not row.lacks:
            return found
    if row.lacks:
        found.append(f"{'or ' if found else ''}run it as root, or with CAP_{row.lacks[0]}")
    return found


def _value(name: str) -> str | None:
    # A sysctl's name has dots for the slashes of its path.
    with suppress(OSError):
        return " ".join((_ROOT / name.replace(".", "/")).read_text().split())
    return None


def _is_number(value: str) -> bool:
    return value.lstrip("-").isdecimal()


def _value_fits(row: Setting, value: str) -> bool:
    if row.equals is None and row.above is None:
        return True
    if not _is_number(value):
        return False
    number = int(value)
    return (row.equals is None or number == row.equals) and (
        row.above is None or number > row.above
    )


def _call_fits(row: Setting, scene: Scene) -> bool:
    call, chain = scene.call, scene.chain
    value = _value(row.name)
    port = call.address.port if call.address is not None else 0
    is_refused = (
        (row.functions and not any(name in chain for name in row.functions))
        or any(name in chain for name in row.not_functions)
        or any(has_capability(scene, name) for name in row.lacks)
        or _tests_another(row, scene)
        or (row.others_than_root and call.uid == 0)
        or (row.port and not 0 < port < int(value or 0))
        or (row.port_of_choice and call.name == "bind" and port)
        or (row.rows and _count(row.rows) < int(value or 0))
        or (row.mappings and not _has_all_mappings(row, scene))
    )
    return not is_refused and _arguments_fit(row, call.arguments)


def _tests_another(row: Setting, scene: Scene) -> bool:
    """Whether the kernel refused the call for another capability than the one of the setting."""
    tested = {capability_name(one.capability) for one in denials(scene)}
    return bool(row.tests and tested) and f"CAP_{row.tests}" not in tested


def _arguments_fit(row: Setting, arguments: Sequence[int]) -> bool:
    if row.given is not None and arguments[row.given[0]] & 0xFFFFFFFF != row.given[1]:
        return False
    if row.given_equals is None:
        return True
    at, mask, wanted = row.given_equals
    return arguments[at] & mask == wanted


def _count(name: str) -> int:
    """Return the number of objects in a table below /proc with one header line."""
    with suppress(OSError):
        return len((_PROC / name).read_text().splitlines()) - 1
    return 0


def _has_all_mappings(row: Setting, scene: Scene) -> bool:
    """Return whether the process had as many memory mappings as the setting allows."""
    state, value = scene.call.state, _value(row.name)
    return state is not None and value is not None and state.mappings >= int(value)


def _in_sticky(kind: str, scene: Scene) -> dict[str, str] | None:
    """Return the path and its directory, if that is sticky and another user owns the file."""
    call, path = scene.call, scene.path
    if path is None:
        return None
    if kind != "link" and call.name != "openat2" and not opens_to_create(call):
        return None
    test = {"file": stat.S_ISREG, "fifo": stat.S_ISFIFO, "link": stat.S_ISLNK}[kind]
    folder = os.path.dirname(path)
    try:
        above, status = Path(folder).stat(), os.lstat(path)
    except OSError:
        return None
    others = status.st_uid not in (call.uid, above.st_uid)
    if not test(status.st_mode) or not above.st_mode & stat.S_ISVTX or not others:
        return None
    return {"folder": show(folder), "path": show(path), "owner": user_name(status.st_uid)}
