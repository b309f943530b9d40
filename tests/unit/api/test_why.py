# SPDX-License-Identifier: BSD-2-Clause
"""How often `why` runs a command. What the runs tell is seen in tests/live/test_why.py."""

from __future__ import annotations

from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retsnoop_py.api.why import Inquiry
from retsnoop_py.api.why_request import WhyRequest
from retsnoop_py.cause.events import Witnessed
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.facts import ListFormat, SymbolTable


@pytest.mark.parametrize(
    ("reruns", "exit_status", "expected"),
    [(None, None, 2), (None, 1, 2), (None, 0, 0), (2, 0, 2), (5, 1, 5), (0, 1, 0)],
)
def test_a_command_that_succeeded_runs_again_only_if_reruns_are_asked_for(
    reruns: int | None, exit_status: int | None, expected: int
) -> None:
    assert WhyRequest(("x",), reruns=reruns).reruns_after(exit_status) == expected
    inquiry = Inquiry(WhyRequest(("x",), reruns=reruns))
    inquiry._runs, inquiry._exit_status = 1, exit_status
    assert inquiry._again == expected


def test_a_process_has_no_exit_status_to_go_by() -> None:
    assert WhyRequest(pids=(1,)).reruns_after(None) == 2


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (WhyRequest(("x",)), ["CMD may run up to 3 times if it fails; --reruns 0 runs it once"]),
        (WhyRequest(("x",), reruns=4), ["CMD may run up to 5 times; --reruns 0 runs it once"]),
        (WhyRequest(("x",), reruns=0), []),
        (WhyRequest(pids=(1,)), []),
    ],
)
def test_how_often_a_command_may_run_is_reported_before_it_runs(
    asked: WhyRequest, expected: list[str]
) -> None:
    lines: list[str] = []
    Inquiry(asked, lines.append)._announce_reruns()
    assert lines == expected


def test_a_command_that_succeeded_is_reported_to_have_run_once() -> None:
    inquiry = Inquiry(WhyRequest(("x",)))
    inquiry._runs, inquiry._exit_status = 1, 0
    assert "exited with status 0, so it did not run again" in str(inquiry._why_no_line())
    inquiry._exit_status = 1
    assert inquiry._why_no_line() is None


def test_a_further_run_with_another_status_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_input, reason in ((True, "; further runs read /dev/null"), (False, "")):
        monkeypatch.setattr("retsnoop_py.api.why._reads_input", lambda told=has_input: told)
        inquiry = Inquiry(WhyRequest(("x",)))
        inquiry._runs, inquiry._exit_status = 2, 1
        inquiry._compare_status(1)
        assert inquiry._warnings == []
        inquiry._compare_status(3)
        (line,) = inquiry._warnings
        assert line.startswith(f"WARNING: run 2 exited with status 3, run 1 with 1{reason}")


def test_what_was_not_seen_of_the_command_is_a_warning() -> None:
    inquiry = Inquiry(WhyRequest(("x",)))
    inquiry._note_losses()
    assert inquiry._warnings == []
    inquiry._witnessed = Witnessed(lost=7)
    inquiry._note_losses()
    inquiry._witnessed = Witnessed(problem="load witness.bpf.o: EPERM")
    inquiry._note_losses()
    lost, refused = inquiry._warnings
    assert lost.startswith("WARNING: 7 records of what the command did were lost")
    assert "not recorded (load witness.bpf.o: EPERM)" in refused


def listing(folder: Path, *names: str) -> None:
    (folder / "proc").mkdir(exist_ok=True)
    lines = [f"{name} 4096 0 - Live 0xffffffffc0000000\n" for name in names]
    (folder / "proc/modules").write_text("".join(lines))


def test_modules_that_a_run_loaded_are_followed_in_the_next(tmp_path: Path) -> None:
    inquiry = Inquiry(WhyRequest(("x",)))
    inquiry._facts = KernelFacts(tmp_path)
    listing(tmp_path, "ext4")
    inquiry._modules = inquiry._modules_now()
    inquiry._note_modules()
    assert inquiry._of_new_modules() == []
    listing(tmp_path, "ext4", "overlay")
    inquiry._note_modules()
    assert inquiry._of_new_modules() == [], "only where all functions can be hooked at once"
    inquiry._everything = True
    assert inquiry._of_new_modules() == ["*[overlay]"]


@pytest.mark.parametrize(
    ("asked", "runs", "expected"),
    [
        (WhyRequest(("x",)), 1, True),
        (WhyRequest(("x",), errors=("EPERM",)), 1, False),
        (WhyRequest(("x",)), 2, False),
    ],
)
def test_netlink_takes_a_run_of_an_open_question(
    asked: WhyRequest, runs: int, *, expected: bool
) -> None:
    inquiry = Inquiry(asked)
    inquiry._everything, inquiry._runs, inquiry._exit_status = True, runs, 1
    assert inquiry._may_ask_netlink() is expected


def test_globs_without_a_function_here_are_left_out(tmp_path: Path) -> None:
    """A kernel may have no audit and no nftables."""
    (tmp_path / "symbols").write_text("ffffffff81000000 T rtnetlink_rcv_msg\n")
    table = SymbolTable(tmp_path / "symbols", ListFormat.KALLSYMS)
    listed = SimpleNamespace(listed=array("I", range(len(table))))
    inquiry = Inquiry(WhyRequest(("x",)))
    facts: Any = SimpleNamespace(kallsyms=SimpleNamespace(table=table), functions=listed)
    inquiry._facts = facts
    assert inquiry._present(("*_rcv_msg", "audit_receive_msg")) == ("*_rcv_msg",)
    assert inquiry._present(("nf_tables_new*",)) == ("nf_tables_new*",), "the run says what lacks"
