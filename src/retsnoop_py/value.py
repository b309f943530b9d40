# SPDX-License-Identifier: BSD-2-Clause
"""Immutable values with classes that are cheap to import.

A frozen dataclass compiles six methods during its import. Under emulation that takes 12 ms for
each class, and a run imports some forty such classes. Here they share the methods of a base.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self, TypeVar

    _T = TypeVar("_T", bound="Value")

__all__ = ["Value", "replace"]


@dataclass_transform(frozen_default=True)
class _ValueType(type):
    """Turns the annotated names of a class into slots and keeps their defaults."""

    fields: tuple[str, ...]
    defaults: dict[str, Any]
    #: Functions that each set a field of an instance, in the order of ``fields``.
    setters: tuple[Callable[[Any, Any], None], ...]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        own = _annotated(namespace)
        defaults = {field: namespace.pop(field) for field in own if field in namespace}
        made = super().__new__(cls, name, bases, {**namespace, "__slots__": own})
        above = [base for base in bases if isinstance(base, _ValueType)]
        made.fields = sum((base.fields for base in above), ()) + own
        made.setters = tuple([getattr(made, field).__set__ for field in made.fields])
        made.defaults = {k: v for base in above for k, v in base.defaults.items()} | defaults
        return made


def _annotated(namespace: dict[str, Any]) -> tuple[str, ...]:
    """Return the names annotated in a class body, in their order.

    If annotations are strings (``from __future__ import annotations``), the body's namespace has
    them. Otherwise, Python 3.14 puts only a function there that makes them (PEP 649).
    """
    found = namespace.get("__annotations__")
    if found is None and sys.version_info >= (3, 14):
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is not None:
            as_text = annotationlib.Format.STRING  # evaluates nothing: only names are wanted
            found = annotationlib.call_annotate_function(annotate, as_text)
    return tuple(found or ())


class Value(metaclass=_ValueType):
    """Base of immutable values: fields as in a dataclass, all used for comparison and hash.

    All instances share a default, so the default has to be immutable, too.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        made = type(self)
        for put_next, value in zip(made.setters, args, strict=False):
            put_next(self, value)
        fields = made.fields
        if len(args) == len(fields) and not given:
            return
        put = object.__setattr__
        defaults = made.defaults
        for field in fields[len(args) :]:
            if field in given:
                put(self, field, given.pop(field))
            elif field in defaults:
                put(self, field, defaults[field])
            else:
                raise TypeError(f"{made.__name__}() lacks {field}")
        if given or len(args) > len(fields):
            wrong = next(iter(given), "so many")
            raise TypeError(f"{made.__name__}() does not take {wrong}")

    @classmethod
    def from_columns(cls, *columns: Sequence[Any]) -> list[Self]:
        """Return many values at once, five times as fast, from an equally long column per field."""
        made = [cls.__new__(cls) for _ in columns[0]]
        for put_next, column in zip(cls.setters, columns, strict=True):
            deque(map(put_next, made, column), maxlen=0)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in type(self).fields)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, field) for field in type(self).fields]))

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in type(self).fields)
        return f"{type(self).__qualname__}({shown})"


def replace(value: _T, /, **changes: Any) -> _T:
    """Return a copy of ``value`` with changed fields. Raises TypeError for an unknown field."""
    return type(value)(**{field: getattr(value, field) for field in type(value).fields} | changes)
