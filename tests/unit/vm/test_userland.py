# SPDX-License-Identifier: BSD-2-Clause
"""The files of a guest of another architecture: what they are made of, and what is told."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from retsnoop_py import __version__
from retsnoop_py.errors import DataError, InputError, UnavailableError
from retsnoop_py.vm import userland
from retsnoop_py.vm.architecture import ARCHITECTURES
from retsnoop_py.vm.boot import _layers

(OTHER,) = (arch for arch in ARCHITECTURES.values() if arch.is_foreign)
PIP = """
import pathlib, sys, zipfile
pathlib.Path(r"{log}").write_text(" ".join(sys.argv))
dest = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
listed = pathlib.Path(sys.argv[sys.argv.index("-r") + 1])
pathlib.Path(r"{log}").with_name("requirements").write_text(listed.read_text())
with zipfile.ZipFile(dest / "one-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("one/__init__.py", "")
"""


def package(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A .deb in ``folder`` with these files, by their path; "-> x" is a link."""
    tree = folder / f"{name}.tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: {name}\nVersion: 1\nArchitecture: all\n"
    control += "Maintainer: nobody <nobody@localhost>\nDescription: none\n"
    (tree / "DEBIAN/control").write_text(control)
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (tree / path).symlink_to(text[3:])
        else:
            (tree / path).write_text(text)
    made = folder / f"{name}_1_all.deb"
    argv = ["dpkg-deb", "-b", str(tree), str(made)]
    subprocess.run(argv, check=True, capture_output=True)
    shutil.rmtree(tree)
    return made


class Apt:
    """Debian's packages: two, the second of which has its file in /bin."""

    made = 0

    def __init__(self, suite: str, arch: str) -> None:
        assert (suite, arch) == (userland.SUITE, OTHER.debian)

    def resolve(self, packages: Sequence[str]) -> dict[str, tuple[str, int]]:
        return {"base-passwd": ("1", 1000), "busybox-static": ("1", 2000)}

    def download_all(
        self, packages: Sequence[str], dest: Path, watch: Callable[[int], None]
    ) -> list[Path]:
        Apt.made += 1
        dest.mkdir(parents=True)
        watch(1500)
        masters = {f"usr/share/base-passwd/{name}.master": name for name in ("passwd", "group")}
        return [
            package(dest, "base-passwd", {**masters, "etc/debian_version": "12"}),
            package(dest, "busybox-static", {"bin/busybox": "box", "bin/sh": "-> dash"}),
        ]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of user lands, none of which is made yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(userland, "AptRoot", Apt)
    monkeypatch.setattr(userland, "_compile_python", lambda arch, root: None)
    pip = tmp_path / "python"
    (tmp_path / "pip.py").write_text(PIP.format(log=tmp_path / "pip"))
    # a script's first line cannot name a program that has a space in its path
    words = shlex.join([sys.executable, str(tmp_path / "pip.py")])
    pip.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    Apt.made = 0
    return tmp_path / "cache/retsnoop-py/userlands"


def test_packages_are_unpacked_through_links_and_configured(cache: Path, tmp_path: Path) -> None:
    root = userland._system(OTHER)
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "usr/bin/busybox").read_text() == "box"
    assert (root / "usr/bin/sh").readlink() == Path("dash")
    assert (root / "usr/bin/awk").readlink() == Path("gawk")
    assert (root / "etc/passwd").read_text() == "passwd"
    assert (root / "usr/lib/retsnoop-py/one/__init__.py").exists()
    command = root / "usr/local/bin/retsnoop-py"
    assert command.stat().st_mode & 0o111
    compile(command.read_text(), "retsnoop-py", "exec")
    asked = (tmp_path / "pip").read_text()
    assert f"--platform manylinux_2_28_{OTHER.machine}" in asked
    assert "/pip.py -I -m pip download " in asked
    assert "--require-hashes" in asked
    assert (tmp_path / "requirements").read_text().splitlines() == list(userland._requirements())


