# SPDX-License-Identifier: BSD-2-Clause
"""What is captured at injected probes: registers, words, and the fields of records."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import CHAR, SIGNED, BtfWriter
from tests.unit.kernel.tree import Tree
from tests.unit.session.records import session

from retsnoop_py.kernel.arguments.model import ArgumentFacts, Role
from retsnoop_py.kernel.arguments.plan import CapturePlan, plan_captures
from retsnoop_py.kernel.arguments.specs import MAX_SPECS, Limits, Spec, Target
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.tracefs import Tracepoint
from retsnoop_py.probes.context import ContextPlanner
from retsnoop_py.probes.spec import Probe, parse
from retsnoop_py.render.args.read import ArgumentReader
from retsnoop_py.session.model import Captured, CapturedValue, EventKind

BASE = 0xFFFFFFFF81000000
FIELDS = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:__rel_loc u16[] ports;\toffset:12;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;
\tfield:nowhere_t odd;\toffset:20;\tsize:2;\tsigned:1;
\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:const char * path;\toffset:40;\tsize:8;\tsigned:0;
"""
OPEN = """\
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;
"""

PAINTED = """\
\tfield:enum colour colour;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    w = BtfWriter()
    number, char = w.int("int", 4, SIGNED), w.int("char", 1, SIGNED | CHAR)
    word = w.int("long unsigned int", 8)
    w.add(Kind.TYPEDEF, "pid_t", number)
    w.add(Kind.TYPEDEF, "u16", w.int("short unsigned int", 2))
    w.struct("pt_regs", 16, [("ip", word, 0), ("sp", word, 64)])
    text = w.ptr(char)
    w.func("__traceiter_named", number, [("__data", w.ptr(0)), ("pid", number), ("path", text)])
    w.add(Kind.TYPEDEF, "btf_trace_bare", w.ptr(w.proto(0, [("", w.ptr(0)), ("", number)])))
    made.btf(w.bytes())
    made.kallsyms(f"{BASE:x} t f", f"{BASE + 64:x} T __traceiter_named")
    made.file("sys/kernel/tracing/events/some/exec/format", FIELDS)
    made.file("sys/kernel/tracing/events/syscalls/sys_enter_openat/format", OPEN)
    many = "".join(
        f"\tfield:int f{i};\toffset:{8 + 4 * i};\tsize:4;\tsigned:1;\n" for i in range(18)
    )
    made.file("sys/kernel/tracing/events/some/many/format", many)
    return made


def planned(tree: Tree, text: str) -> CapturePlan:
    spec = parse(text)
    tracepoint = Tracepoint(spec.category, spec.name) if "tp" in spec.kind.value else None
    planner = ContextPlanner(tree.facts, [Probe(spec, text, tracepoint=tracepoint)])
    return plan_captures(tree.facts, (), Limits(), planner.plan)


def shown(facts: ArgumentFacts, *values: CapturedValue) -> dict[str, str]:
    subject = session(args={1: Captured(EventKind.PROBE_ARGS, 0, values)})
    told = ArgumentReader(facts).arguments(subject, 1)
    assert told is not None
    return {name: text for name, text, _, _ in told}


def test_a_kprobe_finds_registers(tree: Tree) -> None:
    plan = planned(tree, "kprobe:f")
    assert plan.probes[0].by_context == (Spec(0, 1, Target.BYTES, 16),)
    data = struct.pack("=QQ", 0xFFFFFFFF81000005, 0)
    assert shown(plan.facts, CapturedValue(bytes(8), data)) == {"regs": "{.ip=0xffffffff81000005}"}


def test_a_kprobe_of_arm64_finds_registers_by_their_names(tree: Tree) -> None:
    w = BtfWriter()
    word = w.int("long long unsigned int", 8)
    tail = [("sp", word, 31 * 64), ("pc", word, 32 * 64), ("pstate", word, 33 * 64)]
    own = w.struct("user_pt_regs", 272, [("regs", w.array(word, 31), 0), *tail])
    w.struct("pt_regs", 280, [("user_regs", own, 0), ("orig_x0", word, 34 * 64)])
    tree.btf(w.bytes())
    plan = planned(tree, "kprobe:f")
    ((spec,),) = [one.by_context for one in plan.probes]
    data = struct.pack("=3Q", 0, 23, 0x5) + bytes(27 * 8) + struct.pack("=2Q", 0x77, 0x88)
    assert shown(plan.facts, CapturedValue(bytes(8), data[: spec.size])) == {
        "regs": "{.x1=23,.x2=5,.x30=119,.sp=136,…}"
    }


def test_a_raw_tracepoint_has_arguments_with_names(tree: Tree) -> None:
    plan = planned(tree, "rawtp:named")
    assert plan.probes[0].by_context == (Spec(0, 1), Spec(1, 1, Target.STRING, 256))
    found = shown(
        plan.facts,
        CapturedValue(struct.pack("=q", -1)),
        CapturedValue(bytes(7) + b"\xff", b"/bin\0"),
    )
    assert found == {"pid": "-1", "path": "'/bin'"}


def test_a_raw_tracepoint_may_be_known_by_its_typedef_alone(tree: Tree) -> None:
    plan = planned(tree, "rawtp:bare")
    assert [argument.name for argument in plan.facts.probes[0].arguments] == ["arg0"]


def test_a_raw_tracepoint_that_no_btf_knows_shows_its_first_word(tree: Tree) -> None:
    plan = planned(tree, "rawtp:unheard_of")
    assert plan.probes[0].by_context == (Spec(0, 1),)
    found = shown(plan.facts, CapturedValue(struct.pack("=q", 7)))
    assert found == {"": "(its first argument: no BTF describes the others)", "arg0": "7"}


def test_a_modules_tracepoint_has_the_types_of_its_module(tree: Tree) -> None:
    """By its name there; types that the module has not itself are the kernel's."""
    kernel = BtfWriter()
    kernel.add(Kind.TYPEDEF, "pid_t", kernel.int("int", 4, SIGNED))
    module = BtfWriter(kernel)
    colour = module.enum("colour", {"RED": 3, "BLUE": 4})
    paint = module.struct("paint", 4, [("colour", colour, 0)])
    module.func("__traceiter_painted", 0, [("__data", 0), ("paint", module.ptr(paint))])
    tree.btf(kernel.bytes())
    tree.btf(module.bytes(), "house")
    tree.kallsyms(f"{BASE:x} t f", f"{BASE + 64:x} T __traceiter_painted\t[house]")
    tree.file("sys/kernel/tracing/events/house/painted/format", PAINTED)

    plan = planned(tree, "tp:house:painted")
    red, pid = CapturedValue(b"\3" + bytes(7)), CapturedValue(b"\7" + bytes(7))
    assert shown(plan.facts, red, pid) == {"colour": "RED", "pid": "7"}
    plan = planned(tree, "rawtp:painted")
    assert shown(plan.facts, CapturedValue(b"\1" * 8, b"\4\0\0\0")) == {"paint": "&{.colour=BLUE}"}


