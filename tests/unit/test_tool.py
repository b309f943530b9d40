# SPDX-License-Identifier: BSD-2-Clause
"""The environment of the tools that retsnoop-py starts."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import retsnoop_py
from retsnoop_py import package
from retsnoop_py.libbpf.object import OBJECTS
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools
from retsnoop_py.vm import debian, qemu

PACKAGE = Path(inspect.getfile(retsnoop_py)).parent
STARTS = ("run", "Popen", "call", "check_call", "check_output", "system", "popen")
#: Starts of other programs than tools, by file and function, and what they start.
ALLOWED = {
    ("capture/command.py", "_child"): "the traced command, with the caller's environment",
    ("vm/confined.py", "main"): "QEMU or virtiofsd, with the environment that vm/boot.py gave",
    ("vm/guest_pty.py", "main"): "the command, in a guest",
}
#: Variables by which a caller names files, programs and servers to a tool.
HOSTILE = {
    "PIP_INDEX_URL": "http://example.invalid",
    "PIP_CONFIG_FILE": "/tmp/pip.conf",
    "APT_CONFIG": "/tmp/apt.conf",
    "TAR_OPTIONS": "--checkpoint-action=exec=id",
    "LD_PRELOAD": "/tmp/evil.so",
    "PYTHONPATH": "/tmp",
    "XDG_CONFIG_HOME": "/tmp",
    "ZSTD_CLEVEL": "1",
    "GCONV_PATH": "/tmp",
    "DPKG_ROOT": "/tmp",
    "VIRTIOFSD": "/tmp",
}


def starts(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield function and call of each start of a program."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Call):
                module, _, word = ast.unparse(child.func).rpartition(".")
                if (module in ("subprocess", "os") and word in STARTS) or (
                    module == "os" and word.startswith(("exec", "spawn", "posix_spawn"))
                ):
                    yield function, child
            yield from walk(child, name)

    return walk(tree, "")


def is_clean(call: ast.Call) -> bool:
    """Return whether a start has the tools' environment, or none, and the tools' folder."""
    given = {one.arg: ast.unparse(one.value) for one in call.keywords}
    return (
        "environment_of_tools()" in given.get("env", "") and "TOOL_FOLDER" in given.get("cwd", "")
    ) or (given.get("env") == "{}" and given.get("cwd") == "'/'")


def test_each_start_of_a_tool_has_the_environment_of_tools() -> None:
    found = [
        (str(path.relative_to(PACKAGE)), function, is_clean(call))
        for path in PACKAGE.rglob("*.py")
        for function, call in starts(ast.parse(path.read_text()))
    ]
    assert len(found) > 12
    others = {(file, function) for file, function, clean in found if not clean}
    assert others == ALLOWED.keys()


def test_a_tool_gets_no_variable_that_names_a_file_a_program_or_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.chdir(tmp_path)
    done = debian.run_tool(["/bin/sh", "-c", "env; pwd"], variables={"OWN": "1"})
    given = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert given["https_proxy"] == "http://proxy:3128"
    assert given["OWN"] == "1"
    assert done.stdout.endswith("\n/\n")
    assert given["PATH"] == os.environ["PATH"]
    assert not given.keys() & HOSTILE.keys()


def test_roots_tools_have_no_home_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """``sudo -E`` keeps HOME, and pip reads the index and a program for passwords there."""
    monkeypatch.setenv("HOME", "/home/other")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert environment_of_tools()["HOME"] in (pwd.getpwuid(0).pw_dir, "/")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert environment_of_tools()["HOME"] == "/home/other"


#: Prints the variables that this process keeps, and those of a traced command.
_KEPT = """
import json, os
from retsnoop_py.caller_environment import leave_out_unsafe_variables
from retsnoop_py.capture.inherited import environment
leave_out_unsafe_variables()
print(json.dumps([dict(os.environ), environment()]))
"""


def kept_of(variables: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    code = f"import sys; sys.path[:] = {sys.path!r}\n{_KEPT}"
    said = subprocess.check_output([*package.python(), "-c", code], env=variables, text=True)
    ours, commands = json.loads(said)
    return ours, commands


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's variables have the user's own rights")
def test_roots_own_libraries_get_no_variable_that_names_code_or_files(tmp_path: Path) -> None:
    """OpenSSL loads what OPENSSL_CONF names, and ssl writes the file of SSLKEYLOGFILE."""
    theirs = tmp_path / "ca.pem"
    theirs.touch()
    os.chown(theirs, 12345, 12345)
    hostile = HOSTILE | {
        "OPENSSL_CONF": str(theirs),
        "OPENSSL_MODULES": str(tmp_path),
        "SSLKEYLOGFILE": str(theirs),
        "SSL_CERT_FILE": str(theirs),
        "NEW_LIBRARY_PLUGINS": str(tmp_path),
    }
    del hostile["LD_PRELOAD"], hostile["PYTHONPATH"], hostile["XDG_CONFIG_HOME"]
    own = {"PATH": "/usr/bin:/bin", "HOME": "/root", "DEBUGINFOD_URLS": "", "LC_ALL": "C"}
    own |= {"https_proxy": "http://proxy:3128", "SSL_CERT_DIR": "/etc/ssl/certs"}
    ours, commands = kept_of(hostile | own)
    assert ours == own
    assert commands == hostile | own


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's variables have the user's own rights")
def test_openssl_in_roots_process_reads_no_file_of_a_variable(tmp_path: Path) -> None:
    """Also in a completion, and before the command line is read."""
    settings = tmp_path / "openssl.cnf"
    os.mkfifo(settings)
    reads: list[int] = []

    def wait_for_reader() -> None:
        end = os.open(settings, os.O_WRONLY)
        reads.append(end)
        os.close(end)

    threading.Thread(target=wait_for_reader, daemon=True).start()
    given = {"PATH": os.environ["PATH"], "OPENSSL_CONF": str(settings)}
    log = tmp_path / "log"
    log.write_text("libbpf: prog 'p': BPF program load failed: Invalid argument\n")
    for words, more in (
        (["explain", str(log), "--object", str(OBJECTS / "trace.bpf.o")], {}),
        ([], {"_RETSNOOP_PY_COMPLETE": "complete_bash", "COMP_WORDS": "x l", "COMP_CWORD": "1"}),
    ):
        subprocess.run(
            [*package.program(), *words],
            env=given | more,
            cwd=tmp_path,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        assert not reads


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_gives_tools_no_certificates_of_another_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.touch()
    os.chown(theirs, 12345, 12345)
    for value in (str(theirs), f"/etc:{theirs}", "ca.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", value)
        assert "SSL_CERT_FILE" not in environment_of_tools()
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
    assert "SSL_CERT_FILE" in environment_of_tools()


def test_qemu_takes_no_firmware_from_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho version 7.2; pwd >&2; test -e bios.bin && echo -sandbox\n")
    program.chmod(0o755)
    (tmp_path / "bios.bin").touch()
    monkeypatch.chdir(tmp_path)
    assert not qemu.installed(str(program)).has_sandbox
    assert subprocess.check_output(["pwd"], cwd=TOOL_FOLDER, text=True) == "/\n"
