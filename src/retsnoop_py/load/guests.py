# SPDX-License-Identifier: BSD-2-Clause
"""Loads on other kernels: this very tool, run in a guest, its JSON read back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import msgspec

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.load.model import VERSION, Explanation, LoadResult
from retsnoop_py.vm.errors import BootFailed, KernelCrashed, VmError, VmTimeout
from retsnoop_py.vm.kernels import Kernel, ensure, from_path
from retsnoop_py.vm.machine import Machine

__all__ = ["load_in_guests", "prepare_kernel"]

#: Lines of a console that tell why a kernel went down.
_CONSOLE = 12


def prepare_kernel(name: str) -> Kernel:
    """The kernel called so, or the image at that path; fetched if it is not in the cache.

    Raises InputError for one that is not known, UnavailableError where it cannot be fetched.
    """
    if "/" in name or Path(name).is_file():
        return from_path(Path(name).expanduser(), None)
    return ensure(name)


def load_in_guests(
    kernels: Sequence[tuple[str, Kernel]], argv: Sequence[str], jobs: int, timeout: float
) -> Iterator[tuple[str, list[LoadResult]]]:
    """Run ``retsnoop-py load`` with ``argv`` on each kernel, ``jobs`` guests at a time.

    Gives each kernel's results when it is done, in whatever order they come. A guest that does not
    boot, goes down or takes longer than ``timeout`` seconds is a result of its own.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: dict[Future[list[LoadResult]], str] = {}
        stop: list[bool] = []
        for name, kernel in kernels:
            running[pool.submit(_one, name, kernel, argv, timeout, stop)] = name
        try:
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED, timeout=0.5)
                for future in done:
                    yield running.pop(future), future.result()
        finally:
            stop.append(True)
            for future in running:
                future.cancel()


def _one(
    name: str, kernel: Kernel, argv: Sequence[str], timeout: float, stop: list[bool]
) -> list[LoadResult]:
    if stop:
        return []
    words = [sys.executable, "-m", "retsnoop_py", "load", "--format", "json", *argv]
    try:
        with Machine(kernel, cpus=1) as machine:
            command = machine.start(words)
            result = command.wait(timeout)
            return _decoded(name, machine.release, result.stdout, result.err, result.status)
    except BootFailed as error:
        return [_kernel_failed(name, kernel.release, "unbooted", error)]
    except KernelCrashed as error:
        return _broken_off(name, kernel.release, "crashed", error)
    except VmTimeout as error:
        return _broken_off(name, kernel.release, "timeout", error)


def _decoded(name: str, release: str, out: bytes, err: str, status: int) -> list[LoadResult]:
    results = _results(name, release, out)
    if status not in (0, 2):
        why = Explanation(
            "tool",
            "Environment: The tool failed in the guest",
            f"retsnoop-py ended with {status} there: {err.strip()[-600:] or 'it said nothing'}",
        )
        results.append(
            LoadResult(
                VERSION,
                name,
                "",
                "kernel",
                "unbooted",
                release=release,
                reason="tool",
                explanation=why,
            )
        )
    return results


def _results(name: str, release: str, out: bytes) -> list[LoadResult]:
    decoder: Callable[[bytes], LoadResult] = msgspec.json.Decoder(LoadResult).decode
    found = []
    for line in out.splitlines():
        try:
            found.append(msgspec.structs.replace(decoder(line), kernel=name, release=release))
        except msgspec.DecodeError:
            continue  # the last line of a guest that went down
    return found


def _broken_off(name: str, release: str, verdict: str, error: VmError) -> list[LoadResult]:
    out = error.result.stdout if error.result else b""
    results = _results(name, release, out)
    at = results[-1].object if results else ""
    results.append(_kernel_failed(name, release, verdict, error, at))
    return results


def _kernel_failed(
    name: str, release: str, verdict: str, error: RetsnoopError, at: str = ""
) -> LoadResult:
    lines = (error.hint or "").splitlines()[-_CONSOLE:]
    why = Explanation(
        f"kernel-{verdict}",
        f"Kernel: {verdict}",
        error.message,
        words=tuple(line for line in lines if line.strip()),
    )
    return LoadResult(
        VERSION,
        name,
        at,
        "kernel",
        verdict,  # type: ignore[arg-type]
        release=release,
        reason=why.id,
        explanation=why,
    )
