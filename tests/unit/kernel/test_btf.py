# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.btf_writer import BOOL, SIGNED, BtfWriter

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind, Member
from retsnoop_py.kernel.functions import ResultKind, ResultType


class Kernel:
    """A few types as a kernel has them."""

    def __init__(self) -> None:
        w = self.writer = BtfWriter()
        self.int = w.int("int", 4, SIGNED)
        self.u64 = w.int("long long unsigned int", 8)
        self.char = w.int("char", 1, SIGNED)
        self.bool = w.int("_Bool", 1, BOOL)
        self.bool_t = w.add(Kind.TYPEDEF, "bool", self.bool)
        self.void_ptr = w.ptr(0)
        self.const_str = w.ptr(w.add(Kind.CONST, "", self.char))
        self.map = w.struct("bpf_map", 16, [("id", self.int, 0), ("next", self.void_ptr, 64)])
        self.map_ptr = w.ptr(self.map)


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def prototype(kernel: Kernel, result: int, *params: tuple[str, int]) -> tuple[ResultType, str]:
    func = kernel.writer.func("f", result, params)
    return Btf(kernel.writer.bytes()).prototype(func)


def test_plain_prototypes_read_as_c(kernel: Kernel) -> None:
    w = kernel.writer
    const_map = w.ptr(w.add(Kind.CONST, "", kernel.map))

    assert prototype(kernel, kernel.int)[1] == "int f(void)"
    assert prototype(kernel, 0, ("map", const_map))[1] == "void f(const struct bpf_map *map)"
    assert (
        prototype(kernel, kernel.map_ptr, ("flags", kernel.u64), ("", kernel.int))[1]
        == "struct bpf_map *f(long long unsigned int flags, int)"
    )
    assert (
        prototype(kernel, kernel.int, ("fmt", kernel.const_str), ("", 0))[1]
        == "int f(const char *fmt, ...)"
    )


def test_declarators_nest_as_in_c(kernel: Kernel) -> None:
    w = kernel.writer
    callback = w.ptr(w.proto(kernel.int, [("", kernel.void_ptr)]))
    table = w.array(w.array(kernel.int, 3), 2)
    pointer_to_table = w.ptr(table)
    const_ptr = w.add(Kind.CONST, "", kernel.map_ptr)
    restrict = w.add(Kind.RESTRICT, "", kernel.const_str)
    user = w.ptr(w.add(Kind.TYPE_TAG, "user", kernel.char))
    volatile = w.ptr(w.add(Kind.VOLATILE, "", kernel.int))
    forward = w.ptr(w.add(Kind.FWD, "sock", 0))
    union = w.ptr(w.add(Kind.FWD, "u", 0, kflag=True))
    anonymous = w.ptr(w.struct("", 0, []))
    btf = Btf(w.bytes())

    assert btf.declare(callback, "cb") == "int (*cb)(void *)"
    assert btf.declare(callback) == "int (*)(void *)"
    assert btf.declare(table, "t") == "int t[2][3]"
    assert btf.declare(pointer_to_table, "t") == "int (*t)[2][3]"
    assert btf.declare(const_ptr, "p") == "struct bpf_map *const p"
    assert btf.declare(restrict, "s") == "const char *restrict s"
    assert btf.declare(user, "buf") == "char *buf"
    assert btf.declare(volatile, "v") == "volatile int *v"
    assert btf.declare(forward, "sk") == "struct sock *sk"
    assert btf.declare(union, "x") == "union u *x"
    assert btf.declare(anonymous, "x") == "struct {...} *x"


def _enum(size: int, signed: bool, name: str, **values: int) -> ResultType:
    return ResultType(ResultKind.ENUM, size, signed, f"enum {name}", tuple(values.items()))


def test_results_keep_kind_size_and_sign(kernel: Kernel) -> None:
    w = kernel.writer
    lists = [
        (0, ResultType(ResultKind.VOID, 0, False, "void")),
        (kernel.int, ResultType(ResultKind.INT, 4, True, "int")),
        (kernel.u64, ResultType(ResultKind.INT, 8, False, "long long unsigned int")),
        (kernel.bool_t, ResultType(ResultKind.BOOL, 1, False, "bool")),
        (kernel.map_ptr, ResultType(ResultKind.PTR, 8, False, "struct bpf_map *")),
        (kernel.map, ResultType(ResultKind.OTHER, 16, False, "struct bpf_map")),
        (w.enum("e", {"A": 0, "B": 1}), _enum(4, False, "e", A=0, B=1)),
        (w.enum("s", {"A": -1}, kflag=True), _enum(4, True, "s", A=-1)),
        (w.enum("old", {"A": 0, "E": -22}), _enum(4, True, "old", A=0, E=-22)),
        (w.enum64("big", {"A": 1 << 40}), _enum(8, False, "big", A=1 << 40)),
        (w.add(Kind.FLOAT, "double", 8), ResultType(ResultKind.OTHER, 8, False, "double")),
    ]
    btf = Btf(w.bytes())

    assert [btf.result(type_id) for type_id, _ in lists] == [expected for _, expected in lists]


