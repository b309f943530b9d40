# SPDX-License-Identifier: BSD-2-Clause
"""What a failing call means for the user, by what the file system and /proc say."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from retsnoop_py.cause import files
from retsnoop_py.cause.events import Address, Place, State, SystemCall, Witnessed
from retsnoop_py.cause.files import Identity, missing_part, mount_of, near
from retsnoop_py.cause.operation import operation, path_of
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of, reason_of_start

#: Somebody who is not the owner of what a test makes.
OTHER = 54321


def call(name: str, error: int, *texts: tuple[int, str], **changes: object) -> SystemCall:
    given = {
        "time": 1,
        "tid": 7,
        "pid": 7,
        "process": "tool",
        "name": name,
        "error": error,
        "arguments": (0xFFFFFF9C, 0, 0, 0, 0, 0),
        "texts": texts,
        "address": None,
        "uid": 0,
        "gid": 0,
        "cwd": "/",
        "is_filtered": False,
    }
    return SystemCall(**given | changes)  # type: ignore[arg-type]


def reason(one: SystemCall, *others: SystemCall, said: tuple[str, ...] = ()) -> Reason:
    groups = Identity(one.uid, one.gid)
    found = reason_of(Scene(one, Witnessed((*others, one)), groups, said))
    assert found is not None
    return found


def test_which_part_of_a_path_is_missing(tmp_path: Path) -> None:
    (tmp_path / "settings.conf").touch()
    found = reason(call("openat", errno.ENOENT, (1, f"{tmp_path}/setings.conf")))
    assert found.kind == "not-found"
    assert found.text.startswith(f"{tmp_path}/setings.conf does not exist.")
    assert found.advice == (f"check the spelling: {tmp_path}/settings.conf exists",)
    deep = reason(call("mkdir", errno.ENOENT, (0, f"{tmp_path}/a/b/c")))
    assert deep.text.startswith(f"The directory {tmp_path}/a does not exist")
    assert deep.advice == (f"create it: mkdir -p {tmp_path}/a/b",)


def test_the_source_of_a_mount_without_a_device_is_no_path() -> None:
    one = call("mount", errno.ENOENT, (0, "none"), (1, "/nosuch/mnt"), (2, "tmpfs"), (4, ""))
    assert reason(one).text.startswith("The directory /nosuch does not exist")


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/nowhere/at/all")
    found = reason(call("openat", errno.ENOENT, (1, str(link))))
    assert "is a symbolic link to /nowhere/at/all" in found.text


def test_what_is_there_by_now_is_no_reason(tmp_path: Path) -> None:
    there = call("openat", errno.ENOENT, (1, str(tmp_path)))
    assert reason_of(Scene(there, Witnessed((there,)), Identity(0, 0))) is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own are not."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_directory_on_the_way_that_nobody_else_may_enter(open_folder: Path) -> None:
    inner = open_folder / "inner"
    inner.mkdir()
    (inner / "file").touch()
    inner.chmod(0o700)
    found = reason(call("openat", errno.EACCES, (1, f"{inner}/file"), uid=OTHER, gid=OTHER))
    assert found.kind == "file-mode"
    assert f"may not enter the directory {inner}: owner " in found.text
    assert "mode 0700" in found.text
    assert f"chmod o+x {inner}" in found.advice[1]


def test_the_right_that_is_missing_is_that_of_the_flags(tmp_path: Path) -> None:
    status = os.stat_result((0o100644, 0, 0, 0, 5, 5, 0, 0, 0, 0))
    assert Identity(OTHER, OTHER).may(status, os.R_OK)
    assert not Identity(OTHER, OTHER).may(status, os.W_OK)
    assert Identity(5, OTHER).may(status, os.R_OK | os.W_OK)
    assert not Identity(OTHER, OTHER, (5,)).may(status, os.W_OK)
    assert Identity(0, 0).may(status, os.W_OK)
    assert not Identity(0, 0).may(status, os.X_OK)


def test_the_same_name_in_many_folders_is_a_search() -> None:
    tried = [
        call("newfstatat", errno.ENOENT, (1, f"{folder}/nosuch")) for folder in ("/bin", "/usr/bin")
    ]
    found = reason(tried[-1], *tried[:-1])
    assert found.text == "nosuch is in none of the folders /bin, /usr/bin."
    assert not found.is_seen_later


def test_files_of_a_name_between_other_files_are_no_search(tmp_path: Path) -> None:
    """npm reads the package.json of each of its own packages, and then that of the user."""
    paths = (
        "/bin/package.json",
        "/usr/bin/package.json",
        "/nosuch/other",
        f"{tmp_path}/package.json",
    )
    tried = [call("openat", errno.ENOENT, (1, path)) for path in paths]
    found = reason(tried[-1], *tried[:-1])
    assert found.text.startswith(f"{tmp_path}/package.json does not exist.")
    programs = [call("execve", errno.ENOENT, (1, path)) for path in paths]
    found = reason(programs[-1], *programs[:-1])
    assert found.text == f"package.json is in none of the folders /bin, /usr/bin, {tmp_path}."


def test_a_library_that_is_nowhere() -> None:
    tried = [
        call("openat", errno.ENOENT, (1, f"{folder}/libx.so.1"))
        for folder in ("/nosuch/glibc-hwcaps", "/lib", "/usr/lib")
    ]
    found = reason(tried[-1], *tried[:-1])
    assert found.text.endswith("It looked in /lib, /usr/lib.")


def test_a_script_without_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/nosuch/python3 -E\n")
    found = reason_of_start(str(script), errno.ENOENT, 0, 0)
    assert found is not None
    assert "the interpreter /nosuch/python3 does not exist" in found.text
    script.write_text("#!/bin/sh\r\necho\r\n")
    found = reason_of_start(str(script), errno.ENOENT, 0, 0)
    assert found is not None
    assert "carriage return" in found.text
    assert found.advice == (f"sed -i 's/\\r$//' {script}",)


def test_what_is_no_program(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("echo hi\n")
    found = reason_of_start(str(text), errno.ENOEXEC, 0, 0)
    assert found is not None
    assert found.kind == "format"
    text.write_bytes(b"\x7fELF" + bytes(60))
    found = reason_of_start(str(text), errno.ENOEXEC, 0, 0)
    assert found is not None
    assert "another architecture" in found.text


def test_what_is_there_already(tmp_path: Path) -> None:
    found = reason(call("mkdirat", errno.EEXIST, (1, str(tmp_path))))
    assert found.text.startswith(f"There is a directory {tmp_path} already: owner ")
    link = call("symlinkat", errno.EEXIST, (0, "target"), (2, str(tmp_path)))
    assert f"There is a directory {tmp_path}" in reason(link).text


def test_who_has_the_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        address = Address(socket.AF_INET, "0.0.0.0", port)
        found = reason(call("bind", errno.EADDRINUSE, address=address))
    assert f"(PID {os.getpid()}) listens on port {port} (tcp)" in found.text


def test_a_low_port_needs_a_capability() -> None:
    address = Address(socket.AF_INET, "0.0.0.0", 1)
    found = reason(call("bind", errno.EACCES, address=address, uid=OTHER))
    assert "CAP_NET_BIND_SERVICE" in found.text


def test_the_kernels_own_words_come_first() -> None:
    one = call("mount", errno.EINVAL, (0, "none"), (1, "/proc"), (2, "tmpfs"))
    bad = reason(one, said=("tmpfs: Bad value for 'mode'",))
    assert bad.advice == ("correct the value of the option mode",)
    found = reason(one, said=("tmpfs: Unknown parameter 'sise'",))
    assert found.text == "The kernel reported: \"tmpfs: Unknown parameter 'sise'\""
    assert found.advice == ("remove the option sise, or check its spelling",)


def test_what_is_no_mount_point(tmp_path: Path) -> None:
    flags = (0, 0, 0, 1 << 20, 0, 0)
    one = call("mount", errno.EINVAL, (0, "none"), (1, str(tmp_path)), arguments=flags)
    assert operation(one) == f"changing the mount {tmp_path}"
    assert "is not a mount point" in reason(one).text


def test_operations_in_words() -> None:
    assert operation(call("openat", 2, (1, "/a b"))) == "opening '/a b'"
    assert operation(call("renameat2", 2, (1, "x"), (3, "y"))) == "renaming x to y"
    assert operation(call("bpf", 22)) == "bpf()"
    assert operation(call("unlinkat", 2, (1, ""))) == "unlinkat()"


def test_signals_in_words() -> None:
    def sent(name: str, *arguments: int) -> str:
        return operation(call(name, errno.EPERM, arguments=arguments))

    assert sent("kill", 1, 9) == "sending SIGKILL to process 1"
    assert sent("kill", 2**32 - 5, 15) == "sending SIGTERM to process group 5"
    assert sent("kill", 0, 15) == "sending SIGTERM to its process group"
    assert sent("tgkill", 7, 8, 6) == "sending SIGABRT to thread 8"
    assert sent("tkill", 8, 99) == "sending signal 99 to thread 8"


def test_ranges_in_words() -> None:
    def changed(flags: int) -> str:
        places, arguments = ((0, place("/srv/f")),), (5, flags, 0, 1, 0, 0)
        return operation(call("fallocate", errno.EINVAL, places=places, arguments=arguments))

    assert changed(0) == changed(1) == "reserving space for /srv/f"
    assert changed(3) == "punching a hole in /srv/f"
    assert changed(8) == "removing a range of /srv/f"


def test_relative_paths_are_those_of_the_process() -> None:
    assert path_of(call("openat", 2, (1, "x"), cwd="/srv")) == "/srv/x"
    assert path_of(call("openat", 2, (1, "x"), cwd=None)) is None
    beneath = call("openat", 2, (1, "x"), cwd="/srv", arguments=(5, 0, 0, 0, 0, 0))
    assert path_of(beneath) is None, "below a descriptor that we do not know"
    assert path_of(call("mkdir", 2, (0, "x"), cwd="/srv", arguments=(5,) * 6)) == "/srv/x"


def test_paths(tmp_path: Path) -> None:
    assert missing_part(f"{tmp_path}/x/y") == (f"{tmp_path}/x", None)
    assert missing_part(str(tmp_path)) is None
    (tmp_path / "README").touch()
    assert near(f"{tmp_path}/readme") == f"{tmp_path}/README"
    assert near(f"{tmp_path}/something") is None
    proc = mount_of("/proc/self/status")
    assert proc is not None
    assert (proc.point, proc.kind) == ("/proc", "proc")


def place(path: str | None, **changes: bool) -> Place:
    return Place(path, 0o040755, 5, **changes)


def test_paths_begin_at_a_descriptor_at_the_folder_or_at_the_root() -> None:
    at = {"arguments": (3, 0, 0, 0, 0, 0), "cwd": "/home"}
    folder = call("openat", errno.EACCES, (1, "f"), places=((0, place("/srv/out")),), **at)
    assert path_of(folder) == "/srv/out/f"
    assert operation(folder) == "opening /srv/out/f"
    assert path_of(call("openat", errno.EACCES, (1, "f"), cwd="/home")) == "/home/f"
    assert path_of(call("openat", errno.EACCES, (1, "f"), **at)) is None
    gone = call("openat", errno.EACCES, (1, "f"), places=((0, place("/x", is_deleted=True)),), **at)
    assert path_of(gone) is None
    assert path_of(call("openat", errno.ENOENT, (1, "/bin/sh"), root="/srv/root")) == (
        "/srv/root/bin/sh"
    )
    assert path_of(call("openat", errno.ENOENT, (1, "/bin/sh"), root=None)) is None
    assert path_of(call("symlinkat", errno.EEXIST, (0, "to"), (2, "f"), cwd="/home"), 1) is None


def test_a_call_with_a_descriptor_is_about_its_file(tmp_path: Path) -> None:
    full = call("write", errno.ENOSPC, places=((0, place(f"{tmp_path}/disk.img")),))
    assert operation(full) == f"writing to {tmp_path}/disk.img"
    assert path_of(full) == f"{tmp_path}/disk.img"
    pipe = Place(None, 0o010600, 5, is_detached=True)
    assert operation(call("write", errno.EPIPE, places=((0, pipe),))) == "writing to a pipe"
    only_read = call(
        "write", errno.EBADF, places=((0, place("/srv/log")),), arguments=(5, 0, 0, 0, 0, 0)
    )
    assert reason(only_read).text == "File descriptor 5 (/srv/log) is not open for writing."


def test_a_path_of_another_mount_namespace_is_not_looked_up(tmp_path: Path) -> None:
    found = reason(call("openat", errno.ENOENT, (1, f"{tmp_path}/f"), is_elsewhere=True))
    assert found.kind == "elsewhere"
    other = call("mount", errno.EPERM, (0, "proc"), (1, "/mnt"), is_elsewhere=True)
    assert reason_of(Scene(other, Witnessed((other,)), Identity(0, 0))) is None
    assert f"could not look up {tmp_path}/f" in found.text


def test_names_that_cannot_be_printed(tmp_path: Path) -> None:
    found = reason(call("openat", errno.ENOENT, (1, f"{tmp_path}/a\n\x1b[31m\udce9'")))
    quoted = f"$'{tmp_path}/a\\x0a\\x1b[31m\\xe9\\x27'"
    assert found.text.startswith(f"{quoted} does not exist.")
    assert found.text.isprintable()
    found.text.encode()
    assert operation(call("unlink", errno.ENOENT, (0, "a\n"))) == r"removing $'a\x0a'"


def test_the_home_directory_of_another_user(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = open_folder / "home"
    home.mkdir()
    home.chmod(0o700)
    one = call("mkdir", errno.EACCES, (0, f"{home}/.cache"), uid=OTHER, gid=OTHER)
    assert "home directory" not in reason(one).text
    monkeypatch.setattr(files, "is_home", lambda path, _: path == str(home))
    found = reason(one)
    assert "It is the home directory of " in found.text
    assert found.advice[-1].startswith("or set HOME to a directory of user ")


def test_a_program_that_nobody_may_run(open_folder: Path) -> None:
    script = open_folder / "run.sh"
    script.write_text("#!/bin/sh\necho hi\n")
    script.chmod(0o644)
    found = reason(call("execve", errno.EACCES, (0, str(script))))
    assert f"{script} is not executable" in found.text
    assert found.advice == (
        f"chmod +x {script}",
        f"or run it with its interpreter: /bin/sh {script}",
    )


def test_the_advice_for_a_mode_fits_the_user(open_folder: Path) -> None:
    file = open_folder / "f"
    file.touch()
    file.chmod(0o400)
    os.chown(file, OTHER, 0)
    at = {"uid": OTHER, "gid": OTHER, "arguments": (0xFFFFFF9C, 0, 1, 0, 0, 0)}
    assert reason(call("openat", errno.EACCES, (1, str(file)), **at)).advice == (
        f"chmod u+w {file}",
    )
    system = reason(call("openat", errno.EACCES, (1, "/etc/passwd"), **at))
    assert not any("chmod" in one for one in system.advice)
    setting = call("openat", errno.EACCES, (1, "/proc/sys/vm/swappiness"), **at)
    assert reason(setting).advice == ("run it as root",)


def test_a_group_that_the_process_does_not_have(open_folder: Path) -> None:
    import grp

    file = open_folder / "f"
    file.touch()
    group = grp.getgrnam("daemon")
    os.chown(file, 0, group.gr_gid)
    file.chmod(0o640)
    found = reason(call("openat", errno.EACCES, (1, str(file)), uid=65534, gid=65534))
    assert found.advice[1].startswith("or add nobody to the group")
    # the user daemon has the group by the database, and this process does not
    daemon = pwd.getpwnam("daemon").pw_uid
    stale = call("openat", errno.EACCES, (1, str(file)), uid=daemon, gid=65534)
    assert "log in again: user daemon is a member of group daemon" in reason(stale).advice[0]


def test_a_socket_that_the_user_may_not_connect_to(open_folder: Path) -> None:
    path = open_folder / "app.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        address = Address(socket.AF_UNIX, path=str(path))
        denied = call("connect", errno.EACCES, address=address, uid=OTHER, gid=OTHER)
        assert f"may not connect to the socket {path}" in reason(denied).text
    path.unlink()
    gone = reason(call("connect", errno.ENOENT, address=address))
    assert gone.text.startswith(f"The socket {path} does not exist")


@pytest.mark.parametrize(
    ("path", "text", "advice"),
    [
        ("/run/netns/bluex", "There is no network namespace bluex.", "ip netns add bluex"),
        ("/proc/3999999/status", "There is no process with the id 3999999.", "pgrep"),
        ("/sys/class/net/zz7/mtu", "There is no network interface zz7.", "ip link"),
        ("/proc/sys/net/nosuch", "This kernel has no setting /proc/sys/net/nosuch.", "sysctl -a"),
        ("/dev/nosuchdisk", "There is no device /dev/nosuchdisk.", "lsblk"),
    ],
)
def test_paths_with_a_meaning_of_their_own(path: str, text: str, advice: str) -> None:
    found = reason(call("openat", errno.ENOENT, (1, path)))
    assert found.text == text
    assert any(advice in one for one in found.advice)


def test_what_is_missing_inside_of_a_thing_is_not_the_thing() -> None:
    found = reason(call("openat", errno.ENOENT, (1, f"/proc/{os.getpid()}/nosuch")))
    assert "There is no process" not in found.text
    assert "does not exist" in found.text


def test_a_directory_below_dev_that_holds_files_is_no_device() -> None:
    found = reason(call("openat", errno.ENOENT, (1, "/dev/shm/nosuch/f")))
    assert "/dev/shm/nosuch does not exist" in found.text


def test_what_cannot_be_looked_up_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: str) -> str:
        raise PermissionError(errno.EACCES, "closed")

    monkeypatch.setattr(os.path, "realpath", closed)
    assert mount_of("/proc/1/ns/net") is None
    one = call("umount2", errno.EBUSY, (0, "/proc/1/ns/net"))
    assert reason_of(Scene(one, Witnessed((one,)), Identity(0, 0))) is None


def test_files_that_only_the_kernel_makes() -> None:
    made = reason(call("mkdir", errno.EPERM, (0, "/proc/nosuch")))
    assert made.text.startswith("/proc/nosuch does not exist, and no program can create it")
    assert made.advice == ("choose another place",)
    opened = call("openat", errno.EACCES, (1, "/proc/sys/kernel/pid_maxx"), arguments=(0, 0, 0o101))
    assert reason(opened).text == "This kernel has no setting /proc/sys/kernel/pid_maxx."
    nearly = call("openat", errno.EACCES, (1, "/proc/versoin"), arguments=(0, 0, 0o101))
    assert reason(nearly).advice[0] == "check the spelling: /proc/version exists"
    kept = reason(call("unlinkat", errno.EPERM, (1, "/proc/version")))
    assert "no program can remove or rename them" in kept.text
    written = reason(call("write", errno.EIO, places=((0, place("/proc/version")),)))
    assert written.text.startswith("/proc/version can only be read")
    value = call("write", errno.EINVAL, places=((0, place("/proc/sys/kernel/pid_max")),))
    assert "kernel.pid_max does not accept the value" in reason(value).text


def test_a_setting_names_what_it_takes_and_what_was_written() -> None:
    def written(text: bytes, *bounds: int | None) -> Reason:
        state = State(written=text, bounds=bounds or None)  # type: ignore[arg-type]
        places = ((0, place("/proc/sys/kernel/pid_max")),)
        return reason(call("write", errno.EINVAL, places=places, state=state))

    found = written(b"1\n", 301, 4194304)
    assert found.text.startswith(
        "The setting kernel.pid_max takes a number from 301 to 4194304, and not the value 1."
    )
    assert found.advice == ("choose a number from 301 to 4194304",)
    assert "a number of at least 5, and not" in written(b"1", 5, None).text
    assert "a number of at most 5, and not" in written(b"9", None, 5).text
    assert "does not accept the value 'a b': it is out of range" in written(b"a b").text


def test_a_directory_is_not_moved_into_itself(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    texts = (0, f"{tmp_path}/d"), (1, f"{tmp_path}/d/e/f")
    found = reason(call("rename", errno.EINVAL, *texts))
    assert found.kind == "into-itself"
    assert found.text.startswith(f"{tmp_path}/d/e/f would be inside of {tmp_path}/d itself.")


def test_the_device_that_is_always_full() -> None:
    full = call("write", errno.ENOSPC, places=((0, place("/dev/full")),))
    assert reason(full).text.startswith("/dev/full is the device that is always full")


def test_what_files_of_the_kernel_accept() -> None:
    state = State(written=b"5000\n")
    places = ((0, place("/proc/self/oom_score_adj")),)
    found = reason(call("write", errno.EINVAL, places=places, state=state))
    assert found.text == (
        "The file /proc/self/oom_score_adj takes a number from -1000 to 1000, and not the value "
        "5000."
    )


def test_a_pipe_without_a_reader_and_a_closed_connection() -> None:
    pipe = Place(None, stat.S_IFIFO, 9, is_detached=True)
    found = reason(call("write", errno.EPIPE, places=((0, pipe),)))
    assert (found.kind, found.text[:10]) == ("closed", "No process")
    socket_ = Place(None, stat.S_IFSOCK, 9, is_detached=True)
    assert (
        "connection is closed" in reason(call("sendto", errno.EPIPE, places=((0, socket_),))).text
    )


def test_a_descriptor_that_is_no_socket() -> None:
    found = reason(
        call("listen", errno.ENOTSOCK, places=((0, place("/dev/null")),), arguments=(0,) * 6)
    )
    assert found.text == "Standard input (/dev/null) is not a socket."


def test_a_datagram_that_is_too_large() -> None:
    given = {
        "address": Address(socket.AF_INET, "192.0.2.1", 9),
        "arguments": (3, 0, 70000, 0, 0, 0),
    }
    text = reason(call("sendto", errno.EMSGSIZE, **given)).text
    assert text == "The message has 70000 bytes. A UDP datagram carries at most 65507."


def test_advice_to_create_a_folder_is_for_calls_that_make_something() -> None:
    def advice(name: str, flags: int) -> tuple[str, ...]:
        arguments = (0xFFFFFF9C, 0, flags, 0, 0, 0)
        return reason(call(name, errno.ENOENT, (1, "/nosuch/f"), arguments=arguments)).advice

    assert advice("openat", os.O_CREAT) == ("create it: mkdir -p /nosuch",)
    assert advice("openat", os.O_RDONLY) == ()
    assert advice("faccessat", 0) == ()


def test_a_device_without_that_file_system() -> None:
    one = call("mount", errno.EINVAL, (0, "/dev/loop0"), (1, "/mnt"), (2, "ext4"))
    found = reason(one, said=("EXT4-fs (loop0): VFS: Can't find ext4 filesystem",))
    assert found.advice[0].startswith("blkid /dev/loop0 shows what is on the device; mount it as")


def test_a_host_name_that_is_too_long() -> None:
    one = call("sethostname", errno.EINVAL, (0, "a" * 89), arguments=(0, 89, 0, 0, 0, 0))
    assert reason(one).text == "The name has 89 characters. A host name has at most 64."


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (
            "BTRFS warning (device loop0): swapfile must not be copy-on-write",
            "create the swap file with btrfs filesystem mkswapfile",
        ),
        ("BTRFS info (device loop0): first mount of filesystem 1234", ""),
        ("BTRFS error (device sdb1): open_ctree failed", "btrfs check --readonly /dev/sdb1"),
        ("XFS (loop1): Mounting V5 Filesystem 1234", ""),
        ("XFS (sda1): Metadata corruption detected at xfs_agf_read_verify", "xfs_repair /dev/sda1"),
        (
            "device-mapper: table: 252:0: loop0 too small for target: start=0, len=99, dev_size=16",
            "shorten the table: loop0 has 16 sectors",
        ),
        ("XFS (loop1): Invalid superblock magic number", "blkid /dev/loop1 shows what is on"),
        ("XFS (sdb1): Filesystem has duplicate UUID 12-34 - can't mount", "-U generate /dev/sdb1"),
        ("overlay: filesystem on /srv/up not supported as upperdir", "put upperdir on another"),
        (
            "EXT4-fs (sdb1): bad geometry: block count 8192 exceeds size of device (4096 blocks)",
            "has 8192 blocks and /dev/sdb1 only 4096",
        ),
        ('ntfs3(sdb1): volume is dirty and "force" flag is not set!', "--clear-dirty /dev/sdb1"),
    ],
)
def test_only_a_message_about_damage_advises_a_check(message: str, advice: str) -> None:
    found = reason(call("swapon", errno.EINVAL), said=(message,))
    assert found.kind == "kernel-message"
    assert bool(found.advice) == bool(advice)
    assert advice in " ".join(found.advice)


def test_the_message_about_the_cause_is_quoted_and_not_what_follows() -> None:
    said = (
        "device-mapper: table: 252:0: loop0 too small for target: start=0, len=99, dev_size=16",
        "device-mapper: core: Cannot calculate initial queue limits",
        "device-mapper: ioctl: unable to set up device queue for new table.",
    )
    found = reason(call("ioctl", errno.EINVAL), said=said)
    assert found.text == f'The kernel reported: "{said[0]}"'
    assert reason(call("ioctl", errno.EINVAL), said=said[1:]).text.count('"') == 4


def test_no_copy_in_the_kernel_between_two_file_systems() -> None:
    memory, program = ("/dev/shm", "/proc") if os.path.ismount("/dev/shm") else ("/sys", "/proc")
    places = (
        (0, Place(f"{memory}/source", stat.S_IFREG | 0o644, 7)),
        (2, Place(f"{program}/target", stat.S_IFREG | 0o644, 8)),
    )
    found = reason(call("copy_file_range", errno.EXDEV, places=places))
    assert found.kind == "two-file-systems"
    assert f"{memory}/source is in the" in found.text
    assert "copy_file_range() does not copy between these two" in found.text
    with pytest.raises(AssertionError):
        reason(call("copy_file_range", errno.EXDEV, places=places[:1]))
