# SPDX-License-Identifier: BSD-2-Clause
"""Find the member of a struct or a union at an offset, by BTF.

Only unions are ambiguous. Then the variants that explain the most accesses of the function are
used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.arguments.semantics import Semantics, load_semantics
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import Mem
from retsnoop_py.path.values import Node

__all__ = ["STRUCTS", "Members", "members_at"]

STRUCTS = (Kind.STRUCT, Kind.UNION)
#: Maximum nesting depth of structs.
_MAX_NESTING = 12
#: The array of signal_struct with a resource limit in each element.
_LIMITS = "rlim"


class Members:
    """Members of the objects that the function named ``function`` uses, by the types of ``btf``."""

    def __init__(self, btf: Btf, function: str, graph: Graph | None) -> None:
        self._btf = btf
        self._function = function
        self._graph = graph
        #: (offset, bytes) that the code reads from a parameter, by its register.
        self._accesses: dict[str, set[tuple[int, int]]] = {}

    def fitting(
        self, base: Node | None, struct: int, offset: int, size: int
    ) -> tuple[str, int, bool] | None:
        """Return the member at ``offset`` of ``size`` bytes, its type, and if it is unambiguous."""
        btf = self._btf
        found = list(members_at(btf, struct, offset, size))
        # prefer a member that is read whole to a part of a larger member
        found = [one for one in found if btf.size_of(one[1]) == size] or found
        names = list(dict.fromkeys(text for text, _ in found))
        if len(names) > 1:
            found = list(self._meant(struct, found))
            names = list(dict.fromkeys(text for text, _ in found))
        if len(names) > 1 and base is not None and base.kind == "param":
            found = self._explained(struct, base.name or "", found)
            names = list(dict.fromkeys(text for text, _ in found))
        return (*found[0], len(names) == 1) if found else None

    def _meant(self, union: int, found: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """Return the members of a union that are valid in this function, if a rule exists.

        Arguments are decoded by the same rules: ``array_map_alloc_check()`` is for BPF_MAP_CREATE.
        """
        btf = self._btf
        kind = btf.resolve(union)
        for located in _semantics().rules(kind.name) if kind.kind is Kind.UNION else ():
            value = None if located.path else located.variant_in(self._function)
            if value is None:
                continue
            for glob, members in located.rule.variants.items():
                if not isinstance(members, str) and fnmatchcase(value, glob):
                    return _of_variant(_variants(btf, union), members, found)
        return found

    def _explained(
        self, struct: int, register: str, found: Sequence[tuple[str, int]]
    ) -> list[tuple[str, int]]:
        """Return the members of the variants that explain the most accesses of the function."""
        btf = self._btf
        if register not in self._accesses and self._graph is not None and self._graph.blocks:
            self._accesses[register] = _accesses(self._graph, register)
        accesses = self._accesses.get(register, set())
        best: list[tuple[str, int]] = []
        most = 0
        for members in _variants(btf, struct):
            names = {name for name, _, _ in members}
            places = {(at, size) for _, at, size in members}
            explained = len(accesses & places)
            own = [one for one in found if one[0] in names]
            if own and explained > most:
                best, most = own[:1], explained
            elif own and explained == most and most:
                best += own[:1]
        return best or list(found)


def members_at(
    btf: Btf, struct: int, offset: int, size: int, depth: int = 0
) -> Iterator[tuple[str, int]]:
    """Yield the members at ``offset``, as paths, with their types; ``size`` 0: of any size."""
    if depth > _MAX_NESTING:
        return
    for member in btf.members(struct):
        at, bits = member.bit_offset // 8, member.bit_size
        length = btf.size_of(member.type_id)
        if bits or not at <= offset < at + max(length, 1):
            continue
        kind = btf.resolve(member.type_id)
        prefix = member.name
        if kind.kind in STRUCTS:
            for inner, type_id in members_at(btf, kind.id, offset - at, size, depth + 1):
                yield (f"{prefix}.{inner}" if prefix else inner), type_id
        elif kind.kind is Kind.ARRAY:
            element, _ = btf.element(kind.id)
            step = btf.size_of(element)
            index, rest = divmod(offset - at, step) if step else (0, 0)
            if btf.resolve(element).kind in STRUCTS:
                subscript = _limits().get(index, index) if prefix == _LIMITS else index
                for inner, type_id in members_at(btf, element, rest, size, depth + 1):
                    yield f"{prefix}[{subscript}].{inner}", type_id
            elif not rest and size in (0, step):
                yield f"{prefix}[{index}]", element
        elif offset == at and prefix and (not size or size <= length):
            yield prefix, member.type_id


@lru_cache(1)
def _limits() -> dict[int, str]:
    """Return the names of resource limits by number, which the kernel has as macros only."""
    import resource

    names = sorted((one for one in dir(resource) if one.startswith("RLIMIT_")), reverse=True)
    return {getattr(resource, one): one for one in names}


def _variants(btf: Btf, struct: int) -> list[list[tuple[str, int, int]]]:
    """Return the variants of a union: name, offset and size of members. A struct is one variant."""
    kind = btf.resolve(struct)
    if kind.kind is Kind.STRUCT:
        return [list(_flat(btf, kind.id, 0, ""))]
    found = []
    for member in btf.members(kind.id):
        inner = btf.resolve(member.type_id)
        if inner.kind in STRUCTS:
            prefix = f"{member.name}." if member.name else ""
            found.append(list(_flat(btf, inner.id, 0, prefix)))
        else:
            found.append([(member.name, 0, btf.size_of(member.type_id))])
    return [one for one in found if one]


def _of_variant(
    variants: Sequence[Sequence[tuple[str, int, int]]],
    members: Sequence[str],
    found: Sequence[tuple[str, int]],
) -> Sequence[tuple[str, int]]:
    """Return the elements of ``found`` in a variant with one of ``members``, or all elements."""

    def is_meant(name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in members)

    for variant in variants:
        names = {name for name, _, _ in variant}
        if any(is_meant(name) for name in names):
            own = [one for one in found if one[0] in names]
            return [one for one in own if is_meant(one[0])] or own or found
    return found


@lru_cache(1)
def _semantics() -> Semantics:
    """Return the rules for unions; no rules if the user's own rule file is invalid."""
    try:
        return load_semantics()
    except DataError:
        return Semantics()


