# SPDX-License-Identifier: BSD-2-Clause
"""Objects that have a number or a key and no path: System V IPC, and keys of keyrings."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.limits import size
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.value import Value

__all__ = ["no_key", "system_v"]

_TABLES = Path("/proc/sysvipc")
#: IPC_PRIVATE: a key of which each call makes a new object.
_PRIVATE = 0
_REASONS = {
    "EKEYEXPIRED": "has expired",
    "EKEYREVOKED": "was revoked",
    "EKEYREJECTED": "was rejected by the program that provides it",
}


class _Kind(Value):
    """A kind of objects.

    ``file`` below /proc/sysvipc lists them, with the id in the column ``field``. ``letter``: the
    option of ipcs(1) and ipcrm(1).
    """

    file: str
    field: str
    noun: str
    letter: str


_KINDS = {
    "shm": _Kind("shm", "shmid", "shared memory segment", "m"),
    "sem": _Kind("sem", "semid", "semaphore set", "s"),
    "msg": _Kind("msg", "msqid", "message queue", "q"),
}


def system_v(scene: Scene) -> Reason | None:
    """A shared memory segment, semaphore set or message queue: missing, there, or of others."""
    call = scene.call
    kind = _KINDS.get(call.name[:3])
    if kind is None:
        return None
    number = call.arguments[0] & 0xFFFFFFFF
    is_key = call.name.endswith("get")
    if is_key and number == _PRIVATE:
        return None
    field = "key" if is_key else kind.field
    listed = _objects(kind)
    if listed is None:
        return None
    found = next((one for one in listed if one.get(field, -1) & 0xFFFFFFFF == number), None)
    name = f"{kind.noun} with the {'key' if is_key else 'id'} "
    name += f"{number:#x}" if is_key else str(number)
    lists = f"ipcs -{kind.letter} lists them"
    error = errno_name(call.error)
    if found is None:
        if error not in ("ENOENT", "EINVAL", "EIDRM") or (is_key and error != "ENOENT"):
            return None
        advice = (lists, *(("start the program that creates it first",) if is_key else ()))
        return Reason("not-found", f"There is no {name}.", advice)
    return _there(kind, name, found, scene)


def _there(kind: _Kind, name: str, found: dict[str, int], scene: Scene) -> Reason | None:
    """Why the call fails although the object is there."""
    error = errno_name(scene.call.error)
    remove = f"or remove it: ipcrm -{kind.letter} {found.get(kind.field)}"
    if error == "EEXIST":
        advice = ("use it (without IPC_EXCL)", remove)
        return Reason("exists", f"There is a {name} already.", advice)
    if error in ("EACCES", "EPERM"):
        owner = user_name(found.get("uid", 0))
        return Reason(
            "owner",
            f"The {name} belongs to {owner}, mode {found.get('perms', 0):04o}. The command ran as "
            f"user {user_name(scene.call.uid)}.",
            (f"run it as {'root' if owner == 'root' else f'{owner} or root'}",),
        )
    if error == "EINVAL" and scene.call.name == "shmget":
        there, asked = found.get("size", 0), scene.call.arguments[1]
        if asked > there:
            text = f"The {name} has {size(there)}, and {size(asked)} were requested."
            return Reason("out-of-range", text, (f"request at most {there} bytes", remove))
    return None


def _objects(kind: _Kind) -> list[dict[str, int]] | None:
    """The objects that the kernel lists; None where it does not.

    Each column is a number; ``perms`` is octal in the file.
    """
    with suppress(OSError, ValueError):
        head, *lines = (_TABLES / kind.file).read_text().splitlines()
        columns = head.split()
        rows = [zip(columns, line.split(), strict=False) for line in lines]
        return [
            {name: int(cell, 8 if name == "perms" else 10) for name, cell in one} for one in rows
        ]
    return None


def no_key(scene: Scene) -> Reason | None:
    """A key that no keyring of the process has, or that cannot be used any more."""
    call = scene.call
    kind, name = (text for _, text in call.texts[:2]) if len(call.texts) > 1 else ("", "")
    what = f"key {show(name)} of the type {show(kind)}" if name else "key with this name"
    state = _REASONS.get(errno_name(call.error))
    if state is not None:
        text = f"The {what} {state}."
        return Reason("not-found", text, ("add the key again: keyctl add",), is_seen_later=False)
    return Reason(
        "not-found",
        f"There is no {what} in the keyrings that the process searches.",
        ("keyctl show lists the keys; keyctl add TYPE NAME DATA @u adds one",),
        is_seen_later=False,
    )
