# SPDX-License-Identifier: BSD-2-Clause
"""Command lines of QEMU and virtiofsd."""

from __future__ import annotations

import dataclasses
import platform
from itertools import pairwise
from pathlib import Path

import pytest

from retsnoop_py.errors import UnavailableError
from retsnoop_py.vm import initrd, kernels, userland
from retsnoop_py.vm.architecture import ARCHITECTURES
from retsnoop_py.vm.boot import Plan, capabilities_to_drop, obstacle_to_drop, plan_modules
from retsnoop_py.vm.kernels import Kernel
from retsnoop_py.vm.machine import Machine
from retsnoop_py.vm.qemu import (
    Emulator,
    Guest,
    Share,
    accelerator,
    cpu_model,
    find_qemu,
    installed,
    parse_version,
    qemu_command,
    virtiofsd_command,
)

X86, ARM64 = ARCHITECTURES["x86_64"], ARCHITECTURES["arm64"]
ROOT = Share("root", Path("/"), Path("/run/x/root.sock"))
RESULTS = Share("share0", Path("/srv/a,b"), Path("/run/x/share0.sock"), writable=True)
GUEST = Guest(
    qemu="/usr/bin/qemu-system-x86_64",
    image=Path("/k/vmlinuz"),
    initrd=Path("/k/initrd"),
    append="console=ttyS0 panic=-1",
    memory=2048,
    cpus=2,
    console=6,
    shares=(ROOT, RESULTS),
    transport="virtiofs",
    ports=(("lane0", 7), ("signals", 8)),
)


def following(argv: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(argv) if name == option]


def test_emulation_uses_one_thread_and_kvm_the_host_cpu() -> None:
    argv = qemu_command(GUEST)
    assert following(argv, "-accel") == ["tcg,thread=single"]
    assert following(argv, "-cpu") == ["max,-la57,-erms"]
    argv = qemu_command(dataclasses.replace(GUEST, accel="kvm"))
    assert following(argv, "-accel") == ["kvm"]
    assert following(argv, "-cpu") == ["host"]
    assert following(argv, "-append") == ["console=ttyS0 panic=-1"]


def test_the_clock_counts_instructions_only_if_told_to() -> None:
    assert following(qemu_command(GUEST), "-icount") == []
    argv = qemu_command(dataclasses.replace(GUEST, count_instructions=True))
    assert following(argv, "-icount") == ["shift=1,sleep=on"]


@pytest.mark.parametrize(
    ("version", "model"),
    [((7, 2), "max,-la57,-erms,-cx16"), ((8, 0), "max,-la57,-erms"), ((10, 0), "max,-la57,-erms")],
)
def test_old_emulation_hides_cmpxchg16b(version: tuple[int, int], model: str) -> None:
    assert cpu_model(X86, "tcg", version) == model


def test_a_guest_of_arm64_is_another_board_and_another_cpu() -> None:
    argv = qemu_command(dataclasses.replace(GUEST, arch=ARM64))
    assert following(argv, "-machine")[0] == "virt,gic-version=3"
    assert following(argv, "-cpu") == ["max,pauth-impdef=on,lpa2=off"]
    argv = qemu_command(dataclasses.replace(GUEST, arch=ARM64, accel="kvm"))
    assert following(argv, "-machine")[0] == "virt,gic-version=host"
    assert following(argv, "-cpu") == ["host"]


def test_the_package_of_a_missing_emulator_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for arch, package in ((X86, "qemu-system-x86"), (ARM64, "qemu-system-arm")):
        with pytest.raises(UnavailableError, match=f"guests of {arch.name}") as caught:
            find_qemu(arch)
        assert caught.value.hint == f"install the package {package}"


def test_what_is_missing_is_told_before_a_kernel_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kernels, "ensure", lambda *_: pytest.fail("it was downloaded"))
    with pytest.raises(UnavailableError, match="qemu-system-x86_64 is not installed"):
        Machine("6.12", arch="x86_64").__enter__()


def test_so_are_a_static_busybox_and_the_wheel_of_a_foreign_guest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for arch in (X86, ARM64):
        (tmp_path / arch.qemu).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kernels, "ensure", lambda *_: pytest.fail("it was downloaded"))
    own, foreign = (X86, ARM64) if ARM64.is_foreign else (ARM64, X86)
    monkeypatch.setattr(initrd, "is_static_elf", lambda _: False)
    with pytest.raises(UnavailableError, match="no statically linked busybox"):
        Machine("6.12", arch=own.name).__enter__()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(userland, "_PACKAGE", tmp_path / "installed" / "lib" / "retsnoop_py")
    with pytest.raises(UnavailableError, match=rf"needs the wheel .*_{foreign.machine}\.whl"):
        Machine("6.12", arch=foreign.name).__enter__()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", (7, 2)),
        ("QEMU emulator version 10.0.3", (10, 0)),
        ("", (0, 0)),
    ],
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    assert parse_version(text) == version


