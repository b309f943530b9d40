# SPDX-License-Identifier: BSD-2-Clause
"""A debuginfod client: debug files by build id from the servers of ``$DEBUGINFOD_URLS``.

Variables and cache layout are elfutils' own (debuginfod(8), debuginfod-find(1)), so that a file
one tool has fetched serves all: ``CACHE/BUILDID/debuginfo``, an empty file for one that no
server had.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

__all__ = ["Debuginfod"]

#: Seconds that "no server has it" is believed (elfutils' ``cache_miss_s``).
_MISS_TTL = 600
_CHUNK = 1 << 20


class Debuginfod:
    """Fetches debug files. ``tried`` collects (URL or path, reason) for whatever failed.

    A server that does not answer in ``$DEBUGINFOD_TIMEOUT`` seconds (90) is not asked again.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._say = say or _progress
        urls = self._environ.get("DEBUGINFOD_URLS", "").split()
        self.servers = [url.rstrip("/") for url in urls if "://" in url]
        self.tried: list[tuple[str, str]] = []

    @property
    def cache(self) -> Path:
        """Where fetched files are kept."""
        explicit = self._environ.get("DEBUGINFOD_CACHE_PATH")
        if explicit:
            return Path(explicit)
        home = Path(self._environ.get("HOME") or Path("~").expanduser())
        base = Path(self._environ.get("XDG_CACHE_HOME") or home / ".cache")
        return base / "debuginfod_client"

    @property
    def timeout(self) -> float:
        """Seconds without an answer after which a server is given up."""
        try:
            return max(1.0, float(self._environ.get("DEBUGINFOD_TIMEOUT", "")))
        except ValueError:
            return 90.0

    def find(self, build_id: str) -> Path | None:
        """The debug file of ``build_id``, from the cache or a server; None if there is none."""
        if not self.servers:
            return None
        target = self.cache / build_id / "debuginfo"
        known = self._cached(target)
        if known is not None:
            return target if known else None
        for server in list(self.servers):
            url = f"{server}/buildid/{build_id}/debuginfo"
            if self._fetch(server, url, target):
                return target
        if self.servers:
            self._remember_miss(target)
        return None

    def _cached(self, target: Path) -> bool | None:
        """True if it is here, False if it is known to be nowhere, None if nothing is known."""
        try:
            status = target.stat()
        except OSError:
            return None
        if status.st_size:
            return True
        if time.time() - status.st_mtime > _MISS_TTL:
            return None
        self.tried.append((str(target), "no server had it a few minutes ago"))
        return False

    def _remember_miss(self, target: Path) -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch(mode=0o600)
        except OSError:
            pass  # only costs another question next time

    def _fetch(self, server: str, url: str, target: Path) -> bool:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        request = Request(url, headers={"User-Agent": "retsnoop-py"})  # noqa: S310
        try:
            with urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                size = int(answer.headers.get("Content-Length") or 0)
                self._store(answer, size, server, target)
        except HTTPError as error:
            error.close()  # it is an open answer as well
            self.tried.append((url, f"{error.code} {error.reason}"))
            return False
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            self.tried.append((url, f"{reason}; this server is not asked again"))
            self.servers.remove(server)
            return False
        return True

    def _store(self, answer: IO[bytes], size: int, server: str, target: Path) -> None:
        """Write beside the target and rename: a broken download never looks like a file."""
        import tempfile

        target.parent.mkdir(parents=True, exist_ok=True)
        done = 0
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as partial:
            try:
                while chunk := answer.read(_CHUNK):
                    partial.write(chunk)
                    done += len(chunk)
                    total = f" of {size >> 20}" if size else ""
                    self._say(f"\rdebug information from {server}: {done >> 20}{total} MB")
                if size and done != size:
                    raise OSError(f"the connection broke after {done} of {size} bytes")
                Path(partial.name).replace(target)
            except BaseException:
                Path(partial.name).unlink(missing_ok=True)
                raise
            finally:
                self._say("\n")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
