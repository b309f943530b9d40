# SPDX-License-Identifier: BSD-2-Clause
"""Convert the Markdown of docs/ to plain text or roff.

Supported: headings, paragraphs, lists, tables, code blocks, and inline code, links and emphasis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from retsnoop_py.value import Value

__all__ = ["Block", "parse", "plain", "roff", "roff_code", "roff_text", "section"]

_FENCE = "```"
_ITEM = re.compile(r"(?:[-*]|\d+\.) +(.*)")
_RULE = re.compile(r"[|\s:-]+")
_CELL = re.compile(r"(?<!\\)\|")
#: Code, a link, bold, emphasis.
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|!?\[(?P<text>(?:`[^`]*`|[^\]`])*)\]\((?P<link>[^)]*)\)"
    r"|\*\*(?P<strong>[^*]+)\*\*"
    r"|\*(?P<emphasis>[^*\s][^*]*)\*"
)
_BOLD = ("\x1b[1m", "\x1b[22m")
#: Minimum width of a table's last column; otherwise the cells of a row are below each other.
_LEAST = 28
_ROFF = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


class Block(Value):
    """A part of a page: ``heading``, ``paragraph``, ``item``, ``code`` or ``table``.

    ``text`` is a line of Markdown without line ends, or the lines of code. ``rows`` are the cells
    of a table; the first row has the titles. ``level`` is the level of a heading.
    """

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def parse(page: str) -> list[Block]:
    """Return the blocks of ``page``."""
    lines = page.splitlines()
    blocks: list[Block] = []
    while lines:
        line = lines[0]
        if line.startswith(_FENCE):
            end = next((at for at, one in enumerate(lines[1:], 1) if one.startswith(_FENCE)), 0)
            end = end or len(lines)
            blocks.append(Block("code", "\n".join(lines[1:end])))
            del lines[: end + 1]
        elif line.startswith("    "):
            code = _while(lines, lambda one: one.startswith("    ") or not one.strip())
            text = "\n".join(one[4:] for one in code)
            blocks.append(Block("code", text.rstrip("\n")))
        elif line.startswith("|"):
            blocks.append(Block("table", rows=_cells(_while(lines, lambda o: o.startswith("|")))))
        elif line.startswith("#"):
            marks, _, title = lines.pop(0).partition(" ")
            blocks.append(Block("heading", title, len(marks)))
        elif not line.strip() or line.startswith("<!--"):
            del lines[0]
        else:
            item = _ITEM.fullmatch(lines.pop(0))
            rest = " ".join(one.strip() for one in _while(lines, _goes_on))
            first = item[1] if item else line
            blocks.append(Block("item" if item else "paragraph", f"{first} {rest}".strip()))
    return blocks


def _while(lines: list[str], wanted: Callable[[str], bool]) -> list[str]:
    """Remove the first lines while ``wanted`` accepts them, and return them."""
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _goes_on(line: str) -> bool:
    """Return True if a line belongs to the paragraph or item before it."""
    starts = line.startswith(("#", "|", _FENCE, "<!--"))
    return bool(line.strip()) and not starts and not _ITEM.fullmatch(line)


def _cells(lines: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    rows = []
    for line in lines:
        if not _RULE.fullmatch(line):
            cells = _CELL.split(line.strip().strip("|"))
            rows.append(tuple(cell.strip().replace(r"\|", "|") for cell in cells))
        elif "-" not in line:
            rows.append(tuple("" for _ in line.strip().strip("|").split("|")))
    return tuple(rows)


def section(blocks: Sequence[Block], title: str) -> list[Block]:
    """Return the section under the heading ``title``, without the heading. Raise KeyError."""
    for at, block in enumerate(blocks):
        if block.kind == "heading" and block.text == title:
            ends = (
                end
                for end, one in enumerate(blocks[at + 1 :], at + 1)
                if one.kind == "heading" and one.level <= block.level
            )
            return list(blocks[at + 1 : next(ends, len(blocks))])
    raise KeyError(title)


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line: the style and the text.

    The styles are ``code``, ``strong``, ``emphasis``, and "" for other text.
    """
    at = 0
    for found in _INLINE.finditer(text):
        yield "", text[at : found.start()]
        at = found.end()
        if found["code"] is not None:
            yield "code", found["code"]
        elif found["text"] is not None:
            yield from _runs(found["text"])
            if "://" in found["link"]:
                yield "", f" ({found['link']})"
        elif found["strong"] is not None:
            yield "strong", found["strong"]
        else:
            yield "emphasis", found["emphasis"]
    yield "", text[at:]


# --- plain text ------------------------------------------------------------------------------


def plain(blocks: Sequence[Block], width: int, *, bold: bool = False) -> list[str]:
    """Return the lines of ``blocks``, at most ``width`` columns if words and code allow it.

    ``bold``: headings, code and bold text are bold, by escape sequences. Otherwise inline code
    keeps its backquotes.
    """
    writer = _Plain(width, bold)
    lines: list[str] = []
    before = ""
    for block in blocks:
        if lines and not (before == block.kind == "item"):
            lines.append("")
        lines += writer.lines(block)
        before = block.kind
    return lines


