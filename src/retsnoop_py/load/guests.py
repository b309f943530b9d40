# SPDX-License-Identifier: BSD-2-Clause
"""Load on other kernels: run retsnoop-py in a guest, and read its JSON output."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import msgspec

from retsnoop_py.errors import DataError, RetsnoopError
from retsnoop_py.foreign_json import decode
from retsnoop_py.load.model import VERSION, Explanation, LoadResult
from retsnoop_py.vm.errors import KernelCrashed, VmError, VmTimeout
from retsnoop_py.vm.kernels import Kernel
from retsnoop_py.vm.machine import Machine, in_guests

__all__ = ["load_in_guests"]

#: Number of console lines that show why a kernel crashed.
_CONSOLE = 12
#: Results of one kernel, and characters of a name. The kernel's own tests have 4,000 parts; a C
#: compiler's names have less than 500 characters.
_MOST_RESULTS, _LONGEST_NAME = 20_000, 1000


def load_in_guests(
    kernels: Sequence[tuple[str, Kernel]], argv: Sequence[str], jobs: int, timeout: float
) -> Generator[tuple[str, list[LoadResult]]]:
    """Run ``retsnoop-py load`` with ``argv`` on each kernel, ``jobs`` guests at a time.

    Yield each kernel's results in the order of ``kernels``. A guest that does not boot, crashes or
    takes longer than ``timeout`` seconds has its own result.
    """
    words = ["load", "--format", "json", *argv]
    images = {name: kernel.vmlinux for name, kernel in kernels}

    def visit(name: str, machine: Machine) -> list[LoadResult]:
        command = [*machine.program, *words]
        image = images[name]
        if image is not None and machine.run(["test", "-r", str(image)]).status == 0:
            command += ["--kernel", str(image)]
        result = machine.start(command).wait(timeout)
        return _decoded(name, machine.release, result.stdout, result.err, result.status)

    return in_guests(kernels, visit, _failed, jobs)


def _failed(name: str, kernel: Kernel, error: RetsnoopError) -> list[LoadResult]:
    if isinstance(error, KernelCrashed):
        return _broken_off(name, kernel.release, "crashed", error)
    if isinstance(error, VmTimeout):
        return _broken_off(name, kernel.release, "timeout", error)
    return [_kernel_failed(name, kernel.release, "unbooted", error)]


def _decoded(name: str, release: str, out: bytes, err: str, status: int) -> list[LoadResult]:
    results = _results(name, release, out)
    if status not in (0, 2):
        why = Explanation(
            "tool",
            "Environment: The tool failed in the guest",
            f"retsnoop-py ended with {status} there: {err.strip()[-600:] or 'it said nothing'}",
        )
        results.append(_unbooted(name, release, why))
    return results


def _results(name: str, release: str, out: bytes) -> list[LoadResult]:
    decoder = msgspec.json.Decoder(LoadResult)
    found: dict[tuple[str, ...], LoadResult] = {}
    for line in _lines(out):
        try:
            result = msgspec.structs.replace(decode(decoder, line), kernel=name, release=release)
        except DataError:
            continue  # the last line of a guest that crashed
        if max(map(len, result.part)) > _LONGEST_NAME or (
            len(found) == _MOST_RESULTS and result.part not in found
        ):
            flood = Explanation(
                "tool",
                "Environment: The guest sent impossible results",
                f"The guest sent more than {_MOST_RESULTS} results, or a name of more than"
                f" {_LONGEST_NAME} characters. All later results are missing.",
            )
            return [*found.values(), _unbooted(name, release, flood)]
        found[result.part] = result  # a repeated result has more information
    return list(found.values())


def _lines(out: bytes) -> Iterator[bytes]:
    """Yield the lines one by one: a list of millions of short lines would fill the memory."""
    begin = 0
    while begin < len(out):
        end = out.find(b"\n", begin)
        end = len(out) if end < 0 else end
        yield out[begin:end]
        begin = end + 1


def _unbooted(name: str, release: str, why: Explanation) -> LoadResult:
    return LoadResult(
        VERSION,
        name,
        "",
        "kernel",
        "unbooted",
        release=release,
        reason="tool",
        explanation=why,
    )


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
