# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request

import pytest
from tests.unit.symbolize.elf_writer import BUILD_ID as ELF_BUILD_ID
from tests.unit.symbolize.elf_writer import PROGBITS, Part, note, program

from retsnoop_py import terminal
from retsnoop_py.cli.report import Console
from retsnoop_py.kernel import debuginfod
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.images import find_image
from retsnoop_py.listener import listening

BUILD_ID = ELF_BUILD_ID.hex()
#: A file of that build id, several hundred kilobytes long.
FILE = program(note(), Part(".debug_str", PROGBITS, b"dwarf " * 100_000))
OTHER = program(note(b"\x55" * 20))
PATH = f"/buildid/{BUILD_ID}/debuginfo"


class Server(ThreadingHTTPServer):
    """Serves ``files`` (path → bytes) and keeps the paths asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.asked = []
        self.cut = 0
        #: An answer other than 200 and 404, and where to look instead.
        self.status = 0
        self.location = ""
        #: Seconds between two pieces of a file, and whether to say how long it is.
        self.pause = 0.0
        self.tells_length = True
        self.stopping = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        if self.server.status:
            self.send_response(self.server.status)
            self.send_header("Location", self.server.location)
            self.end_headers()
            return
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        if self.server.tells_length:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        content = content[: len(content) - self.server.cut]
        while self.server.pause and content and not self.server.stopping.is_set():
            self.wfile.write(content[:10])
            content = content[10:]
            self.server.stopping.wait(self.server.pause)
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.stopping.set()
        made.shutdown()
        thread.join()


@pytest.fixture
def environ(server, tmp_path):
    return {"DEBUGINFOD_URLS": server.url + "/", "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}


def cached(client):
    """What is in the cache for the build id, None if nothing is."""
    path = client.cache / BUILD_ID / "debuginfo"
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.exists() else []
    assert set(names) <= {"debuginfo"}
    return path.read_bytes() if names else None


def test_a_file_is_fetched_once_and_kept_in_the_cache(server, environ, tmp_path):
    server.files[PATH] = FILE
    path = Debuginfod(environ).find(BUILD_ID)
    assert path == tmp_path / "cache" / BUILD_ID / "debuginfo"
    assert path.read_bytes() == FILE
    assert Debuginfod(environ).find(BUILD_ID) == path
    assert len(server.asked) == 1


def test_a_long_download_is_told(server, environ, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_PATIENCE", 0)
    server.files[PATH] = FILE
    with listening(Console()):
        assert Debuginfod(environ).find(BUILD_ID)
    assert f"Debug information from {server.url}: " in capsys.readouterr().err


@pytest.mark.parametrize("status", [500, 503, 429, 403])
def test_a_server_that_cannot_answer_now_is_asked_again(server, environ, status):
    server.status = status
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert client.tried[0][1].startswith(str(status))
    assert cached(client) is None
    server.status, server.files[PATH] = 0, FILE
    assert client.find(BUILD_ID) is not None


def test_nobody_has_a_file_only_if_every_server_says_so(server, environ):
    environ["DEBUGINFOD_URLS"] = f"{server.url} http://127.0.0.1:1"
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert cached(client) is None


@pytest.mark.parametrize(
    ("content", "why"),
    [(OTHER, "wrong build id"), (b"<html>Sign in", "not an ELF file"), (b"", "not an ELF file")],
)
def test_a_file_that_is_not_the_one_asked_for_is_not_kept(server, environ, content, why):
    server.files[PATH] = content
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert why in client.tried[0][1]
    assert cached(client) is None


@pytest.mark.parametrize("missing", [1, 500, 300_000])
def test_a_file_without_a_length_is_not_kept_where_it_is_cut(server, environ, missing):
    server.files[PATH] = FILE
    server.tells_length, server.cut = False, missing
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert "cut short" in client.tried[0][1]
    assert cached(client) is None


@pytest.mark.parametrize("damaged", [FILE[:400_000], OTHER, b"<html>"])
def test_a_damaged_file_in_the_cache_is_fetched_again(server, environ, damaged):
    client = Debuginfod(environ)
    path = client.cache / BUILD_ID / "debuginfo"
    path.parent.mkdir(parents=True)
    path.write_bytes(damaged)
    server.files[PATH] = FILE
    assert client.find(BUILD_ID) == path
    assert path.read_bytes() == FILE


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_file_larger_than_the_environment_allows_is_left(server, environ, tells_length):
    server.files[PATH] = FILE
    server.tells_length = tells_length
    client = Debuginfod({**environ, "DEBUGINFOD_MAXSIZE": "500000"})
    assert client.find(BUILD_ID) is None
    assert "DEBUGINFOD_MAXSIZE" in client.tried[0][1]
    assert cached(client) is None
    assert Debuginfod({**environ, "DEBUGINFOD_MAXSIZE": "0"}).find(BUILD_ID)


def test_a_server_without_end_does_not_fill_the_disk(server, environ, monkeypatch):
    server.files[PATH] = FILE
    server.tells_length = False
    monkeypatch.setattr("retsnoop_py.kernel.debuginfod._LARGEST", 500000)
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert "larger than" in client.tried[0][1]
    assert not list(client.cache.rglob("*"))[1:]


@pytest.mark.parametrize(("name", "why"), [("MAXTIME", "longer than"), ("TIMEOUT", "100 kB")])
def test_a_server_that_gives_a_little_now_and_then_is_given_up(server, environ, name, why):
    server.files[PATH] = FILE
    server.pause = 0.02
    client = Debuginfod({**environ, f"DEBUGINFOD_{name}": "1"})
    assert client.find(BUILD_ID) is None
    assert why in client.tried[0][1]
    assert client.servers == []
    assert cached(client) is None


def test_an_exception_out_of_a_signal_ends_a_download_at_once(server, environ):
    class Stopped(BaseException):
        pass

    def stop(*_):
        raise Stopped

    server.files[PATH] = FILE
    server.pause = 0.02
    client = Debuginfod(environ)
    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Stopped):
            client.find(BUILD_ID)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert cached(client) is None


def test_a_redirection_is_followed_to_a_server_but_not_to_a_file(server, environ, tmp_path):
    with Server() as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        other.files["/elsewhere"] = FILE
        server.status, server.location = 302, f"{other.url}/elsewhere"
        assert Debuginfod(environ).find(BUILD_ID).read_bytes() == FILE
        other.shutdown()
        thread.join()
    (tmp_path / "file").write_bytes(FILE)
    environ["DEBUGINFOD_CACHE_PATH"] = str(tmp_path / "cache2")
    server.location = f"file://{tmp_path}/file"
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert "is not allowed" in client.tried[0][1]
    assert cached(client) is None


def test_a_redirection_to_what_anybody_can_change_is_not_followed():
    (handler,) = (h for h in debuginfod._opener().handlers if hasattr(h, "redirect_request"))
    asked = Request("https://server/buildid/00/debuginfo")
    redirect = (asked, None, 302, "Found", {})
    with pytest.raises(URLError, match="not followed"):
        handler.redirect_request(*redirect, "http://elsewhere/file")
    assert handler.redirect_request(*redirect, "https://elsewhere/file").full_url


def test_a_file_no_server_has_is_not_asked_for_again_for_some_minutes(server, environ):
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert client.tried[0][1].startswith("404")
    assert Debuginfod(environ).find(BUILD_ID) is None
    assert len(server.asked) == 1
    long_ago = time.time() - 3600
    os.utime(client.cache / BUILD_ID / "debuginfo", (long_ago, long_ago))
    assert Debuginfod(environ).find(BUILD_ID) is None
    assert len(server.asked) == 2


def test_the_next_server_is_asked_and_a_dead_one_only_once(server, environ):
    server.files[PATH] = FILE
    environ["DEBUGINFOD_URLS"] = f"http://127.0.0.1:1 {server.url}"
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is not None
    assert client.servers == [server.url]
    assert "not asked again" in client.tried[0][1]


def test_a_broken_download_leaves_nothing_behind(server, environ, tmp_path):
    server.files[PATH] = FILE
    server.cut = 100
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is None
    assert "connection broke" in client.tried[0][1]
    assert not list((tmp_path / "cache" / BUILD_ID).iterdir())


@pytest.mark.parametrize(("value", "seconds"), [("5", 5), ("", 90), ("soon", 90), ("0", 1)])
def test_the_timeout_is_that_of_the_environment(value, seconds):
    assert Debuginfod({"DEBUGINFOD_TIMEOUT": value}).timeout == seconds


def test_the_cache_is_where_elfutils_has_it(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert Debuginfod(home).cache == tmp_path / ".cache/debuginfod_client"
    assert Debuginfod({**home, "XDG_CACHE_HOME": "/c"}).cache.as_posix() == "/c/debuginfod_client"
    assert Debuginfod({**home, "DEBUGINFOD_CACHE_PATH": "/d"}).cache.as_posix() == "/d"


def test_without_urls_nothing_is_asked(tmp_path):
    assert Debuginfod({"HOME": str(tmp_path)}).find(BUILD_ID) is None


def test_a_kernel_image_comes_from_a_server_when_no_package_has_it(server, environ, tree, vmlinux):
    server.files[f"/buildid/{tree.facts.build_id}/debuginfo"] = vmlinux.read_bytes()
    found = find_image(tree.facts, root=tree.root, debuginfod=Debuginfod(environ))
    assert found.path.read_bytes() == vmlinux.read_bytes()