class _Plain:
    """Write blocks as text."""

    def __init__(self, width: int, bold: bool) -> None:
        self._width = width
        self._bold = bold

    def lines(self, block: Block) -> list[str]:
        if block.kind == "code":
            return [f"    {line}".rstrip() for line in block.text.split("\n")]
        if block.kind == "table":
            return self._table(block.rows)
        if block.kind == "heading":
            title = "".join(text for _, text in _runs(block.text))
            return [self._marked("code", title.upper() if block.level < 2 else title)]
        if block.kind == "item":
            return self._wrapped(block.text, self._width, "  - ", "    ")
        return self._wrapped(block.text, self._width)

    def _marked(self, style: str, word: str) -> str:
        is_bold = self._bold and style in ("code", "strong")
        return f"{_BOLD[0]}{word}{_BOLD[1]}" if is_bold else word

    def _words(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the words of a line as printed, and their columns.

        Without bold, inline code keeps its backquotes, because ``why`` is also an ordinary word.
        """
        from retsnoop_py.text import display_width

        word, columns = "", 0
        runs = list(_runs(text))
        is_sentence = any(run.strip() for style, run in runs if style != "code")
        marks = "`" if is_sentence and not self._bold else ""
        for style, run in runs:
            part = f"{marks}{run}{marks}" if style == "code" and marks else run
            for piece in re.split(r"(\s+)", part):
                if not piece:
                    continue
                if piece.isspace():
                    if word:
                        yield word, columns
                    word, columns = "", 0
                else:
                    word += self._marked(style, piece)
                    columns += display_width(piece)
        if word:
            yield word, columns

    def _wrapped(self, text: str, width: int, first: str = "", then: str = "") -> list[str]:
        lines: list[str] = []
        line, used = first, len(first)
        is_empty = True
        for word, columns in self._words(text):
            if not is_empty and used + 1 + columns > width:
                lines.append(line)
                line, used, is_empty = then, len(then), True
            if not is_empty:
                line, used = f"{line} ", used + 1
            line, used, is_empty = line + word, used + columns, False
        return [*lines, line] if not is_empty or not lines else lines

    def _columns(self, text: str) -> int:
        return sum(columns + 1 for _, columns in self._words(text)) - 1 if text else 0

    def _table(self, rows: Sequence[tuple[str, ...]]) -> list[str]:
        shown = rows if any(rows[0]) else rows[1:]
        widths = [max(map(self._columns, cells)) for cells in zip(*shown, strict=False)]
        room = self._width - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if room < min(_LEAST, widths[-1]):
            return self._stacked(rows)
        lines = []
        for number, row in enumerate(shown):
            start = ""
            for cell, width in zip(row[:-1], widths, strict=False):
                text = " ".join(word for word, _ in self._words(cell))
                start += text + " " * (width - self._columns(cell) + 2)
            last = self._wrapped(row[-1], room)
            lines.append((start + last[0]).rstrip())
            lines += [" " * (self._width - room) + line for line in last[1:]]
            if number == 0 and shown is rows:
                lines.append(
                    "  ".join("-" * width for width in [*widths[:-1], min(widths[-1], room)])
                )
        return lines

    def _stacked(self, rows: Sequence[tuple[str, ...]]) -> list[str]:
        """Return the first cell of each row, with the other cells and their titles below it."""
        lines: list[str] = []
        titles = rows[0]
        for row in rows[1:]:
            lines += self._wrapped(row[0], self._width)
            for title, cell in zip(titles[1:], row[1:], strict=False):
                told = f"{title}: {cell}" if title and len(titles) > 2 else cell
                if cell:
                    lines += self._wrapped(told, self._width, "    ", "    ")
        return lines


# --- roff --------------------------------------------------------------------------------------


def roff(blocks: Sequence[Block]) -> list[str]:
    """Return the lines of ``blocks`` for man(7)."""
    lines: list[str] = []
    for block in blocks:
        if block.kind == "heading":
            title = "".join(text for _, text in _runs(block.text))
            macro = ".SH" if block.level < 3 else ".SS"
            lines.append(f'{macro} "{roff_text(title).replace(chr(34), "")}"')
        elif block.kind == "code":
            lines += [".PP", ".RS 4", ".nf", *map(roff_code, block.text.split("\n")), ".fi", ".RE"]
        elif block.kind == "table":
            lines += _roff_table(block.rows)
        elif block.kind == "item":
            lines += [".IP \\(bu 2", roff_text(block.text)]
        else:
            lines += [".PP", roff_text(block.text)]
    return lines


def _roff_table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    titles = rows[0]
    for row in rows[1:]:
        yield ".TP"
        yield roff_text(row[0]) or r"\ "
        for title, cell in zip(titles[1:], row[1:], strict=False):
            if cell:
                yield roff_text(f"{title}: {cell}" if title and len(titles) > 2 else cell)
                yield ".br"


def roff_text(text: str) -> str:
    """Return a line of Markdown for roff, with code in bold."""
    written = ""
    for style, part in _runs(text):
        if style == "code":
            written += rf"\fB{_escaped(part)}\fR"
        elif style == "strong":
            written += r"\fB" + part.replace("\\", r"\e") + r"\fR"
        elif style == "emphasis":
            written += rf"\fI{_escaped(part)}\fR"
        else:
            written += part.replace("\\", r"\e")
    return _guarded(written)


def roff_code(line: str) -> str:
    """Return a line of code for roff, unchanged."""
    return _guarded(_escaped(line))


def _escaped(text: str) -> str:
    return "".join(_ROFF.get(char, char) for char in text)


def _guarded(line: str) -> str:
    """Return ``line`` protected from being read as a roff request."""
    return rf"\&{line}" if line.startswith((".", "'")) else line
