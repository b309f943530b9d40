# SPDX-License-Identifier: BSD-2-Clause
"""Write load results: a table and reasons for people, JUnit's XML for pipelines.

The table has parts by kernels; each distinct reason has a paragraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from retsnoop_py.load.model import LoadResult
from retsnoop_py.load.outcome import Reason, short_names
from retsnoop_py.render.explanation import explanation_lines
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.text import display_width, pad, printable

Row = tuple[str, str, tuple[str, ...]]


def _cell(result: LoadResult | None, reason: int) -> str:
    if result is None:
        return "-"
    if result.verdict == "ok":
        count = f" {_short(result.instructions)}" if result.instructions else ""
        return f"ok{count}"
    if result.verdict == "unattached":
        return "no target"
    failure = result.errno if result.verdict == "refused" and result.errno else result.verdict
    return f"{failure} [{reason}]" if reason else failure


def _short(count: int) -> str:
    """Return a number in at most four characters: 312, 1.2k, 15k, 1.0M."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return str(count)


def matrix_rows(
    results: Sequence[LoadResult], kernels: Sequence[str], why: Sequence[Reason]
) -> list[Row]:
    """Return object, part and a cell per kernel, in the order of the results."""
    numbers = {id(result): reason.number for reason in why for result in reason.results}
    cells: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for result in results:
        if result.kind == "kernel":
            continue
        key: tuple[str, str, str, str]
        key = (result.object, result.kind, result.name, result.shape)
        cell = _cell(result, numbers.get(id(result), 0))
        cells.setdefault(key, {})[result.kernel] = cell
    lost = {
        result.kernel: _cell(result, numbers.get(id(result), 0))
        for result in results
        if result.kind == "kernel"
    }
    rows: list[Row] = []
    if not cells:
        rows.append(("", "", tuple(lost.get(kernel, "-") for kernel in kernels)))
    order = {name: at for at, name in enumerate(dict.fromkeys(key[0] for key in cells))}
    names = short_names(results)
    for key in sorted(cells, key=lambda one: order[one[0]]):
        name, kind, part, shape = key
        label = f"{kind} {part}".strip() + (f" [{shape}]" if shape else "")
        found = cells[key]
        rows.append(
            (
                names[name],
                label,
                tuple(found.get(k, lost.get(k, _default(kind))) for k in kernels),
            )
        )
    return rows


def _default(kind: str) -> str:
    """Return the cell without a result: parts that only failures report are ok."""
    return "ok" if kind in ("extern", "btf", "object") else "-"


def matrix_lines(rows: Sequence[Row], kernels: Sequence[str], palette: Palette) -> Iterator[str]:
    """Yield the table in columns."""
    shown = [(printable(name), printable(part), cells) for name, part, cells in rows]
    first = max((display_width(name) for name, _, _ in shown), default=0)
    second = max((display_width(part) for _, part, _ in shown), default=0)
    widths = [
        max([len(kernel), *(len(cells[i]) for _, _, cells in shown)])
        for i, kernel in enumerate(kernels)
    ]
    head = "  ".join(pad(kernel, width) for kernel, width in zip(kernels, widths, strict=True))
    yield paint(f"{'':{first}}  {'':{second}}  {head}".rstrip(), palette.name)
    before = None
    for name, part, cells in shown:
        told = name if name != before else ""
        before = name
        texts = [
            paint(cell, _colour(cell, palette)) + " " * (width - len(cell))
            for cell, width in zip(cells, widths, strict=True)
        ]
        yield f"{pad(told, first)}  {pad(part, second)}  {'  '.join(texts)}".rstrip()
    if any(cell.startswith("ok ") for _, _, cells in shown for cell in cells):
        yield _LEGEND


#: The meaning of the number in a cell.
_LEGEND = "(ok N: it loads, and the verifier processed N instructions)"


def _colour(cell: str, palette: Palette) -> str:
    if cell.startswith("ok"):
        return palette.good
    return "" if cell in ("-", "no target") else palette.error


def reason_lines(reason: Reason, palette: Palette, width: int = 0) -> Iterator[str]:
    """Yield a paragraph: the failed part, the kernels and the reason."""
    result = reason.results[0]
    kernels = list(dict.fromkeys(one.kernel for one in reason.results))
    errnos = list(dict.fromkeys(one.errno or one.verdict for one in reason.results))
    shapes = list(dict.fromkeys(one.shape for one in reason.results if one.shape))
    what = f"{result.kind} '{result.name}'" if result.name else result.kind
    shape = f" [{', '.join(shapes)}]" if shapes else ""
    where = f" of {Path(result.object).name}" if result.object and result.kind != "kernel" else ""
    head = f"[{reason.number}] {what}{shape}{where} on {', '.join(kernels)}: {', '.join(errnos)}"
    yield paint(printable(head), palette.name)
    yield from explanation_lines(reason.explanation, palette, width)


def xml_text(text: str) -> str:
    """Return ``text`` with characters that XML 1.0 cannot contain replaced."""
    return "".join(c if c in "\t\n" or (c >= " " and c.isprintable()) else "?" for c in text)


def junit(results: Sequence[LoadResult]) -> str:
    """Return XML with a test suite per kernel and a case per part."""
    from xml.sax.saxutils import quoteattr  # the module imports urllib

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
    from xml.sax.saxutils import escape, quoteattr

    name = f"{result.kind} {result.name}".strip() + (f" [{result.shape}]" if result.shape else "")
    owner = f"{result.kernel}.{Path(result.object).name}"
    head = (
        f"  <testcase classname={quoteattr(xml_text(owner))} name={quoteattr(xml_text(name))}"
        f' time="{result.seconds:.3f}"'
    )
    if not result.is_failure:
        return f"{head}/>\n"
    why = result.explanation
    text = "\n".join(explanation_lines(why, Palette())) if why else ""
    message = f"{result.errno or result.verdict}: {why.title if why else ''}"
    return (
        f"{head}>\n   <failure type={quoteattr(result.reason)}"
        f" message={quoteattr(xml_text(message))}>{escape(xml_text(text))}</failure>\n"
        "  </testcase>\n"
    )
