# SPDX-License-Identifier: BSD-2-Clause
"""Results of loads for pipelines: JUnit's XML, GitHub's annotations and step summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from retsnoop_py.load.model import LoadResult
from retsnoop_py.load.outcome import Reason, label
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.load_matrix import Row
from retsnoop_py.render.palette import Palette

__all__ = ["github_lines", "github_summary", "junit"]


def _plain(text: str) -> str:
    """What XML 1.0 can hold."""
    return "".join(c if c in "\t\n" or (c >= " " and c.isprintable()) else "?" for c in text)


def junit(results: Sequence[LoadResult]) -> str:
    """A test suite per kernel, a case per part."""
    suites = []
    for kernel in dict.fromkeys(one.kernel for one in results):
        own = [one for one in results if one.kernel == kernel]
        failed = sum(one.is_failure for one in own)
        cases = "".join(map(_case, own))
        suites.append(
            f" <testsuite name={quoteattr(f'load on {kernel}')} tests={quoteattr(str(len(own)))}"
            f" failures={quoteattr(str(failed))}>\n{cases} </testsuite>\n"
        )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{head}<testsuites>\n{''.join(suites)}</testsuites>\n"


def _case(result: LoadResult) -> str:
    name = f"{result.kind} {result.name}".strip() + (f" [{result.shape}]" if result.shape else "")
    owner = f"{result.kernel}.{Path(result.object).name}"
    head = (
        f"  <testcase classname={quoteattr(_plain(owner))} name={quoteattr(_plain(name))}"
        f' time="{result.seconds:.3f}"'
    )
    if not result.is_failure:
        return f"{head}/>\n"
    why = result.explanation
    text = "\n".join(explanation_lines(why, Palette())) if why else ""
    message = f"{result.errno or result.verdict}: {why.title if why else ''}"
    return (
        f"{head}>\n   <failure type={quoteattr(result.reason)}"
        f" message={quoteattr(_plain(message))}>{escape(_plain(text))}</failure>\n"
        "  </testcase>\n"
    )


def _command(text: str) -> str:
    """``text`` as the value of a workflow command, which is one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")


def github_lines(why: Sequence[Reason]) -> Iterator[str]:
    """Workflow commands: an error at the BPF source line, and the explanation in a group."""
    for reason in why:
        result = reason.results[0]
        kernels = ", ".join(dict.fromkeys(one.kernel for one in reason.results))
        place = result.source
        where = f"file={_property(place.file)},line={place.line}," if place and place.line else ""
        title = _property(f"{label(result)} on {kernels}")
        yield f"::error {where}title={title}::{_command(reason.explanation.reason)}"
        yield f"::group::{_command(label(result))}"
        yield from explanation_lines(reason.explanation, Palette())
        yield "::endgroup::"


def github_summary(rows: Sequence[Row], kernels: Sequence[str], why: Sequence[Reason]) -> str:
    """The table and the reasons in Markdown."""
    lines = [
        f"| object | part | {' | '.join(kernels)} |",
        f"| --- | --- | {' | '.join('---' for _ in kernels)} |",
    ]
    for name, part, cells in rows:
        lines.append(f"| {' | '.join(_markdown(cell) for cell in (name, part, *cells))} |")
    lines.append("")
    for reason in why:
        text = _markdown(reason.explanation.reason)
        lines.append(f"{reason.number}. `{label(reason.results[0])}`: {text}")
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return escape(text).replace("|", "\\|").replace("\n", " ")
