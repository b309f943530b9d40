# SPDX-License-Identifier: BSD-2-Clause
"""Files that this program writes, where others may have put a trap."""

from __future__ import annotations

import ast
import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from retsnoop_py import own_file
from retsnoop_py.cli import completion, on
from retsnoop_py.cli.load import _write_files
from retsnoop_py.cli.verdict import Judge
from retsnoop_py.errors import OutputError
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.libbpf.reader import spool_directory
from retsnoop_py.load.model import VERSION, LoadResult
from retsnoop_py.options import live
from retsnoop_py.settings import VerdictSettings
from retsnoop_py.vm.debian import cache_root


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory like /tmp, with a link in it that another user has made."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "precious").write_text("precious")
    (folder / "file").symlink_to(tmp_path / "precious")
    return folder


def others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``folder``, of another user, for root."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("write", [own_file.write, own_file.append])
def test_a_link_in_a_shared_folder_is_not_followed(shared: Path, write: Any) -> None:
    for mode in (own_file.MODE, own_file.SHARED):
        with pytest.raises(OutputError, match="it is a link"):
            write(shared / "file", "x", mode)
    with pytest.raises(OutputError, match="it is a link"):
        own_file.copy(io.BytesIO(b"x"), shared / "file")
    assert (shared.parent / "precious").read_text() == "precious"


def test_another_users_link_on_the_way_is_not_followed(shared: Path) -> None:
    folder = shared.parent / "folder"
    folder.mkdir()
    (folder / "report").write_text("precious")
    (shared / "out").symlink_to(folder)
    if os.geteuid() != 0:
        pytest.skip("links of others take root to make")
    os.chown(shared / "out", 12345, 12345, follow_symlinks=False)
    for path in (shared / "out" / "report", shared / "out" / ".." / "folder" / "report"):
        with pytest.raises(OutputError, match="another user's link"):
            own_file.write(path, "x", own_file.SHARED)
    assert (folder / "report").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="links of others take root to make")
@pytest.mark.parametrize("write", [own_file.write, own_file.append])
def test_an_own_link_to_another_users_link_is_not_followed(shared: Path, write: Any) -> None:
    """``~/latest.json`` leads to /tmp, where another user put a link to a file of root."""
    private = shared.parent / "private"
    private.mkdir(0o700)
    (private / "latest").symlink_to(shared / "file")
    os.chown(shared / "file", 12345, 12345, follow_symlinks=False)
    with pytest.raises(OutputError, match="it is a link"):
        write(private / "latest", "x", own_file.SHARED)
    assert (shared.parent / "precious").read_text() == "precious"
    (shared / "file").unlink()
    (shared / "file").symlink_to(shared.parent)
    os.chown(shared / "file", 12345, 12345, follow_symlinks=False)
    (private / "inside").symlink_to(shared / "file" / "precious")
    with pytest.raises(OutputError, match="another user's link"):
        write(private / "inside", "x", own_file.SHARED)
    assert (shared.parent / "precious").read_text() == "precious"


def test_own_links_to_a_file_are_followed(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "report")
    for text in ("new", "again"):
        own_file.write(tmp_path / "latest", text, own_file.SHARED)
        assert (tmp_path / "report").read_text() == text
    assert (tmp_path / "latest").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others take root to make")
