# SPDX-License-Identifier: BSD-2-Clause
"""What the answers come to."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.unit.conftest import Tree
from tests.unit.diagnosis.host import MECHANISMS, FakeHost, by_key

from retsnoop_py.diagnosis import report, rights
from retsnoop_py.diagnosis.examine import Diagnosis, examine, sources
from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, Tried
from retsnoop_py.mechanism import LADDER, Mechanism
from retsnoop_py.render.palette import Palette


def answers(diagnosis: Diagnosis) -> dict[str, Answer]:
    return {check.key: check.answer for check in diagnosis.checks}


def text(diagnosis: Diagnosis, width: int = 0, *, verbose: bool = False) -> str:
    style = report.Style(width, Palette(), verbose=verbose)
    return "\n".join(report.lines(diagnosis, "Linux", style))


def test_where_all_is_well_the_best_mechanism_is_named(fake: FakeHost) -> None:
    diagnosis = examine(fake.host)
    assert diagnosis.works
    assert diagnosis.mechanisms == tuple(m.value for m in LADDER[:2])
    assert diagnosis.loses == ("source lines, inlined functions and :SOURCE globs",)


def test_keys_are_unique_and_groups_together(fake: FakeHost) -> None:
    checks = examine(fake.host).checks
    assert len({check.key for check in checks}) == len(checks)
    groups = [check.group for check in checks]
    assert groups == sorted(groups, key=list(Group).index)
    assert {f"mechanism.{m.value}" for m in MECHANISMS} <= {check.key for check in checks}


def test_the_next_mechanism_is_taken_with_what_it_costs(fake: FakeHost) -> None:
    fake.refuse({m: "the kernel refuses it" for m in MECHANISMS if m is not Mechanism.KPROBE})
    diagnosis = examine(fake.host)
    assert diagnosis.mechanisms == ("kprobe",)
    assert diagnosis.loses[0].startswith("speed: ")
    assert "by kprobe.\nIt goes without:\n  - speed: " in text(diagnosis)


def test_nothing_that_works_is_69(fake: FakeHost) -> None:
    fake.refuse(dict.fromkeys(MECHANISMS, "the kernel refuses it"))
    diagnosis = examine(fake.host)
    assert (diagnosis.exit_status, diagnosis.reason) == (69, "no attach mechanism works")
    assert not diagnosis.mechanisms


def test_without_rights_what_is_tried_is_unknown_and_it_ends_with_77(fake: FakeHost) -> None:
    fake.drop(rights.BPF, rights.SYS_ADMIN)
    fake.is_root = False
    fake.tried = replace(fake.tried, load_error=errno.EPERM, ringbuf=False, func_ip=None)
    fake.refuse(dict.fromkeys(MECHANISMS, "the kernel forbids it"))
    diagnosis = examine(fake.host)
    assert (diagnosis.exit_status, diagnosis.next_step) == (77, "run as root")
    given = answers(diagnosis)
    keys = ("bpf_load", "ringbuf", "func_ip", *(f"mechanism.{m.value}" for m in MECHANISMS))
    assert {given[key] for key in keys} == {Answer.UNKNOWN}


def test_a_kernel_that_refuses_every_program_to_root(fake: FakeHost) -> None:
    fake.tried = replace(fake.tried, load_error=errno.EPERM, func_ip=None, cookie=None)
    diagnosis = examine(fake.host)
    assert diagnosis.exit_status == 77
    assert diagnosis.reason == "loading programs: the kernel rejects every program (-EPERM)"
    assert answers(diagnosis)["func_ip"] is Answer.UNKNOWN


def test_perf_events_that_are_forbidden_take_single_kprobes_away(fake: FakeHost) -> None:
    fake.tried = replace(fake.tried, kprobe_error=errno.EACCES)
    diagnosis = examine(fake.host)
    given = answers(diagnosis)
    assert given["mechanism.kprobe"] is given["mechanism.kprobe_events"] is Answer.NO
    assert given["mechanism.kprobe.multi"] is Answer.YES
    assert diagnosis.works


def test_forbidden_perf_events_are_the_reason_where_nothing_else_works(fake: FakeHost) -> None:
    fake.drop(rights.SYS_ADMIN)
    fake.file("proc/sys/kernel/perf_event_paranoid", "3")
    fake.tried = replace(fake.tried, kprobe_error=errno.EACCES)
    fake.refuse({m: "the kernel refuses it" for m in MECHANISMS if "kprobe_" not in m.value})
    diagnosis = examine(fake.host)
    assert diagnosis.exit_status == 77
    assert diagnosis.reason.startswith("perf events: kernel.perf_event_paranoid is 3")
    assert diagnosis.next_step.endswith("`sysctl kernel.perf_event_paranoid=2`")


@pytest.mark.parametrize(
    ("path", "data", "status", "reason"),
    [
        ("proc/kallsyms", "0 T a\n", 77, "symbols of the kernel: "),
        ("sys/kernel/security/lockdown", "[confidentiality]", 77, "free of lockdown: "),
        ("proc/sys/kernel/ftrace_enabled", "0", 69, "ftrace switched on: "),
    ],
)
def test_what_stands_in_the_way_is_the_reason(
    fake: FakeHost, path: str, data: str, status: int, reason: str
) -> None:
    fake.file(path, data)
    diagnosis = examine(fake.host)
    assert diagnosis.exit_status == status
    assert diagnosis.reason.startswith(reason)
    assert diagnosis.next_step
    assert f"Tracing does not work here: {reason}" in text(diagnosis)


def test_missing_kprobes_are_told_before_a_missing_list(fake: FakeHost) -> None:
    fake.remove("sys/kernel/tracing/available_filter_functions_addrs")
    fake.remove("sys/bus/event_source/devices/kprobe/type")
    (fake.tree.root / "sys/bus/event_source/devices/kprobe").rmdir()
    diagnosis = examine(fake.host)
    assert diagnosis.exit_status == 69
    assert diagnosis.reason.startswith("kprobes: ")


# -- as text and as JSON --


def test_lines_fit_a_terminal_and_a_pipe_gets_one_per_answer(fake: FakeHost) -> None:
    fake.refuse({Mechanism.FENTRY: "a reason that is told in many words, " * 4})
    diagnosis = examine(fake.host)
    assert max(map(len, text(diagnosis, 80).splitlines())) <= 80
    piped = [line for line in text(diagnosis).splitlines() if line.startswith("  no ")]
    assert any("fentry" in line and line.endswith("in many words,") for line in piped)


def test_verbose_tells_every_place(fake: FakeHost) -> None:
    told = text(examine(fake.host), verbose=True)
    assert "/usr/lib/debug/boot/vmlinux-6.12.0-test: no such file" in told
    assert "no such file" not in text(examine(fake.host))


def test_only_what_can_be_helped_is_red() -> None:
    palette = Palette(error="31", good="32")
    checks = [
        Check(key="kprobes", title="a", group=Group.BPF, answer=Answer.NO, next_step="do"),
        Check(key="b", title="b", group=Group.BPF, answer=Answer.NO),
        Check(key="c", title="c", group=Group.BPF, answer=Answer.YES),
    ]
    diagnosis = Diagnosis(checks=tuple(checks), mechanisms=("kprobe",))
    shown = list(report.lines(diagnosis, "x", report.Style(80, palette)))
    (red,) = [line for line in shown if "\x1b[31m" in line]
    assert red.endswith("a")
    assert sum("\x1b[32m" in line for line in shown) == 1


def test_json_has_every_answer_under_its_key(fake: FakeHost) -> None:
    diagnosis = examine(fake.host)
    document = msgspec.json.decode(report.as_json(diagnosis, "6.12", "x86_64"))
    assert document["kernel"] == {"release": "6.12", "machine": "x86_64"}
    assert document["works"] is True
    assert document["exit_status"] == 0
    assert document["reason"] is None
    assert set(document["checks"]) == {check.key for check in diagnosis.checks}
    vmlinux = document["checks"]["vmlinux"]
    assert vmlinux["answer"] == "no"
    assert vmlinux["tried"][0]["outcome"] == "no such file"


PLACE = "usr/lib/debug/boot/vmlinux-6.12.0-test"


def asked(tree: Tree, image: Path | None = None, **environ: str) -> dict[str, Check]:
    environ = {"HOME": str(tree.root / "home"), **environ}
    host = Host(tree.facts, Tried(), None, (1, 1), environ, image=image)
    return by_key(sources(host))


def test_the_image_is_found_where_a_package_puts_it(tree: Tree) -> None:
    path = tree.install(PLACE)
    check = asked(tree)["vmlinux"]
    assert (check.answer, check.detail) == (Answer.YES, str(path))
    assert check.tried[-1] == (str(path), "used")
    assert ("no such file") in {why for _, why in check.tried}


def test_without_an_image_source_lines_are_lost(tree: Tree) -> None:
    check = asked(tree)["vmlinux"]
    assert check.answer is Answer.NO
    assert "source lines" in check.loses
    assert "DEBUGINFOD_URLS" in check.next_step
    assert len(check.tried) > 5


def test_servers_are_named_and_not_asked(tree: Tree) -> None:
    url = "http://127.0.0.1:1"
    checks = asked(tree, DEBUGINFOD_URLS=url)
    assert checks["debuginfod"].answer is Answer.YES
    assert checks["vmlinux"].answer is Answer.UNKNOWN
    assert checks["vmlinux"].detail == f"not on this machine; a trace asks {url}"
    assert not (tree.root / "home").exists()


def test_what_a_server_gave_before_is_used(tree: Tree) -> None:
    cache = tree.root / "cache"
    place = f"cache/{tree.facts.build_id}/debuginfo"
    urls = {"DEBUGINFOD_URLS": "http://127.0.0.1:1", "DEBUGINFOD_CACHE_PATH": str(cache)}
    tree.write(place, b"")
    empty = asked(tree, **urls)["vmlinux"]
    assert empty.answer is Answer.UNKNOWN
    assert empty.tried[-1][1] == "no server had it at the last request"
    tree.install(place)
    assert asked(tree, **urls)["vmlinux"].detail == str(tree.root / place)


@pytest.mark.parametrize(("name", "status"), [("nothing", 66), ("text", 65), ("vmlinux", 0)])
def test_an_image_named_by_the_user_is_judged(tree: Tree, name: str, status: int) -> None:
    tree.write("text", "hello")
    tree.install("vmlinux")
    check = asked(tree, tree.root / name)["vmlinux"]
    assert check.ends_with == status
    assert check.answer is (Answer.NO if status else Answer.YES)
