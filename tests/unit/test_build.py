# SPDX-License-Identifier: BSD-2-Clause
"""build.py: up-to-date files, missing files, and the messages when a step fails."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import build
import pytest

SOURCE = 'char LICENSE[] __attribute__((section("license"), used)) = "Dual BSD/GPL";\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with one BPF source and one header, and let build.py use it as its own."""
    root = tmp_path / "checkout"
    for folder in ("src/bpf", "src/retsnoop_py", "vmlinux/x86_64", "vmlinux/aarch64"):
        (root / folder).mkdir(parents=True)
    (root / "src/bpf/records.h").write_text("/* nothing yet */\n")
    (root / "src/bpf/tiny.bpf.c").write_text('#include "records.h"\n' + SOURCE)
    monkeypatch.setattr(build, "ROOT", root)
    monkeypatch.setattr(build, "BUILD", root / "build")
    monkeypatch.setattr(build, "PACKAGE", root / "src/retsnoop_py")
    monkeypatch.setattr(build, "libbpf_paths", lambda: build.LibbpfPaths([], [], []))
    return root


def write_program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_each_package_is_listed_once_with_its_purpose() -> None:
    names = [name for name, _ in build.DEBIAN_PACKAGES]
    assert len(names) == len(set(names))
    assert all(purpose for _, purpose in build.DEBIAN_PACKAGES)