def test_it_is_made_once_and_nothing_half_made_stays(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(userland, "_install_python_packages", interrupted)
        with pytest.raises(KeyboardInterrupt):
            userland._system(OTHER)
    assert [path.name for path in cache.iterdir()] == [f".{OTHER.name}.lock"]
    # what was killed leaves its folder, which the next one removes
    (cache / f".{OTHER.name}-{userland.SUITE}-killed.new").mkdir()
    found: list[Path] = []
    makers = [
        threading.Thread(target=lambda: found.append(userland._system(OTHER))) for _ in range(3)
    ]
    for each in makers:
        each.start()
    for each in makers:
        each.join()
    assert Apt.made == 2
    assert len(set(found)) == 1
    assert userland._system(OTHER) == found[0]
    assert Apt.made == 2
    assert len(found) == len(makers)
    assert {path for path in cache.iterdir() if path.is_dir()} == set(found)


def test_a_newer_version_leaves_that_which_a_guest_runs_on(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = userland.fetch(OTHER)
    assert userland.fetch(OTHER) == old
    held = userland.Userland(old, (), {}).hold()
    newer = {"base-passwd": ("2", 1000), "busybox-static": ("1", 2000)}
    monkeypatch.setattr(Apt, "resolve", lambda self, packages: newer)
    new = userland.fetch(OTHER)
    assert new != old
    assert (new / userland._VERSIONS).read_text() == "base-passwd 2\nbusybox-static 1\n"
    assert userland._system(OTHER) == new
    assert old.is_dir()
    os.close(held)
    newest = {"base-passwd": ("3", 1000)}
    monkeypatch.setattr(Apt, "resolve", lambda self, packages: newest)
    last = userland.fetch(OTHER)
    assert {path for path in cache.iterdir() if path.is_dir()} == {last}
    with pytest.raises(UnavailableError, match="has just replaced") as caught:
        userland.Userland(old, (), {}).hold()
    assert caught.value.hint == "run it again"


def test_a_damaged_package_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.deb"
    broken.write_text("no package")
    (tmp_path / "root").mkdir()
    with pytest.raises(DataError, match=r"cannot unpack broken\.deb"):
        userland._unpack(broken, tmp_path / "root")


def test_without_pip_it_is_told_what_to_install(cache: Path) -> None:
    Path(sys.executable).write_text("#!/bin/sh\necho No module named pip >&2; exit 1\n")
    with pytest.raises(UnavailableError, match="No module named pip") as caught:
        userland._system(OTHER)
    assert "python3-pip" in (caught.value.hint or "")


def test_each_requirement_is_locked_with_hashes() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    rows = [line.split(" ") for line in userland._requirements()]
    versions = {name.lower(): version for name, version in (row[0].split("==") for row in rows)}
    for told in map(Requirement, project["dependencies"]):
        assert told.specifier.contains(versions[told.name]), (
            f"python -m release.guest_packages: {told}"
        )
    for _, *sums in rows:
        assert sums
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", one) for one in sums)


def test_modules_of_the_current_folder_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pip", "compileall"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})"
        )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "root").mkdir()
    with pytest.raises(UnavailableError):
        userland._install_python_packages(OTHER, tmp_path / "root/lib", ["../no such requirement"])
    monkeypatch.setattr(userland, "_PYTHON_VERSION", sys.version_info[:2])
    userland._compile_python(OTHER, tmp_path / "root")
    assert not (tmp_path / "ran").exists()


def test_folders_of_the_host_lie_over_it_under_their_own_paths(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(userland, "_system", lambda arch: tmp_path)
    monkeypatch.setattr(userland, "_compiled", lambda *_: tmp_path / "made")
    seen = userland.ensure(OTHER, [Path("/usr/share/x y"), Path("/home")])
    layers = dict(seen.layers)
    assert layers[Path("/home")] == (Path("/home"),)
    assert layers[Path("/usr/share/x y")] == (Path("/usr/share/x y"),)
    assert Path("/usr") not in layers
    assert Path("/etc") not in layers
    package = Path(userland.__file__).parent.parent
    assert layers[package] == (tmp_path / "made", package)
    assert seen.env["PYTHONPATH"].split(":")[0] == str(package.parent)
    command = seen.command("retsnoop_py.cli.start:program")
    assert command[:3] == ["/usr/bin/python3", "-I", "-S"]
    assert command[-4:-1] == [*seen.env["PYTHONPATH"].split(":"), "--"]
    assert list(layers).index(package) > list(layers).index(Path("/home"))
    words = dict(line.split("=", 1) for line in _layers(seen).splitlines())
    assert "/usr/share/x%20y=/usr/share/x%20y" in shlex.split(words["layers"])[0].split(" ")


def wheel(folder: Path, version: str = __version__, machine: str = OTHER.machine) -> Path:
    path = folder / f"retsnoop_py-{version}-cp311-abi3-manylinux_2_28_{machine}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("retsnoop_py/__init__.py", "")
    return path


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RETSNOOP_WHEEL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache/retsnoop-py/userlands").mkdir(parents=True)
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist"


def test_what_is_installed_takes_the_wheel_of_its_own_version(
    dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(dist, version="9.9.9")
    wheel(dist, machine=platform.machine())
    monkeypatch.setenv("RETSNOOP_WHEEL", str(dist))
    with pytest.raises(UnavailableError, match=f"_{OTHER.machine}.whl; .*dist does not contain it"):
        userland._wheel(OTHER)
    mine = wheel(dist)
    folder = userland._unpacked_wheel(OTHER, userland._wheel(OTHER))
    assert (folder / "retsnoop_py/__init__.py").exists()
    for told in (mine, dist):
        monkeypatch.setenv("RETSNOOP_WHEEL", str(told))
        assert userland._unpacked_wheel(OTHER, userland._wheel(OTHER)) == folder


def test_a_wheel_in_the_current_folder_is_not_used(dist: Path) -> None:
    wheel(dist)
    with pytest.raises(UnavailableError, match="needs the wheel") as caught:
        userland._wheel(OTHER)
    assert "RETSNOOP_WHEEL=PATH" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["other.whl", "missing.whl"])
def test_a_wheel_that_is_none_or_another_is_refused(
    dist: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (dist / "other.whl").touch()
    monkeypatch.setenv("RETSNOOP_WHEEL", str(dist / name))
    with pytest.raises((UnavailableError, InputError), match=r"is another file|no such file"):
        userland._wheel(OTHER)


def test_a_damaged_wheel_is_refused_and_nothing_stays(
    dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(dist).write_text("no archive")
    monkeypatch.setenv("RETSNOOP_WHEEL", str(dist))
    with pytest.raises(DataError, match="is damaged"):
        userland._unpacked_wheel(OTHER, userland._wheel(OTHER))
    home = dist.parent / "cache/retsnoop-py/userlands"
    assert not [path for path in home.iterdir() if path.is_dir()]


def test_the_extensions_are_compiled_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools run in /, and the build names its sources from the checkout on."""
    script = tmp_path / "build.py"
    script.write_text("import os; print(os.getcwd())")
    monkeypatch.setattr(userland, "python", lambda: (sys.executable,))
    assert userland._compiled(ARCHITECTURES["arm64"], script, tmp_path) == tmp_path
