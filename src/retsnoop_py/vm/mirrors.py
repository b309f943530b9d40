# SPDX-License-Identifier: BSD-2-Clause
"""The Debian mirror in apt's configuration, distinguished from the archives of others.

Other archives have the same names of suites: on Ubuntu, the one of a browser has the suite "stable"
and the component "main". This module needs only the standard library, as ``vm.debian`` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from retsnoop_py.errors import UnavailableError

__all__ = ["NO_MIRROR_HINT", "Mirror", "find_mirror", "parse_deb822", "parse_one_line"]

#: Suites that move on to the next release. Archives of others often have these names.
_MOVING = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_SUITES = frozenset({"bullseye", "bookworm", "trixie", "forky", "duke", "sid", *_MOVING})
NO_MIRROR_HINT = (
    "kernels and sources come from the Debian mirror this machine's apt is configured with; "
    "elsewhere pass a kernel image yourself: --on PATH [--modules DIR]"
)
#: apt leaves these out of the names of its lists: ``http://``, ``file:/``, a user with a password.
_SCHEME = re.compile(r"^[\w+]+:/*(?:[^/@]*@)?")
_ORIGIN = re.compile(r"^Origin:(.*)$", re.MULTILINE)
#: The fields of a release file are at its start; its list of files can have megabytes.
_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Mirror:
    """One apt source: its URI, its configured suites and components, and how apt verifies it."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None = None
    trusted: bool = False


def parse_deb822(text: str) -> list[Mirror]:
    """Return the enabled ``deb`` and ``deb-src`` entries of a ``.sources`` file."""
    mirrors = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t"):
                fields[name] = f"{fields.get(name, '')}\n{line.strip()}"
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if not fields.get("types") or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        key = fields.get("signed-by", "")
        mirrors += [
            Mirror(
                uri,
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                key if key.startswith("/") and "\n" not in key else None,
                fields.get("trusted", "no").lower() == "yes",
            )
            for uri in fields.get("uris", "").split()
        ]
    return mirrors


def parse_one_line(text: str) -> list[Mirror]:
    """Return the ``deb`` and ``deb-src`` entries of a ``sources.list`` file."""
    mirrors = []
    for line in text.splitlines():
        found = re.match(r"\s*deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if not found:
            continue
        options = dict(re.findall(r"([\w-]+)=(\S+)", found[1] or ""))
        key = options.get("signed-by", "")
        mirrors.append(
            Mirror(
                found[2],
                (found[3],),
                tuple(found[4].split()),
                key if key.startswith("/") else None,
                options.get("trusted") == "yes",
            )
        )
    return mirrors


def find_mirror(etc: Path = Path("/etc/apt"), lists: Path = Path("/var/lib/apt/lists")) -> Mirror:
    """Return the Debian mirror in the apt configuration below ``etc``.

    ``lists``: apt's folder of downloaded lists, which contain the origin of each archive. Raises
    UnavailableError without a Debian mirror, for example on other distributions.
    """
    entries: list[Mirror] = []
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix == ".sources" and file.is_file():
            entries += parse_deb822(file.read_text(errors="replace"))
        elif file.suffix == ".list" and file.is_file():
            entries += parse_one_line(file.read_text(errors="replace"))
    ranked = [(rank, entry) for entry in entries if (rank := _rank(entry, lists)) is not None]
    if not ranked:
        raise UnavailableError(f"no Debian mirror in {etc}", NO_MIRROR_HINT)
    return min(ranked, key=lambda each: each[0])[1]


def _rank(entry: Mirror, lists: Path) -> int | None:
    """Return how likely ``entry`` is Debian's main archive, 0 for certain; None: it is another.

    Security and backports archives contain only some packages. The main archive has the plain name
    of the suite and the component main.
    """
    suite = next((one for one in entry.suites if one.rstrip("/") in _SUITES), None)
    if suite is None or "main" not in entry.components or "security" in entry.uri:
        return None
    origin = _origin(entry.uri, suite, lists)
    if origin == "Debian" or Path(entry.signed_by or "").name.startswith("debian-archive-keyring."):
        return 0
    if origin is None:
        return 1
    # a company's own copy of Debian may have its own origin, but it does not say "stable"
    return None if suite.rstrip("/") in _MOVING else 2


def _origin(uri: str, suite: str, lists: Path) -> str | None:
    """Return the origin in apt's copy of the release file; None if there is no copy."""
    place = _SCHEME.sub("", uri).rstrip("/")
    name = f"{place}/dists/{suite}".replace("_", "%5f").replace("/", "_")
    for kind in ("InRelease", "Release"):
        try:
            with (lists / f"{name}_{kind}").open(errors="replace") as file:
                found = _ORIGIN.search(file.read(_HEAD))
        except OSError:
            continue
        return found[1].strip() if found else ""
    return None