def test_enumerators_have_their_sign(kernel: Kernel) -> None:
    w = kernel.writer
    unsigned = w.enum("u", {"A": 1, "B": 0x80000000})
    signed = w.enum("s", {"A": -2}, kflag=True)
    big = w.enum64("b", {"A": 1 << 40, "B": (1 << 64) - 1})
    signed_big = w.enum64("c", {"A": -(1 << 40)}, kflag=True)
    btf = Btf(w.bytes())

    assert btf.enumerators(unsigned) == {"A": 1, "B": 0x80000000}
    assert btf.enumerators(signed) == {"A": -2}
    assert btf.enumerators(big) == {"A": 1 << 40, "B": (1 << 64) - 1}
    assert btf.enumerators(signed_big) == {"A": -(1 << 40)}


def test_struct_members_have_offsets_in_bits(kernel: Kernel) -> None:
    w = kernel.writer
    w.struct("flags", 4, [("a", kernel.int, 3 << 24 | 0), ("b", kernel.int, 5 << 24 | 3)], True)
    btf = Btf(w.bytes())

    assert btf.struct("bpf_map") == (
        Member("id", 0, kernel.int),
        Member("next", 64, kernel.void_ptr),
    )
    assert btf.struct("flags") == (Member("a", 0, kernel.int, 3), Member("b", 3, kernel.int, 5))
    assert btf.struct("absent") is None


def test_sizes_see_through_names_and_multiply_arrays(kernel: Kernel) -> None:
    w = kernel.writer
    array = w.array(w.add(Kind.TYPEDEF, "row", w.array(kernel.u64, 3)), 2)
    var = w.add(Kind.VAR, "v", array, [0])
    btf = Btf(w.bytes())

    assert btf.size_of(array) == 48
    assert btf.size_of(var) == 48
    assert btf.size_of(kernel.map_ptr) == 8
    assert btf.size_of(kernel.map) == 16
    assert btf.size_of(0) == 0
    assert btf.element(array) == (array - 1, 2)


def test_names_are_found_by_kind_and_the_first_one_counts(kernel: Kernel) -> None:
    w = kernel.writer
    first = w.func("dup", kernel.int)
    w.func("dup", 0)
    other = w.func("bpf_map", 0)
    btf = Btf(w.bytes())

    assert btf.functions(["dup", "absent", "bpf_map", "dup"]) == {"dup": first, "bpf_map": other}
    assert btf.find("bpf_map", Kind.STRUCT) == kernel.map
    assert btf.find("bpf_map", Kind.STRUCT, Kind.UNION, Kind.FUNC) == kernel.map
    assert btf.find("bpf_map", Kind.UNION) is None
    assert btf.functions([]) == {}


def test_a_modules_types_build_on_those_of_vmlinux(kernel: Kernel) -> None:
    module = BtfWriter(kernel.writer)
    own = module.struct("kvm", 8, [("map", kernel.map_ptr, 0)])
    func = module.func("kvm_init", kernel.int, [("kvm", module.ptr(own)), ("m", kernel.map_ptr)])
    vmlinux = Btf(kernel.writer.bytes())
    btf = Btf(module.bytes(), vmlinux)

    assert btf.functions(["kvm_init"]) == {"kvm_init": func}
    assert btf.prototype(func)[1] == "int kvm_init(struct kvm *kvm, struct bpf_map *m)"
    assert btf.struct("kvm") == (Member("map", 0, kernel.map_ptr),)
    assert btf.find("bpf_map", Kind.STRUCT) == kernel.map
    assert vmlinux.find("kvm", Kind.STRUCT) is None


def test_a_module_without_strings_of_its_own_uses_the_bases(kernel: Kernel) -> None:
    module = BtfWriter(kernel.writer)
    pointer = module.ptr(kernel.map_ptr)
    btf = Btf(module.bytes(), Btf(kernel.writer.bytes()))

    assert btf.declare(pointer, "p") == "struct bpf_map **p"


def test_what_is_not_a_function_has_no_prototype(kernel: Kernel) -> None:
    btf = Btf(kernel.writer.bytes())
    with pytest.raises(DataError, match="is a struct, not a function"):
        btf.prototype(kernel.map)
    with pytest.raises(DataError, match="not a struct or union"):
        btf.members(kernel.int)
    with pytest.raises(DataError, match="there is no type 999"):
        btf.type(999)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"\x7fELF" + bytes(40), "not BTF of this machine"),
        (Kernel().writer.bytes()[:-10], "cut short"),
        (Kernel().writer.bytes()[:-1] + b"x", "do not end"),
    ],
)
def test_what_is_not_btf_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Btf(data)


