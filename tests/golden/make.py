# SPDX-License-Identifier: BSD-2-Clause
"""Create the golden recordings: ``python tests/golden/make.py [KERNEL...] [RECORDING...]``.

Each recording is a live run of a part of the workload, or of another program, on a real kernel. The
text with the same name is the output of that run. The other texts are replays with options; review
them before you commit them. Without names, all recordings are created. The recording of the whole
workload is called ``all``. With ``texts``, recordings stay as they are and all texts are written
again by replays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.golden.views import (  # noqa: E402
    CALLERS,
    KERNELS,
    RECORDINGS,
    VIEWS,
    recordings,
    replay_text,
    stem,
)
from tests.live.support import PROGRAMS, PYTHON, compiled, trace  # noqa: E402

from retsnoop_py.recording.format import FrameKind, file_header, pack_frame  # noqa: E402
from retsnoop_py.recording.overrides import ReplayOverrides  # noqa: E402
from retsnoop_py.recording.reader import read_frames  # noqa: E402
from retsnoop_py.vm.machine import Machine  # noqa: E402


def install_callers(machine: Machine) -> None:
    """Build the program at a path that does not depend on this machine, also in its DWARF."""
    nowhere = [f"-ffile-prefix-map={path}=" for path in (Path.cwd(), f"{PROGRAMS}/")]
    nowhere.append(f"-Wa,--debug-prefix-map,{Path.cwd()}=")
    built = compiled(machine, "callers", "-g", "-fno-omit-frame-pointer", *nowhere)
    copied = machine.run(["cp", str(built), CALLERS])
    if copied.status:
        sys.exit(copied.err)


def without_paths(recording: Path) -> bytes:
    """Return the bytes of a recording, without this machine's path in its command."""
    first, *rest = read_frames(recording)
    facts = first.payload.replace(PYTHON.encode(), b"python")
    frames = [pack_frame(FrameKind.FACTS, facts), *(pack_frame(*frame[:2]) for frame in rest)]
    return file_header() + b"".join(frames)


def record(machine: Machine, kernel: str, name: str) -> None:
    """Make one recording on a booted kernel."""
    options, command = RECORDINGS[name]
    path = machine.share / "golden.rsn"
    if command[0] == CALLERS:
        install_callers(machine)
    live = trace(machine, *options, "-o", str(path), "--", *command)
    if live.status:
        sys.exit(live.err)
    (HERE / f"{stem(kernel, name)}.rsn").write_bytes(without_paths(path))
    (HERE / f"{stem(kernel, name)}.txt").write_bytes(live.stdout)


def write_texts() -> None:
    """Replay the existing recordings to texts, after a change of the output."""
    views = [(kernel, *key, options) for key, options in VIEWS.items() for kernel in KERNELS]
    shown = [(name, name, ReplayOverrides()) for name in recordings()]
    shown += [
        (stem(kernel, name), stem(kernel, name, view), options)
        for kernel, name, view, options in views
    ]
    for recording, text, options in shown:
        (HERE / f"{text}.txt").write_text(replay_text(HERE / f"{recording}.rsn", options))


def main() -> None:
    """Create the recordings and texts."""
    os.environ["TZ"] = "UTC"
    if sys.argv[1:] == ["texts"]:
        write_texts()
        return
    words = ["" if word == "all" else word for word in sys.argv[1:]]
    names = [word for word in words if word in RECORDINGS] or list(RECORDINGS)
    for kernel in [word for word in words if word not in RECORDINGS] or KERNELS:
        with Machine(kernel, debug=kernel == "6.12") as machine:
            for name in names:
                record(machine, kernel, name)
        for (name, view), options in VIEWS.items():
            if name in names:
                text = replay_text(HERE / f"{stem(kernel, name)}.rsn", options)
                (HERE / f"{stem(kernel, name, view)}.txt").write_text(text)


if __name__ == "__main__":
    main()
