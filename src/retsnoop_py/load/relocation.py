# SPDX-License-Identifier: BSD-2-Clause
"""A CO-RE relocation in words, and what a kernel has in place of what it looks for."""

from __future__ import annotations

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind

__all__ = ["Relocation"]

#: ``enum bpf_core_relo_kind`` of include/uapi/linux/bpf.h.
_FIELD = range(6)
_TYPE = (6, 7, 8, 9, 12)
_ENUMERATOR = (10, 11)
_TAGS = {Kind.STRUCT: "struct ", Kind.UNION: "union ", Kind.ENUM: "enum ", Kind.ENUM64: "enum "}
_ANY = (Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.TYPEDEF)
_NEAR = 3
#: ``BPF_CORE_SPEC_MAX_LEN`` of the kernel: indexes of a path; more are damage.
_MAX_ACCESS = 64


class Relocation:
    """One record of .BTF.ext: what of which type an instruction asks for.

    ``access`` is the path of indexes that the compiler wrote: ``0:3:1``.
    """

    def __init__(self, btf: Btf, type_id: int, access: str, kind: int, kernel: Btf | None) -> None:
        self._btf = btf
        self._kernel = kernel
        self.kind = kind
        parts = access.split(":")[:_MAX_ACCESS]
        self.access = [int(part) for part in parts if part.isascii() and part.isdigit()]
        self._root = btf.resolve(type_id)
        if kind in _TYPE:
            self._root = btf.type(type_id)

    @property
    def type_name(self) -> str:
        """The type without its flavour: ``inode`` of ``struct inode___old``."""
        return self._root.name.partition("___")[0]

    @property
    def label(self) -> str:
        """What is asked for: ``struct task_struct.no_such_field``."""
        start = f"{_TAGS.get(self._root.kind, '')}{self.type_name}"
        if self.kind in _ENUMERATOR:
            return f"enumerator {self._enumerator()} of {start}"
        path = self.path()
        return start + "".join(part if part.startswith("[") else f".{part}" for part in path)

    def _enumerator(self) -> str:
        names = _enumerators(self._btf, self._root.id)
        index = self.access[0] if self.access else 0
        return names[index].partition("___")[0] if index < len(names) else "?"

    def path(self) -> list[str]:
        """The members on the way, array elements as ``[3]``; anonymous ones are left out."""
        names: list[str] = []
        current = self._root
        try:
            for index in self.access[1:]:
                if current.kind is Kind.ARRAY:
                    names.append(f"[{index}]")
                    current = self._btf.resolve(self._btf.element(current.id)[0])
                    continue
                member = self._btf.members(current.id)[index]
                if member.name:
                    names.append(member.name.partition("___")[0])
                current = self._btf.resolve(member.type_id)
        except (DataError, IndexError):
            names.append("?")
        return names

    def facts(self) -> dict[str, str]:
        """What the texts of the rule name."""
        return {"relocation": self.label, "guard": self._guard(), "near": self._near()}

    def _guard(self) -> str:
        if self.kind in _ENUMERATOR:
            return "bpf_core_enum_value_exists()"
        return "bpf_core_type_exists()" if self.kind in _TYPE else "bpf_core_field_exists()"

    def _near(self) -> str:
        """What this kernel's BTF has of a similar name, as the end of a sentence."""
        kernel = self._kernel
        if kernel is None:
            return ""
        kinds = (self._root.kind, Kind.TYPEDEF) if self._root.kind in _TAGS else _ANY
        type_id = kernel.find(self.type_name, *kinds)
        name = f"{_TAGS.get(self._root.kind, '')}{self.type_name}"
        if type_id is None:
            return f" (this kernel has no {name})"
        if self.kind in _ENUMERATOR:
            return _like(self._enumerator(), _enumerators(kernel, type_id), name)
        current = kernel.resolve(type_id)
        for part in self.path():
            if part.startswith("[") or current.kind not in (Kind.STRUCT, Kind.UNION):
                break
            names = _member_types(kernel, current.id)
            if part not in names:
                return _like(part, list(names), f"{_TAGS[current.kind]}{current.name or '{...}'}")
            current = kernel.resolve(names[part])
        return f" ({name} is there, of another type)"


def _enumerators(btf: Btf, type_id: int) -> list[str]:
    """The names of an enumeration's values; none of another type."""
    try:
        return list(btf.enumerators(btf.resolve(type_id).id))
    except DataError:
        return []


def _member_types(btf: Btf, type_id: int, depth: int = 0) -> dict[str, int]:
    """Members by name, those of anonymous members among them."""
    found: dict[str, int] = {}
    for member in btf.members(type_id):
        if member.name:
            found.setdefault(member.name, member.type_id)
        elif depth < 8:
            inner = btf.resolve(member.type_id)
            if inner.kind in (Kind.STRUCT, Kind.UNION):
                found |= _member_types(btf, inner.id, depth + 1)
    return found


def _like(name: str, known: list[str], owner: str) -> str:
    from difflib import get_close_matches

    # in 6.7 i_atime became __i_atime: a part of a name counts as well
    near = [one for one in known if name in one or (len(one) > 3 and one in name)]
    near += get_close_matches(name, known, _NEAR)
    shown = list(dict.fromkeys(near))[:_NEAR]
    if not shown:
        return f" ({owner} has nothing of that name here)"
    return f" (here {owner} has {' and '.join(shown)})"