def test_kind_0_is_refused_with_its_place(kernel: Kernel) -> None:
    data = bytearray(kernel.writer.bytes())
    data[24 + 4 + 3] = 0
    with pytest.raises(DataError, match="damaged at byte 0 of its types"):
        Btf(bytes(data))


def test_types_that_refer_to_themselves_end() -> None:
    w = BtfWriter()
    typedef = w.add(Kind.TYPEDEF, "t", 1)
    pointer = w.add(Kind.PTR, "", 2)
    array = w.add(Kind.ARRAY, "", 0, [3, 3, 2])
    btf = Btf(w.bytes())

    for broken in (
        lambda: btf.resolve(typedef),
        lambda: btf.declare(pointer),
        lambda: btf.size_of(array),
    ):
        with pytest.raises(DataError, match="refers to itself"):
            broken()


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8))
def test_damaged_btf_raises_nothing_but_data_errors(damage: list[tuple[int, int]]) -> None:
    kernel = Kernel()
    kernel.writer.func("f", kernel.map_ptr, [("a", kernel.const_str), ("b", kernel.bool_t)])
    data = bytearray(kernel.writer.bytes())
    for position, value in damage:
        data[position % len(data)] = value
    try:
        btf = Btf(bytes(data))
    except DataError:
        return
    btf.find_all(["f", "bpf_map", "int"], *Kind)
    for type_id in range(btf.end):
        for read in (btf.size_of, btf.declare, btf.members, btf.prototype, btf.enumerators):
            try:
                read(type_id)
            except DataError:
                pass


def kernel_of_the_future(kernel: Kernel, kind: int = 100) -> int:
    """A function behind types of an unknown kind: of 8 bytes and 12 for each of 70,000 members."""
    w = kernel.writer
    w.add(kind, "locations", 0, [1, 2] + [7] * (3 * 70_000), vlen=70_000)
    strange = w.add(kind, "strange_t", 16, [1, 2])
    return w.func("f", w.ptr(strange), [("many", w.add(Kind.TYPEDEF, "strange", strange))])


def test_kinds_of_the_future_are_skipped_by_what_the_layout_section_says(kernel: Kernel) -> None:
    func = kernel_of_the_future(kernel)
    kernel.writer.layout = [(0, 0)] * 100 + [(8, 12)]
    btf = Btf(kernel.writer.bytes())

    assert btf.find("f", Kind.FUNC) == func
    result, text = btf.prototype(func)
    assert text == "strange_t *f(strange many)"
    assert result == ResultType(ResultKind.PTR, 8, False, "strange_t *")
    assert btf.size_of(btf.params(btf.type(func).arg)[0].type_id) == 0
    assert btf.find("locations", Kind.STRUCT, Kind.INT) is None
    with pytest.raises(DataError, match="is a unknown, not a struct"):
        btf.members(func - 5)


def test_without_a_layout_section_a_kind_of_the_future_is_named(kernel: Kernel) -> None:
    kernel_of_the_future(kernel, 20)
    with pytest.raises(DataError, match=r"a type of kind 20, at byte [0-9]+ .* newer than this"):
        Btf(kernel.writer.bytes())


def test_what_we_know_of_a_kind_goes_before_the_layout_section(kernel: Kernel) -> None:
    kernel.writer.layout = [(0, 0)] * 20
    assert Btf(kernel.writer.bytes()).members(kernel.map)[1].name == "next"


@pytest.mark.parametrize("sizes", [(3, 0), (0, 255), (0, 1)])
def test_a_layout_section_that_makes_no_sense_is_damage(
    kernel: Kernel, sizes: tuple[int, int]
) -> None:
    kernel.writer.add(100, "x", 0, [1], vlen=3)
    kernel.writer.layout = [(0, 0)] * 100 + [sizes]
    with pytest.raises(DataError, match="kind 100"):
        Btf(kernel.writer.bytes())


def test_a_layout_section_beyond_the_end_is_damage(kernel: Kernel) -> None:
    kernel.writer.layout = [(0, 0)] * 20
    data = bytearray(kernel.writer.bytes())
    data[28:32] = (1 << 20).to_bytes(4, "little")
    with pytest.raises(DataError, match="layout section is cut short"):
        Btf(bytes(data))


def test_more_members_than_16_bits_count_are_all_read() -> None:
    w = BtfWriter()
    many = w.enum("many", {f"E{i}": i for i in range(70_000)})
    after = w.int("int", 4, SIGNED)
    btf = Btf(w.bytes())

    assert len(btf.enumerators(many)) == 70_000
    assert btf.type(after).name == "int"