def test_a_cache_is_where_only_root_can_change_it(tmp_path: Path) -> None:
    def kept(name: str, mode: int) -> bool:
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(mode)
        ours = folder / "retsnoop-py"
        assert own_file.is_own_place(ours) == own_file.is_own_place(folder)
        try:
            own_file.keep(ours / "file", b"x")
        except PermissionError:
            assert not ours.exists()
            return False
        return True

    assert kept("plain", 0o755)
    # another user can create what root looks for there, such as a downloaded kernel
    assert not kept("sticky", 0o1777)
    (tmp_path / "sticky/made").mkdir()
    own_file.keep(tmp_path / "sticky/made/file", b"x")
    assert not kept("world", 0o777)
    assert not kept("group", 0o775)
    # in a folder such as /tmp another user was faster
    (tmp_path / "target").mkdir()
    trap = tmp_path / "sticky" / "trap"
    trap.symlink_to(tmp_path / "target")
    os.chown(trap, 12345, 12345, follow_symlinks=False)
    for folder in (trap, trap / "below"):
        assert not own_file.is_own_place(folder)
        with pytest.raises(PermissionError):
            own_file.keep(folder / "file", b"x")
    assert not list((tmp_path / "target").iterdir())
    trap.unlink()
    trap.mkdir()
    os.chown(trap, 12345, 12345)
    assert not own_file.is_own_place(trap / "below")
    # what does not exist yet can be created by others, too
    assert not own_file.is_own_place(tmp_path / "sticky/later/below")
    assert own_file.is_own_place(tmp_path / "later/below")
    assert own_file.is_safe_for_new(tmp_path / "sticky")


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others take root to make")
def test_the_folder_above_a_linked_one_is_where_the_link_leads(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "inner").mkdir(parents=True)
    (theirs / "bin").mkdir()
    (tmp_path / "bin").mkdir()
    os.chown(theirs / "bin", 12345, 12345)
    (tmp_path / "link").symlink_to(theirs / "inner")
    assert own_file.is_own_place(tmp_path / "bin")
    assert not own_file.is_own_place(Path(f"{tmp_path}/link/../bin"))


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others take root to make")
def test_roots_temporary_files_are_where_only_root_can_replace_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``sudo -E`` keeps TMPDIR."""
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert own_file.temporary_base() == tmp_path
    assert spool_directory() == str(tmp_path)
    os.chown(tmp_path, 65534, 65534)
    try:
        assert own_file.temporary_base() == Path("/tmp")
        assert spool_directory() in ("/var/tmp", "/tmp")
    finally:
        os.chown(tmp_path, 0, 0)


def test_all_temporary_files_are_in_a_folder_that_was_checked() -> None:
    folder = Path(own_file.__file__).parent
    names = ("NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryFile", "TemporaryDirectory")
    calls = [
        (path.name, {one.arg for one in node.keywords})
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith((*names, "mkdtemp", "mkstemp"))
    ]
    assert len(calls) > 5
    assert [name for name, given in calls if "dir" not in given] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="files of others take root to make")
def test_root_reads_no_cache_of_another_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """XDG_CACHE_HOME=/tmp: another user may have made /tmp/retsnoop-py with kernels in it."""
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert own_file.cache_folder() == own_file.ROOT_CACHE / "retsnoop-py"
    tmp_path.chmod(0o755)
    assert own_file.cache_folder() == tmp_path / "retsnoop-py"
    (tmp_path / "retsnoop-py").mkdir()
    os.chown(tmp_path / "retsnoop-py", 12345, 12345)
    assert own_file.cache_folder() == own_file.ROOT_CACHE / "retsnoop-py"


def test_own_links_on_the_way_are_followed_and_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "relative").symlink_to("a/b")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")
    own_file.write(tmp_path / "absolute" / "report", "x", own_file.SHARED)
    assert (tmp_path / "a" / "b" / "report").read_text() == "x"
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OutputError, match="symbolic links"):
        own_file.write(tmp_path / "one" / "report", "x", own_file.SHARED)


def test_a_file_with_addresses_is_for_its_owner_and_a_report_is_as_the_umask_says(
    tmp_path: Path,
) -> None:
    before = os.umask(0o022)
    try:
        own_file.write(tmp_path / "log", "\udc80\u20ac")
        own_file.copy(io.BytesIO(b"recording"), tmp_path / "a.rsn")
        own_file.write(tmp_path / "junit", "longer", own_file.SHARED)
        own_file.write(tmp_path / "junit", "short", own_file.SHARED)
        own_file.append(tmp_path / "junit", "er", own_file.SHARED)
    finally:
        os.umask(before)
    assert (tmp_path / "log").read_bytes() == b"\\udc80\xe2\x82\xac"
    assert (tmp_path / "a.rsn").read_bytes() == b"recording"
    assert (tmp_path / "junit").read_text() == "shorter"
    assert [mode(tmp_path / one) for one in ("log", "a.rsn", "junit")] == [0o600, 0o600, 0o644]


def test_a_fifo_or_device_is_refused_and_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/null")):
        with pytest.raises(OutputError, match="not a regular file"):
            own_file.write(path, "x")
    with pytest.raises(OutputError, match="No such file"):
        own_file.write(tmp_path / "none/file", "x")


def test_the_step_summary_of_a_runner_is_added_to_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is root in a container; the runner, which owns the folder and the file, is not."""
    summary = tmp_path / "step_summary"
    summary.write_text("before\n")
    owners = {True: 12345, False: 12345}
    really = os.fstat

    def fstat(fd: int) -> os.stat_result:
        found = really(fd)
        return os.stat_result((*found[:4], owners[stat.S_ISDIR(found.st_mode)], *found[5:]))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fstat", fstat)
    monkeypatch.delenv("SUDO_UID", raising=False)
    own_file.append(summary, "after\n", own_file.SHARED)
    assert summary.read_text() == "before\nafter\n"
    with pytest.raises(OutputError, match="another user"):
        own_file.write(summary, "addresses")
    owners[False] = 54321
    with pytest.raises(OutputError, match="another user"):
        own_file.append(summary, "x", own_file.SHARED)


