# SPDX-License-Identifier: BSD-2-Clause
"""Where kernel objects have their names: what people call a file, a thread or a device by."""

from __future__ import annotations

from retsnoop_py.kernel.btf import Btf, Kind, Type

__all__ = ["NAMED", "name_path"]

#: From a struct to the text, one member after another; all but the last are pointers or names of
#: members within members.
NAMED: dict[str, tuple[str, ...]] = {
    "file": ("f_path.dentry", "d_name.name"),
    "path": ("dentry", "d_name.name"),
    "dentry": ("d_name.name",),
    "qstr": ("name",),
    "filename": ("name",),
    "linux_binprm": ("filename",),
    "task_struct": ("comm",),
    "net_device": ("name",),
    "super_block": ("s_id",),
    "module": ("name",),
    "file_system_type": ("name",),
    "kernfs_node": ("name",),
    "kmem_cache": ("name",),
    "kobject": ("name",),
    "device": ("kobj.name",),
    "gendisk": ("disk_name",),
    "bpf_map": ("name",),
    "bpf_prog": ("aux", "name"),
    "cgroup": ("kn", "name"),
}


def name_path(
    btf: Btf, struct_id: int, members: tuple[str, ...]
) -> tuple[tuple[int, ...], int] | None:
    """How to get from a struct to its name: pointers to follow, by offset, and a last offset.

    None where this kernel keeps it elsewhere. All offsets are in bytes.
    """
    hops: list[int] = []
    type_ = btf.resolve(struct_id)
    for position, dotted in enumerate(members):
        offset = 0
        for name in dotted.split("."):
            found = _member(btf, type_, name)
            if found is None:
                return None
            offset, type_ = offset + found[0], found[1]
        if type_.kind is Kind.ARRAY and position == len(members) - 1:
            return tuple(hops), offset
        if type_.kind is not Kind.PTR:
            return None
        hops.append(offset)
        type_ = btf.resolve(type_.arg)
    return tuple(hops), 0


def _member(btf: Btf, type_: Type, name: str, depth: int = 0) -> tuple[int, Type] | None:
    """Offset in bytes and type of a member, also one of an anonymous struct or union within."""
    if type_.kind not in (Kind.STRUCT, Kind.UNION) or depth > _DEEPEST:
        return None
    for member in btf.members(type_.id):
        inner = btf.resolve(member.type_id)
        offset = member.bit_offset // 8
        if member.name == name:
            return offset, inner
        if not member.name:
            below = _member(btf, inner, name, depth + 1)
            if below is not None:
                return offset + below[0], below[1]
    return None


_DEEPEST = 8
