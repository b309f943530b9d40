# SPDX-License-Identifier: BSD-2-Clause
"""``make deb``: packages of the wheels for Debian 12, 13 and sid, for amd64 and arm64.

One package supports all three suites, so its Python and C code must not depend on a suite.
/usr/lib/retsnoop-py is a virtual environment of the system's Python, with the wheel and the
packages of ``bundled.txt``. dpkg-buildpackage makes the package from ``debian/``. Two runs give the
same bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from pathlib import Path, PurePosixPath

import build

from release.wheel import DIST, MACHINES, environment, install_tools, version, wheel_name

__all__ = ["ARCHITECTURES", "PYTHONS", "build_deb", "changelog", "completions", "deb_name", "main"]

#: Debian's names of the machines.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: The Python versions that ``debian/control`` allows. They share one directory, because a compiled
#: module has the Python version in its file name.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BUNDLED = build.ROOT / "release" / "bundled.txt"

_HOME = PurePosixPath("usr/lib/retsnoop-py")
_SITE = _HOME / "lib/python3/site-packages"
_DOC = PurePosixPath("usr/share/doc/retsnoop-py")
# -I: root's program ignores the user's environment and the current folder.
_PROGRAM = f"""\
#!/{_HOME}/bin/python3 -I
from retsnoop_py.cli.start import program

program()
"""
# Modules of this environment take precedence over Debian's own modules.
_VENV = "home = /usr/bin\ninclude-system-site-packages = true\n"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/retsnoop-py",
    "zsh": "usr/share/zsh/vendor-completions/_retsnoop-py",
    "fish": "usr/share/fish/vendor_completions.d/retsnoop-py.fish",
}
_CHANGELOG = """\
retsnoop-py ({version}) unstable; urgency=medium

  * {version} as it was released; what is new is in NEWS.md.gz beside this
    file.

 -- {maintainer}  {date}
