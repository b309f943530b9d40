# SPDX-License-Identifier: BSD-2-Clause
"""Finding the machine's Debian mirror in its apt configuration, and the private apt made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm.debian import Mirror, _config, find_mirror, parse_deb822, parse_one_line

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


def test_the_private_apt_keeps_proxies_and_touches_nothing_of_the_machine(tmp_path: Path) -> None:
    text = _config(tmp_path, "amd64", ['Acquire::http::Proxy "http://proxy.test:3128";'])
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in text
    for setting in ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Etc::parts"):
        assert f'{setting} "{tmp_path}' in text
    assert "Post-Invoke" not in text
