# SPDX-License-Identifier: BSD-2-Clause
"""Describe a CO-RE relocation, and similar names in a kernel's BTF."""

from __future__ import annotations

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.text import close_names

__all__ = ["Relocation"]

#: ``enum bpf_core_relo_kind`` of include/uapi/linux/bpf.h.
_FIELD = range(6)
_TYPE = (6, 7, 8, 9, 12)
_ENUMERATOR = (10, 11)
_TAGS = {Kind.STRUCT: "struct ", Kind.UNION: "union ", Kind.ENUM: "enum ", Kind.ENUM64: "enum "}
_ANY = (Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.TYPEDEF)
_NEAR = 3
#: Maximum number of indexes in a path: the kernel's ``BPF_CORE_SPEC_MAX_LEN``.
_MAX_ACCESS = 64


class Relocation:
    """A record of .BTF.ext: the type, member or enumerator that an instruction needs.

    ``access``: the path of indexes that the compiler wrote, such as ``0:3:1``.
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
        """Return the type without its flavour: ``inode`` for ``struct inode___old``."""
        return self._root.name.partition("___")[0]

    @property
    def label(self) -> str:
        """Return the target of the relocation: ``struct task_struct.no_such_field``."""
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
        """Return the members on the path, array elements as ``[3]``, without anonymous members."""
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
        """Return the facts for the rule's texts."""
        return {"relocation": self.label, "guard": self._guard(), "near": self._near()}

    def _guard(self) -> str:
        if self.kind in _ENUMERATOR:
            return "bpf_core_enum_value_exists()"
        return "bpf_core_type_exists()" if self.kind in _TYPE else "bpf_core_field_exists()"

    def _near(self) -> str:
        """Return similar names in this kernel's BTF, as the end of a sentence."""
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
    """Return the names of an enumeration's values; empty for other types."""
    try:
        return list(btf.enumerators(btf.resolve(type_id).id))
    except DataError:
        return []


def _member_types(btf: Btf, type_id: int, depth: int = 0) -> dict[str, int]:
    """Return the types of members by name, including members of anonymous members."""
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
    # In 6.7 i_atime became __i_atime, so a part of a name counts as well.
    near = [one for one in known if name in one or (len(one) > 3 and one in name)]
    near += close_names(name, known, _NEAR)
    shown = list(dict.fromkeys(near))[:_NEAR]
    if not shown:
        return f" ({owner} has nothing of that name here)"
    return f" (here {owner} has {' and '.join(shown)})"
