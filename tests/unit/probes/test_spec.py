# SPDX-License-Identifier: BSD-2-Clause
"""What -J may say, and what it means."""

from __future__ import annotations

import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import UsageError
from retsnoop_py.probes.spec import ProbeKind, ProbeSpec, parse

NAMES = st.text(string.ascii_letters + string.digits + "_*?", min_size=1, max_size=255)
KINDS = tuple(f"{kind.value}:" for kind in ProbeKind)
PLAIN_NAMES = st.text(string.ascii_letters + string.digits + "_.", min_size=1, max_size=255)


@given(st.sampled_from([ProbeKind.KPROBE, ProbeKind.KRETPROBE, ProbeKind.RAWTP]), NAMES)
def test_a_name_is_that_of_a_function_or_a_raw_tracepoint(kind: ProbeKind, name: str) -> None:
    text = f"{kind.value}:{name}"
    spec = parse(text)
    assert spec == ProbeSpec(text, kind, name)
    assert spec.is_glob == any(c in "*?" for c in name)


@given(NAMES, NAMES)
def test_a_tracepoint_has_a_category(category: str, name: str) -> None:
    text = f"tp:{category}:{name}"
    assert parse(text) == ProbeSpec(text, ProbeKind.TP, name, category)


@given(PLAIN_NAMES, st.integers(0, 2**31 - 1), st.sampled_from(["{}", "{:#x}", "0{:o}"]))
def test_an_offset_is_an_integer_of_c(name: str, offset: int, form: str) -> None:
    text = f"kprobe:{name}+{form.format(offset)}"
    assert parse(text) == ProbeSpec(text, ProbeKind.KPROBE, name, offset=offset)


@given(
    st.text(string.ascii_letters + "_-./", min_size=1, max_size=255), st.integers(1, 999_999_999)
)
def test_a_source_line_is_a_path_and_a_number(path: str, line: int) -> None:
    spec = parse(f"kprobe:{path}:{line}")
    assert (spec.kind, spec.name, spec.line) == (ProbeKind.KPROBE, path, line)
    assert not spec.is_glob


@given(st.text().filter(lambda text: not text.startswith(KINDS)))
def test_anything_else_is_a_usage_error_that_repeats_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert f"-J {text}" in caught.value.message


@given(st.sampled_from(KINDS), st.text(st.sampled_from("ab_*?.:+-/0x9 ")))
def test_whatever_follows_a_kind_is_understood_or_a_usage_error(kind: str, rest: str) -> None:
    with suppress(UsageError):
        spec = parse(kind + rest)
        assert (spec.text, f"{spec.kind.value}:") == (kind + rest, kind)
        assert spec.name in rest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a probe"),
        ("vfs_read", "not a probe"),
        ("uprobe:main", "unknown kind of probe 'uprobe'"),
        ("kprobe:", "is not the name of a function"),
        ("kprobe:f+", "is not the name of a function"),
        ("kprobe:f+0x", "is not the name of a function"),
        ("kprobe:f+5x", "is not the name of a function"),
        ("kprobe:f +5", "is not the name of a function"),
        ("kprobe:f+08", "it is octal"),
        ("kprobe:f-5", "cannot be negative"),
        ("kprobe:f*+5", "in one function only"),
        ("kprobe:f+99999999999", "no function has 99999999999 bytes"),
        ("kprobe:" + "f" * 256, "is not the name of a function"),
        ("kprobe:fs/open.c:", "is not a line of a source file"),
        ("kprobe:fs/open.c:0", "is not a line of a source file"),
        ("kprobe::5", "is not a line of a source file"),
        ("kretprobe:f+5", "has no offset"),
        ("rawtp:sched:sched_switch", "is not the name of a tracepoint"),
        ("rawtp:", "is not the name of a tracepoint"),
        ("tp:sched_switch", "is not the category and the name"),
        ("tp:sched:", "is not the category and the name"),
        ("tp:a:b:c", "is not the category and the name"),
    ],
)
def test_what_cannot_mean_a_probe_says_why(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert words in caught.value.message
