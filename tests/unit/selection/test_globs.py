# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.libbpf.facts import glob_match
from retsnoop_py.selection import deny_list, globs
from retsnoop_py.selection.globs import NameGlob, PathGlob, expand, parse


@pytest.mark.parametrize(
    ("spec", "glob"),
    [
        ("foo", NameGlob("foo")),
        ("*sys_bpf", NameGlob("*sys_bpf")),
        ("foo[kvm]", NameGlob("foo", "kvm")),
        ("foo [kvm]", NameGlob("foo", "kvm")),
        ("* [kvm*]", NameGlob("*", "kvm*")),
        ("foo \t [kvm]", NameGlob("foo", "kvm")),
        ("foo[kvm", NameGlob("foo[kvm")),
        ("foo []", NameGlob("foo []")),
        ("foo[kvm]x", NameGlob("foo[kvm]x")),
        ("***", NameGlob("***")),
        ("?*", NameGlob("?*")),
        (":kernel/bpf/*.c", PathGlob("kernel/bpf/*.c")),
    ],
)
def test_a_spec_is_a_name_a_name_with_module_or_a_path(
    spec: str, glob: NameGlob | PathGlob
) -> None:
    assert parse(spec) == glob


@pytest.mark.parametrize("spec", ["", ":", "**", "** [kvm]", "foo [**]"])
def test_what_cannot_mean_a_function_is_refused(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(spec)
    assert caught.value.hint


def test_a_glob_is_shown_as_name_and_module() -> None:
    assert parse("foo[kvm]").spec == "foo [kvm]"
    assert parse("foo").spec == "foo"
    assert parse(":a/b.c").spec == ":a/b.c"


def test_a_file_of_globs_is_split_at_white_space(tmp_path: Path) -> None:
    file = tmp_path / "globs"
    file.write_text("one two[kvm]\n\tthree*\n")

    assert expand(["zero", f"@{file}", ":x.c"]) == ("zero", "one", "two[kvm]", "three*", ":x.c")


def test_a_missing_file_of_globs_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        expand([f"@{tmp_path / 'absent'}"])
    with pytest.raises(InputError, match="Is a directory"):
        expand([f"@{tmp_path}"])


def test_a_file_of_globs_that_is_not_text_says_so(tmp_path: Path) -> None:
    file = tmp_path / "globs"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text"):
        expand([f"@{file}"])


@pytest.mark.parametrize("token", [":kernel/*.c", "@more"])
def test_a_file_of_globs_holds_function_globs_only(tmp_path: Path, token: str) -> None:
    file = tmp_path / "globs"
    file.write_text(f"fine {token}")
    with pytest.raises(UsageError, match="not a function glob"):
        expand([f"@{file}"])


def test_presets_are_valid_globs() -> None:
    assert {"bpf", "lsm", "mount", "perf", "socket"} <= set(globs.preset_names())
    for name in globs.preset_names():
        preset = globs.load_preset(name)
        assert preset.about
        assert preset.entry
        for spec in (*preset.entry, *preset.allow, *preset.deny):
            assert isinstance(parse(spec), NameGlob)


def test_the_perf_preset_starts_at_functions_that_exist() -> None:
    assert globs.load_preset("perf").entry == ("*_sys_perf_event_open", "perf_ioctl")


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="unknown preset 'x'") as caught:
        globs.load_preset("x")
    assert "bpf, bpf-attach, btf" in (caught.value.hint or "")


def test_what_runs_while_a_trampoline_is_made_is_not_denied() -> None:
    denied = [entry.glob for entry in deny_list.load()]

    def is_denied(name: str) -> bool:
        return any(glob_match(glob, name) for glob in denied)

    assert not is_denied("bpf_trampoline_enter")
    assert not is_denied("bpf_trampoline_exit")
    assert is_denied("__bpf_prog_enter_sleepable_recur")
    assert is_denied("__bpf_tramp_exit")


def test_every_denied_glob_has_a_reason_and_is_listed_once() -> None:
    entries = deny_list.load()

    assert len({entry.glob for entry in entries}) == len(entries)
    assert {entry.group for entry in entries} == {"self", "lock", "entry", "idle", "noreturn"}
    for entry in entries:
        assert isinstance(parse(entry.glob), NameGlob)
        assert entry.reason
