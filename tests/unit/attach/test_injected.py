# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of injected probes that the kernel refuses."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from retsnoop_py.attach.injected import InjectedProbes, programs_of, refused
from retsnoop_py.attach.plan import AttachContext
from retsnoop_py.errors import InputError, PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.tracefs import Tracepoint
from retsnoop_py.probes.spec import Probe, parse


def probe(text: str, name: str = "") -> Probe:
    spec = parse(text)
    name = name or spec.name
    if "tp" in spec.kind.value:
        return Probe(spec, f"{spec.kind.value}:{name}", tracepoint=Tracepoint(spec.category, name))
    return Probe(spec, f"{spec.kind.value}:{name}+0x3", 0x1003, name)


class Kernel(InjectedProbes):
    """A kernel that refuses some."""

    def __init__(self, probes: list[Probe], errors: dict[str, int], stop_after: int = 99) -> None:
        self.tried: list[str] = []
        features = SimpleNamespace(cookie=True, raw_cookie=False)
        context = SimpleNamespace(
            system_changes=False,
            stopping=lambda: len(self.tried) >= stop_after,
            features=features,
        )
        super().__init__(probes, cast("AttachContext", context))
        self._errors = errors

    def _attach(self, number: int, probe: Probe) -> int:
        self.tried.append(probe.label)
        error = self._errors.get(probe.label, 0)
        if not error:
            attached = cast("Any", self._attached)
            link = -len(self.tried)
            attached.append(SimpleNamespace(probe=probe, link=link, event=-1))
        return error

    @staticmethod
    def _unrun(link: int) -> int:
        return -link - 1


def test_a_probe_that_is_asked_for_by_name_must_attach() -> None:
    kernel = Kernel([probe("kprobe:f"), probe("kprobe:g")], {"kprobe:g+0x3": errno.EILSEQ})
    with pytest.raises(InputError, match=r"^-J kprobe:g: g\+0x3 is inside an instruction"):
        kernel.attach()
    assert not kernel.attached


def test_a_glob_does_without_what_is_refused() -> None:
    probes = [probe("rawtp:a*", name) for name in ("aa", "ab")]
    kernel = Kernel(probes, {"rawtp:aa": errno.ENOENT})
    kernel.attach()
    assert [one.label for one in kernel.attached] == ["rawtp:ab"]
    assert kernel.refusals == [
        (probes[0], "the kernel does not allow BPF programs on 'aa' (-ENOENT)")
    ]


def test_a_glob_of_which_all_is_refused_is_an_error() -> None:
    probes = [probe("tp:x:a*", name) for name in ("aa", "ab")]
    kernel = Kernel([*probes, probe("kprobe:f")], {"tp:aa": errno.EINVAL, "tp:ab": errno.EINVAL})
    with pytest.raises(UnavailableError, match="BPF programs on 'aa'"):
        kernel.attach()
    assert not kernel.attached


def test_attaching_ends_when_the_run_is_stopping() -> None:
    kernel = Kernel([probe("kprobe:f"), probe("kprobe:g")], {}, stop_after=1)
    kernel.attach()
    assert kernel.tried == ["kprobe:f+0x3"]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (errno.EILSEQ, InputError, "is inside an instruction"),
        (errno.EINVAL, InputError, "rejects a probe at f+0x3 (-EINVAL)"),
        (errno.EPERM, PrivilegeError, "forbids it (-EPERM)"),
        (errno.EMFILE, UnavailableError, "no file descriptors are left"),
    ],
)
def test_a_refusal_says_why(error: int, kind: type[RetsnoopError], words: str) -> None:
    found = refused(probe("kprobe:f+3"), error)
    assert type(found) is kind
    assert words in found.message
    assert found.hint


def test_probes_of_a_kind_share_a_program() -> None:
    probes = [probe(text) for text in ("kprobe:f", "kretprobe:f", "tp:a:b", "tp:a:c")]
    assert programs_of(probes) == {"rsn_probe_kprobe", "rsn_probe_tp"}


def test_hits_that_a_busy_program_did_not_see_are_told_once_for_each_program() -> None:
    """Without cookies each probe has its own; the first of these was never busy."""
    texts = ("kprobe:f", "tp:a:b", "tp:a:c", "rawtp:d", "rawtp:e")
    kernel = Kernel([probe(text) for text in texts], {})
    kernel.attach()
    told = [text.partition(" not seen: ")[0] for text in kernel.misses()]
    assert told == [
        "3 hits of 'rawtp:d'",
        "4 hits of 'rawtp:e'",
        "1 hit of 'tp:b' or 1 other probe",
    ]


@pytest.mark.parametrize(
    ("machine", "address", "words"),
    [
        ("aarch64", 0x1002, "is inside an instruction"),
        ("aarch64", 0x1004, "the kernel rejects a probe"),
        ("x86_64", 0x1002, "the kernel rejects a probe"),
    ],
)
def test_arm64_tells_of_no_instruction_by_another_errno(
    machine: str, address: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = SimpleNamespace(machine=machine)
    monkeypatch.setattr("retsnoop_py.attach.injected.os.uname", lambda: told)
    one = Probe(parse("kprobe:f+2"), "kprobe:f+0x2", address, "f")
    assert words in refused(one, errno.EINVAL).message
