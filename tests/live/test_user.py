# SPDX-License-Identifier: BSD-2-Clause
"""--user: the command has another user's rights, and tracing root's."""

from __future__ import annotations

import errno
import re
import shlex

import pytest
from tests.live.support import BPF_NUMBERS, FEW, TOOL, errno_of, read_recording, trace

from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.one_kernel
#: A user of each Debian, with only its own group.
NAME = "www-data"


def test_the_command_runs_as_the_user_and_is_traced(machine: Machine) -> None:
    """Debian's kernels allow only root to create a map, as the command does."""
    path = machine.share / "user.rsn"
    array = "(ctypes.c_uint32 * 4)(2, 4, 4, 1)"  # its type, key and value of 4 bytes, one of them
    number = BPF_NUMBERS[machine.arch.name]
    call = f"import ctypes; ctypes.CDLL(None).syscall({number}, 0, {array}, 16)"
    script = (
        "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; echo $SECRET_TOKEN-; "
        f"/usr/bin/python3 -c '{call}'"
    )
    words = ("--user", NAME, "-e", "*_sys_bpf", "-o", str(path), "--", "sh", "-c", script)
    result = machine.run(["env", "SECRET_TOKEN=x", TOOL, *words], timeout=180)
    assert result.status == 0, result.err
    asked = machine.run(["sh", "-c", f"id -u {NAME}; id -g {NAME}; id -G {NAME}"])
    home = machine.run(["sh", "-c", f"eval echo ~{NAME}"]).out.strip()
    shown = result.out.split("\n\n", 1)[0].splitlines()
    assert shown[:5] == [*asked.out.splitlines(), f"{home} {NAME} {NAME}", "-"]
    sessions = read_recording(path).sessions
    assert [errno_of(session) for session in sessions] == [errno.EPERM]


@pytest.mark.slow
def test_on_a_terminal_the_command_has_another_one_and_why_explains_it(machine: Machine) -> None:
    script = "tty; echo $SECRET_TOKEN-; cat /etc/shadow"
    line = shlex.join([TOOL, "why", "--reruns", "1", "--user", NAME, "--", "sh", "-c", script])
    command = ["script", "-qec", f"tty; {line}", "/dev/null"]
    result = machine.run(["env", "SECRET_TOKEN=x", *command], timeout=400)
    # script(1) types an end of file ahead, which can be shown before the second name
    terminals = re.findall(r"(/dev/pts/\d+)\r", result.out)
    assert len(set(terminals)) == 2, result.out
    assert "\n-\r" in result.out
    assert "EACCES" in result.out
    assert "because " in result.out, "the second run has no terminal, and fails as the first"
    assert result.status == 1


def test_a_program_is_searched_with_the_users_rights(machine: Machine) -> None:
    """PATH has two programs of that name; the user may not run the first one, which is root's."""
    folder = machine.share / "programs"
    for name, mode, status in (("roots", 0o700, 3), ("everybodys", 0o755, 4)):
        program = folder / name / "which-one"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\nexit {status}\n")
        program.chmod(mode)
    path = f"PATH={folder}/roots:{folder}/everybodys:/usr/bin:/bin"
    machine.run(
        ["sh", "-c", f"cp -r {folder} /tmp/programs; chmod 755 /tmp/programs /tmp/programs/*"]
    )
    path = path.replace(str(folder), "/tmp/programs")
    for words, status in (((), 3), (("--user", NAME), 4)):
        result = machine.run(["env", path, TOOL, *FEW, *words, "--", "which-one"], timeout=180)
        assert result.status == status, result.err
    words = ("--user", NAME, "--", "/tmp/programs/roots/which-one")
    refused = trace(machine, *FEW, *words)
    assert refused.status == 126, refused.err


@pytest.mark.parametrize(
    ("wrapper", "name", "status", "told"),
    [
        ((), "no-such-user", 66, "no such user"),
        (("setpriv", "--bounding-set", "-setuid,-setgid"), NAME, 77, "Operation not permitted"),
    ],
)
def test_whom_it_cannot_become_is_told(
    machine: Machine, wrapper: tuple[str, ...], name: str, status: int, told: str
) -> None:
    result = machine.run([*wrapper, TOOL, *FEW, "--user", name, "--", "true"], timeout=180)
    assert result.status == status, result.err
    assert told in result.err
    assert "Traceback" not in result.err
