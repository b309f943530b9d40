# SPDX-License-Identifier: BSD-2-Clause
"""The answer of ``why`` for pipelines: GitHub's annotations, JUnit's XML, SARIF.

Each format contains the answer's first paragraph: the failure, its reason and the advice. The whole
page follows if the format has a field for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from retsnoop_py.foreign_json import encode
from retsnoop_py.model.why import Waiting, Why
from retsnoop_py.render.github import unobeyed, workflow_property, workflow_text
from retsnoop_py.render.load_results import xml_text
from retsnoop_py.render.palette import Palette
from retsnoop_py.render.why import WhyPage, headline, reason_of
from retsnoop_py.text import printable, printable_json

__all__ = ["FORMATS", "report"]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def report(found: Why, form: str) -> str:
    """Return the answer in one of :data:`FORMATS`, ending in a newline."""
    return "".join(f"{line}\n" for line in FORMATS[form](found))


def _has_failed(found: Why) -> bool:
    is_explained = found.explained is not None or found.reason is not None or bool(found.waiting)
    return is_explained or bool(found.exit_status)


def _wait(found: Why) -> Waiting | None:
    """Return the first thread of the page if the command hung: it blocks the others."""
    return found.waiting[0] if found.waiting else None


def _sentence(found: Why) -> str:
    """Return the failure and its reason in one line."""
    wait, reason = _wait(found), reason_of(found)
    if wait is not None:
        return printable(wait.sentence)
    if reason is None:
        return printable(headline(found))
    return printable(f"{headline(found)} {reason.text}".strip())


def _changes(found: Why) -> Sequence[str]:
    source = _wait(found) or reason_of(found)
    return [printable(one) for one in source.advice] if source is not None else []


def _paragraph(found: Why) -> str:
    changes = _changes(found)
    return _sentence(found) + (f" To change: {'; '.join(changes)}." if changes else "")


def _kind(found: Why) -> str:
    source = _wait(found) or reason_of(found)
    return source.kind if source is not None else "unknown"


def _title(found: Why) -> str:
    name = found.command[0] if found.command else "process"
    call = found.explained if not found.waiting else None
    error = call.error if call is not None else _kind(found)
    return printable(f"{name}: {error}")


def _place(found: Why) -> tuple[str, int] | None:
    """Return the line of the program that made the call, or None."""
    user = found.explained.user if found.explained is not None else None
    if user is None or not user.file or not user.line:
        return None
    return user.file, user.line


def github(found: Why) -> Iterator[str]:
    """Yield one ``::error::`` with the first paragraph, and the page in a group."""
    if _has_failed(found):
        place = _place(found)
        where = f"file={workflow_property(place[0])},line={place[1]}," if place else ""
        title = workflow_property(_title(found))
        yield f"::error {where}title={title}::{workflow_text(_paragraph(found))}"
    yield f"::group::{workflow_text(_title(found))}"
    yield from unobeyed(WhyPage(Palette()).lines(found))
    yield "::endgroup::"


def junit(found: Why) -> Iterator[str]:
    """Yield a test suite with one case, the command."""
    from xml.sax.saxutils import escape, quoteattr

    failed = _has_failed(found)
    name = quoteattr(xml_text(" ".join(found.command) or "process"))
    kernel = quoteattr(xml_text(found.kernel))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<testsuites>"
    yield f' <testsuite name="why" tests="1" failures="{int(failed)}">'
    if not failed:
        yield f"  <testcase classname={kernel} name={name}/>"
    else:
        page = escape(xml_text("\n".join(WhyPage(Palette()).lines(found))))
        yield f"  <testcase classname={kernel} name={name}>"
        kind, message = map(quoteattr, (_kind(found), xml_text(_paragraph(found))))
        yield f"   <failure type={kind} message={message}>{page}</failure>"
        yield "  </testcase>"
    yield " </testsuite>"
    yield "</testsuites>"


def sarif(found: Why) -> Iterator[str]:
    """Yield a SARIF 2.1.0 log with at most one result; its rule is the kind of the reason."""
    kind = _kind(found)
    rule = {"id": kind, "help": {"text": "docs/why.md, Kinds of reasons"}}
    result: dict[str, Any] = {
        "ruleId": kind,
        "level": "error",
        "message": {"text": _paragraph(found)},
        "properties": {"kernel": found.kernel, "advice": list(_changes(found))},
    }
    place = _place(found)
    if place is not None:
        region = {"startLine": place[1]}
        location = {"artifactLocation": {"uri": place[0]}, "region": region}
        result["locations"] = [{"physicalLocation": location}]
    failed = _has_failed(found)
    run = {
        "tool": {"driver": {"name": "retsnoop-py", "rules": [rule] if failed else []}},
        "results": [result] if failed else [],
    }
    log = {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}
    for line in msgspec.json.format(encode(log), indent=1).decode().split("\n"):
        yield printable_json(line)


#: The report functions, by value of --format.
FORMATS = {"github": github, "junit": junit, "sarif": sarif}