def test_a_tracepoint_has_the_fields_of_its_record(tree: Tree) -> None:
    plan = planned(tree, "tp:some:exec")
    assert plan.probes[0].by_context == (
        Spec(0, 1, Target.LOCATED, 256, 0, (8,)),
        Spec(0, 1, Target.LOCATED, 256, 16, (12,)),
        Spec(0, hops=(16,)),
        Spec(0, hops=(20,)),
        Spec(0, 1, Target.BYTES, 16, 24),
        Spec(0, 1, Target.STRING, 256, hops=(40,)),
    )
    located = [struct.pack("=HHI", 40, size, 0xDEAD) for size in (10, 6)]
    found = shown(
        plan.facts,
        CapturedValue(located[0], b"/bin/true\0"),
        CapturedValue(located[1], struct.pack("=HH", 80, 443)),
        CapturedValue(struct.pack("=iI", -7, 99)),
        CapturedValue(struct.pack("=hHI", -2, 99, 99)),
        CapturedValue(bytes(8), b"sh".ljust(16, b"\0")),
        CapturedValue(b"\1" * 8, b"/x\0"),
    )
    assert found == {
        "filename": "'/bin/true'",
        "ports": "[80,443,…]",
        "pid": "-7",
        "odd": "-2",
        "comm": "'sh'",
        "path": "'/x'",
    }


def test_a_system_call_has_its_arguments(tree: Tree) -> None:
    plan = planned(tree, "tp:syscalls:sys_enter_openat")
    arguments = plan.facts.probes[0].arguments
    assert [(one.name, one.role) for one in arguments] == [
        ("dfd", Role.VALUE),
        ("filename", Role.STRING),
    ]
    found = shown(
        plan.facts, CapturedValue(struct.pack("=iI", -100, 0)), CapturedValue(b"\1" * 8, b"x\0")
    )
    assert found == {"dfd": "-100", "filename": "'x'"}


def test_fields_beyond_the_limit_are_told(tree: Tree) -> None:
    told = planned(tree, "tp:some:many").facts.probes[0]
    assert len(told.arguments) == MAX_SPECS
    assert told.note == "2 more fields are not captured"


def test_plans_of_probes_follow_those_of_functions(tree: Tree, object_btf: Btf) -> None:
    plan = planned(tree, "rawtp:named")
    assert len(plan.packed(object_btf, trampolines=True)) == 1
