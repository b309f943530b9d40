# SPDX-License-Identifier: BSD-2-Clause
"""Values of registers as C expressions: names by types, ranges in people's notation."""

from __future__ import annotations

from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.kernel.btf_writer import BtfWriter
from tests.unit.path.test_probes import START, graph

from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.libbpf.dwarf import Variable
from retsnoop_py.path.analysis import _implies
from retsnoop_py.path.decide import decide
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.follow import follow
from retsnoop_py.path.members import Members, members_at
from retsnoop_py.path.names import Namer, _folded
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.values import Flags, Node
from retsnoop_py.path.x86 import X86_64
from retsnoop_py.session.paths import Hit, Path, operand_value

EINVAL = -22
#: xor eax,eax; add rsp,16; ret; mov eax,-22; add rsp,16; ret
ENDS = "31c04883c410c3b8eaffffff4883c410c3"


def types(name: str, type_: str) -> tuple[Btf, int]:
    """f(int x, union attr *attr); the union's variants differ in the member at offset 8."""
    btf = BtfWriter()
    word, long = btf.int("u32", 4), btf.int("u64", 8)
    number = btf.int("int", 4, 1)
    map_ = btf.struct("", 16, [("map_type", word, 0), ("key_size", word, 32), ("flags", word, 64)])
    prog = btf.struct("", 16, [("kind", word, 0), ("insn_cnt", word, 32), ("insns", long, 64)])
    path = btf.struct("", 16, [("pathname", long, 0)])
    members = [w for one in (map_, prog, path) for w in (0, one, 0)]
    union = btf.add(5, type_, 16, members, 3)
    func = btf.func(name, number, [("x", number), ("attr", btf.ptr(union))])
    return Btf(btf.bytes()), func


def told(
    code: str,
    left: int,
    name: str = "f",
    type_: str = "attr",
    root: str = "/nowhere",
    callee: str | None = None,
) -> tuple[str, list[tuple[str, int | None]]]:
    """The condition and the operands of the run of ``code`` that took its first jump."""
    called = {START + 9: callee} if callee else {}
    blocks = graph(f"4883ec10{code}{ENDS}", called)
    btf, func = types(name, type_)
    facts = cast("KernelFacts", SimpleNamespace(btf=btf, root=FilePath(root)))
    result = ResultType(ResultKind.INT)
    function = Function(name, START, 64, FuncFlags(0), result, btf_id=func)
    namer = Namer(facts, function, called.get, X86_64)
    namer.learn(blocks)
    way = follow(blocks, [0, 2], range(3))
    decided = decide(blocks, way, Failure(EINVAL), called.get).decided
    assert decided is not None
    path = Path(0, 1, 0, EINVAL, (Hit(0, 0, left, 0),))
    operands = namer.operands(decided, 0)
    return namer.condition(decided).text, [(o.name, operand_value(o, path)) for o in operands]


@pytest.mark.parametrize(
    ("code", "left", "condition", "value"),
    [
        # lea eax,[rdi-1]; cmp eax,9; ja
        ("8d47ff83f8097707", 0xFFFFFFFF, "x < 1 || x > 10", 0),
        # lea eax,[rdi+1000]; cmp eax,2000; ja
        ("8d87e80300003dd00700007707", 6000, "x < -1000 || x > 1000", 5000),
        # lea eax,[rdi-5]; cmp eax,2; jb
        ("8d47fb83f8027207", 1, "x >= 5 && x <= 6", 6),
        # cmp edi,9; ja
        ("83ff097707", 10, "x > 9", 10),
        # cmp edi,10000; ja and cmp edi,0x7ffff000; ja
        ("81ff102700007707", 20_001, "x > 10000", 20_001),
        ("81ff00f0ff7f7707", 0x7FFFF001, "x > 0x7ffff000", 0x7FFFF001),
        # test edi,~0x80800; jne
        ("f7c7fff7f7ff7507", 1 << 30, "(x & ~0x80800) != 0", 1 << 30),
    ],
)
def test_a_range_is_told_of_what_the_source_compares(
    code: str, left: int, condition: str, value: int
) -> None:
    assert told(code, left) == (condition, [("x", value)])


def test_the_file_of_a_descriptor_comes_with_two_flags_below() -> None:
    # call fdget; and rax,-4; je
    text, _ = told("e8000000004883e0fc7407", 0, callee="fdget")
    assert text == "fd_file(fdget()) == 0"
    text, _ = told("e8000000004883e0fc7407", 0, callee="fetch")
    assert text == "(fetch() & ~3) == 0"


