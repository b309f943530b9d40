# SPDX-License-Identifier: BSD-2-Clause
"""A debuginfod client: fetch debug files by build id from the servers of ``$DEBUGINFOD_URLS``.

The variables and the cache layout are those of elfutils (debuginfod(8), debuginfod-find(1)), so the
tools share fetched files: ``CACHE/BUILDID/debuginfo``, or an empty file if no server has it. A file
is stored only if it is complete and has the right build id. An empty file is stored only if every
server answered that it has no such file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from retsnoop_py import listener, package
from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.own_file import ROOT_CACHE, is_own_place, keep, make_folders

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

__all__ = ["Debuginfod"]

#: Seconds for which an empty file in the cache is valid (elfutils' ``cache_miss_s``).
_MISS_TTL = 600
_CHUNK = 1 << 16
#: Bytes that must arrive in each ``$DEBUGINFOD_TIMEOUT`` (elfutils checks only the first).
_SLOWEST = 100_000
#: Bytes of a download without ``$DEBUGINFOD_MAXSIZE``: a server must not fill the disk. The debug
#: file of a kernel has 0.3 to 2 GB.
_LARGEST = 8 << 30
#: Seconds between two checks of a download.
_LOOK_S = 0.05
_SCHEMES = ("http://", "https://", "file://")
#: Root uses only servers whose answers cannot be changed on the way, because a build id is not a
#: hash.
_SAFE = ("https://", "file://")
_SAFE_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class _Outcome(Enum):
    """The answer of a server."""

    FETCHED = 1
    #: The server does not have the file.
    MISSING = 2
    #: The server may have the file.
    FAILED = 3


class Debuginfod:
    """Fetch debug files. ``tried`` collects (URL or path, reason) for every failure.

    A server that sends less than 100 kB in ``$DEBUGINFOD_TIMEOUT`` seconds (90) is not used again.
    ``$DEBUGINFOD_MAXTIME`` limits the duration of a download, ``$DEBUGINFOD_MAXSIZE`` its bytes.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        urls = self._environ.get("DEBUGINFOD_URLS", "").split()
        known = [url.rstrip("/") for url in urls if url.startswith(_SCHEMES)]
        self.servers = [url for url in known if _may_ask(url)]
        self.tried: list[tuple[str, str]] = [
            (url, "root fetches debug information only by https; use https://")
            for url in known
            if url not in self.servers
        ]

    @property
    def cache(self) -> Path:
        """Return the folder for fetched files.

        Root uses its own cache instead of a folder of another user, who could replace the files.
        """
        found = self._environ.get("DEBUGINFOD_CACHE_PATH") or ""
        folder = Path(found)
        if not found:
            home = Path(self._environ.get("HOME") or package.home())
            base = Path(self._environ.get("XDG_CACHE_HOME") or home / ".cache")
            folder = base / "debuginfod_client"
        return folder if is_own_place(folder) else ROOT_CACHE / "retsnoop-py/debuginfod_client"

    @property
    def timeout(self) -> float:
        """Return the seconds in which a server must send data before retsnoop-py gives up."""
        return max(1.0, self._number("DEBUGINFOD_TIMEOUT", 90.0))

    @property
    def max_time(self) -> float | None:
        """Return the maximum duration of a download in seconds; None without a limit."""
        return self._number("DEBUGINFOD_MAXTIME") or None

    @property
    def max_size(self) -> int | None:
        """Return the maximum size of a file in bytes; None without a limit."""
        return int(self._number("DEBUGINFOD_MAXSIZE")) or None

    def _number(self, name: str, otherwise: float = 0.0) -> float:
        try:
            return max(0.0, min(float(self._environ.get(name, "")), 1e18))
        except ValueError:
            return otherwise

    def find(self, build_id: str) -> Path | None:
        """Return the debug file of ``build_id``, from the cache or from a server, or None."""
        if not self.servers:
            return None
        target = self.cache / build_id / "debuginfo"
        known = self._cached(target, build_id)
        if known is not None:
            return target if known else None
        nowhere = True
        for server in list(self.servers):
            outcome = self._fetch(server, build_id, target)
            if outcome is _Outcome.FETCHED:
                return target
            nowhere = nowhere and outcome is _Outcome.MISSING
        if nowhere:
            self._remember_miss(target)
        return None

    def _cached(self, target: Path, build_id: str) -> bool | None:
        """Return True if the file is cached, False if no server has it, None if not known."""
        try:
            status = target.stat()
        except OSError:
            return None
        if status.st_size:
            wrong = _wrong(target, build_id)
            if wrong:
                self.tried.append((str(target), f"{wrong}; it is fetched again"))
            return None if wrong else True
        if time.time() - status.st_mtime > _MISS_TTL:
            return None
        self.tried.append((str(target), "no server had it a few minutes ago"))
        return False

    def _remember_miss(self, target: Path) -> None:
        try:
            keep(target, b"")  # replaces a link or a damaged file instead of writing into it
        except OSError:
            pass  # the next run sends the request again

    def _fetch(self, server: str, build_id: str, target: Path) -> _Outcome:
        from http.client import HTTPException
        from urllib.error import HTTPError

        url = f"{server}/buildid/{build_id}/debuginfo"
        try:
            self._store(url, build_id, target)
        except HTTPError as error:
            error.close()  # the error is an open response as well
            self.tried.append((url, f"{error.code} {error.reason}"))
            return _Outcome.MISSING if error.code in (404, 410) else _Outcome.FAILED
        except DataError as error:
            self.tried.append((url, error.message))
            return _Outcome.FAILED
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            self.tried.append((url, f"{reason}; this server is not asked again"))
            self.servers.remove(server)
            return _Outcome.FAILED
        return _Outcome.FETCHED

    def _store(self, url: str, build_id: str, target: Path) -> None:
        """Download to a temporary file, check it and rename it: only a valid file gets the name."""
        import tempfile

        make_folders(target.parent)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as partial:
            try:
                self._download(url, partial)
                partial.flush()
                wrong = _wrong(Path(partial.name), build_id)
                if wrong:
                    raise DataError(wrong)
                Path(partial.name).replace(target)
            except BaseException:
                Path(partial.name).unlink(missing_ok=True)
                raise

    def _download(self, url: str, target: IO[bytes]) -> None:
        """Fetch ``url``; an exception, such as one from a signal handler, ends it at once."""
        server = url.partition("/buildid/")[0]
        download = _Download(url, target.fileno(), self.timeout, self.max_size)
        started = looked = time.monotonic()
        had = 0
        download.start()
        try:
            told = f"Debug information from {server}:"
            with listener.current().progress(told, "bytes") as progress:
                while True:
                    download.join(_LOOK_S)
                    progress.update(download.done, download.total)
                    if not download.is_alive():
                        break
                    now = time.monotonic()
                    if self.max_time is not None and now - started > self.max_time:
                        raise TimeoutError(f"it takes longer than {self.max_time:.0f} s")
                    if download.done - had >= _SLOWEST:
                        had, looked = download.done, now
                    elif now - looked > self.timeout:
                        raise TimeoutError(f"less than 100 kB in {self.timeout:.0f} s")
        finally:
            download.cancelled = True
        if download.error is not None:
            raise download.error


