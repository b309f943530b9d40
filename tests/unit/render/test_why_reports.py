# SPDX-License-Identifier: BSD-2-Clause
"""The answer of ``why`` as annotations, JUnit's XML and SARIF: each has the first paragraph."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from tests.unit.render.test_why import CALL

from retsnoop_py.model.why import VERSION, Reason, Waiting, Why
from retsnoop_py.render.why_reports import FORMATS, report

REASON = Reason(
    "busy",
    "/mnt is in use: sleep (PID 7), 100%\n::error::x",
    "inferred",
    ("kill 7", "umount -l /mnt"),
)
FAILED = Why(
    VERSION,
    "6.12",
    "x86_64",
    1,
    "observed",
    ("umount", "/mnt"),
    32,
    explained=replace(CALL, what="unmounting /mnt", error="EBUSY", reason=REASON),
)
SUCCEEDED = Why(VERSION, "6.12", "x86_64", 1, "unknown", ("true",), 0, unknown="it succeeded")
KILLED = Why(
    *(VERSION, "6.12", "x86_64", 1, "observed", ("sh",), 137),
    reason=Reason("killed", "Signal SIGKILL killed sh.", "observed"),
)
LOCK = Waiting(7, 7, "flock", kind="lock", sentence="flock waited for a lock.", advice=("end 8",))
HUNG = Why(*(VERSION, "6.12", "x86_64", 1, "unknown", ("flock",), 124), waiting=(LOCK,))


def test_an_annotation_has_the_sentence_the_change_and_the_line() -> None:
    lines = report(FAILED, "github").splitlines()
    assert lines[0].startswith("::error file=loader.c,line=88,title=umount%3A EBUSY::")
    assert "unmounting /mnt failed with EBUSY" in lines[0]
    assert "100%25" in lines[0]
    assert "To change: kill 7; umount -l /mnt" in lines[0]
    stopped = lines[2].partition("::stop-commands::")[2]
    assert stopped
    assert lines[-2:] == [f"::{stopped}::", "::endgroup::"]
    assert not any(one.startswith("::error") for one in lines[1:])


def test_a_failing_case_has_the_kind_and_the_page() -> None:
    (case,) = ET.fromstring(report(FAILED, "junit")).iter("testcase")
    failure = case.find("failure")
    assert failure is not None
    assert (case.get("name"), failure.get("type")) == ("umount /mnt", "busy")
    assert "is in use: sleep (PID 7)" in (failure.get("message") or "")
    assert "array_map_alloc_check" in (failure.text or "")


def test_a_result_has_the_kind_as_its_rule() -> None:
    found: dict[str, Any] = json.loads(report(FAILED, "sarif"))
    assert found["version"] == "2.1.0"
    (run,) = found["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == run["tool"]["driver"]["rules"][0]["id"] == "busy"
    assert "sleep (PID 7)" in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "loader.c"
    assert place["region"]["startLine"] == 88


def test_a_command_that_a_signal_ended() -> None:
    assert "Signal SIGKILL killed sh." in report(KILLED, "github").splitlines()[0]
    assert 'failures="1"' in report(KILLED, "junit")
    assert json.loads(report(KILLED, "sarif"))["runs"][0]["results"][0]["ruleId"] == "killed"


def test_a_command_that_hung() -> None:
    first = report(HUNG, "github").splitlines()[0]
    assert first == "::error title=flock%3A lock::flock waited for a lock. To change: end 8."
    assert 'failures="1"' in report(HUNG, "junit")
    assert json.loads(report(HUNG, "sarif"))["runs"][0]["results"][0]["ruleId"] == "lock"


@pytest.mark.parametrize("form", FORMATS)
def test_a_command_that_succeeded_is_no_failure(form: str) -> None:
    text = report(SUCCEEDED, form)
    assert "::error" not in text
    assert "<failure" not in text
    if form == "sarif":
        assert json.loads(text)["runs"][0]["results"] == []
