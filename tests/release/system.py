# SPDX-License-Identifier: BSD-2-Clause
"""A bare Debian without a container runtime, in which tests install release files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import build
from tests.pythons import Root

from retsnoop_py.vm.architecture import host
from retsnoop_py.vm.debian import locked
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

#: Run a command in a root directory, in its own namespaces. Changes go to directories in $1.
IN_SYSTEM = """
set -e
home=$1 lower=$2; shift 2
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$home/upper,workdir=$home/work" "$home/root"
for option in $WITHOUT; do case $option in proc) no_proc=1;; sys) no_sys=1;; esac; done
test -n "$no_proc" || mount -t proc proc "$home/root/proc"
test -n "$no_sys" || mount -t sysfs -o ro sysfs "$home/root/sys"
mount --rbind /dev "$home/root/dev"
case " $WITHOUT " in *" tmp "*)
    mount --bind "$home/root/tmp" "$home/root/tmp"
    mount -o remount,bind,ro "$home/root/tmp";;
esac
case " $WITHOUT " in *" users "*) mount --bind /dev/null "$home/root/etc/passwd";; esac
exec chroot "$home/root" "$@"
"""
#: Mount the same root directory in a guest. Changes are lost. $1 and $2 are as above.
IN_GUEST = """
set -e
mkdir -p /run/system/rw
mount -t tmpfs none /run/system/rw
mkdir /run/system/rw/upper /run/system/rw/work /run/system/root
mount -t overlay overlay -o "lowerdir=$1/upper:$2" \\
    -o upperdir=/run/system/rw/upper,workdir=/run/system/rw/work /run/system/root
for each in proc sys dev; do mount --rbind /$each /run/system/root/$each; done
"""
#: Network settings of this machine: variables (some of them name files), and files.
_NETWORK = re.compile(
    r"(?:https?|no|all)_proxy|PIP_(?!FIND_LINKS)\w+|(?:SSL|CURL|REQUESTS)_C\w+", re.IGNORECASE
)
_SETTINGS = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
OBJECTS = build.ROOT / "tests" / "live" / "objects"
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


#: Restricted systems: environment variables, and the parts that :meth:`System.call` omits.
BARE = {
    "no home": ({"HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}, ""),
    "HOME unset": ({"LC_ALL": "C.UTF-8"}, ""),
    "no home at all": ({"LC_ALL": "C.UTF-8"}, "users"),
    "locale C": ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, ""),
    "locale POSIX": ({"LC_ALL": "POSIX"}, ""),
    "unknown locale": ({"LC_ALL": "de_DE.ISO-8859-1"}, ""),
    "read-only tmp": ({"HOME": "/root"}, "tmp"),
    "no sys": ({"HOME": "/root"}, "sys"),
    "no proc": ({"HOME": "/root"}, "proc"),
    "nothing": ({"HOME": "/root"}, "proc sys tmp"),
}


def assert_answers(system: System, program: str, recording: str, surrounding: str) -> None:
    """Check that each command works in one of :data:`BARE`, or reports the reason."""
    env, without = BARE[surrounding]
    statuses = {
        ("--version",): (0,),
        ("--help",): (0,),
        ("replay", recording): (0,),
        ("replay", "--format", "json", recording): (0,),
        ("doctor",): (65, 66, 69, 77, 0),
        ("doctor", "--json"): (65, 66, 69, 77, 0),
        ("-e", "*_sys_bpf", "--dry-run"): (0, 66, 69, 77),
        ("-e", "*_sys_bpf", "--for", "0.1s"): (66, 69, 77),
        ("functions", "*_sys_bpf"): (0, 66, 69, 77),
        ("why", "--", "true"): (66, 69, 77),
        ("list", "presets"): (0,),
        ("help", "globs"): (0,),
        ("vm", "list"): (0, 69),
        ("vm", "run", "--", "true"): (69,),
        ("load", recording): (2, 69, 77),
        ("explain", recording): (65,),
    }
    for words, wanted in statuses.items():
        given = {"PATH": ENVIRONMENT["PATH"], **env}
        done = system.call(program, *words, env=given, without=without)
        said = f"{words} ({done.returncode}):\n{done.stdout[-500:]}{done.stderr[-3000:]}"
        assert "Traceback" not in done.stderr, said
        errors = [line for line in done.stderr.splitlines() if " error: " in line]
        assert len(errors) == int(done.returncode not in (0, 2) and words[0] != "doctor"), said
        assert "a bug of retsnoop-py" not in done.stderr, said
        assert done.returncode in wanted, said


def bpf_object(folder: Path, name: str) -> Path:
    """Compile one of the BPF objects of the live tests for this machine."""
    machine = {"x86_64": "x86"}.get(host().name, host().name)
    made = folder / f"{name}.o"
    words = ["clang", "-target", "bpf", "-g", "-O2", "-mcpu=v3", f"-D__TARGET_ARCH_{machine}"]
    words += ["-I", build.BUILD / "libbpf" / "include", "-I", f"/usr/include/{host().gnu}"]
    subprocess.run([*words, "-c", OBJECTS / f"{name}.bpf.c", "-o", made], check=True)
    return made


def line_of(name: str, reason: str) -> int:
    """Return the first line of an object's source that the verifier must reject for ``reason``."""
    lines = (OBJECTS / f"{name}.bpf.c").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"// refused: {reason}" in line)


