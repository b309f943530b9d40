# SPDX-License-Identifier: BSD-2-Clause
"""-C GROUP.KEY=VALUE."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import UsageError
from retsnoop_py.options import config
from retsnoop_py.settings import (
    ArgMode,
    ArgSettings,
    BpfSettings,
    ResultSettings,
    StackSettings,
    SymbolizeMode,
    TransportKind,
    ViewSettings,
)


def test_every_key_sets_its_field() -> None:
    found = config.parse(
        [
            "bpf.ringbuf-size=4096",
            "bpf.sessions-size=16",
            "bpf.transport=perfbuf",
            "bpf.queue-size=7",
            "bpf.spool-size=8",
            "bpf.drain-seconds=9",
            "stacks.symb-mode=linenum",
            "stacks.unfiltered=y",
            "stacks.emit-addrs=TRUE",
            "stacks.dec-offs=1",
            "args.max-total-args-size=4000",
            "args.max-sized-arg-size=100",
            "args.max-str-arg-size=50",
            "args.capture-raw-ptrs=y",
            "args.fmt-mode=multiline",
            "args.fmt-max-arg-width=0",
            "fmt.lbr-max-count=7",
            "fmt.self-time=y",
            "fmt.cpu=y",
            "results.ordinary=n",
            "results.no-failure=more.txt",
        ]
    )
    assert found.results == ResultSettings(False, Path("more.txt"))
    assert found.args == ArgSettings(False, 4000, 100, 50, True, ArgMode.MULTILINE, 0)
    assert found.views == ViewSettings(lbr_max=7, self_time=True, cpu=True)
    assert found.bpf == BpfSettings(4096, 16, TransportKind.PERFBUF, 7, 8, 9)
    assert found.stacks == StackSettings(True, True, True)
    assert found.symbolize is SymbolizeMode.LINES
    assert found.named == {key.name for key in config.KEYS}


def test_nothing_given_is_the_defaults() -> None:
    assert config.parse([]) == config.Config()


def test_the_last_value_of_a_key_wins() -> None:
    found = config.parse(["stacks.dec-offs=y", "stacks.dec-offs=n"])
    assert not found.stacks.dec_offs


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("l", SymbolizeMode.LINES),
        ("i", SymbolizeMode.INLINES),
        ("n", SymbolizeMode.NONE),
        ("None", SymbolizeMode.NONE),
        ("INLINES", SymbolizeMode.INLINES),
    ],
)
def test_choices_have_a_letter_and_no_case(text: str, mode: SymbolizeMode) -> None:
    assert config.parse([f"stacks.symb-mode={text}"]).symbolize is mode


@pytest.mark.parametrize("text", ["false", "N", "n", "0", "False"])
def test_spellings_of_no(text: str) -> None:
    assert config.parse(["stacks.unfiltered=y", f"stacks.unfiltered={text}"]).stacks == (
        StackSettings()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "-C nonsense: not of the form GROUP.KEY=VALUE"),
        ("", "not of the form GROUP.KEY=VALUE"),
        ("bpf=1", "not of the form GROUP.KEY=VALUE"),
        ("bpf.=1", "not of the form GROUP.KEY=VALUE"),
        (".x=1", "not of the form GROUP.KEY=VALUE"),
        ("bpf.ringbuf-size", "not of the form GROUP.KEY=VALUE"),
        ("bpf.ringbuf=1", "-C bpf.ringbuf: no such setting"),
        ("bpf.ringbuf-size=8M", "-C bpf.ringbuf-size: invalid value '8M', expected a whole number"),
        ("bpf.ringbuf-size=0", "expected a whole number from 1 to 2147483647"),
        ("bpf.ringbuf-size=2147483648", "expected a whole number"),
        ("bpf.ringbuf-size= 7", "expected a whole number"),
        ("bpf.ringbuf-size=1_000", "expected a whole number"),
        ("bpf.ringbuf-size=٣", "expected a whole number"),
        ("bpf.ringbuf-size=", "expected a whole number"),
        ("bpf.transport=carrier", "expected one of auto, ringbuf, perfbuf"),
        ("stacks.symb-mode=x", "expected one of linenum, inlines, none"),
        ("stacks.symb-mode=", "expected one of linenum, inlines, none"),
        ("stacks.dec-offs=maybe", "expected true/y/1 or false/n/0"),
        ("results.no-failure=", "expected the path of a file"),
    ],
)
def test_junk_is_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.parse([text])
    assert message in caught.value.message
    assert "--config-help" in (caught.value.hint or "")
    assert caught.value.exit_status == 64


def test_a_misspelt_key_names_its_neighbours() -> None:
    with pytest.raises(UsageError) as caught:
        config.parse(["bpf.ringbuf-sise=1"])
    assert "did you mean bpf.ringbuf-size" in (caught.value.hint or "")


def test_settings_of_arguments_and_of_format() -> None:
    found = config.parse(["args.fmt-mode=v", "args.fmt-max-arg-width=0", "fmt.lbr-max-count=7"])
    assert found.args.mode is ArgMode.VERBOSE
    assert (found.args.width, found.views.lbr_max) == (0, 7)
    with pytest.raises(UsageError, match="from 0 to 250"):
        config.parse(["args.fmt-max-arg-width=251"])
    with pytest.raises(UsageError, match="from 1 to 65536"):
        config.parse(["args.max-total-args-size=0"])


def test_a_replay_takes_what_concerns_showing_only() -> None:
    assert config.parse(["stacks.dec-offs=y"], replay=True).stacks.dec_offs
    assert config.parse(["fmt.cpu=y"], replay=True).views.cpu
    assert config.parse(["args.fmt-mode=m"], replay=True).args.mode is ArgMode.MULTILINE
    for text in ("bpf.ringbuf-size=1", "args.max-str-arg-size=1"):
        with pytest.raises(UsageError, match="a recording is already traced"):
            config.parse([text], replay=True)


def test_help_lists_every_key_in_80_columns() -> None:
    text = config.help_text()
    assert all(f"\n  {key.name}\n" in text for key in config.KEYS)
    assert max(map(len, text.splitlines())) <= 80


@given(st.text(max_size=30))
def test_any_text_is_a_setting_or_a_usage_error(text: str) -> None:
    try:
        found = config.parse([text])
    except UsageError:
        return
    assert len(found.named) == 1


@given(st.integers(1, 2**31 - 1))
def test_any_size_in_range_is_taken_as_it_is(size: int) -> None:
    assert config.parse([f"bpf.sessions-size={size}"]).bpf.sessions_size == size