@pytest.mark.parametrize("known", ["", "virtiofsd\nvirtiofsd-doc\n"])
def test_virtiofsd_is_installed_where_apt_knows_it_whatever_the_release_is_called(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU 8 (Debian 13, Ubuntu 24.04) has left it to a package of its own."""
    write_program(tmp_path, "dpkg-query", "exit 1")
    write_program(tmp_path, "apt-cache", f"test $1 = pkgnames && printf '{known}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(build, "WHERE_KNOWN", {"virtiofsd": str(tmp_path / "virtiofsd")})
    with pytest.raises(build.BuildError) as caught:
        build.install_deps()
    assert ("virtiofsd" in str(caught.value).split()) is bool(known)
    assert "qemu-system-common" in str(caught.value).split()


@pytest.mark.parametrize("apt", ["exit 0", "exit 42"])
def test_nothing_is_installed_where_another_package_has_the_file_or_apt_does_not_know_it(
    apt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = "".join(f"{name}\\tii \\n" for name in build.wanted_packages(platform.machine()))
    write_program(tmp_path, "dpkg-query", f"printf '{there}'\nexit 1")
    write_program(tmp_path, "apt-cache", apt)
    write_program(tmp_path, "apt-get", "exit 42")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    other = tmp_path / "virtiofsd"
    monkeypatch.setattr(build, "WHERE_KNOWN", {"virtiofsd": str(other)})
    if apt != "exit 0":
        other.touch()  # apt is not asked at all
    build.install_deps()


def test_lists_that_come_with_the_first_update_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "dpkg-query", "exit 1")
    lists, log = tmp_path / "lists", tmp_path / "log"
    write_program(tmp_path, "apt-cache", f"test ! -e {lists} || echo virtiofsd")
    write_program(tmp_path, "apt-get", f'echo "$*" >> {log}; test "$1" != update || : > {lists}')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(build, "WHERE_KNOWN", {"virtiofsd": str(tmp_path / "virtiofsd")})
    build.install_deps()
    update, _, install = log.read_text().splitlines()
    assert update == "update"
    assert install.startswith("install -y ")
    assert install.endswith(" virtiofsd")


@pytest.mark.parametrize(
    ("machine", "compiler"),
    [("x86_64", "gcc-aarch64-linux-gnu"), ("aarch64", "gcc-x86-64-linux-gnu")],
)
def test_the_compiler_is_wanted_for_the_other_architecture(machine: str, compiler: str) -> None:
    wanted = build.wanted_packages(machine)
    assert [name for name in wanted if name.startswith("gcc-")] == [compiler]


def test_a_package_that_is_only_known_or_half_removed_counts_as_missing() -> None:
    known = "gcc\tii \nclang\tun \nllvm\trc \n"
    assert build.missing_packages(["gcc", "clang", "llvm", "make"], known) == [
        "clang",
        "llvm",
        "make",
    ]


def test_without_root_the_exact_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [*build.wanted_packages(platform.machine()), *build.WHERE_KNOWN]
    installed = "".join(f"{name}\\tii \\n" for name in wanted if name not in ("clang", "zstd"))
    write_program(tmp_path, "dpkg-query", f"printf '{installed}'\nexit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(build.BuildError) as caught:
        build.install_deps()
    assert "apt-get install -y --no-install-recommends clang zstd" in str(caught.value)
    assert "sudo" in str(caught.value)


def test_a_package_of_ours_takes_neither_guests_nor_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "dpkg-query", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    named = {}
    for purpose in build.LESS:
        with pytest.raises(build.BuildError) as caught:
            build.install_deps(purpose)
        named[purpose] = set(str(caught.value).split())
    assert "clang" in named["wheel"]
    assert not {"qemu-system-x86", "clang-format", "mmdebstrap", "lintian"} & named["wheel"]
    assert {"debhelper", "lintian"} <= named["deb"]


@pytest.mark.parametrize(
    ("apt", "said"),
    [
        (
            (
                "0 upgraded, 238 newly installed, 0 to remove and 9 not upgraded.\n"
                "Need to get 162 MB of archives.\n"
                "After this operation, 703 MB of additional disk space will be used.\n"
            ),
            " (238 packages, 162 MB to download, 703 MB on disk)",
        ),
        (
            (
                "0 upgraded, 1 newly installed, 0 to remove and 0 not upgraded.\n"
                "Need to get 0 B/12.5 MB of archives.\n"
                "After this operation, 1,024 kB of additional disk space will be used.\n"
            ),
            " (1 package, 0 B to download, 1,024 kB on disk)",
        ),
        ("E: Unable to locate package clang\n", ""),
    ],
)
def test_what_apt_is_about_to_do_is_said_in_a_few_words(apt: str, said: str) -> None:
    assert build.cost(apt) == said


def test_on_another_distribution_missing_tools_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("gcc", "make", "llvm-strip"):
        write_program(tmp_path, tool, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="missing: clang qemu-system-x86_64 busybox"):
        build.install_deps()


def test_a_digest_depends_on_names_contents_and_order_of_nothing_else(checkout: Path) -> None:
    one, two = checkout / "one", checkout / "two"
    one.write_text("a")
    two.write_text("b")
    before = build.digest([one, two], "flag")
    assert build.digest([two, one], "flag") == before
    assert build.digest([one, two], "other") != before
    assert build.digest([one], "flag") != before
    two.write_text("c")
    assert build.digest([one, two], "flag") != before


def test_machines_have_several_names() -> None:
    assert [build.machine_of(name) for name in ("amd64", "x86_64", "arm64", "aarch64")] == [
        "x86_64",
        "x86_64",
        "aarch64",
        "aarch64",
    ]
    with pytest.raises(build.BuildError, match="riscv64"):
        build.machine_of("riscv64")


def test_bpf_is_compiled_when_a_source_or_header_changed_and_only_then(checkout: Path) -> None:
    [made] = build.build_bpf()
    packaged = checkout / "src/retsnoop_py/bpf" / os.uname().machine / "tiny.bpf.o"
    assert packaged.read_bytes() == made.read_bytes()

    before = made.stat().st_mtime_ns, packaged.stat().st_mtime_ns
    os.utime(checkout / "src/bpf/tiny.bpf.c")  # a checkout touches files it does not change
    build.build_bpf()
    assert (made.stat().st_mtime_ns, packaged.stat().st_mtime_ns) == before

    (checkout / "src/bpf/records.h").write_text("static const int changed __attribute__((used));\n")
    build.build_bpf()
    assert made.stat().st_mtime_ns != before[0]
    assert packaged.read_bytes() == made.read_bytes()


def test_a_bpf_object_keeps_btf_and_tells_nothing_of_this_machine(checkout: Path) -> None:
    (checkout / "src/bpf/tiny.bpf.c").write_text(
        SOURCE + '__attribute__((section("kprobe"), used)) int entry(void *ctx)\n'
        "{\n\treturn ctx != 0;\n}\n"
    )
    [made] = build.build_bpf()
    sections = subprocess.run(
        ["llvm-readelf", "-S", "-W", made], capture_output=True, text=True, check=True
    ).stdout
    assert ".BTF.ext" in sections
    assert ".debug_info" not in sections
    assert str(checkout).encode() not in made.read_bytes()


def test_the_object_of_a_deleted_source_leaves_the_package(checkout: Path) -> None:
    home = checkout / "src/retsnoop_py/bpf"
    stale = home / os.uname().machine / "gone.bpf.o"
    stale.parent.mkdir(parents=True)
    stale.touch()
    (home / "of-an-earlier-version.bpf.o").touch()
    build.build_bpf()
    assert [path.name for path in home.rglob("*.bpf.o")] == ["tiny.bpf.o"]


def test_another_architecture_stays_out_of_the_package(checkout: Path) -> None:
    host = build.machine_of(os.uname().machine)
    other = next(name for name in build.BPF_ARCHES if name != host)
    [made] = build.build_bpf(other)
    assert made == checkout / "build/bpf" / other / "tiny.bpf.o"
    assert not (checkout / "src/retsnoop_py/bpf").exists()


def test_a_compiler_error_is_shown_and_leaves_no_object(checkout: Path) -> None:
    (checkout / "src/bpf/tiny.bpf.c").write_text("int broken(\n")
    with pytest.raises(build.BuildError, match=r"tiny\.bpf\.c:1:\d+: .*error: expected"):
        build.build_bpf()
    assert not list(checkout.rglob("*.o"))


def test_pkg_config_flags_become_arguments_for_cffi() -> None:
    words = ["-I/opt/include", "-DX", "-L/opt/lib", "-lbpf", "-lelf"]
    assert build.paths_of_flags(words) == (["/opt/include"], ["-L/opt/lib"], ["bpf", "elf"])


def test_a_system_libbpf_that_is_too_old_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path, "pkg-config", "echo 'libbpf has version 1.1.2' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("RETSNOOP_LIBBPF", "system")
    with pytest.raises(build.BuildError, match=r"no libbpf >= 1\.5 here(?s:.*)has version 1\.1\.2"):
        build.libbpf_paths()


def test_an_unknown_libbpf_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETSNOOP_LIBBPF", "1.7")
    with pytest.raises(build.BuildError, match=r"RETSNOOP_LIBBPF=1\.7"):
        build.libbpf_paths()


def test_a_tarball_with_another_checksum_is_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches: list[str] = []

    class Tampered:
        def __init__(self, suite: str) -> None:
            self.suite = suite

        def source(self, package: str, dest: Path) -> list[Path]:
            fetches.append(f"{self.suite}/{package}")
            (dest / build.LIBBPF_TARBALL).write_text("something else")
            return []

    monkeypatch.setattr("retsnoop_py.vm.debian.AptRoot", Tampered)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "retsnoop-py/sources" / build.LIBBPF_TARBALL
    cached.parent.mkdir(parents=True)
    cached.write_text("cut short")
    with pytest.raises(build.BuildError, match="SHA-256 differs"):
        build.debian_source("libbpf", build.LIBBPF_TARBALL, build.LIBBPF_SHA256)
    assert fetches == ["trixie/libbpf"]


def test_a_failing_step_ends_with_one_message_and_status_1(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main(["bpf", "--arch", "riscv64"]) == 1
    assert capsys.readouterr().err == (
        "build.py: no BPF objects for riscv64, only for x86_64 and aarch64\n"
    )


def test_an_old_python_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "MIN_PYTHON", (9, 1))
    assert build.main(["all"]) == 1
    assert "9.1 or later is needed" in capsys.readouterr().err


def test_make_alone_lists_every_target() -> None:
    root = Path(build.__file__).parent
    targets = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    listed = re.findall(r"^  make ([a-z-]+)", shown, re.MULTILINE)
    assert targets is not None
    assert sorted(listed) == sorted(targets[1].split())


def test_fetching_sources_needs_only_the_standard_library() -> None:
    """A bare machine fetches libbpf before it has any package of PyPI."""
    code = f"import sys; sys.path.insert(0, {str(build.ROOT / 'src')!r}); import {{}}"
    words = [sys.executable, "-I", "-S", "-c"]
    for module in ("retsnoop_py.vm.debian", "retsnoop_py.errors"):
        done = subprocess.run(
            [*words, code.format(module)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
