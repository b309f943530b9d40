# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.conftest import Tree
from tests.unit.diagnosis.host import by_key

from retsnoop_py.diagnosis.model import Answer, Check, Host, Tried
from retsnoop_py.diagnosis.sources import sources

PLACE = "usr/lib/debug/boot/vmlinux-6.12.0-test"


def asked(tree: Tree, image: Path | None = None, **environ: str) -> dict[str, Check]:
    environ = {"HOME": str(tree.root / "home"), **environ}
    host = Host(tree.facts, Tried(), None, (1, 1), environ, image=image)
    return by_key(sources(host))


def test_the_image_is_found_where_a_package_puts_it(tree: Tree) -> None:
    path = tree.install(PLACE)
    check = asked(tree)["vmlinux"]
    assert (check.answer, check.detail) == (Answer.YES, str(path))
    assert check.tried[-1] == (str(path), "used")
    assert ("no such file") in {why for _, why in check.tried}


def test_without_an_image_source_lines_are_lost(tree: Tree) -> None:
    check = asked(tree)["vmlinux"]
    assert check.answer is Answer.NO
    assert "source lines" in check.loses
    assert "DEBUGINFOD_URLS" in check.next_step
    assert len(check.tried) > 5


def test_servers_are_named_and_not_asked(tree: Tree) -> None:
    url = "http://127.0.0.1:1"
    checks = asked(tree, DEBUGINFOD_URLS=url)
    assert checks["debuginfod"].answer is Answer.YES
    assert checks["vmlinux"].answer is Answer.UNKNOWN
    assert checks["vmlinux"].detail == f"not on this machine; a trace asks {url}"
    assert not (tree.root / "home").exists()


def test_what_a_server_gave_before_is_used(tree: Tree) -> None:
    cache = tree.root / "cache"
    place = f"cache/{tree.facts.build_id}/debuginfo"
    urls = {"DEBUGINFOD_URLS": "http://127.0.0.1:1", "DEBUGINFOD_CACHE_PATH": str(cache)}
    tree.write(place, b"")
    empty = asked(tree, **urls)["vmlinux"]
    assert empty.answer is Answer.UNKNOWN
    assert empty.tried[-1][1] == "no server had it when last asked"
    tree.install(place)
    assert asked(tree, **urls)["vmlinux"].detail == str(tree.root / place)


@pytest.mark.parametrize(("name", "status"), [("nothing", 66), ("text", 65), ("vmlinux", 0)])
def test_an_image_named_by_the_user_is_judged(tree: Tree, name: str, status: int) -> None:
    tree.write("text", "hello")
    tree.install("vmlinux")
    check = asked(tree, tree.root / name)["vmlinux"]
    assert check.ends_with == status
    assert check.answer is (Answer.NO if status else Answer.YES)