def test_a_number_of_16_bits_is_compared_with_one_of_16_bits() -> None:
    # cmp di,0x8000; jne
    assert told("6681ff00807507", 0x8001) == ("(u16)x != 0x8000", [("(u16)x", 0x8001)])


def test_a_conditional_move_is_a_conditional_expression() -> None:
    # mov eax,edi; sar eax,3; cmp edi,5; cmovle edi,eax; cmp edi,9; ja
    name = "(x <= 5 ? (x >> 3) : x)"
    assert told("89f8c1f80383ff050f4ef883ff097707", 10) == (f"{name} > 9", [(name, 10)])


@pytest.mark.parametrize(
    ("reads", "name"),
    [
        ("8b5008", "attr->key_size"),  # mov edx,[rax+8]
        ("488b5008", "attr->insn_cnt"),  # mov rdx,[rax+8]
    ],
)
def test_the_variant_of_a_union_is_known_by_what_is_read_of_it(reads: str, name: str) -> None:
    # mov [rsp],rsi; xor esi,esi; mov rax,[rsp]; READS; cmp dword [rax+4],4; jne
    code = f"4889342431f6488b0424{reads}837804047507"
    assert told(code, 8) == (f"{name} != 4", [(name, 8)])


@pytest.mark.parametrize(
    ("function", "type_", "name"),
    [
        ("array_map_alloc_check", "bpf_attr", "attr->key_size"),
        ("somebody", "bpf_attr", "attr->key_size?"),
        ("array_map_alloc_check", "attr", "attr->key_size?"),
    ],
)
def test_the_variant_of_a_union_is_known_by_what_the_function_is_for(
    function: str, type_: str, name: str
) -> None:
    # cmp dword [rsi+4],4; jne
    assert told("837e04047507", 8, function, type_) == (f"{name} != 4", [(name, 8)])


@pytest.mark.parametrize(
    ("code", "left", "condition", "operand"),
    [
        # test byte [rsi+9],2; jne: of the flags at 8, one byte is read
        ("f64609027507", 6, "(attr->flags & 0x200) != 0", ("attr->flags >> 8 & 0xff", 6)),
        # test byte [rsi+8],4; jne
        ("f64608047507", 5, "(attr->flags & 4) != 0", ("attr->flags & 0xff", 5)),
        # mov eax,[rsi+8]; test ah,2; jne: the register has all of them
        ("8b4608f6c4027507", 0x605, "(attr->flags & 0x200) != 0", ("attr->flags", 0x605)),
        # mov eax,[rsi+8]; test al,4; jne
        ("8b4608a8047507", 0x605, "(attr->flags & 4) != 0", ("attr->flags", 0x605)),
        # mov eax,edi; and ah,0x1f; cmp eax,6; ja: all other bits are what they were
        ("89f880e41f83f8067707", 77, "(x & ~0xe000) > 6", ("x & ~0xe000", 77)),
        # mov eax,edi; or ah,2; cmp eax,6; ja
        ("89f880cc0283f8067707", 0x24D, "(x | 0x200) > 6", ("x | 0x200", 0x24D)),
        # mov eax,edi; and al,0x7f; cmp eax,6; ja, and the same of the byte alone: cmp al,6
        ("89f8247f83f8067707", 0x101, "(x & ~0x80) > 6", ("x & ~0x80", 0x101)),
        ("89f8247f3c067707", 7, "(x & 0x7f) > 6", ("x & 0x7f", 7)),
        # test dil,4; jne
        ("40f6c7047507", 0x605, "(x & 4) != 0", ("x", 0x605)),
    ],
)
def test_a_test_of_some_bits_tells_what_was_read_of_the_number(
    code: str, left: int, condition: str, operand: tuple[str, int]
) -> None:
    assert told(code, left, "array_map_alloc_check", "bpf_attr") == (condition, [operand])


def test_a_member_that_is_read_whole_is_meant_sooner_than_a_part_of_a_larger_one() -> None:
    """Both ports of a socket are a number, too."""
    btf = BtfWriter()
    port, ports = btf.int("u16", 2), btf.int("u32", 4)
    pair = btf.struct("", 4, [("dport", port, 0), ("num", port, 16)])
    string = btf.string("ports")
    union = btf.add(Kind.UNION, "either", 4, [string, ports, 0, 0, pair, 0], 2)
    members = Members(Btf(btf.bytes()), "f", None)
    assert members.fitting(None, union, 0, 2) == ("dport", port, True)
    assert members.fitting(None, union, 2, 2) == ("num", port, True)
    assert members.fitting(None, union, 0, 4) == ("ports", ports, True)