def assert_first_steps(
    call: Callable[..., Result], tool: str, python: Sequence[str], refused: str
) -> None:
    """Run a new user's first steps in a guest: doctor, a trace, why, a rejected object.

    ``refused`` is the path of the object ``bounds`` from :func:`bpf_object`.
    """
    doctor = call(tool, "doctor")
    assert "Tracing works here" in doctor.out, doctor.out + doctor.err
    case = (*python, "-m", "retsnoop_py.workload", "--quiet", "bpf-map-too-large")
    traced = call(tool, "-e", "*_sys_bpf", "-a", "*map*", "--", *case)
    assert "[-ENOMEM]" in traced.out, traced.out + traced.err
    why = call(tool, "why", "--", *case)
    assert "returned ENOMEM" in why.out, why.out + why.err
    assert "array_map_alloc" in why.out
    loaded = call(tool, "load", refused)
    assert loaded.status == 2, loaded.out + loaded.err
    assert "packet_unchecked" in loaded.out
    assert f"bounds.bpf.c:{line_of('bounds', 'packet-bounds')}" in loaded.out


#: Command that lists all files with the tool's name.
NAMED = ("find", "/", "-xdev", "-name", "*retsnoop*", "-not", "-path", "/proc/*")


def left_behind(system: System, *ours: str) -> list[str]:
    """Return all files with the tool's name, except ``ours`` and the user's cache."""
    kept = (*ours, "/root/.cache/retsnoop-py")
    return [path for path in system.run(*NAMED).split() if not path.startswith(kept)]


class System:
    """A bare Debian in which a test installs packages.

    Changes are stored in build/systems/``name``. The original root directory does not change.
    """

    def __init__(self, suite: str, name: str | None = None) -> None:
        base = Root(suite, ("ca-certificates",), f"{suite}-bare")
        base.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(base.path.with_suffix(".lock")):
            base.prepare()
        self.base = base.path
        self.home = build.BUILD / "systems" / (name or suite)
        shutil.rmtree(self.home, ignore_errors=True)
        for folder in ("upper/root", "work", "root"):
            (self.home / folder).mkdir(parents=True)

    def call(
        self, *words: str, env: dict[str, str] | None = None, without: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the system; ``without`` lists missing parts: proc, sys, tmp, users."""
        given = [f"{key}={value}" for key, value in (ENVIRONMENT if env is None else env).items()]
        script = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IN_SYSTEM]
        return subprocess.run(
            [*script, "sh", self.home, self.base, "env", "-i", *given, *words],
            env=dict(os.environ, WITHOUT=without),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = self.call(*words, env=env)
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def boot(self, machine: Machine) -> Callable[..., Result]:
        """Mount the system in a guest. Return a function that runs commands in the system."""
        ready = machine.run(["sh", "-c", IN_GUEST, "sh", str(self.home), str(self.base)])
        assert ready.status == 0, ready.err
        env = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
        start = ("chroot", "/run/system/root", "env", "-i", *env)
        return lambda *words: machine.run([*start, *words], timeout=600)

    def give(self, path: Path) -> str:
        """Copy a file of the host into the system. Return its path there."""
        shutil.copy(path, self.home / "upper/root" / path.name)
        return f"/root/{path.name}"


def of_this_network(system: System) -> dict[str, str]:
    """Return the network variables of this machine, and copy the files that they name."""
    found = {key: value for key, value in os.environ.items() if _NETWORK.fullmatch(key)}
    for path in (*_SETTINGS, *map(Path, found.values())):
        if path.is_absolute() and path.is_file():
            copy = system.home / "upper" / path.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return found
