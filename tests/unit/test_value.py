# SPDX-License-Identifier: BSD-2-Clause
"""Values: like frozen dataclasses, but cheap to import."""

from __future__ import annotations

import pytest

from retsnoop_py.value import Value, replace


class Point(Value):
    """Two numbers and a name."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def sum(self) -> int:
        return self.x + self.y


class Point3(Point):
    """One more."""

    z: int = 3


class Other(Value):
    """The same fields under another name."""

    x: int
    y: int = 2
    name: str = ""


def test_fields_are_given_by_position_or_name_or_have_defaults() -> None:
    assert (Point(1).x, Point(1).y, Point(1).name) == (1, 2, "")
    assert Point(1, name="p") == Point(1, 2, "p") == Point(name="p", x=1)
    assert Point(1, 5).sum == 6


def test_many_are_made_from_their_columns() -> None:
    made = Point.from_columns([1, 2], [3, 4], ("a", "b"))
    assert made == [Point(1, 3, "a"), Point(2, 4, "b")]
    with pytest.raises(ValueError, match="shorter"):
        Point.from_columns([1, 2], [3, 4])


def test_a_subclass_adds_fields_behind_those_of_its_base() -> None:
    assert Point3.fields == ("x", "y", "name", "z")
    assert Point3(1, z=4) == Point3(1, 2, "", 4)
    assert repr(Point3(1)) == "Point3(x=1, y=2, name='', z=3)"


def test_equality_and_hash_go_by_class_and_all_fields() -> None:
    assert {Point(1), Point(1, 2), Point(2)} == {Point(1), Point(2)}
    assert Point(1) != Other(1)
    assert Point(1) != 1


@pytest.mark.parametrize(
    ("args", "given", "wrong"),
    [
        ((), {}, "lacks x"),
        ((), {"y": 1}, "lacks x"),
        ((1, 2, "", 4), {}, "so many"),
        ((1,), {"w": 2}, "take w"),
        ((1,), {"x": 2}, "take x"),
        ((1, 2, ""), {"x": 2}, "take x"),
    ],
)
def test_wrong_arguments_are_refused(
    args: tuple[object, ...], given: dict[str, object], wrong: str
) -> None:
    with pytest.raises(TypeError, match=wrong):
        Point(*args, **given)  # type: ignore[arg-type]


def test_nothing_can_be_changed_or_added() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.w cannot be changed"):
        point.w = 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"Point\.x cannot be deleted"):
        del point.x
    assert not hasattr(point, "__dict__")


def test_a_copy_may_differ() -> None:
    assert replace(Point3(1), y=7) == Point3(1, 7)
    with pytest.raises(TypeError, match="take w"):
        replace(Point(1), w=1)


def test_annotations_need_not_be_strings() -> None:
    """Python 3.14 has none in the namespace of a class unless the module asks for strings."""
    code = "class Plain(Value):\n    x: int\n    y: int = 2\nclass More(Plain):\n    z: int = 3\n"
    made: dict[str, type] = {}
    exec(compile(code, "plain", "exec", dont_inherit=True), {"Value": Value}, made)
    assert repr(made["More"](1)) == "More(x=1, y=2, z=3)"
    assert made["Plain"](1) == made["Plain"](1, 2)
