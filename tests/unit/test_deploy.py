# SPDX-License-Identifier: BSD-2-Clause
"""The script of deploy/daemonset.yaml, with another program in retsnoop-py's place.

tests/live/test_containers.py runs the whole manifest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import build
import pytest
import yaml

MANIFEST = build.ROOT / "deploy" / "daemonset.yaml"
#: Prints its arguments, makes its recording, and in its n-th run follows line n of its script.
TOOL = """\
#!/bin/sh
echo "$@" >>"$RECORDINGS/calls"
while test "$1" != -o; do shift; done
echo recorded >"$2"
eval "$(sed -n "$(wc -l <"$RECORDINGS/calls")p" "$RECORDINGS/doing")"
"""


class Node:
    def __init__(self, home: Path) -> None:
        documents = {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text())}
        self.config, self.recordings = home / "config", home / "recordings"
        for folder in (self.config, self.recordings, home / "bin"):
            folder.mkdir()
        for name, text in documents["ConfigMap"]["data"].items():
            (self.config / name).write_text(text)
        tool = home / "bin" / "retsnoop-py"
        tool.write_text(TOOL)
        tool.chmod(0o755)
        path = f"{home / 'bin'}:{os.environ['PATH']}"
        told = {"CONFIG": str(self.config), "RECORDINGS": str(self.recordings), "NODE": "one"}
        self.env = {"PATH": path, **told}

    def start(self, *doing: str) -> subprocess.Popen[str]:
        (self.recordings / "doing").write_text("".join(f"{line}\n" for line in doing))
        script = ["sh", self.config / "trace.sh"]
        return subprocess.Popen(script, env=self.env, cwd=self.recordings, text=True)

    @property
    def calls(self) -> list[str]:
        path = self.recordings / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_options_are_words_and_globs_are_not_the_shells(node: Node) -> None:
    (node.config / "options").write_text("-e *_sys_bpf\n  # -n box\n# -x EBUSY\n-a map_* -T\n")
    (node.recordings / "x_sys_bpf").touch()  # what a shell would make of the glob
    assert node.start("exit 69").wait(60) == 69
    [call] = node.calls
    assert call.startswith(
        f"-e *_sys_bpf -a map_* -T --format json --for 1h -o {node.recordings}/one-"
    )


def test_periods_follow_each_other_and_old_recordings_go(node: Node) -> None:
    old, kept = node.recordings / "one-20200101T000000Z.rsn", node.recordings / "notes.txt"
    for path in (old, kept):
        path.touch()
        os.utime(path, (1, 1))
    assert node.start("exit 0", "exit 0", "exit 77").wait(60) == 77
    assert len(node.calls) == 3
    assert not old.exists()
    assert kept.exists()


def test_a_signal_ends_the_tracer_in_its_own_time(node: Node) -> None:
    trap = "trap 'sleep 0.3; touch ended; exit 0' TERM; while :; do sleep 0.05; done"
    script = node.start(f"cd {node.recordings}; {trap}")
    deadline = time.monotonic() + 60
    while not node.calls and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)  # for the trap to stand
    script.send_signal(signal.SIGTERM)
    assert script.wait(60) == 0
    assert (node.recordings / "ended").exists()
    assert len(node.calls) == 1