class _Download(threading.Thread):
    """Fetch a file in a thread: name lookups run in C, where signals cannot interrupt.

    ``done`` of ``total`` bytes (0: unknown) are in the file ``fd``; ``error``: the exception, or
    None.
    """

    def __init__(self, url: str, fd: int, timeout: float, max_size: int | None) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._fd = os.dup(fd)
        self._timeout = timeout
        self._max_size = max_size
        self.done = self.total = 0
        self.cancelled = False
        self.error: Exception | None = None

    def run(self) -> None:
        """Fetch the file."""
        from urllib.request import Request

        headers = {"User-Agent": "retsnoop-py"}
        if self._max_size:
            headers["X-DEBUGINFOD-MAXSIZE"] = str(self._max_size)
        request = Request(self._url, headers=headers)  # noqa: S310 - the schemes are checked
        try:
            with _opener().open(request, timeout=self._timeout) as answer:
                self._copy(answer)
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            self.error = error
        finally:
            os.close(self._fd)

    def _copy(self, answer: Any) -> None:
        said = answer.headers.get("Content-Length") or answer.headers.get("X-DEBUGINFOD-SIZE")
        self.total = int(said or 0)
        self._check(self.total)
        while not self.cancelled and (chunk := answer.read1(_CHUNK)):
            self.done += len(chunk)
            self._check(self.done)
            left = memoryview(chunk)
            while left:
                left = left[os.write(self._fd, left) :]
        length = answer.headers.get("Content-Length")
        if length and self.done != int(length):
            raise OSError(f"the connection broke after {self.done} of {length} bytes")

    def _check(self, size: int) -> None:
        most = self._max_size or _LARGEST
        if size > most:
            raise DataError(f"it is larger than DEBUGINFOD_MAXSIZE, {most} bytes")


def _may_ask(url: str) -> bool:
    """Return True if the server is safe for this user: root's kernel tools trust its answer."""
    from urllib.parse import urlsplit

    if os.geteuid() != 0 or url.startswith(_SAFE):
        return True
    try:
        return urlsplit(url).hostname in _SAFE_HOSTS
    except ValueError:
        return False


def _opener() -> OpenerDirector:
    """Return an opener that follows redirections, but not to less safe URLs or to files."""
    from urllib.error import URLError
    from urllib.request import HTTPRedirectHandler, build_opener

    class Redirections(HTTPRedirectHandler):
        def redirect_request(self, req: Any, *rest: Any) -> Any:
            to = str(rest[-1])
            wanted = "https://" if req.full_url.startswith("https://") else ("http://", "https://")
            if not to.startswith(wanted) or not _may_ask(to):
                raise URLError(f"it redirects to {to}, which is not followed")
            return super().redirect_request(req, *rest)

    return build_opener(Redirections)


def _wrong(path: Path, build_id: str) -> str | None:
    """Return why ``path`` is not the complete debug file of ``build_id``; None if it is."""
    try:
        with ElfFile(path) as elf:
            found = elf.build_id
            whole = elf.is_whole
    except OSError as error:
        return os.strerror(error.errno or 0)
    except DataError as error:
        return error.message.removeprefix(f"{path} ")
    if found != build_id:
        return f"wrong build id {found or '(none)'} != {build_id}"
    return None if whole else "it is cut short"
