# SPDX-License-Identifier: BSD-2-Clause
"""The Debian mirror in apt's configuration, beside archives of others with the same suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm.mirrors import Mirror, find_mirror, parse_deb822, parse_one_line

DEB822 = """\
Types: deb deb-src
# a comment in between
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.test/debian-security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://disabled.test/debian
Suites: sid
Components: main
"""
INLINE_KEY = """\
Types: deb
URIs: http://a.test/debian http://b.test/debian
Suites: trixie
Components: main
Trusted: yes
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEY865UxYJKwYBBAHaRw8BAQdAd7Z0srwuhlB6JKFkcf4HU4SSS/xcRfwEQWzr
 -----END PGP PUBLIC KEY BLOCK-----
"""
ONE_LINE = """\
# deb http://commented.test/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/other.gpg] https://third.test/repo nodistro main
deb http://mirror.test/debian/ trixie main non-free-firmware # the archive
deb-src http://mirror.test/debian/ trixie main
deb [trusted=yes] file:/srv/debian bookworm main
"""
#: A browser's archive, which has the names of Debian's. Its file comes before debian.sources.
BROWSER = (
    "deb [signed-by=/usr/share/keyrings/browser.gpg] https://browser.test/apt_x/ stable main\n"
)
RELEASE = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nOrigin: {}\nSuite: stable\n"


def configure(etc: Path, **files: str) -> None:
    """Write files of sources.list.d; ``a_list`` is the file a.list."""
    folder = etc / "sources.list.d"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)


def test_deb822_entries() -> None:
    first, security = parse_deb822(DEB822)
    assert first == Mirror(
        "http://mirror.test/debian",
        ("bookworm", "bookworm-updates"),
        ("main", "contrib"),
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    )
    assert security.suites == ("bookworm-security",)


def test_a_key_inside_the_entry_is_no_path() -> None:
    found = parse_deb822(INLINE_KEY)
    assert [mirror.uri for mirror in found] == ["http://a.test/debian", "http://b.test/debian"]
    assert all(mirror.signed_by is None and mirror.trusted for mirror in found)


def test_one_line_entries() -> None:
    third, archive, _source, local = parse_one_line(ONE_LINE)
    assert third.signed_by == "/usr/share/keyrings/other.gpg"
    assert archive == Mirror(
        "http://mirror.test/debian/", ("trixie",), ("main", "non-free-firmware")
    )
    assert local == Mirror("file:/srv/debian", ("bookworm",), ("main",), None, trusted=True)


@pytest.mark.parametrize(
    ("name", "text", "uri"),
    [
        ("sources.list.d/debian.sources", DEB822, "http://mirror.test/debian"),
        ("sources.list.d/debian.list", ONE_LINE, "http://mirror.test/debian/"),
        ("sources.list", ONE_LINE, "http://mirror.test/debian/"),
    ],
)
def test_the_archive_is_told_from_security_and_third_parties(
    tmp_path: Path, name: str, text: str, uri: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert find_mirror(tmp_path).uri == uri


def test_a_machine_without_a_debian_mirror_says_what_to_do_instead(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://other.test/ubuntu noble main\n")
    with pytest.raises(UnavailableError, match="no Debian mirror") as caught:
        find_mirror(tmp_path)
    assert caught.value.hint is not None
    assert "--on PATH" in caught.value.hint


@pytest.mark.parametrize("origin", [None, "Browser Software Inc"])
def test_an_archive_that_comes_first_is_not_taken_for_debians(
    tmp_path: Path, origin: str | None
) -> None:
    configure(tmp_path / "etc", browser_list=BROWSER, debian_sources=DEB822)
    if origin:
        release(tmp_path, "browser.test_apt%5fx_dists_stable_InRelease", origin)
    assert find_mirror(tmp_path / "etc", tmp_path).uri == "http://mirror.test/debian"


def test_apts_lists_show_which_archive_is_debians(tmp_path: Path) -> None:
    """Without a key that is named after Debian's, and with an archive that has its suites."""
    other = "deb http://other.test bookworm main\n"
    ours = "deb http://user:secret@mirror.test/debian bookworm main\n"
    configure(tmp_path / "etc", a_list=other, b_list=ours)
    assert find_mirror(tmp_path / "etc", tmp_path).uri == "http://other.test"
    release(tmp_path, "mirror.test_debian_dists_bookworm_Release", "Debian")
    assert find_mirror(tmp_path / "etc", tmp_path).uri.endswith("@mirror.test/debian")
    # a company's copy of Debian
    (tmp_path / "mirror.test_debian_dists_bookworm_Release").unlink()
    release(tmp_path, "other.test_dists_bookworm_InRelease", "Example Corp")
    (tmp_path / "etc/sources.list.d/b.list").unlink()
    assert find_mirror(tmp_path / "etc", tmp_path).uri == "http://other.test"


def test_a_derivative_with_an_archive_that_is_called_stable_has_no_debian_mirror(
    tmp_path: Path,
) -> None:
    derivative = "Types: deb\nURIs: http://archive.test/\nSuites: unknown\nComponents: main\n"
    configure(tmp_path / "etc", derivative_sources=derivative, browser_list=BROWSER)
    release(tmp_path, "browser.test_apt%5fx_dists_stable_InRelease", "Browser Software Inc")
    with pytest.raises(UnavailableError, match="no Debian mirror"):
        find_mirror(tmp_path / "etc", tmp_path)


def release(lists: Path, name: str, origin: str) -> None:
    (lists / name).write_text(RELEASE.format(origin))