def test_recordings_and_summaries_of_guests_do_not_follow_links(shared: Path) -> None:
    (shared.parent / "run.rsn").write_bytes(b"from the guest")
    with pytest.raises(OutputError):
        on._fetch(shared.parent / "run.rsn", shared / "file")
    with pytest.raises(OutputError):
        on._write_summary(shared / "file", [])
    with pytest.raises(OutputError):
        Judge(VerdictSettings(), shared / "file").status(0, 0)
    assert (shared.parent / "precious").read_text() == "precious"
    assert on._fetch(shared.parent / "run.rsn", shared.parent / "kept.rsn")
    assert mode(shared.parent / "kept.rsn") == 0o600


class Request:
    def __init__(self, junit: Path | None = None, logs: Path | None = None) -> None:
        self.junit, self.logs = junit, logs


def rejected(name: str) -> LoadResult:
    return LoadResult(VERSION, "6.12", "/x/a.bpf.o", "program", "refused", name=name, log="log")


def test_the_log_of_a_program_with_a_long_name_is_kept_under_a_short_one(tmp_path: Path) -> None:
    long = "x" * 300
    results = [rejected(f"{long}{one}") for one in "ab"] + [rejected("../../up")]
    _write_files(Request(logs=tmp_path / "logs"), results)  # type: ignore[arg-type]
    names = sorted(path.name for path in (tmp_path / "logs/6.12").iterdir())
    assert len(names) == 3
    assert all(len(name) <= 255 and name.endswith(".log") for name in names)
    assert mode(tmp_path / "logs/6.12" / names[0]) == 0o600
    assert "a.bpf.o..._.._up.log" in names


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_the_folder_of_logs_is_not_made_behind_a_link(
    shared: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = shared.parent / "behind"
    behind.mkdir()
    (shared / "logs").symlink_to(behind)
    if os.geteuid() == 0:
        os.chown(shared / "logs", 4711, 4711, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(OutputError, match="link"):
        _write_files(Request(logs=shared / "logs" / below), [rejected("a")])  # type: ignore[arg-type]
    assert list(behind.iterdir()) == []


def test_folders_of_logs_are_made_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").symlink_to("real")
    (tmp_path / "real").mkdir()
    for logs in ("a/b", "own/c", "."):
        _write_files(Request(logs=Path(logs)), [rejected("p")])  # type: ignore[arg-type]
        assert [path.name for path in (tmp_path / logs / "6.12").iterdir()] == ["a.bpf.o.p.log"]
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="Not a directory"):
        own_file.make_output_folder(tmp_path / "file" / "x")


def test_a_junit_file_does_not_follow_a_link(shared: Path) -> None:
    with pytest.raises(OutputError):
        _write_files(Request(junit=shared / "file"), [])  # type: ignore[arg-type]


def test_root_with_another_users_home_keeps_caches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = others(tmp_path / "home", monkeypatch)
    root_cache = tmp_path / "var-cache"
    monkeypatch.setattr(own_file, "ROOT_CACHE", root_cache)
    monkeypatch.setattr("retsnoop_py.kernel.debuginfod.ROOT_CACHE", root_cache)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "DEBUGINFOD_CACHE_PATH", "DEBUGINFOD_URLS"):
        monkeypatch.delenv(name, raising=False)
    ours = root_cache / "retsnoop-py"
    assert cache_root() == ours
    assert live._folder() == ours / "names"
    assert Debuginfod().cache == ours / "debuginfod_client"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(home / "debug"))
    assert (cache_root(), Debuginfod().cache) == (ours, ours / "debuginfod_client")
    assert not list(home.iterdir())


def test_others_keep_caches_in_their_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / ".cache/retsnoop-py"


def test_a_miss_replaces_a_link_in_the_cache_and_not_what_it_leads_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    target = tmp_path / "cache/id/debuginfo"
    target.parent.mkdir(parents=True)
    target.symlink_to(victim)
    Debuginfod({})._remember_miss(target)
    assert victim.read_text() == "precious"
    assert target.stat().st_size == 0
    assert not target.is_symlink()


def test_root_asks_only_https_and_its_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = "http://debug.test https://debug.test http://127.0.0.1:8002 file:///srv"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    servers = Debuginfod({"DEBUGINFOD_URLS": urls})
    assert servers.servers == ["https://debug.test", "http://127.0.0.1:8002", "file:///srv"]
    ((url, why),) = servers.tried
    assert url == "http://debug.test"
    assert "https://" in why
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert len(Debuginfod({"DEBUGINFOD_URLS": urls}).servers) == 4


def test_completion_is_not_installed_in_another_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = others(tmp_path / "home", monkeypatch)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with pytest.raises(OutputError, match="another user can change it") as caught:
        completion.hand_out("install-completion", agreed=True)
    assert "without sudo" in str(caught.value.hint)
    assert not list(home.iterdir())