def _flat(
    btf: Btf, struct: int, start: int, prefix: str, depth: int = 0
) -> Iterator[tuple[str, int, int]]:
    if depth > _MAX_NESTING:
        return
    for member in btf.members(struct):
        at = start + member.bit_offset // 8
        kind = btf.resolve(member.type_id)
        if kind.kind in STRUCTS:
            inner = f"{prefix}{member.name}." if member.name else prefix
            yield from _flat(btf, kind.id, at, inner, depth + 1)
        else:
            yield f"{prefix}{member.name}", at, btf.size_of(member.type_id)


def _accesses(graph: Graph, register: str) -> set[tuple[int, int]]:
    """Return the offsets and sizes of the code's accesses through a parameter, and its copies."""
    found = set()
    states = {graph.entry: Holders(graph.machine, frozenset((register,)), 0, None)}
    waiting = [graph.entry]
    while waiting:
        block = graph.blocks[waiting.pop()]
        held = states[block.index]
        for insn in block.insns:
            for step in insn.steps:
                for one in step.operands if step.op != "lea" else ():
                    if isinstance(one, Mem) and one.base in held.places and not one.at:
                        found.add((one.disp, one.size))
                held = held.after_step(step)
        for following in block.next:
            before = states.get(following)
            state = held if before is None else before.common(held)
            if following >= 0 and state.places and state != before:
                states[following] = state
                waiting.append(following)
    return found
