# SPDX-License-Identifier: BSD-2-Clause
"""Views, durations and counts on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import InputError, UsageError
from retsnoop_py.options import views
from retsnoop_py.settings import OutputFormat


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100", 100_000_000),
        ("500us", 500_000),
        ("2ms", 2_000_000),
        ("1s", 1_000_000_000),
        ("1.5ms", 1_500_000),
        ("7ns", 7),
        ("5min", 300_000_000_000),
        (None, 0),
    ],
)
def test_a_duration_has_a_unit_or_counts_in_the_usual_one(text: str | None, expected: int) -> None:
    assert views.duration_ns("-L", text, "ms") == expected


@pytest.mark.parametrize("text", ["0", "-5", "abc", "10 ms", "", "9" * 19, "1e3", "0.1ns", "ms"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        views.duration_ns("-L", text, "ms")
    assert caught.value.message == f"-L {text}: not a duration"
    assert "-L 500ms" in (caught.value.hint or "")


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_usage_error(text: str) -> None:
    try:
        assert views.duration_ns("--for", text, "s") > 0
    except UsageError:
        pass


def test_branch_flags_add_up_and_are_always_of_the_kernel() -> None:
    assert views.lbr([]) is None
    assert views.lbr(["any"]) == 0b1010
    assert views.lbr(["cond", "call"]) == 1 << 10 | 1 << 13 | 2
    assert views.lbr(["0x8"]) == views.lbr(["010"]) == views.lbr(["8"]) == 0b1010


@pytest.mark.parametrize("value", ["anyy", "-1", "08", "0x100000", ""])
def test_an_unknown_branch_flag_names_those_there_are(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        views.lbr([value])
    assert "any_return" in (caught.value.hint or "")


def test_probes_come_from_files_too(tmp_path: Path) -> None:
    listing = tmp_path / "probes"
    listing.write_text("kprobe:a\ntp:b:c  ")
    assert views.probes(["rawtp:x", f"@{listing}"]) == ("rawtp:x", "kprobe:a", "tp:b:c")
    with pytest.raises(InputError, match="cannot read the probes"):
        views.probes([f"@{tmp_path}/none"])


def test_counts_formats_and_features() -> None:
    assert (views.count(None), views.count("3")) == (0, 3)
    assert views.output_format("json") is OutputFormat.JSON
    assert views.debug(["bpf"]) == {"bpf"}
    for call, value in ((views.count, "0"), (views.output_format, "xml")):
        with pytest.raises(UsageError):
            call(value)
    with pytest.raises(UsageError, match="no such feature"):
        views.debug(["bfp"])
