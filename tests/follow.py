# SPDX-License-Identifier: BSD-2-Clause
"""Count the files that a reader must open to follow one record and one option through the code.

The record is followed at run time. A recording is replayed up to its first session, then again up
to its second. The additional calls show the path of the second session. Every change from one file
to another is a hop. The option is followed by its names. The files that contain them are the files
to change for a new option of this kind::

    python -m tests.follow
    python -m tests.follow --recording tests/golden/6.12.rsn --option longer --option longer_ns
    python -m tests.follow --checkout ../of-another-commit

docs/architecture.md contains the figures of the current code.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent


class Way:
    """The files through which calls pass."""

    def __init__(self, package: Path) -> None:
        self._package = str(package) + "/"
        self._last = self._room = ""
        #: Number of calls by file, in the order of the first call.
        self.files: dict[str, int] = {}
        self.hops = 0
        #: Number of changes to another room.
        self.turns = 0

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; a callback for sys.setprofile()."""
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(self._package):
            return
        file = path.removeprefix(self._package)
        self.files[file] = self.files.get(file, 0) + 1
        self.hops += file != self._last
        self._last = file
        room = file.partition("/")[0]
        if room != file:  # files outside of all rooms do not count
            self.turns += room != self._room
            self._room = room


def replay(package: Path, recording: Path, sessions: int) -> Way:
    """Record the files of the whole replay of a number of sessions."""
    from retsnoop_py.cli.main import main as command

    way = Way(package)
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        sys.setprofile(way.note)
        try:
            command(["replay", str(recording), "--count", str(sessions)])
        finally:
            sys.setprofile(None)
    return way


def record_way(package: Path, recording: Path) -> Way:
    """Return the path of the second session of ``recording``, from its file to stdout."""
    replay(package, recording, 2)  # imports modules and fills caches
    first, both = (replay(package, recording, count) for count in (1, 2))
    way = Way(package)
    way.hops, way.turns = both.hops - first.hops, both.turns - first.turns
    for file, calls in both.files.items():
        if calls > first.files.get(file, 0):
            way.files[file] = calls - first.files.get(file, 0)
    return way


def mentions(tree: ast.AST, names: Sequence[str]) -> bool:
    """Return True if the code contains one of ``names``, as a name, attribute, keyword or text."""
    wanted = set(names)
    return any(
        getattr(node, field, None) in wanted
        for node in ast.walk(tree)
        for field in ("id", "arg", "attr", "value")
        if isinstance(getattr(node, field, None), str)
    )


def option_files(package: Path, names: Sequence[str]) -> Iterator[str]:
    """Return the files that contain one of the names of an option."""
    for path in sorted(package.rglob("*.py")):
        if mentions(ast.parse(path.read_text()), names):
            yield str(path.relative_to(package))


def main() -> int:
    """Print both paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another commit's files")
    parser.add_argument("--recording", type=Path, default=ROOT / "tests/golden/6.12.rsn")
    parser.add_argument("--option", action="append", help="a name of the option; may be repeated")
    arguments = parser.parse_args()
    package = arguments.checkout.resolve() / "src" / "retsnoop_py"
    sys.path.insert(0, str(package.parent))
    way = record_way(package, arguments.recording.resolve())
    rooms = {file.partition("/")[0] for file in way.files if "/" in file}
    print(
        f"A record crosses {len(way.files)} files of {len(rooms)} rooms"
        f" in {way.hops} hops, {way.turns} into another room:"
    )
    for file, calls in way.files.items():
        print(f"  {file:36} {calls:6} calls")
    names = arguments.option or ["--longer", "longer", "longer_ns"]
    files = list(option_files(package, names))
    print(f"\nThe option {names[0]} is known to {len(files)} files:")
    print("\n".join(f"  {file}" for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
