# SPDX-License-Identifier: BSD-2-Clause
"""Run the instructions of the Containerfiles in bare root directories of their Debian.

The test pulls no base image and creates no image. It checks only that the instructions work.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import build
from release.deb import ARCHITECTURES
from tests.release.system import ENVIRONMENT, System

from retsnoop_py import __version__


class Image:
    """A system after the instructions of a Containerfile."""

    def __init__(self, path: Path, **arguments: str) -> None:
        self.env = dict(ENVIRONMENT)
        self.folder = Path("/")
        self.start: list[str] = []
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            getattr(self, f"_{kind.lower()}")(rest, arguments)

    def run(self, script: str) -> str:
        env = [f"{key}={value}" for key, value in self.env.items()]
        return self.system.run("env", "-i", *env, "sh", "-c", f"cd {self.folder} && {script}")

    def _from(self, rest: str, _: dict[str, str]) -> None:
        name, _, tag = rest.partition(":")
        assert name == "debian"
        self.system = System(tag.removesuffix("-slim"), f"image-{tag}")
        # pip uses the certificates of this machine
        ours = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
        self.env["PIP_CERT"] = self.system.give(ours)

    def _arg(self, rest: str, arguments: dict[str, str]) -> None:
        name, _, default = rest.partition("=")
        self.env[name] = arguments.get(name, default.strip('"'))

    def _env(self, rest: str, _: dict[str, str]) -> None:
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            self.env[name] = self._filled(value)

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda found: self.env[found[1]], text)

    def _workdir(self, rest: str, _: dict[str, str]) -> None:
        self.folder = Path(rest)
        self.system.run("mkdir", "-p", rest)

    def _copy(self, rest: str, _: dict[str, str]) -> None:
        *sources, target = self._filled(rest).split()
        staged = self.system.home / "upper/root/copied"
        for pattern in sources:
            found = list(build.ROOT.glob(pattern))
            assert found, f"COPY {pattern}: no such file"
            staged.mkdir()
            for source in found:
                if source.is_dir():
                    built = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", "*.bpf.o")
                    shutil.copytree(source, staged, ignore=built, dirs_exist_ok=True)
                else:
                    shutil.copyfile(source, staged / source.name)
            place = self.folder / target
            self.system.run("mkdir", "-p", str(place))
            self.system.run("cp", "-r", "/root/copied/.", str(place))
            shutil.rmtree(staged)

    def _run(self, rest: str, _: dict[str, str]) -> None:
        self.run(rest)

    def _cmd(self, rest: str, _: dict[str, str]) -> None:
        self.start = re.findall(r'"([^"]+)"', rest)

    _entrypoint = _cmd


def test_the_image_for_pipelines_is_built_and_has_its_kernels() -> None:
    image = Image(build.ROOT / "Containerfile", KERNELS="6.12")
    assert image.run("retsnoop-py --version") == f"retsnoop-py {__version__}\n"
    assert "usage" in image.run(shlex.join(image.start)).lower()
    [row] = [
        line for line in image.run("retsnoop-py vm list").splitlines() if "6.12" in line.split()
    ]
    assert "6.12." in row, row


def test_the_image_for_nodes_is_built_and_starts() -> None:
    architecture = ARCHITECTURES[os.uname().machine]
    image = Image(build.ROOT / "deploy/Containerfile", TARGETARCH=architecture)
    assert image.start == ["retsnoop-py"]
    assert image.run(f"{image.start[0]} --version") == f"retsnoop-py {__version__}\n"
    assert image.run("ls /tmp") == ""