def test_a_system_call_is_told_by_its_own_arguments() -> None:
    """And not by the registers that its function finds them in."""
    # mov eax,[rdi+96]; cmp eax,9; ja
    blocks = graph(f"4883ec108b476083f8097707{ENDS}")
    btf = BtfWriter()
    number, word = btf.int("int", 4, 1), btf.int("u32", 4)
    btf.func("__do_sys_take", number, [("fd", number), ("size", word), ("flags", word)])
    func = btf.func("__x64_sys_take", number, [("__unused", btf.ptr(btf.struct("pt_regs", 8, [])))])
    facts = SimpleNamespace(btf=Btf(btf.bytes()), root=FilePath("/nowhere"))
    result, name = ResultType(ResultKind.INT), "__x64_sys_take"
    function = Function(name, START, 64, FuncFlags(0), result, btf_id=func)
    namer = Namer(cast("KernelFacts", facts), function, {}.get, X86_64)
    decided = decide(blocks, follow(blocks, [0, 2], range(3)), Failure(EINVAL), {}.get).decided
    assert decided is not None
    assert namer.condition(decided).text == "flags > 9"
    assert [one.name for one in namer.operands(decided, 0)] == ["flags"]


@pytest.mark.parametrize(
    ("whole", "told"),
    [
        ("a->b->c->d == NULL", "a->b->c->d == NULL"),
        ("de->sub.node->right->right->left->left == NULL", "de->sub.node->...->left == NULL"),
        ("f()->a->b->c->d->e? != x->y", "f()->a->...->e? != x->y"),
    ],
)
def test_a_walk_is_told_by_its_beginning_and_its_end(whole: str, told: str) -> None:
    assert _folded(whole) == told


def test_the_highest_bit_of_an_unsigned_number_is_no_sign() -> None:
    # mov eax,[rsi+8]; test eax,eax; js
    text, _ = told("8b460885c07807", 1 << 31, name="map_create", type_="bpf_attr")
    assert text == "(attr->flags & 0x80000000) != 0"


@pytest.mark.parametrize(
    ("code", "bit"),
    [
        ("6625 00e0", "0x8000"),  # and ax,0xe000
        ("c1e017", "0x100"),  # shl eax,23
        ("66c1f803", "0x8000"),  # sar ax,3
        ("c1e010 c1f803 85c0", "0x8000"),  # shl eax,16; sar eax,3; test eax,eax
        ("c1e80f 84c0", "0x400000"),  # shr eax,15; test al,al
    ],
)
def test_the_sign_of_masked_or_shifted_bits_is_the_bit_that_it_tests(code: str, bit: str) -> None:
    # mov eax,[rsi+8]; ...; js
    code = f"8b4608 {code} 7807".replace(" ", "")
    text, read = told(code, 0xFFFF8080, name="map_create", type_="bpf_attr")
    assert text == f"(attr->flags & {bit}) != 0"
    assert all(value is None or value > 0 for _, value in read), "bits have no sign"


RAX, RBX, RSP = 0, 3, 7


def variable(name: str, where: str, register: int, offset: int = 0, **more: object) -> Variable:
    """Return a local variable, by default an ``int``."""
    told = {"size": 4, "kind": "number", "type": "int", "pointers": 0, "depth": 0}
    told |= {"in_header": False, **more}
    return Variable(name, where, register, offset, **told)  # type: ignore[arg-type]


GOT = variable("got", "register", RAX)
THING = variable("t", "register", RAX, size=8, kind="struct", type="thing", pointers=1)
DATA = variable("data", "register", RAX, size=8, kind="other", type=None, pointers=1)
#: A part of a struct, and the struct that it is in: the same register.
PART = variable("part", "register", RAX, size=8, kind="struct", type="part", pointers=1)
WHOLE = variable("t", "sum", RAX, -8, size=8, kind="struct", type="thing", pointers=1)
OWN = variable("own", "memory", RSP, 8, size=16, kind="struct", type="thing")
NUMBER = variable("n", "memory", RSP, 8)
MODE = variable("mode", "memory", RSP, 8, size=2, type="unsigned short")
INLINE = variable("err", "register", RAX, depth=2, in_header=True)
MACRO = variable("__ret", "register", RAX, depth=1)