def test_a_panic_ends_qemu_and_nothing_is_shown() -> None:
    argv = qemu_command(GUEST)
    assert "-no-reboot" in argv
    assert following(argv, "-display") == ["none"]
    assert following(argv, "-append") == ["console=ttyS0 panic=-1 norandmaps"]


def test_virtiofs_shares_memory_with_its_daemons() -> None:
    argv = qemu_command(GUEST)
    assert following(argv, "-object") == ["memory-backend-memfd,id=mem,size=2048M,share=on"]
    assert "vhost-user-fs-pci,chardev=fs-root,tag=root" in following(argv, "-device")
    assert "-virtfs" not in argv


def test_9p_is_read_only_but_for_results_and_commas_are_doubled() -> None:
    argv = qemu_command(dataclasses.replace(GUEST, transport="9p"))
    root, results = following(argv, "-virtfs")
    assert root.startswith("local,path=/,mount_tag=root,")
    assert "readonly=on" in root
    assert results.startswith("local,path=/srv/a,,b,mount_tag=share0,")
    assert "readonly=off" in results
    assert "-object" not in argv


def test_a_guest_has_the_one_transport_that_is_in_use() -> None:
    for transport, others in (("9p", "vhost-user-fs-pci"), ("virtiofs", "local,path")):
        argv = qemu_command(dataclasses.replace(GUEST, transport=transport))
        assert not [word for word in argv if word.startswith(others)]


def test_qemu_limits_its_own_system_calls_where_it_can() -> None:
    (limits,) = following(qemu_command(GUEST), "-sandbox")
    assert limits.split(",") == [
        "on",
        "obsolete=deny",
        "elevateprivileges=deny",
        "spawn=deny",
        "resourcecontrol=deny",
    ]
    old = dataclasses.replace(GUEST, emulator=Emulator((7, 2), has_sandbox=False))
    assert following(qemu_command(old), "-sandbox") == []


def test_the_help_of_qemu_tells_its_version_and_whether_it_has_a_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    for more, has in (("-sandbox on[,obsolete=allow|deny]", True), ("-no-sandbox", False)):
        program.write_text(f"#!/bin/sh\necho 'QEMU emulator version 8.1.0\nusage\n{more}'\n")
        program.chmod(0o755)
        assert installed(str(program)) == Emulator((8, 1), has)


def test_the_console_is_a_socket_that_the_host_reads() -> None:
    assert "socket,id=console,fd=6" in following(qemu_command(GUEST), "-chardev")


def test_ports_are_descriptors_by_name() -> None:
    argv = qemu_command(GUEST)
    assert "socket,id=port2,fd=8" in following(argv, "-chardev")
    assert "virtserialport,chardev=port2,nr=2,name=signals" in following(argv, "-device")


def test_virtiofsd_takes_a_listening_socket() -> None:
    argv = virtiofsd_command("/usr/lib/qemu/virtiofsd", ROOT, 5)
    assert argv[1] == "--fd=5"
    assert argv[3] == "source=/,cache=always,sandbox=chroot"
    writable = virtiofsd_command("v", RESULTS, 5)[3]
    assert writable.endswith("cache=auto,sandbox=chroot,modcaps=-mknod:-setfcap:-fsetid")


@pytest.mark.parametrize(
    ("held", "drops"),
    [
        ("000001ffffffffff", "-fsetid,-mknod,-setfcap"),
        ("0000000000000000", ""),
        ("00000000a80425fb", "-fsetid,-mknod,-setfcap"),
        ("000001fff7ffffff", "-fsetid,-setfcap"),
        ("000001ff77ffffef", ""),
        ("000001fffffffeff", ""),
    ],
)
def test_devices_and_capabilities_of_files_are_not_made_where_that_can_be_prevented(
    held: str, drops: str, tmp_path: Path
) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{held}\nCapBnd:\t0\n")
    wanted = ["--inh-caps", drops, "--bounding-set", drops] if drops else []
    assert capabilities_to_drop(status) == wanted


