# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel said, as text and as JSON."""

from __future__ import annotations

import json

from tests.unit.session.records import facts, session

from retsnoop_py.render.formats import message_lines
from retsnoop_py.render.renderers import MessageSection, renderer
from retsnoop_py.session.model import KernelMessage
from retsnoop_py.session.report import Report
from retsnoop_py.settings import OutputFormat, Settings, ViewSettings
from retsnoop_py.value import replace

SAID = (
    KernelMessage("printk", "two\nlines of \x1b[31m"),
    KernelMessage("netlink", "no such thing", 7),
)
REPORT = Report(session()._replace(said=SAID))


def test_each_message_is_a_row_and_each_line_of_it_one_below() -> None:
    assert MessageSection(0).lines(REPORT) == [
        "the kernel said: two",
        "                 lines of \\x1b[31m",
        "(7 more messages)",
        "the kernel said: no such thing",
    ]
    assert MessageSection(0).lines(Report(session())) == []


def test_long_messages_take_the_columns_there_are() -> None:
    (message,) = [KernelMessage("printk", "word " * 20)]
    rows = list(message_lines([message], 4, 60))
    assert len(rows) > 1
    assert max(map(len, rows)) <= 60


def test_a_block_ends_with_them() -> None:
    views = ViewSettings(call_stack=False)
    text = renderer(facts(), replace(Settings(), views=views)).session(REPORT)
    assert text.endswith("\nthe kernel said: no such thing\n\n\n")


def test_json_has_them_by_their_source() -> None:
    settings = replace(Settings(), views=ViewSettings(format=OutputFormat.JSON))
    line = json.loads(renderer(facts(), settings).session(REPORT))
    assert line["said"] == [
        {"source": "printk", "text": "two\nlines of \x1b[31m"},
        {"source": "netlink", "text": "no such thing", "left_out": 7},
    ]