@pytest.mark.parametrize(
    ("code", "variables", "condition", "name"),
    [
        # call nobody; cmp eax,9; ja: what is compared
        ("e80000000083f8097707", [GOT], "got > 9", "got"),
        # call nobody; cmp dword [rax+4],9; ja: through a pointer that only DWARF knows
        ("e800000000837804097707", [THING], "t->size > 9", "t->size"),
        # call nobody; mov ebx,[rax+4]; test ebx,ebx; jne
        ("e8000000008b580485db7507", [THING], "t->size != 0", "t->size"),
        # call nobody; test rax,rax; jne: a pointer is no number
        ("e8000000004885c07507", [THING], "t != NULL", "t"),
        # cmp dword [rsp+12],9; ja: a member of a struct on the stack
        ("837c240c097707", [OWN], "own.size > 9", "own.size"),
        # cmp dword [rsp+8],9; ja: a number there
        ("837c2408097707", [NUMBER], "n > 9", "n"),
        # mov ax,[rsp+8]; and ax,0xf000; cmp ax,0x6000; ja: as wide as it is
        (
            "668b442408662500f0663d00607707",
            [MODE],
            "(mode & 0xf000) > 0x6000",
            "mode & 0xf000",
        ),
        # cmp dword [rsp+12],9; ja: its neighbour
        ("837c240c097707", [NUMBER], "", "dword ptr [rsp + 0xc]"),
        # call nobody; cmp al,9; ja: a part of a number is not the number
        ("e8000000003c097707", [GOT], "(u8)got > 9", "(u8)got"),
        # call nobody; test al,4; jne: but its bits are its own
        ("e800000000a8047507", [GOT], "(got & 4) != 0", "got"),
        # of an inline function in a header, a macro and the function itself: the function
        ("e80000000083f8097707", [GOT, INLINE, MACRO], "got > 9", "got"),
        ("e80000000083f8097707", [INLINE, MACRO], "err > 9", "err"),
        ("e80000000083f8097707", [MACRO], "", "eax"),
        # cmp dword [rax-4],9; ja: before a part of a struct, only the struct has members
        ("e8000000008378fc097707", [PART, WHOLE], "t->size > 9", "t->size"),
        # of two that are the same pointer: that with a type
        ("e800000000837804097707", [DATA, THING], "t->size > 9", "t->size"),
        # what is elsewhere, or was there once, is not what is compared
        ("e80000000083f8097707", [variable("got", "register", RBX)], "", "eax"),
        ("e80000000083f8097707", [variable("got", "given", RAX)], "", "eax"),
    ],
)
def test_what_only_dwarf_knows_is_told_by_the_names_of_local_variables(
    code: str, variables: list[Variable], condition: str, name: str
) -> None:
    blocks = graph(f"4883ec10{code}{ENDS}")
    btf = BtfWriter()
    number = btf.int("int", 4, 1)
    btf.struct("thing", 16, [("count", number, 0), ("size", number, 32)])
    func = btf.func("f", number, [])
    facts = cast("KernelFacts", SimpleNamespace(btf=Btf(btf.bytes()), root=FilePath("/nowhere")))
    result = ResultType(ResultKind.INT)
    function = Function("f", START, 64, FuncFlags(0), result, btf_id=func)
    namer = Namer(facts, function, {}.get, X86_64, lambda _: variables)
    namer.learn(blocks)
    decided = decide(blocks, follow(blocks, [0, 2], range(3)), Failure(EINVAL), {}.get).decided
    assert decided is not None
    assert namer.condition(decided).text == condition
    assert [one.name for one in namer.operands(decided, 0)] == [name]


def test_a_function_and_a_struct_of_one_name_have_types_of_their_own() -> None:
    btf = BtfWriter()
    number = btf.int("int", 4, 1)
    thing = btf.struct("thing", 8, [("next", 0, 0)])
    func = btf.func("thing", number, [])
    facts = cast("KernelFacts", SimpleNamespace(btf=Btf(btf.bytes()), root=FilePath("/nowhere")))
    function = Function("f", START, 64, FuncFlags(0), ResultType(ResultKind.INT), btf_id=func)
    namer = Namer(facts, function, {}.get, X86_64)
    assert thing != number
    assert namer._return_type("thing") == number
    assert namer._pointer_to("thing") == 0


#: mov rcx,[rdx*8-0x7da8b1e0]: the address of the variables of the CPU that edx is.
OFFSET = "4863d7488b0cd5204e5782"


