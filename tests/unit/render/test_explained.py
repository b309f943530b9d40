# SPDX-License-Identifier: BSD-2-Clause
"""Why the system call of a session failed, as text and as JSON."""

from __future__ import annotations

import json

from tests.unit.session.records import facts, session

from retsnoop_py.model.session import ExplainedFailure, Reason
from retsnoop_py.render.renderers import ExplanationSection, renderer
from retsnoop_py.session.report import Report
from retsnoop_py.settings import OutputFormat, Settings, ViewSettings

KNOWN = ExplainedFailure(
    *("openat", "EACCES", "opening x\x1b[31m"),
    Reason(
        *("file-mode", "User nobody may not read it.", "inferred"),
        ("run it as root", "or chmod o+r x"),
        later=True,
    ),
)
UNKNOWN = ExplainedFailure("mount", "EINVAL", "mounting a on /b")


def text(why: ExplainedFailure | None, columns: int = 0) -> list[str]:
    section = ExplanationSection(columns)
    report = Report(session(), explained=why)
    assert section.template(report) is None
    return section.lines(report)


def test_the_first_paragraph_of_why() -> None:
    assert text(KNOWN) == [
        "loader: opening x\\x1b[31m failed with EACCES (Permission denied).",
        "  User nobody may not read it.",
        "  To change: run it as root",
        "             or chmod o+r x",
    ]
    assert text(UNKNOWN) == ["loader: mounting a on /b failed with EINVAL (Invalid argument)."]
    assert text(None) == []
    assert max(map(len, text(KNOWN, 40))) <= 40


def explained(why: ExplainedFailure | None) -> object:
    views = ViewSettings(format=OutputFormat.JSON, explain=True)
    line = renderer(facts(), Settings(views=views)).session(Report(session(), explained=why))
    return json.loads(line).get("explained")


def test_json_has_the_reason_where_it_is_known() -> None:
    assert explained(None) is None
    about = {"syscall": "mount", "error": "EINVAL", "what": "mounting a on /b"}
    assert explained(UNKNOWN) == about
    known = explained(KNOWN)
    assert isinstance(known, dict)
    assert known["reason"] == {
        "kind": "file-mode",
        "text": "User nobody may not read it.",
        "certainty": "inferred",
        "advice": ["run it as root", "or chmod o+r x"],
        "later": True,
    }
