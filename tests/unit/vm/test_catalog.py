# SPDX-License-Identifier: BSD-2-Clause
"""Kernels with names: those that come along, and those of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.cli.main import main
from retsnoop_py.errors import DataError, InputError
from retsnoop_py.vm import catalog
from retsnoop_py.vm.architecture import ARCHITECTURES

OWN = """
[kernel.rc]
suites = ["experimental"]
image = 'linux-binary-[0-9.]+~rc[0-9]+-{flavour}'
also = ["linux-modules-{release}"]
about = "release candidates"

[kernel."6.1"]
suites = ["bookworm-backports"]
image = 'linux-image-6\\.1-mine'
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's own file is to be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = catalog.user_file()
    assert path == tmp_path / "retsnoop-py/kernels.toml"
    path.parent.mkdir()
    return path


def test_without_a_file_of_the_user_there_is_what_comes_along(own: Path) -> None:
    names = [name for name in catalog.catalog() if not name.endswith("-full")]
    assert names == ["5.10", "6.1", "6.12", "7.2", "7.3", "newest"]
    assert all(f"{name}-full" in catalog.catalog() for name in names)
    assert catalog.DEFAULT in names


def test_the_user_adds_kernels_and_replaces_some(own: Path) -> None:
    own.write_text(OWN)
    rc = catalog.known("rc-full")
    assert rc.image == "linux-binary-[0-9.]+~rc[0-9]+-amd64"
    assert (rc.suites, rc.also) == (("experimental",), ("linux-modules-{release}",))
    assert rc.debug == "linux-image-{release}-dbg"
    assert catalog.known("6.1").suites == ("bookworm-backports",)
    assert list(catalog.catalog())[-2:] == ["rc", "rc-full"]
    assert catalog.known("6.12").suites == ("trixie",)


def test_an_unknown_name_lists_the_known_ones(own: Path) -> None:
    own.write_text(OWN)
    with pytest.raises(InputError, match=r"no kernel called 4\.19") as caught:
        catalog.known("4.19")
    assert caught.value.hint is not None
    assert "5.10, 6.1, 6.12, 7.2, 7.3, newest, rc" in caught.value.hint
    assert str(own) in caught.value.hint


def test_the_list_is_in_plain_columns_where_it_is_no_terminal(
    own: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own.write_text(OWN)
    assert main(["vm", "list"]) == 0
    titles, *rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    names = ["5.10", "6.1", "6.12", "7.2", "7.3", "newest", "rc"]
    (other,) = (arch.name for arch in ARCHITECTURES.values() if arch.is_foreign)
    expected = [*names, *(f"{other}/{name}" for name in names)]
    assert [row.split()[0] for row in rows] == expected
    assert {row[titles.index("IN THE CACHE")] for row in rows} == {"-"}
    assert rows[-1].endswith("  release candidates")
    own.write_text("[kernel")
    assert main(["vm", "list"]) == 65
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"retsnoop-py: error: {own}: ")


ENTRY = '[kernel.a]\nsuites = ["sid"]\nimage = "linux"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[kernel", "Expected ']'"),
        ("", "missing required field `kernel`"),
        ("kernel = 3", "Expected `object`, got `int`"),
        ('[kernel.a]\nimage = "linux"', "missing required field `suites`"),
        (ENTRY + "speed = 3", "unknown field `speed`"),
        (ENTRY + 'name = "b"', "kernel a: the table's title is the name; remove the key 'name'"),
        (ENTRY + 'debug = "x {version}"', r"kernel a: 'x {version}' is not a package name"),
        (ENTRY + 'also = ["-o", "Dir=/"]', r"'-o' is not a package name"),
        (ENTRY.replace('"linux"', '"linux-["'), "kernel a: image is not a regular expression"),
        (ENTRY.replace('"sid"', ""), "Expected `array` of length >= 1"),
        (ENTRY.replace('"sid"', '"../.."'), "matching regex"),
        (ENTRY.replace("kernel.a", 'kernel."../a"'), "matching regex"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(own: Path, text: str, complaint: str) -> None:
    own.write_text(text)
    with pytest.raises(DataError) as caught:
        catalog.catalog()
    assert caught.value.message.startswith(f"{own}: ")
    assert complaint in caught.value.message
    assert caught.value.hint is not None


def test_an_unreadable_file_is_named(own: Path) -> None:
    own.mkdir()
    with pytest.raises(DataError, match=f"cannot read {own}: Is a directory"):
        catalog.catalog()
    own.rmdir()
    own.write_bytes(b"\xff")
    with pytest.raises(DataError, match=f"{own}: not UTF-8"):
        catalog.catalog()


def test_a_terminal_obeys_no_description(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``sudo -E`` keeps the HOME of another user."""
    own.write_text('[kernel.rc]\nsuites = ["sid"]\nimage = "x"\nabout = "a\\u001b[2J\\nforged"\n')
    main(["vm", "list"])
    shown = capsys.readouterr().out
    assert "a\\x1b[2J\\nforged" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "text", ['[kernel."rc\\n"]\nsuites = ["sid"]', '[kernel.rc]\nsuites = ["sid\\n"]']
)
def test_a_name_is_one_line(own: Path, text: str) -> None:
    own.write_text(f"{text}\nimage = 'x'\n")
    with pytest.raises(DataError):
        catalog.catalog()