"""


def deb_name(machine: str) -> str:
    """Return the file name of the package for ``machine``."""
    return f"retsnoop-py_{version()}_{ARCHITECTURES[machine]}.deb"


def changelog(control: str, epoch: int) -> str:
    """Return debian/changelog for the current version, the maintainer of ``control``, ``epoch``."""
    found = re.search(r"^Maintainer: (.+)$", control, re.MULTILINE)
    if not found:
        raise build.BuildError("debian/control names no maintainer")
    date = formatdate(epoch)
    return _CHANGELOG.format(version=version(), maintainer=found[1], date=date)


def completions() -> dict[str, str]:
    """Return the completion scripts for bash, zsh and fish, by their paths in the package."""
    env = dict(os.environ, PYTHONPATH=str(build.ROOT / "src"))
    told = {}
    for shell, path in _COMPLETIONS.items():
        argv = [sys.executable, "-P", "-m", "retsnoop_py"]
        said = build.run(argv, env=dict(env, _RETSNOOP_PY_COMPLETE=f"source_{shell}"))
        told[path] = said.strip() + "\n"  # zsh requires its tag in the first line
    return told


def _bundled(machine: str) -> Iterator[Path]:
    """Yield the wheels of bundled.txt for ``machine``, for each Python."""
    home = build.BUILD / "bundled" / machine
    stamp, value = home / ".stamp", f"{build.sha256(BUNDLED)} {PYTHONS}"
    if not build.is_stamped(stamp, value):
        build.say("pip", f"what the package brings along for {machine}")
        shutil.rmtree(home, ignore_errors=True)
        pip = [sys.executable, "-I", "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        pip += ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(BUNDLED)]
        pip += [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 17)]
        for python in PYTHONS:
            build.run([*pip, "--python-version", python, "-d", home])
        stamp.write_text(value)
    yield from sorted(home.glob("*.whl"))


def _place(name: str, project: str) -> PurePosixPath | None:
    """Return the installed path of a file in the wheel of ``project``; None to skip the file."""
    path = PurePosixPath(name)
    top = path.parts[0]
    if top.endswith(".data"):
        return PurePosixPath("usr", *path.parts[2:])
    if top.endswith(".dist-info"):
        if path.parts[1] == "licenses":
            inside = path.parts[2:]
        elif path.name.startswith("LICENSE"):
            inside = path.parts[1:]
        else:
            return None
        folder = () if project == "retsnoop_py" else (project,)
        return _DOC.joinpath("licenses", *folder, *inside)
    if "include" in path.parts or path.suffix in (".pyi", ".h"):
        return None
    return _SITE / path


def _unpack(wheel: Path, tree: Path) -> None:
    project = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            place = None if info.is_dir() else _place(info.filename, project)
            if place is not None:
                path = tree / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(info))


def _fill(tree: Path, machine: str) -> None:
    """Write all installed files below ``tree``."""
    wheel = DIST / wheel_name(machine)
    if not wheel.is_file():
        raise build.BuildError(f"there is no dist/{wheel.name}; run: make wheel")
    for one in _bundled(machine):
        _unpack(one, tree)
    # Modules from PyPI are not stripped. Debian's own strip supports only this machine's files.
    build.run(["llvm-strip", "--strip-unneeded", *sorted(tree.rglob("*.so"))])
    _unpack(wheel, tree)
    home = tree / _HOME
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to("/usr/bin/python3")
    for python in PYTHONS:
        (home / "lib" / f"python{python}").symlink_to("python3")
    (home / "pyvenv.cfg").write_text(_VENV)
    program = home / "bin" / "retsnoop-py"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/retsnoop-py").symlink_to("../lib/retsnoop-py/bin/retsnoop-py")
    for place, text in completions().items():
        path = tree / place
        path.parent.mkdir(parents=True)
        path.write_text(text)
    shutil.copyfile(build.ROOT / "README.md", tree / _DOC / "README.md")
    # Debian requires its own format for a file named changelog.
    shutil.copyfile(build.ROOT / "CHANGELOG.md", tree / _DOC / "NEWS.md")


def build_deb(machine: str) -> Path:
    """Make the package for ``machine`` of its wheel in dist/. Raises BuildError without a wheel."""
    architecture = ARCHITECTURES[machine]
    home = build.BUILD / "deb" / architecture
    source = home / f"retsnoop-py-{version()}"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(build.ROOT / "debian", source / "debian")
    env = environment()
    epoch = int(env["SOURCE_DATE_EPOCH"])
    told = changelog((source / "debian" / "control").read_text(), epoch)
    (source / "debian" / "changelog").write_text(told)
    _fill(source / "tree", machine)
    # dpkg-deb changes only times later than that. A checkout can have files older than its commit.
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (epoch, epoch))
    # -d: nothing is compiled here, so the build does not need build-essential or a compiler.
    words = ["dpkg-buildpackage", "-d", "-b", "-us", "-uc", f"-a{architecture}"]
    build.run(["env", "-C", str(source), *words], env=env)
    DIST.mkdir(exist_ok=True)
    return Path(shutil.copyfile(home / deb_name(machine), DIST / deb_name(machine)))


def lint(package: Path) -> None:
    """Check ``package`` with lintian. Raises BuildError with the findings."""
    words = ["lintian", "--fail-on=error,warning", "--info", "--allow-root", str(package)]
    build.run(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the packages of the wheels in dist/; 0, or 1 after one clear message."""
    parser = argparse.ArgumentParser(prog="make deb", description=main.__doc__)
    parser.add_argument("machines", nargs="*", help=f"of {', '.join(MACHINES)}; all by default")
    options = parser.parse_args(argv)
    os.umask(0o022)  # modes are part of the bytes
    try:
        machines = [build.machine_of(name) for name in options.machines or MACHINES]
        with build.locked():
            build.install_deps("deb")
            install_tools()
            for machine in machines:
                made = build_deb(machine)
                lint(made)
                build.say("deb", f"dist/{made.name}, {made.stat().st_size / 1e6:.1f} MB")
    except build.BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
