# SPDX-License-Identifier: BSD-2-Clause
"""Finding the machine's Debian mirror in its apt configuration, and the private apt made of it."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import pwd
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm import debian
from retsnoop_py.vm.debian import _config
from retsnoop_py.vm.mirrors import Mirror


def test_the_private_apt_keeps_proxies_and_touches_nothing_of_the_machine(tmp_path: Path) -> None:
    text = _config(tmp_path, "amd64", ['Acquire::http::Proxy "http://proxy.test:3128";'])
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in text
    for setting in ("Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Etc::parts"):
        assert f'{setting} "{tmp_path}' in text
    assert "Post-Invoke" not in text


class Noting(http.server.SimpleHTTPRequestHandler):
    """A mirror that notes the user of each client."""

    users: ClassVar[set[int]] = set()

    def do_GET(self) -> None:
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].split(":")[1], 16) == self.client_address[1]:
                self.users.add(int(fields[7]))
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a mirror with the package ``tiny``."""
    root = tmp_path / "mirror"
    (root / "pool").mkdir(parents=True)
    (root / "pool/tiny_1_amd64.deb").write_bytes(DEB)
    binary = root / "dists/bookworm/main/binary-amd64"
    binary.mkdir(parents=True)
    packages = (
        "Package: tiny\nVersion: 1\nArchitecture: amd64\nFilename: pool/tiny_1_amd64.deb\n"
        f"Size: {len(DEB)}\nSHA256: {hashlib.sha256(DEB).hexdigest()}\n\n"
    )
    (binary / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    (root / "dists/bookworm/Release").write_text(
        "Suite: bookworm\nCodename: bookworm\nComponents: main\nArchitectures: amd64\n"
        "Date: Thu, 26 Nov 2026 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(packages)} main/binary-amd64/Packages\n"
    )
    handler = functools.partial(Noting, directory=str(root))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(debian, "_machine_acquire", list)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        found = Mirror(uri, ("bookworm",), ("main",), trusted=True)
        monkeypatch.setattr(debian, "find_mirror", lambda: found)
        yield root
        server.shutdown()


DEB = b"the bytes of a package"


@pytest.fixture
def cache() -> Iterator[Path]:
    """A cache that each user can enter: pytest's folders are for their owner only."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt here")
def test_packages_are_downloaded_by_a_user_without_rights_and_belong_to_us(
    mirror: Path, cache: Path, tmp_path: Path
) -> None:
    Noting.users.clear()
    dest = tmp_path / "dest"
    apt = debian.AptRoot("bookworm", cache=cache)
    path = apt.download("tiny=1", dest)
    assert path.read_bytes() == DEB
    assert (path.stat().st_uid, path.stat().st_mode & 0o7777) == (os.geteuid(), 0o644)
    (more,) = apt.download_all(["tiny"], tmp_path / "all")
    assert (more.read_bytes(), more.stat().st_uid) == (DEB, os.geteuid())
    if os.geteuid() == 0:
        assert Noting.users == {pwd.getpwnam("_apt").pw_uid}


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt here")
def test_a_package_that_apts_user_replaced_is_refused(
    mirror: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = debian._taken

    def replaced(file: Path, target: Path) -> Path:
        file.write_bytes(b"another package")
        return taken(file, target)

    monkeypatch.setattr(debian, "_taken", replaced)
    with pytest.raises(UnavailableError, match="not the file that Debian's lists describe"):
        debian.AptRoot("bookworm", cache=cache).download("tiny=1", tmp_path / "dest")
    assert list((tmp_path / "dest").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="it is about root's cache")
def test_roots_apt_has_a_folder_that_its_user_can_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # below a folder for its owner only
    assert debian.AptRoot("bookworm").root == Path("/var/cache/retsnoop-py/apt/bookworm")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert debian.AptRoot("bookworm").root == tmp_path / "retsnoop-py/apt/bookworm"
