# SPDX-License-Identifier: BSD-2-Clause
"""What programs of the host's side of a guest cannot do. The view itself takes root: test_vm.py."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from retsnoop_py.errors import InputError
from retsnoop_py.vm import confined
from retsnoop_py.vm.folder import writable

PROGRAM = [sys.executable, "-I", "-S", confined.__file__]
MODES = """
import os, sys
def attempt(name, what):
    try:
        what()
    except OSError as error:
        print(name, error.errno)
    else:
        print(name, "done")
os.close(os.open("plain", os.O_CREAT | os.O_WRONLY, 0o644))
attempt("chmod", lambda: os.chmod("plain", 0o4755))
attempt("chmod-group", lambda: os.chmod("plain", 0o2755))
attempt("fchmod", lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o4755))
attempt("fchmodat", lambda: os.chmod("plain", 0o4755, dir_fd=os.open(".", os.O_RDONLY)))
attempt("open", lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755))
attempt("mknod", lambda: os.mknod("pipe", 0o14755))
attempt("ordinary", lambda: os.chmod("plain", 0o755))
attempt("folder", lambda: os.mkdir("folder", 0o2755))
"""


def test_without_a_view_nothing_is_run(tmp_path: Path) -> None:
    argv = [*PROGRAM, str(tmp_path / "missing"), "touch", str(tmp_path / "ran")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == confined.FAILED
    assert done.stderr.startswith("cannot make a read-only view of the files: ")
    assert list(tmp_path.iterdir()) == []


def test_no_set_user_id_file_is_made(tmp_path: Path) -> None:
    argv = [*PROGRAM, "--no-setuid", "", sys.executable, "-I", "-S", "-c", MODES]
    told = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    denied = ("chmod", "chmod-group", "fchmod", "fchmodat", "open", "mknod")
    assert told.splitlines() == [
        *(f"{name} {errno.EPERM}" for name in denied),
        "ordinary done",
        "folder done",
    ]
    for path in tmp_path.iterdir():
        assert path.is_dir() or not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_a_file_has_a_largest_size(tmp_path: Path) -> None:
    argv = [*PROGRAM, "--file-limit", "1000000", "", "truncate", "-s"]
    for size, status in (("1000000", 0), ("1000001", 1)):
        done = subprocess.run(
            [*argv, size, str(tmp_path / "file")], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "File too large" in done.stderr) == (status, bool(status))
    assert (tmp_path / "file").stat().st_size == 1000000


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_of_modes_denies_on_either_machine(machine: str) -> None:
    """The filter of the other machine cannot be loaded here, so its steps are followed."""
    audit, modes = confined._FILTERS[machine]
    for number, argument in modes.items():
        for mode, verdict in ((0o4755, errno.EPERM), (0o2000, errno.EPERM), (0o755, 0)):
            values = {16 + 8 * argument: mode, 0: number, 4: audit}
            assert verdict_of(confined.setuid_filter(machine), values) == verdict
    assert verdict_of(confined.setuid_filter(machine), {0: 437, 4: audit}) == errno.ENOSYS
    assert verdict_of(confined.setuid_filter(machine), {0: 0, 4: audit, 16: 0o4755}) == 0
    with pytest.raises(ProcessLookupError):
        verdict_of(confined.setuid_filter(machine), {0: 0, 4: audit + 1})


def verdict_of(code: bytes, data: dict[int, int]) -> int:
    """The errno that a filter gives a call with the 32-bit words ``data``, by their offsets."""
    steps = list(struct.iter_unpack("=HBBI", code))
    at = value = 0
    while True:
        kind, yes, no, constant = steps[at]
        at += 1
        if kind == 0x20:
            value = data.get(constant, 0)
        elif kind == 0x15:
            at += yes if value == constant else no
        elif kind == 0x45:
            at += yes if value & constant else no
        elif constant == 0x80000000:
            raise ProcessLookupError("killed")
        else:
            return 0 if constant == 0x7FFF0000 else constant & 0xFFFF


def test_a_machine_without_a_filter_goes_on() -> None:
    assert confined.setuid_filter("riscv64") == b""


OWNER = 4321
OWNED = """
echo made > made; id -u; stat -c %u:%g . made old others; cat others; echo x >> others
chmod 4755 made; setpriv --reuid 33 --clear-groups touch second; ls -A
"""


def test_files_that_root_makes_in_an_owned_folder_are_its_owners() -> None:
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        for path, owner in ((folder / "old", OWNER), (folder / "others", OWNER + 1)):
            path.write_text("here\n")
            path.chmod(0o644)
            os.chown(path, owner, owner)
        os.chown(folder, OWNER, OWNER)
        argv = [*PROGRAM, "--owned", name, "--no-setuid", "", "sh", "-c", f"cd {name}; {OWNED}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        if done.stderr.startswith("new files in"):
            pytest.skip("it takes CAP_SYS_ADMIN, and a root directory that is a mount point")
        made = (folder / "made").stat()
        assert (made.st_uid, made.st_gid) == (OWNER, OWNER)
        assert not made.st_mode & (stat.S_ISUID | stat.S_ISGID)
        # root is there what the owner is here: others' files can be read, and no more
        owners = ["0:0", "0:0", "0:0", "65534:65534"]
        assert done.stdout.splitlines() == ["0", *owners, "here", "made", "old", "others"]
        assert (folder / "others").read_text() == "here\n"


def test_a_folder_of_root_is_left_as_it_is() -> None:
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        argv = [*PROGRAM, "--owned", name, "", "sh", "-c", f"touch {name}/x; chown 33 {name}/x"]
        subprocess.run(argv, check=True)
        assert (Path(name) / "x").stat().st_uid == 33


def test_what_qemu_makes_in_a_folder_of_another_user_is_that_users() -> None:
    """As for 9p: the folder is mounted in a root directory that is a view."""
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name)
        for part in ("view", "export", "share"):
            (base / part).mkdir()
        os.chown(base / "share", OWNER, OWNER)
        words = ["--no-setuid", "--root", f"{name}/export", "--write", f"{name}/share"]
        script = f"cp /bin/true {name}/share/tool; chmod 4755 {name}/share/tool; echo $?"
        argv = [*PROGRAM, *words, f"{name}/view", "sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.stderr.startswith("cannot make"):
            pytest.skip("it takes CAP_SYS_ADMIN")
        assert done.stdout == "1\n", done.stderr
        made = (base / "share/tool").stat()
        assert (made.st_uid, made.st_gid) == (OWNER, OWNER)
        assert not made.st_mode & (stat.S_ISUID | stat.S_ISGID)


@pytest.mark.parametrize("kind", ["ramfs", "tmpfs"])
def test_without_a_mount_for_its_owner_qemu_is_not_started(kind: str) -> None:
    """Of these two only tmpfs has ID-mapped mounts. Without CAP_SETFCAP nothing has."""
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        for part in ("view", "export", "share"):
            (Path(name) / part).mkdir()
        words = [*PROGRAM, "--root", f"{name}/export", "--write", f"{name}/share", f"{name}/view"]
        words += ["touch", f"{name}/share/made"]
        script = f"mount -t {kind} none {name}/share && chown 12345:12345 {name}/share; "
        script += 'if test "$0" = less; then exec setpriv --bounding-set -setfcap "$@"; fi; "$@"; '
        script += f"s=$?; stat -c %u {name}/share/*; exit $s"
        ends = []
        for rights in ("all", "less"):
            argv = ["unshare", "-m", "sh", "-c", script, rights, *words]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if "unshare" in done.stderr:
                pytest.skip("it takes CAP_SYS_ADMIN")
            ends.append((done.returncode, done.stdout.strip()))
            assert (done.returncode == 125) == ("ID-mapped mount" in done.stderr), done.stderr
    assert ends[0] == ((0, "12345") if kind == "tmpfs" else (125, ""))
    assert ends[1] == (125, "")


@pytest.mark.parametrize("has_moved", [False, True])
def test_a_folder_that_its_owner_replaced_by_a_link_is_not_served(has_moved: bool) -> None:
    """While a guest of root boots, the owner of the folder can do that."""
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name)
        for part in ("view", "export", "of-root", "user", "user/share", "place"):
            (base / part).mkdir()
        for part in ("user", "user/share"):
            os.chown(base / part, OWNER, OWNER)
        share = writable(base / "user/share")
        if has_moved:
            (base / "user/share").rename(base / "user/moved")
            (base / "user/share").symlink_to(base / "of-root")
        given = [str(share.path), "--identity", share.identity, "--at"]
        rooted = ["--root", f"{name}/export", "--write", *given, "/proc/place", f"{name}/view"]
        for words in (
            ["--owned", *given, f"{name}/place", "", "touch", f"{name}/place/one"],
            [*rooted, "touch", "/proc/place/two"],
        ):
            done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
            if "namespace" in done.stderr or "mount /:" in done.stderr:
                pytest.skip("it takes CAP_SYS_ADMIN, and a root directory that is a mount point")
            assert done.returncode == (125 if has_moved else 0), done.stderr
            assert ("another folder is now at" in done.stderr) == has_moved
        assert list((base / "of-root").iterdir()) == list((base / "place").iterdir()) == []
        there = base / "user" / ("moved" if has_moved else "share")
        made = {path.name: path.stat().st_uid for path in there.iterdir()}
        assert made == ({} if has_moved else {"one": OWNER, "two": OWNER})


def test_another_users_link_is_not_followed_to_a_folder_for_a_guest(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("it takes root")
    (tmp_path / "of-root").mkdir()
    (tmp_path / "user").mkdir()
    (tmp_path / "own").symlink_to("of-root")
    (tmp_path / "user/link").symlink_to(tmp_path / "of-root")
    os.chown(tmp_path / "user", OWNER, OWNER)
    os.chown(tmp_path / "user/link", OWNER, OWNER, follow_symlinks=False)
    assert writable(tmp_path / "own").path == (tmp_path / "of-root").resolve()
    with pytest.raises(InputError, match="another user's link is on the way"):
        writable(tmp_path / "user/link")
