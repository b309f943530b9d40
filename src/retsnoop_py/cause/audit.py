# SPDX-License-Identifier: BSD-2-Clause
"""Audit records of security modules as the fields that they consist of.

The thread itself made the record while the call ran; the record also reaches the kernel log or
auditd. Values are written ``name="text"``, ``name=word``, or as hexadecimal bytes where a text has
blanks or control characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from retsnoop_py.cause.reason import Scene

__all__ = ["Record", "record_of"]

_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')
_HEX = re.compile(r"(?:[0-9A-F]{2})+")
#: SELinux: the denied permissions are in braces.
_DENIED = re.compile(r"avc:\s+denied\s+\{ ([\w ]+) \}")
#: Fields that are texts, and so may be written as hexadecimal bytes.
_TEXTS = ("name", "profile", "comm", "exe", "path", "peer", "target", "info")

Record = Mapping[str, str]


def record_of(scene: Scene) -> Record | None:
    """Return the last denial in the audit records of the call; None without a denial."""
    call = scene.call
    begin = call.state.begin if call.state is not None else 0
    if not begin:
        return None
    for one in reversed(scene.witnessed.audited):
        if one.tid == call.tid and begin <= one.time <= call.time:
            found = _fields(one.text)
            if found is not None:
                return found
    return None


def _fields(text: str) -> Record | None:
    """The fields of a refusal; ``denied`` is added for SELinux. None for any other record."""
    found = {name: quoted or word for name, quoted, word in _FIELD.findall(text)}
    bare = {name for name, quoted, word in _FIELD.findall(text) if word}
    for name in bare.intersection(_TEXTS):
        if _HEX.fullmatch(found[name]):
            found[name] = bytes.fromhex(found[name]).decode(errors="replace")
    denied = _DENIED.search(text)
    if denied is not None and found.get("permissive") != "1":
        found["denied"] = denied[1].strip()
    is_refusal = (
        "denied" in found
        or found.get("apparmor") == "DENIED"
        or (found.get("lsm") == "SMACK" and found.get("action") == "denied")
    )
    return MappingProxyType(found) if is_refusal else None
