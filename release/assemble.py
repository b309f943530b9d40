# SPDX-License-Identifier: BSD-2-Clause
"""``make release``: all release files in dist/, with checksums, an SBOM and release notes.

Two runs on the same commit give the same bytes. The path of the checkout has no influence.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import build

from release import deb, one_file, wheel
from release.sbom import document
from release.wheel import DIST, MACHINES, environment, version, wheel_name, write_sums

__all__ = ["main", "notes"]

NOTES = "RELEASE-NOTES.md"


def notes(changelog: str, number: str, tag: str | None) -> str:
    """Return the section of ``changelog`` for version ``number``, or for the unreleased changes.

    With ``tag`` the run is a release: raises BuildError unless the tag matches the version and
    the changelog has no unreleased changes.
    """
    _, *found = re.split(r"^## (.+)\n", changelog, flags=re.MULTILINE)
    sections = {title: text.strip() for title, text in zip(found[::2], found[1::2], strict=True)}
    pending = sections.get("Unreleased", "")
    title = next((one for one in sections if one.partition(",")[0] == number), None)
    if tag is None and pending:
        return f"# retsnoop-py after {number}, not released\n\n{pending}\n"
    if title is None:
        raise build.BuildError(f"CHANGELOG.md has no section of {number}; write one: ## {number}")
    if tag is not None and tag != f"v{number}":
        raise build.BuildError(
            f"the tag is {tag}, but the version is {number}; set __version__ in "
            "src/retsnoop_py/__init__.py, or tag another commit"
        )
    if tag is not None and pending:
        raise build.BuildError(
            f"CHANGELOG.md has changes under Unreleased; put them under ## {number}"
        )
    return f"# retsnoop-py {title}\n\n{sections[title]}\n"


def _make(what: Callable[[Sequence[str]], int]) -> None:
    if what([]):
        raise build.BuildError("nothing is released")  # the failed step has printed the reason


def main(argv: Sequence[str] | None = None) -> int:
    """Make everything; 0, or 1 after one clear message."""
    parser = argparse.ArgumentParser(prog="make release", description=main.__doc__)
    parser.add_argument("--tag", help="the tag it is released under: v and the version")
    options = parser.parse_args(argv)
    os.umask(0o022)  # modes are part of the bytes
    try:
        # Check the notes first: the build takes an hour.
        told = notes((build.ROOT / "CHANGELOG.md").read_text(), version(), options.tag or None)
        shutil.rmtree(DIST, ignore_errors=True)
        _make(wheel.main)
        _make(deb.main)
        _make(one_file.main)
        files = _files()
        (DIST / NOTES).write_text(told)
        epoch = int(environment()["SOURCE_DATE_EPOCH"])
        inventory = DIST / f"retsnoop-py-{version()}.cdx.json"
        inventory.write_text(document(files, epoch))
        build.say("sbom", f"dist/{inventory.name}")
        write_sums([*files, inventory, DIST / NOTES])
        build.say("release", f"{len(files)} files, {NOTES} and SHA256SUMS in dist/")
    except build.BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _files() -> list[Path]:
    """Return the release files of this version. Raises BuildError if a file is missing."""
    names = [f"retsnoop_py-{version()}.tar.gz"]
    kinds = (wheel_name, deb.deb_name, one_file.one_file_name)
    names += [of(machine) for machine in MACHINES for of in kinds]
    missing = [name for name in names if not (DIST / name).is_file()]
    if missing:
        raise build.BuildError(f"dist/ lacks {' '.join(missing)}")
    return sorted(DIST / name for name in names)


if __name__ == "__main__":
    sys.exit(main())