@pytest.mark.parametrize(
    ("code", "condition"),
    [
        # mov eax,0x100; mov rax,[rax+rcx+8]; cmp dword [rax+4],9; ja
        (f"{OFFSET}b800010000488b440808837804097707", "per_cpu(queues).domain->size > 9"),
        # mov rax,[rcx+0x108]; cmp dword [rax+4],9; ja
        (f"{OFFSET}488b8108010000837804097707", "per_cpu(queues).domain->size > 9"),
        # ... imul rax,rsi; shr rax,10; cmp rax,rsi; jb
        (
            f"{OFFSET}488b8108010000488b4008480fafc648c1e80a4839f07207",
            "((per_cpu(queues).domain->share * attr) >> 10) < attr",
        ),
        # mov rax,gs:[0x108]; cmp dword [rax+4],9; ja
        ("65488b042508010000837804097707", "this_cpu(queues).domain->size > 9"),
        # mov eax,gs:[0x120]; cmp eax,9; ja
        ("658b04252001000083f8097707", "this_cpu(count) > 9"),
        # behind the last variable; another array; another size
        ("658b042530010000837804097707", ""),
        (f"{OFFSET.replace('20', '28')}488b8108010000837804097707", ""),
        ("65488b042520010000837804097707", ""),
    ],
)
def test_variables_that_each_cpu_has(code: str, condition: str, tmp_path: FilePath) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/kallsyms").write_text("ffffffff82574e20 D __per_cpu_offset\n")
    blocks = graph(f"4883ec10{code}{ENDS}")
    btf = BtfWriter()
    number, long = btf.int("int", 4, 1), btf.int("u64", 8)
    domain = btf.struct(
        "domain", 16, [("nr", number, 0), ("size", number, 32), ("share", long, 64)]
    )
    queue = btf.struct("rq", 32, [("nr", long, 0), ("domain", btf.ptr(domain), 64)])
    rows = (
        (btf.add(Kind.VAR, "queues", queue, [1]), 0x100, 32),
        (btf.add(Kind.VAR, "count", number, [1]), 0x120, 4),
    )
    words = [word for row in rows for word in row]
    btf.add(Kind.DATASEC, ".data..percpu", 0x124, words, len(rows))
    func = btf.func("f", number, [("cpu", number), ("attr", long)])
    facts = cast("KernelFacts", SimpleNamespace(btf=Btf(btf.bytes()), root=tmp_path))
    function = Function("f", START, 64, FuncFlags(0), ResultType(ResultKind.INT), btf_id=func)
    namer = Namer(facts, function, {}.get, X86_64)
    namer.learn(blocks)
    decided = decide(blocks, follow(blocks, [0, 2], range(3)), Failure(EINVAL), {}.get).decided
    assert decided is not None
    assert namer.condition(decided).text == condition


def test_a_resource_limit_has_its_name() -> None:
    btf = BtfWriter()
    long = btf.int("unsigned long", 8)
    limit = btf.struct("rlimit", 16, [("rlim_cur", long, 0), ("rlim_max", long, 64)])
    struct = btf.struct("signal_struct", 256, [("rlim", btf.array(limit, 16), 0)])
    found = [name for name, _ in members_at(Btf(btf.bytes()), struct, 7 * 16 + 8, 8)]
    assert found == ["rlim[RLIMIT_NOFILE].rlim_max"]


def test_a_place_in_a_list_is_compared_with_the_head(tmp_path: FilePath) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/kallsyms").write_text("ffffffff82574e20 D pmus\n")
    # mov rax,[rdi]; cmp rax,0xffffffff82574e20; je
    found = told("488b07483d204e57827407", 0xFFFFFFFF82574E20, root=str(tmp_path))
    assert found == ("rax == &pmus", [("rax", 0xFFFFFFFF82574E20)])


@pytest.mark.parametrize(("number", "text"), [("fe", "-ENOENT"), ("ff", "-1")])
def test_an_error_of_a_called_function_has_its_name(number: str, text: str) -> None:
    # call; cmp eax,NUMBER; je
    assert told(f"e80000000083f8{number}7407", 0, callee="find")[0] == f"find() == {text}"


def test_a_value_that_is_known_needs_no_other_test() -> None:
    value, other = Node("call", name="find"), Node("call", name="find")
    insn = graph("85c0c3").blocks[0].insns[0]

    def decided(node: Node, condition: str, number: int) -> Decided:
        flags = Flags(insn, "cmp", node, Node("const", value=number), 4)
        return Decided(1, 1, condition, flags)

    assert _implies(decided(value, "e", -2), decided(value, "ne", 0))
    assert not _implies(decided(value, "ne", -2), decided(value, "ne", 0))
    assert not _implies(decided(other, "e", -2), decided(value, "ne", 0))
