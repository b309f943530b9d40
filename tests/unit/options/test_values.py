# SPDX-License-Identifier: BSD-2-Clause
"""What the values of options mean, and what is refused.

Views, durations and counts on the command line.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import InputError, RetsnoopError, UsageError
from retsnoop_py.options import values
from retsnoop_py.settings import OutputFormat, SymbolizeMode


def refused(call: object, *args: object) -> RetsnoopError:
    with pytest.raises(RetsnoopError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    return tmp_path / "list"


def test_a_file_of_globs_stands_where_it_was_named(listing: Path) -> None:
    listing.write_text("foo*  bar\nbaz[kvm]\n")
    found = values.globs(["first", f"@{listing}", ":fs/*.c", "last [mod]"])
    assert found == ("first", "foo*", "bar", "baz[kvm]", ":fs/*.c", "last [mod]")


def test_a_missing_file_of_globs_is_an_input_error(listing: Path) -> None:
    error = refused(values.globs, [f"@{listing}"])
    assert isinstance(error, InputError)
    assert error.message == f"cannot read the globs in '{listing}': No such file or directory"
    assert "@FILE" in (error.hint or "")


@pytest.mark.parametrize("spec", ["", ":", "**", "x[**]"])
def test_what_is_no_glob_is_refused_before_anything_is_read(spec: str) -> None:
    assert isinstance(refused(values.globs, ["fine", spec]), UsageError)


def test_pids() -> None:
    assert values.pids("-p", ["1", "4194304", "0"]) == (1, 4194304, 0)


@pytest.mark.parametrize("value", ["abc", "-1", "1x", "", " 1", "4194305", "1_0", "٣", "9" * 30])
def test_what_is_no_process_id_is_refused(value: str) -> None:
    error = refused(values.pids, "-p", [value])
    assert error.message == f"-p {value}: not a process id"
    assert "-n" in (error.hint or "")
    assert error.exit_status == 64


def test_a_list_of_process_ids_is_spelt_with_more_options() -> None:
    assert "-P 12 -P 34" in (refused(values.pids, "-P", ["12,34"]).hint or "")


def test_thread_names_are_cut_as_the_kernel_cuts_them(listing: Path) -> None:
    listing.write_text("sshd\n0123456789abcdef\n")
    assert values.comms("-n", ["a b", f"@{listing}"]) == ("a b", "sshd", "0123456789abcde")
    assert os.fsencode(values.comms("-n", ["é" * 8])[0]) == ("é" * 7).encode() + b"\xc3"
    assert isinstance(refused(values.comms, "-n", [""]), UsageError)


def test_a_missing_file_of_thread_names_is_an_input_error(listing: Path) -> None:
    error = refused(values.comms, "-N", [f"@{listing}"])
    assert isinstance(error, InputError)
    assert error.message.startswith(f"-N @{listing}: cannot read the names in '{listing}'")


@pytest.mark.parametrize(
    ("given_values", "errors", "expected"),
    [
        ([], [], None),
        ([], ["ENOMEM"], None),
        (["y"], [], True),
        (["y", "y"], [], True),
        (["n"], [], False),
        (["n"], ["ENOMEM"], False),
    ],
)
def test_success(given_values: list[str], errors: list[str], expected: bool | None) -> None:
    assert values.success(given_values, errors) is expected


@pytest.mark.parametrize(
    ("given_values", "errors", "message"),
    [
        (["y"], ["ENOMEM"], "-S asks for successes and -x ENOMEM for failures only"),
        (["y"], ["any"], "-S asks for successes and -x any for failures only"),
        (["y", "n"], [], "-Sy and -Sn contradict each other"),
        (["z"], [], "-Sz: only -S, -Sy and -Sn exist"),
        (["v"], [], "-Sv: only -S, -Sy and -Sn exist"),
        ([""], [], "-S: only -S, -Sy and -Sn exist"),
    ],
)
def test_contradictions_about_success(
    given_values: list[str], errors: list[str], message: str
) -> None:
    assert refused(values.success, given_values, errors).message == message


def test_errors_by_name() -> None:
    assert values.allowed_errors(["ENOMEM", "-EINVAL", "NULL"]).numbers == {12, 22, 0}
    assert values.denied_errors(["-ENOENT", "ENOTSUPP"]) == {2, 524}
    assert values.denied_errors([]) == frozenset()


def test_any_forgets_the_errors_before_it() -> None:
    assert values.allowed_errors(["ENOMEM", "any"]) == values.ErrorNames(any=True)
    assert values.allowed_errors(["ANY", "ENOMEM"]) == values.ErrorNames(frozenset({12}))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("EFOO", "E"),
        ("ENOMEN", "did you mean ENOMEM"),
        ("einval", "did you mean EINVAL"),
        ("22", "errors are given by name: -x EINVAL"),
        ("-22", "errors are given by name: -x EINVAL"),
        ("", "such as ENOMEM"),
        ("null", "did you mean NULL"),
    ],
)
def test_an_unknown_error_is_told_its_neighbours(text: str, hint: str) -> None:
    error = refused(values.allowed_errors, [text])
    assert error.message == f"-x: unknown error name '{text}'"
    assert hint in (error.hint or "")
    assert error.exit_status == 64


def test_any_is_for_allowing_only() -> None:
    assert refused(values.denied_errors, ["any"]).hint == "-x and --fail-on take any"


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        (None, None),
        ("linenum", SymbolizeMode.LINES),
        ("s", SymbolizeMode.INLINES),
        ("inlines", SymbolizeMode.INLINES),
        ("n", SymbolizeMode.NONE),
        ("none", SymbolizeMode.NONE),
    ],
)
def test_symbolize(value: str | None, mode: SymbolizeMode | None) -> None:
    assert values.symbolize(value) is mode


def test_an_unknown_way_to_symbolize_is_refused() -> None:
    assert refused(values.symbolize, "x").message.startswith("-sx: only -s, -ss")


@given(st.text(max_size=12))
def test_any_text_is_a_process_id_or_a_usage_error(text: str) -> None:
    try:
        found = values.pids("-p", [text])
    except UsageError:
        return
    assert found == (int(text),)


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
    assert values.duration_ns("-L", text, "ms") == expected


@pytest.mark.parametrize("text", ["0", "-5", "abc", "10 ms", "", "9" * 19, "1e3", "0.1ns", "ms"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        values.duration_ns("-L", text, "ms")
    assert caught.value.message == f"-L {text}: not a duration"
    assert "-L 500ms" in (caught.value.hint or "")


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_usage_error(text: str) -> None:
    try:
        assert values.duration_ns("--for", text, "s") > 0
    except UsageError:
        pass


def test_branch_flags_add_up_and_are_always_of_the_kernel() -> None:
    assert values.lbr([]) is None
    assert values.lbr(["any"]) == 0b1010
    assert values.lbr(["cond", "call"]) == 1 << 10 | 1 << 13 | 2
    assert values.lbr(["0x8"]) == values.lbr(["010"]) == values.lbr(["8"]) == 0b1010


@pytest.mark.parametrize("value", ["anyy", "-1", "08", "0x100000", ""])
def test_an_unknown_branch_flag_names_those_there_are(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        values.lbr([value])
    assert "any_return" in (caught.value.hint or "")


def test_probes_come_from_files_too(tmp_path: Path) -> None:
    listing = tmp_path / "probes"
    listing.write_text("kprobe:a\ntp:b:c  ")
    assert values.probes(["rawtp:x", f"@{listing}"]) == ("rawtp:x", "kprobe:a", "tp:b:c")
    with pytest.raises(InputError, match="cannot read the probes"):
        values.probes([f"@{tmp_path}/none"])


def test_counts_formats_and_features() -> None:
    assert (values.count(None), values.count("3")) == (0, 3)
    assert values.output_format("json") is OutputFormat.JSON
    assert values.debug(["bpf"]) == {"bpf"}
    for call, value in ((values.count, "0"), (values.output_format, "xml")):
        with pytest.raises(UsageError):
            call(value)
    with pytest.raises(UsageError, match="no such feature"):
        values.debug(["bfp"])