@pytest.mark.parametrize(
    ("held", "has_setpriv", "reason"),
    [
        ("000001ffffffffff", True, ""),
        ("000001ffffffffff", False, "setpriv"),
        ("0000000008000000", True, "cannot drop"),
        ("0000000000000100", False, ""),
        ("0000000000000000", False, ""),
    ],
)
def test_writable_folders_need_a_qemu_that_cannot_make_devices(
    held: str, has_setpriv: bool, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path / "status"
    status.write_text(f"CapEff:\t{held}\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    if has_setpriv:
        (tmp_path / "setpriv").write_text("#!/bin/sh\n")
        (tmp_path / "setpriv").chmod(0o755)
    found = obstacle_to_drop(status)
    assert reason in found
    assert bool(found) == bool(reason)


def test_kvm_needs_a_cpu_that_virtualizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    kvm = tmp_path / "kvm"
    kvm.touch()
    assert accelerator(X86, "flags\t\t: fpu vme vmx sse\n", kvm) == "kvm"
    assert accelerator(X86, "flags\t\t: fpu svm\n", kvm) == "kvm"
    assert accelerator(X86, "flags\t\t: fpu vme sse\n", kvm) == "tcg"
    assert accelerator(X86, "model name\t: vmx of sorts\nflags\t\t: fpu\n", kvm) == "tcg"
    assert accelerator(X86, "flags\t\t: vmx\n", tmp_path / "missing") == "tcg"


def test_a_guest_of_another_architecture_is_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kvm = tmp_path / "kvm"
    kvm.touch()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert accelerator(ARM64, "Features\t: fp asimd\n", kvm) == "kvm"
    assert accelerator(X86, "flags\t\t: fpu vmx\n", kvm) == "tcg"
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert accelerator(ARM64, "flags\t\t: fpu vmx\n", kvm) == "tcg"


def tree(root: Path, builtin: str | None, *files: str) -> Kernel:
    for name in files:
        (root / f"{name}.ko").write_bytes(b"\0depends=\0")
    if builtin is not None:
        (root / "modules.builtin").write_text(builtin)
    return Kernel("own", "6.99", root / "vmlinuz", root)


def loaded(
    kernel: Kernel, obstacle: str = "", without: tuple[str, ...] = ()
) -> tuple[str, list[str], str | None]:
    plan = plan_modules(kernel, obstacle, without)
    return plan.transport, [name for name, _ in plan.modules], plan.other


def test_virtiofs_is_taken_where_kernel_and_host_have_it(tmp_path: Path) -> None:
    kernel = tree(tmp_path, "kernel/fs/fuse/virtiofs.ko\n", "overlay", "9p", "9pnet_virtio")
    assert loaded(kernel) == ("virtiofs", ["overlay"], None)
    assert loaded(kernel, "not installed") == ("9p", ["overlay", "9pnet_virtio", "9p"], None)


def test_a_kernel_without_a_way_to_the_files_says_what_to_install(tmp_path: Path) -> None:
    kernel = tree(tmp_path, "kernel/fs/fuse/virtiofs.ko\n", "overlay")
    with pytest.raises(UnavailableError, match=r"has no 9p, and .*: there is no daemon$") as caught:
        plan_modules(kernel, "there is no daemon")
    assert caught.value.hint is not None
    assert "install virtiofsd" in caught.value.hint


def test_a_kernel_that_has_neither_names_both(tmp_path: Path) -> None:
    kernel = tree(tmp_path, "kernel/fs/ext4.ko\n", "9p")  # without its transport
    with pytest.raises(UnavailableError, match="neither virtiofs nor 9p is built in or") as caught:
        plan_modules(kernel)
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint is not None
    assert "CONFIG_VIRTIO_FS" in caught.value.hint


def test_where_nothing_tells_what_is_built_in_one_way_after_the_other_is_tried(
    tmp_path: Path,
) -> None:
    kernel = Kernel("own", "6.99", tmp_path / "bzImage")
    assert plan_modules(kernel) == Plan("virtiofs", [], "9p")
    assert plan_modules(kernel, without=["virtiofs"]) == Plan("9p", [])
    assert plan_modules(kernel, "not installed") == Plan("9p", [])
    kernel = tree(tmp_path, None, "overlay", "9p", "9pnet_virtio")
    assert loaded(kernel) == ("virtiofs", ["overlay"], "9p")
    assert loaded(kernel, "", ("virtiofs",)) == ("9p", ["overlay", "9pnet_virtio", "9p"], None)
