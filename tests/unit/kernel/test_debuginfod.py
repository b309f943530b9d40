# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.images import find_image

BUILD_ID = "00" * 20


class Server(ThreadingHTTPServer):
    """Serves ``files`` (path → bytes) and keeps the paths asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}
        self.asked = []
        self.cut = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) - self.server.cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def environ(server, tmp_path):
    return {"DEBUGINFOD_URLS": server.url + "/", "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}


def test_a_file_is_fetched_once_and_kept_in_the_cache(server, environ, tmp_path):
    server.files[f"/buildid/{BUILD_ID}/debuginfo"] = b"dwarf" * 1000
    said = []
    client = Debuginfod(environ, said.append)
    path = client.find(BUILD_ID)
    assert path == tmp_path / "cache" / BUILD_ID / "debuginfo"
    assert path.read_bytes() == b"dwarf" * 1000
    assert any(server.url in text for text in said)
    assert Debuginfod(environ).find(BUILD_ID) == path
    assert len(server.asked) == 1


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
    server.files[f"/buildid/{BUILD_ID}/debuginfo"] = b"dwarf"
    environ["DEBUGINFOD_URLS"] = f"http://127.0.0.1:1 {server.url}"
    client = Debuginfod(environ)
    assert client.find(BUILD_ID) is not None
    assert client.servers == [server.url]
    assert "not asked again" in client.tried[0][1]


def test_a_broken_download_leaves_nothing_behind(server, environ, tmp_path):
    server.files[f"/buildid/{BUILD_ID}/debuginfo"] = b"dwarf" * 1000
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
