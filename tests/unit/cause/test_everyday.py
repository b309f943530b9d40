# SPDX-License-Identifier: BSD-2-Clause
"""Everyday failures, made by real calls: what the first paragraph has to name."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import OTHER, call, reason

from retsnoop_py.cause import files, mounts, not_found, room, sysctl
from retsnoop_py.cause.events import Address, Denied, Place, State, Witnessed, Written
from retsnoop_py.cause.files import Identity, mount_of
from retsnoop_py.cause.operation import operation
from retsnoop_py.cause.own_words import own_decision, own_words
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.kernel.capabilities import CAPABILITIES


def here(**changes: object) -> State:
    """The state of a process in our network namespace."""
    return State(**{"network": Path("/proc/self/ns/net").stat().st_ino} | changes)  # type: ignore[arg-type]


def in_chain(one: object, *chain: str) -> Reason | None:
    return reason_of(Scene(one, Witnessed((one,)), Identity(0, 0), chain=chain))  # type: ignore[arg-type]


# -- programs ----------------------------------------------------------------------------------


def test_a_program_that_is_cut_short(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(Path(sys.executable).resolve().read_bytes()[:500])
    program.chmod(0o755)
    with pytest.raises(OSError) as raised:  # noqa: PT011
        os.execv(program, ["tool"])
    found = reason(call("execve", raised.value.errno or 0, (0, str(program))))
    assert found.kind == "format"
    assert "for this machine, and its file is cut short: it has 500 bytes" in found.text
    assert "its headers end at byte " in found.text


def test_a_program_whose_headers_are_whole(tmp_path: Path) -> None:
    image = bytearray(Path(sys.executable).resolve().read_bytes())
    image[16:18] = b"\xff\xff"
    (tmp_path / "tool").write_bytes(image)
    found = reason(call("execve", errno.ENOEXEC, (0, f"{tmp_path}/tool")))
    assert found.text.endswith("the kernel cannot load it. Its file is probably damaged.")
    (tmp_path / "tool").write_bytes(image[:10])
    short = reason(call("execve", errno.ENOEXEC, (0, f"{tmp_path}/tool")))
    assert "is cut short: it has 10 bytes" in short.text


def test_a_program_for_another_machine(tmp_path: Path) -> None:
    image = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    image[18:20] = (22).to_bytes(2, "little")
    (tmp_path / "tool").write_bytes(image)
    found = reason(call("execve", errno.ENOEXEC, (0, f"{tmp_path}/tool")))
    assert f"is a program for S/390. This machine is {os.uname().machine}." in found.text


def test_an_object_file_is_no_program(tmp_path: Path) -> None:
    image = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    image[16:18] = (1).to_bytes(2, "little")
    (tmp_path / "tool.o").write_bytes(image)
    found = reason(call("execve", errno.ENOEXEC, (0, f"{tmp_path}/tool.o")))
    assert "is an object file" in found.text
    assert found.advice == (f"link it: cc -o PROGRAM {tmp_path}/tool.o",)


# -- open files --------------------------------------------------------------------------------


def place(path: str) -> Place:
    status = Path(path).stat()
    return Place(path, status.st_mode, status.st_ino)


def test_a_command_that_needs_a_terminal() -> None:
    found = reason(
        call(
            "ioctl",
            errno.ENOTTY,
            arguments=(0, 0x5402, 0, 0, 0, 0),
            places=((0, place("/dev/null")),),
        )
    )
    assert found.text == "Standard input (/dev/null) is not a terminal."
    assert found.advice[0] == "run it in a terminal: ssh -t, docker run -it"


def test_no_controlling_terminal_is_no_missing_driver() -> None:
    found = reason(call("openat", errno.ENXIO, (1, "/dev/tty")))
    assert found.text == "/dev/tty is the terminal of the process, and the process has none."


def test_the_holder_of_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        one = call(
            "flock",
            errno.EAGAIN,
            pid=1,
            arguments=(3, 6, 0, 0, 0, 0),
            places=((0, place(str(path))),),
        )
        found = reason(one)
    assert f"PID {os.getpid()} " in found.text
    assert f"holds a lock on {path}." in found.text
    assert reason(one).text == (
        f"Another process held a lock on {path}. /proc/locks lists no holder any more."
    )


def test_direct_input_of_odd_sizes(tmp_path: Path) -> None:
    one = call(
        "read",
        errno.EINVAL,
        arguments=(3, 4096, 100, 0, 0, 0),
        places=((0, place(str(tmp_path))),),
    )
    found = in_chain(one, "ext4_file_read_iter", "iomap_dio_rw")
    assert found is not None
    assert "open with O_DIRECT" in found.text
    assert found.text.endswith("(512 or 4096 bytes). Here the size is 100 bytes.")
    assert in_chain(one) is None


def test_mappings_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    places = ((4, place(f"{tmp_path}/data")),)
    shared = reason(call("mmap", errno.EACCES, arguments=(0, 4, 3, 1, 3, 0), places=places))
    assert "is open for reading and writing (MAP_SHARED with PROT_WRITE)" in shared.text
    empty = reason(call("mmap", errno.EINVAL, arguments=(0, 0, 1, 2, 3, 0), places=places))
    assert empty.text == "The length of the mapping is 0."
    odd = reason(call("mmap", errno.EINVAL, arguments=(0, 4, 1, 2, 3, 100), places=places))
    assert odd.text.startswith("The offset of the mapping is 100, which is no multiple of ")


def test_a_library_in_a_mount_with_noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib.so").touch()
    table = tmp_path / "mountinfo"
    table.write_text(f"30 1 0:60 / {tmp_path} rw,noexec - tmpfs t rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    places = ((4, place(f"{tmp_path}/lib.so")),)
    found = reason(call("mmap", errno.EPERM, arguments=(0, 4, 5, 2, 3, 0), places=places))
    assert f"{tmp_path} is mounted with noexec" in found.text
    assert f"shared libraries such as {tmp_path}/lib.so" in found.text


# -- file systems ------------------------------------------------------------------------------


def test_a_mount_point_is_not_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that Docker mounts, such as /etc/hosts: sed -i makes a new file and renames it."""
    table, new = tmp_path / "mountinfo", tmp_path / "new"
    table.write_text(f"36 1 8:1 / / rw - ext4 x rw\n37 36 8:1 /a {tmp_path}/f rw - ext4 x rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    for name in ("f", "new", "g"):
        (tmp_path / name).touch()
    one = call("rename", errno.EBUSY, (0, str(new)), (1, f"{tmp_path}/f"))
    found = reason(one)
    assert found.kind == "busy"
    assert found.text.startswith(f"{tmp_path}/f is a mount point: another file is mounted over it")
    assert f"cat NEW >{tmp_path}/f" in found.advice[0]
    away = call("rename", errno.EBUSY, (0, f"{tmp_path}/f"), (1, f"{tmp_path}/g"))
    assert reason(away).text == f"{tmp_path}/f is a mount point, and no program can rename one."


def test_a_mount_that_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    shared = "36 1 8:1 / / rw shared:1 - ext4 x rw\n"
    table.write_text(f"{shared}37 36 0:9 / {tmp_path}/m rw - tmpfs t rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    (tmp_path / "m").mkdir()
    (tmp_path / "new").mkdir()
    texts, move = ((0, f"{tmp_path}/m"), (1, f"{tmp_path}/new")), (0, 0, 0, 1 << 13, 0, 0)
    found = reason(call("mount", errno.EINVAL, *texts, arguments=move))
    assert found.text.startswith(f"{tmp_path}/m is mounted below /, which is a shared mount.")
    assert found.advice[0].startswith("mount --make-private /")
    texts = ((0, f"{tmp_path}/new"), (1, f"{tmp_path}/m"))
    found = reason(call("mount", errno.EINVAL, *texts, arguments=move))
    assert found.text == f"{tmp_path}/new is not a mount point. Only a mount can be moved."


def test_a_missing_mount_point_is_to_be_created(tmp_path: Path) -> None:
    found = reason(call("mount", errno.ENOENT, (0, "x"), (1, f"{tmp_path}/new"), (2, "tmpfs")))
    assert found.text.startswith(f"{tmp_path}/new does not exist.")
    assert found.advice == (f"create it: mkdir {tmp_path}/new",)


def test_the_words_of_a_first_line_are_one_name() -> None:
    """``#!/usr/bin/env python3 -u``: env looks for a program called "python3 -u"."""
    calls = [
        call("execve", errno.ENOENT, (0, f"/{folder}/python3 -u")) for folder in ("bin", "sbin")
    ]
    found = reason(*reversed(calls))
    assert "A program with the name 'python3 -u', of several words, was looked for" in found.text
    assert "#!/usr/bin/env PROGRAM ARGUMENT passes all words after env as one." in found.text
    assert found.advice[0].endswith("#!/usr/bin/env -S PROGRAM ARGUMENT")
    assert not any("python3" in one for one in found.advice), "CMD chooses no part of an advice"
    assert found.is_inferred


def test_what_fat_does_not_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("29 1 8:17 / /media/stick rw,relatime shared:1 - vfat /dev/sdb1 rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    owned = reason(call("fchownat", errno.EPERM, (1, "/media/stick/f")))
    assert "stores no owner and no mode for each file" in owned.text
    assert "mount -o uid=USER,gid=GROUP,umask=022 /dev/sdb1 /media/stick" in owned.advice[0]
    linked = reason(call("symlinkat", errno.EPERM, (0, "f"), (2, "/media/stick/g")))
    assert "creating the symbolic link /media/stick/g" in linked.text
    named = reason(call("openat", errno.EINVAL, (1, "/media/stick/12:30.txt")))
    assert "allows no names with :" in named.text
    large = reason(call("ftruncate", errno.EFBIG, (0, "/media/stick/f")))
    assert "4294967295 bytes" in large.text


def test_a_file_system_whose_program_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("30 1 0:60 / /mnt/remote rw - fuse.sshfs host:/ rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    found = reason(call("openat", errno.ENOTCONN, (1, "/mnt/remote/f")))
    assert "The program that serves the fuse.sshfs file system at /mnt/remote has" in found.text


def test_a_hard_link_of_a_directory_or_to_another_file_system(tmp_path: Path) -> None:
    there = call("link", errno.EPERM, (0, str(tmp_path)), (1, f"{tmp_path}/new"))
    assert "a directory cannot have a second hard link" in reason(there).text
    here, shared = mount_of(str(tmp_path)), mount_of("/dev/shm")
    if here is not None and shared is not None and here != shared:
        away = reason(call("link", errno.EXDEV, (0, f"{tmp_path}/a"), (1, "/dev/shm/b")))
        assert away.advice[0] == f"make a symbolic link: ln -s {tmp_path}/a /dev/shm/b"


def test_a_hard_link_of_a_link_of_proc() -> None:
    """ln(1) without -L links the link; with -L the file behind it, which cannot be looked up."""
    texts = ((1, "/proc/self/fd/3"), (3, "/tmp/new"))
    found = reason(call("linkat", errno.EXDEV, *texts))
    assert "is a symbolic link in /proc" in found.text
    assert found.advice[0].startswith("link the file behind it: ln -L /proc/self/fd/3 /tmp/new")
    assert not any("ln -s" in one for one in found.advice)
    followed = reason(
        call("linkat", errno.EXDEV, *texts, arguments=(0xFFFFFF9C, 0, 0xFFFFFF9C, 0, 0x400, 0))
    )
    assert followed.text.startswith("The file behind /proc/self/fd/3 is in another file system")
    assert followed.is_inferred


@pytest.mark.parametrize(
    ("condition", "words_of_it"),
    [
        ("map->nr_extents != 0", "The map was written before."),
        ("new_idmap_permitted() == 0", "The map has users or groups that the writer may not map"),
        ("file_ns_capable() == 0", "The writer does not have CAP_SYS_ADMIN in the user namespace"),
        (None, "The map of the user namespace was written before, or the writer may not"),
    ],
)
def test_a_map_of_a_user_namespace(condition: str | None, words_of_it: str) -> None:
    one = call("write", errno.EPERM)
    who, chain = Identity(65534, 65534), ("proc_uid_map_write", "map_write")
    found = reason_of(Scene(one, Witnessed((one,)), who, chain=chain, condition=condition))
    assert found is not None
    assert found.text.startswith(words_of_it)
    assert found.is_inferred == (condition is None)


def test_namespaces_need_a_user_namespace_or_root() -> None:
    one = call("unshare", errno.EPERM, uid=OTHER, state=State(begin=1))
    denied = Denied(1, one.tid, CAPABILITIES.index("SYS_ADMIN"))
    found = reason_of(Scene(one, Witnessed((one,), denied=(denied,)), Identity(OTHER, OTHER)))
    assert found is not None
    assert found.advice[0] == "run it as root"
    assert "unshare --user --map-root-user" in found.advice[1]


@pytest.mark.parametrize(
    ("name", "words_of_it"),
    [("SYS_ADMIN", "The writer does not have CAP_SYS_ADMIN"), ("SETGID", "The map has users or")],
)
def test_a_map_of_a_user_namespace_by_the_tested_capability(name: str, words_of_it: str) -> None:
    one = call("write", errno.EPERM, state=State(begin=1))
    denied = Denied(1, one.tid, CAPABILITIES.index(name))
    seen, who = Witnessed((one,), denied=(denied,)), Identity(65534, 65534)
    found = reason_of(Scene(one, seen, who, chain=("proc_gid_map_write", "map_write")))
    assert found is not None
    assert found.text.startswith(words_of_it)
    assert not found.is_inferred


def test_a_file_of_sysfs_that_lists_its_words() -> None:
    """The kernel shows the chosen word in brackets."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    if not Path(path).exists():
        pytest.skip("this kernel has no transparent huge pages")
    found = reason(call("write", errno.EINVAL, places=((0, place(path)),)))
    assert "takes one of these words: always, madvise, never, and not" in found.text
    other = "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan"
    found = reason(call("write", errno.EINVAL, places=((0, place(other)),)))
    assert f"It has {Path(other).read_text().strip()} now." in found.text
    assert found.is_inferred


def test_the_end_of_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.stat, "S_ISBLK", lambda mode: True)  # type: ignore[attr-defined]
    device = tmp_path / "sdz"
    device.touch()
    found = reason(call("write", errno.ENOSPC, places=((0, place(str(device))),)))
    assert found.text == f"{device} is a device, and the command wrote up to its end."
    assert f"blockdev --getsize64 {device}" in found.advice[0]


def test_a_file_system_that_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sort(1) removes its temporary files when it fails."""
    mount = files.Mount(str(tmp_path), "ext4", ("rw",), "/dev/loop0")
    monkeypatch.setattr(files, "mount_of", lambda _: mount)
    found = reason(call("write", errno.ENOSPC, places=((0, place(str(tmp_path))),)))
    assert "had no space left when the command wrote. Now " in found.text
    assert "TMPDIR=DIRECTORY" in found.advice[0]
    assert found.is_inferred


def test_a_mount_without_its_helper() -> None:
    """mount(8) passes the type and its options to the kernel if there is no /sbin/mount.ceph."""
    if any(Path(one).exists() for one in ("/sbin/mount.ceph", "/usr/sbin/mount.ceph")):
        pytest.skip("this machine has mount.ceph")
    texts = ((0, "host:/"), (1, "/mnt"), (2, "ceph"))
    found = reason(call("mount", errno.EINVAL, *texts, process="mount"))
    assert (
        found.text == "There is no program /sbin/mount.ceph, which mount needs for the type ceph."
    )
    assert found.advice == ("install the package ceph-common",)


def test_a_program_outside_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").touch(0o755)
    monkeypatch.setattr(not_found, "_UNSEARCHED", (str(tmp_path),))
    found = not_found.not_in_folders("tool", ["/bin"])
    assert found.advice == (
        f"give the path {tmp_path}/tool, or search there: PATH=$PATH:{tmp_path}",
    )


def test_a_lock_file_that_was_left(tmp_path: Path) -> None:
    lock = tmp_path / "index.lock"
    lock.touch()
    found = reason(call("openat", errno.EEXIST, (1, str(lock)), process="git"))
    assert f"There is a lock file {lock} already" in found.text
    assert found.advice[1] == f"if there is none: rm {lock}"
    assert found.is_inferred


def test_a_file_that_exists_and_cannot_be_removed() -> None:
    """tar(1) removes an existing file first, and only reports that it exists."""
    who = {"uid": 65534, "gid": 65534}
    unlinked = call("unlinkat", errno.EACCES, (1, "/etc/passwd"), **who)
    found = reason(call("openat", errno.EEXIST, (1, "/etc/passwd"), **who), unlinked)
    assert found.kind == "file-mode"
    assert found.text.startswith("There is a file /etc/passwd already, and the command could not")
    assert "may not add or remove entries in the directory /etc" in found.text


def test_swap_space_in_memory() -> None:
    if (mount := mount_of("/dev/shm")) is None or mount.kind != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        found = reason(call("swapon", errno.EINVAL, (0, file.name)))
    assert "is in the tmpfs file system at /dev/shm. Files there cannot be swap space" in found.text


def test_the_object_of_a_call_on_a_descriptor_only() -> None:
    at = {"arguments": (0, 0, 0, 0, 0, 0), "places": ((0, place("/tmp")),)}
    assert operation(call("utimensat", errno.EPERM, **at)) == "setting the times of /tmp"
    group = call("fchownat", errno.EPERM, (1, "/x"), arguments=(0, 0, 0xFFFFFFFF, 0, 0, 0))
    assert operation(group) == "changing the group of /x"


def test_attributes_that_a_file_cannot_have_or_does_not_have(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    found = reason(call("lsetxattr", errno.EPERM, (0, str(link)), (1, "user.note")))
    assert "is a symbolic link. Only regular files and directories can have" in found.text
    gone = reason(call("getxattr", errno.ENODATA, (0, str(tmp_path)), (1, "user.note")))
    assert gone.text == f"{tmp_path} does not have the attribute user.note."


def test_a_layer_of_an_overlay_that_does_not_exist(tmp_path: Path) -> None:
    options = f"lowerdir={tmp_path}:{tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}"
    texts = ((0, "overlay"), (1, str(tmp_path)), (2, "overlay"), (4, options))
    found = reason(call("mount", errno.ENOENT, *texts))
    assert found.text == f"The directory {tmp_path}/lower of the option lowerdir does not exist."


def test_a_new_root_that_is_no_mount_point(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    found = reason(call("pivot_root", errno.EINVAL, (0, str(tmp_path)), (1, f"{tmp_path}/old")))
    assert found.text.startswith(f"{tmp_path} is not a mount point.")


def test_a_new_root_in_the_mount_of_the_root_of_another_mount_namespace() -> None:
    """EBUSY has one meaning, so the mounts of that namespace need not be known."""
    paths = (0, "/srv/new"), (1, "/srv/new/old")
    found = reason(call("pivot_root", errno.EBUSY, *paths, is_elsewhere=True))
    assert found.kind == "no-mount-point"
    assert "/srv/new or /srv/new/old is in the mount of the current root" in found.text
    assert found.advice[0].endswith("mount --bind /srv/new /srv/new")


def test_a_command_in_the_mount_that_it_unmounts() -> None:
    found = reason(call("umount2", errno.EBUSY, (0, "/mnt/nosuch"), cwd="/mnt/nosuch/sub"))
    assert "by the command itself: its current directory is /mnt/nosuch/sub" in found.text


# -- sockets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/run/docker.sock", "systemctl start docker"),
        ("/tmp/tmux-0/default", "start a session: tmux new"),
        ("/srv/own.sock", "start its service"),
    ],
)
def test_the_service_of_a_socket_that_exists(path: str, advice: str) -> None:
    address = Address(socket.AF_UNIX, path=path)
    found = reason(call("connect", errno.ECONNREFUSED, address=address))
    assert found.text == f"The socket {path} exists, and no process listens on it."
    assert found.advice[0] == advice


def test_an_abstract_name_is_no_file() -> None:
    address = Address(socket.AF_UNIX, path="@shop")
    found = reason(call("connect", errno.ECONNREFUSED, address=address))
    assert found.text.startswith("No process listens on the abstract name @shop. It is no file")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/dev/log", "No program that collects system messages runs here"),
        ("/dev/mapper/nosuch", "no volume or encrypted device with this name"),
        ("/tmp/tmux-nosuch/default", "No tmux server runs for this user"),
    ],
)
def test_places_of_services_and_volumes(path: str, words: str) -> None:
    if Path(path).exists():
        pytest.skip(f"{path} exists here")
    address = Address(socket.AF_UNIX, path=path)
    found = reason(call("connect", errno.ENOENT, address=address))
    assert words in found.text


def test_a_broadcast_address_needs_an_option() -> None:
    """Every loopback interface that is up has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        error = one.connect_ex(("127.255.255.255", 9))
    address = Address(socket.AF_INET, "127.255.255.255", 9)
    found = reason(call("connect", error, address=address, state=here()))
    assert ("127.255.255.255 is a broadcast address" in found.text) is (error == errno.EACCES)


def test_protocols_options_and_interfaces_that_are_not_there() -> None:
    protocol = reason(call("socket", errno.EPROTONOSUPPORT, arguments=(2, 1, 132, 0, 0, 0)))
    assert "does not support the protocol SCTP for sockets of the family AF_INET" in protocol.text
    device = reason(call("setsockopt", errno.ENODEV, arguments=(3, 1, 25, 0, 5, 0)))
    assert "SO_BINDTODEVICE" in device.text
    tables = reason(call("getsockopt", errno.ENOPROTOOPT, arguments=(3, 0, 64, 0, 84, 0)))
    assert tables.advice[0] == "modprobe iptable_filter"
    option = reason(call("setsockopt", errno.ENOPROTOOPT, arguments=(3, 1, 15, 0, 4, 0)))
    assert "the socket option SO_REUSEPORT" in option.text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errno.ENOTCONN, "The socket is not connected"),
        (errno.EISCONN, "connected already"),
        (errno.ECONNRESET, "The other side reset the connection"),
    ],
)
def test_the_state_of_a_connection(error: int, words: str) -> None:
    assert words in reason(call("recvfrom", error, uid=OTHER)).text


@pytest.mark.parametrize("host", ["fe80::1", "febf::1", "ff02::1"])
def test_a_link_local_address_without_an_interface(host: str) -> None:
    address = Address(socket.AF_INET6, host, 80)
    found = reason(call("connect", errno.EINVAL, address=address, state=here()))
    assert found.advice[0].startswith(f"add the interface: {host}%eth0")


# -- settings ----------------------------------------------------------------------------------


def test_settings_that_belong_to_modules() -> None:
    """A setting that the module does not have either is no reason to load it."""
    found = reason(call("openat", errno.ENOENT, (1, "/proc/sys/net/bridge/nosuch")))
    is_loaded = Path("/proc/sys/net/bridge").exists()
    assert ("belongs to the module br_netfilter" in found.text) is not is_loaded
    assert ("modprobe br_netfilter" in found.advice) is not is_loaded


def test_a_congestion_control_that_is_not_loaded() -> None:
    path = "/proc/sys/net/ipv4/tcp_congestion_control"
    one = call("write", errno.ENOENT, places=((0, place(path)),), state=here(written=b"nosuch\n"))
    found = reason(one)
    assert "net.ipv4.tcp_congestion_control does not have the value nosuch" in found.text
    assert found.advice[0].startswith("write one of these words: ")


def test_huge_pages_and_semaphores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("vm/nr_hugepages", "0"), ("kernel/sem", "32000 1024000000 500 32000")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")
    monkeypatch.setattr(sysctl, "_ROOT", tmp_path)
    pages = reason(call("mmap", errno.ENOMEM, arguments=(0, 2 << 20, 3, 0x40022, 0, 0)))
    assert "vm.nr_hugepages is 0" in pages.text
    sets = reason(call("semget", errno.EINVAL, arguments=(0, 100000, 0o1600, 0, 0, 0)))
    assert sets.advice[0].startswith('sysctl kernel.sem="100000 ')


def test_more_files_than_any_process_may_have() -> None:
    state = here(limits=((1024, 4096),) * 16, capabilities=(1 << 41) - 1)
    found = reason(call("prlimit64", errno.EPERM, arguments=(0, 7, 1, 0, 0, 0), state=state))
    assert "may be at most fs.nr_open" in found.text


def test_space_that_is_requested_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"30 1 0:60 / {tmp_path} rw - tmpfs t rw\n")
    monkeypatch.setattr(files, "_MOUNTINFO", table)
    there = shutil.disk_usage(tmp_path)
    one = call(
        "fallocate",
        errno.ENOSPC,
        (0, f"{tmp_path}/f"),
        arguments=(3, 0, 0, 2 * there.total, 0, 0),
    )
    assert "free, and " in reason(one).text


def test_the_python_of_the_tests_can_be_run() -> None:
    """Without this, the tests of damaged programs would show nothing."""
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


def test_a_file_system_without_direct_transfers() -> None:
    flags = os.O_RDONLY | os.O_DIRECT
    one = call("openat", errno.EINVAL, (1, "/proc/version"), arguments=(0, 0, flags, 0, 0, 0))
    assert "with O_DIRECT, which the proc file system at /proc does not support" in reason(one).text
    plain = call("openat", errno.EINVAL, (1, "/proc/version"), arguments=(0, 0, 0, 0, 0, 0))
    assert reason_of(Scene(plain, Witnessed((plain,)), Identity(0, 0))) is None


def test_only_root_makes_another_user_the_owner(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch()
    arguments = (0, 0, OTHER, 0xFFFFFFFF, 0, 0)
    given = call("fchownat", errno.EPERM, (1, str(file)), uid=OTHER, arguments=arguments)
    assert reason(given).text.startswith(f"Only root may change the owner of {file}, which is")
    assert reason(given).advice == ("run it as root",)


def test_the_access_control_list_of_another_user(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch()
    listed = (0, str(file)), (1, "system.posix_acl_access")
    found = reason(call("setxattr", errno.EPERM, *listed, uid=OTHER))
    assert found.kind == "owner"
    assert found.text.startswith(f"Only the owner of {file} (")


def test_a_device_without_a_file_system_that_mount_recognizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mounts.stat, "S_ISBLK", lambda mode: True)  # type: ignore[attr-defined]
    device, tried = "/dev/null", ("ext4", "vfat", "fuseblk")
    made = [
        call("mount", errno.EINVAL, (0, device), (1, "/mnt"), (2, kind), time=number)
        for number, kind in enumerate(tried, 1)
    ]
    found = reason_of(Scene(made[-1], Witnessed(tuple(made)), Identity(0, 0)))
    assert found is not None
    assert found.text.endswith("It tried the types that the kernel has: ext4, vfat, fuseblk.")
    assert "lsblk -f /dev/null" in found.advice[0]
    one = reason_of(Scene(made[0], Witnessed((made[0],)), Identity(0, 0)))
    assert one is None


# -- what programs find themselves -------------------------------------------------------------


def written(text: str) -> Witnessed:
    return Witnessed((), (Written(1, 7, 7, 2, f"{text}\n"),))


@pytest.mark.parametrize(
    ("line", "words", "advice"),
    [
        (
            "swapon: /swap: skipping - it appears to have holes.",
            "The swap file /swap has holes",
            "dd if=/dev/zero of=FILE",
        ),
        (
            'Error: argument "averyveryverylongname0" is wrong: "name" not a valid ifname',
            "cannot be the name of a network interface",
            "shorter",
        ),
        ("umount: /mnt/it's: not mounted.", "Nothing is mounted at", "findmnt"),
        (
            "fatal: detected dubious ownership in repository at '/srv/a b'",
            "belongs to another user",
            "safe.directory DIRECTORY",
        ),
        ("chown: invalid user: 'bob'", "There is no user bob", "useradd USER"),
        ("useradd: group 'shop' does not exist", "There is no group shop", "groupadd GROUP"),
        ("groupadd: group 'root' already exists", "a group root already", "groupmod"),
        ("m.c:(.text+0xa): undefined reference to `sqrt'", "no definition of sqrt", "-lNAME"),
        ("/usr/bin/ld: cannot find -lssl: No such file", "libssl.so", "libNAME-dev"),
        ("Makefile:2: *** missing separator.  Stop.", "Line 2 of Makefile", "one tab"),
        ('mount: /mnt: can\'t find UUID="1234".', "No device has the UUID 1234", "lsblk"),
        (
            "setquota: Mountpoint (or device) /srv not found or has no quota enabled.",
            "The file system at /srv is mounted without quotas",
            "mount -o remount,usrquota",
        ),
        ("sh: 1: [[: not found", "sh does not have", "#!/bin/bash"),
        (
            "iptables v1.8.9 (nf_tables): Couldn't load match `foo':No such file or directory",
            "iptables has no match foo",
            "iptables-extensions",
        ),
        (
            "iptables: Bad rule (does a matching rule exist in that chain?).",
            "no rule that is exactly like",
            "iptables -S",
        ),
        (
            'Error: any valid prefix is expected rather than "10.0.0.300/24".',
            "10.0.0.300/24 is not a network address",
            "192.0.2.0/24",
        ),
        (
            "tar: Cowardly refusing to create an empty archive",
            "names no files to put",
            "tar cf ARCHIVE FILES",
        ),
        (
            "mkfs.xfs: /dev/loop0 appears to contain an existing filesystem (ext4).",
            "a file system of the type ext4 on /dev/loop0",
            "mkfs.xfs -f DEVICE",
        ),
        (
            "useradd: cannot lock /etc/passwd; try again later.",
            "Another program changes /etc/passwd",
            "passwd.lock",
        ),
        ("fstrim: /mnt: the discard operation is not supported", "at /mnt", "lsblk --discard"),
        (
            "sudo: effective uid is not 0, is /sudo on a file system with the 'nosuid' option set",
            "mounted with nosuid",
            "chmod u+s",
        ),
        (
            "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set",
            "no set-user-ID bit",
            "chmod 4755",
        ),
        (
            "./tool: /lib/libc.so.6: version `GLIBC_2.99' not found (required by ./tool)",
            "the version GLIBC_2.99 is missing here",
            "build the program here",
        ),
        (
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
            "heap may have",
            "-Xmx",
        ),
        (
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "heap of Node.js",
            "--max-old-space-size",
        ),
        (
            "java.lang.UnsupportedClassVersionError: Main was compiled by a more recent version",
            "newer version of Java",
            "java -version",
        ),
        (
            "Error: Could not find or load main class Main",
            "did not find the class Main",
            "java -cp",
        ),
        ("Error: Can't open display: :0", "found no X server", "xvfb-run"),
        ("no server running on /tmp/tmux-0/default", "No tmux server runs", "tmux new"),
        (
            "Cannot initialize device-mapper. Is dm_mod kernel module loaded?",
            "no device mapper",
            "modprobe dm_mod",
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
            "another key than before",
            "ssh-keygen -R HOST",
        ),
        (
            "kex_exchange_identification: Connection closed by remote host",
            "closed the connection before",
            "journalctl -u ssh",
        ),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures",
            "more keys than the server",
            "IdentitiesOnly=yes",
        ),
        (
            "E: The repository 'http://deb.example old Release' does not have a Release file.",
            "The package source",
            "sources.list",
        ),
        (
            "W: GPG error: http://x stable InRelease: The following signatures: NO_PUBKEY 1234ABCD",
            "the key 1234ABCD",
            "signed-by",
        ),
        (
            "E: Unable to correct problems, you have held broken packages.",
            "versions of others",
            "apt-mark showhold",
        ),
        (
            'psql: error: FATAL:  Peer authentication failed for user "shop"',
            "the role shop",
            "sudo -u USER psql",
        ),
        ('psql: error: FATAL:  role "bob" does not exist', "no role bob", "createuser"),
        (
            "ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password)",
            "the user root in from localhost",
            "sudo mysql",
        ),
        (
            "error: Your local changes to the following files would be overwritten by merge:",
            "overwritten by git merge",
            "git stash",
        ),
        (
            "fatal: Authentication failed for 'https://git.example/x.git/'",
            "did not accept the user name",
            "token",
        ),
        ("no sessions", "No tmux server runs", "tmux new"),
        ('  Volume group "data" not found', "no volume group data", "vgs lists"),
        (
            "iptables v1.8.9 (legacy): can't initialize iptables table `x': Table does not exist",
            "no table x",
            "modprobe iptable_NAME",
        ),
        ("error: externally-managed-environment", "pip does not change", "python3 -m venv"),
    ],
)
def test_what_programs_find_themselves(line: str, words: str, advice: str) -> None:
    found = own_decision(written(line))
    assert found is not None
    assert words in found.text
    assert advice in " ".join(found.advice)


def test_other_words_are_not_explained() -> None:
    assert own_decision(written("tool: it is Tuesday")) is None


def test_each_row_of_own_words_can_be_written() -> None:
    for row in own_words():
        names = ["x"] * re.compile(row.pattern).groups
        assert row.text.format(*names)


def test_a_command_chooses_no_file_of_an_advice() -> None:
    """Its words are not checked: the file may be a disk, and the user somebody else."""
    for line in (
        "swapon: /dev/sda: skipping - it appears to have holes.",
        "mallory is not in the sudoers file.",
        "umount: /dev/sda is mounted; will not make a filesystem here",
    ):
        found = own_decision(written(line))
        assert found is not None
        assert not any("/dev/sda" in one or "mallory" in one for one in found.advice)
    assert not any("{" in one for row in own_words() for one in row.advice)


def test_a_current_directory_that_was_removed() -> None:
    found = reason(call("openat", errno.ENOENT, (1, "x"), cwd=None, has_removed_cwd=True))
    assert found.text.startswith("The current directory of the process was removed")
    assert found.advice == ('change to a directory that exists: cd "$PWD", or cd /',)
    other = call("openat", errno.ENOENT, (1, "/nosuch/x"), cwd=None, has_removed_cwd=True)
    assert reason(other).text == "The directory /nosuch does not exist."


def test_a_setting_that_can_only_be_read() -> None:
    """The kernel refuses to open it for writing, also to root."""
    one = call("openat", errno.EACCES, (1, "/proc/sys/kernel/osrelease"))
    writing = call(
        "openat",
        errno.EACCES,
        (1, "/proc/sys/kernel/osrelease"),
        arguments=(0xFFFFFF9C, 0, os.O_WRONLY, 0, 0, 0),
    )
    assert "osrelease can only be read" in reason(writing).text
    assert reason_of(Scene(one, Witnessed((one,)), Identity(0, 0))) is None


@pytest.mark.parametrize(
    ("command", "words"), [(13, "BPF program"), (14, "BPF map"), (19, "BTF"), (30, "BPF link")]
)
def test_an_id_of_bpf_that_does_not_exist(command: int, words: str) -> None:
    found = reason(call("bpf", errno.ENOENT, arguments=(command, 0, 0, 0, 0, 0)))
    assert f"There is no {words}" in found.text


def test_a_type_of_a_device_mapper_table_that_the_kernel_does_not_have() -> None:
    said = ("device-mapper: table: 254:0: nosuch: unknown target type", "device-mapper: ioctl: x")
    found = reason(call("ioctl", errno.EINVAL), said=said)
    assert "dmsetup targets lists" in found.advice[0]
    assert "nosuch" not in found.advice[0]
