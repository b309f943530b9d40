# SPDX-License-Identifier: BSD-2-Clause
"""How Sphinx makes a site of these pages: `make site`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.errors import SphinxError

project = "retsnoop-py"
html_title = project
extensions = ["myst_parser"]
html_theme = "furo"
html_show_copyright = False
html_show_sourcelink = False
# anchors as GitHub makes them, so that a link is right in both places
myst_heading_anchors = 4
highlight_language = "text"
# an option is no dash, and a quote in a command no typographer's
smartquotes = False

_HERE = Path(__file__).parent
_FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")


def _outside(_app: Any, _env: Any, node: Any, content: Any) -> Any:
    """A link to a file of the repository outside of docs/: its words, if the file is there."""
    target = str(node.get("reftarget", ""))
    if target.startswith("../") and (_HERE / target.partition("#")[0]).exists():
        return nodes.inline("", "", *content.children)
    return None


def _by_title(app: Any, doctree: Any, _page: str) -> None:
    """A link that says a page's file, which is right on GitHub, says the page's title."""
    titles = {f"{name.rpartition('/')[2]}.md": title for name, title in app.env.titles.items()}
    for link in doctree.findall(nodes.reference):
        title = titles.get(link.astext().rpartition("/")[2])
        if title is not None and link.get("internal"):
            link.children = []
            link.append(nodes.inline("", title.astext()))


def _offline(app: Any, error: Exception | None) -> None:
    """A page that is opened without a network has all it needs."""
    if error is None:
        for page in Path(app.outdir).rglob("*.html"):
            found = _FETCHED.search(page.read_text(encoding="utf-8"))
            if found:
                raise SphinxError(f"{page.name} fetches from elsewhere: {found[0]}")


def setup(app: Any) -> None:
    """Sphinx calls this."""
    # colours for every number and quote make a command line harder to read
    app.add_lexer("sh", TextLexer)
    app.connect("missing-reference", _outside)
    app.connect("doctree-resolved", _by_title)
    app.connect("build-finished", _offline)
