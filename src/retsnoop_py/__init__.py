# SPDX-License-Identifier: BSD-2-Clause
"""Find out which line of the Linux kernel returned that error.

* :func:`trace` follows calls in the running kernel.
* :func:`replay` shows a recording again.
* :func:`why` explains why a command failed.
* :func:`diff` reports the failures that only one of two recordings has.
* :func:`load_objects` reports on which kernels BPF objects load.
* :func:`explain` explains a failed load from its log.
* :func:`select` lists the functions that would be traced.
* :func:`doctor` reports what this machine supports.
* :class:`Machine` boots another kernel.
* :mod:`retsnoop_py.render` writes sessions as text and JSON.

docs/api.md has examples. A submodule is imported when one of its names is first used.
"""

from __future__ import annotations

# mypy recognizes this name. Importing typing would take a third of the time of `--version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from retsnoop_py import render
    from retsnoop_py.api.comparing import diff
    from retsnoop_py.api.loading import explain, load_objects
    from retsnoop_py.api.runs import Replayed, Run, replay, trace
    from retsnoop_py.api.selecting import doctor, select
    from retsnoop_py.api.sessions import Session
    from retsnoop_py.api.why import why
    from retsnoop_py.errors import (
        BpfError,
        CommandNotExecutable,
        CommandNotFound,
        DataError,
        InputError,
        Interrupted,
        OutputError,
        PrivilegeError,
        RetsnoopError,
        UnavailableError,
        UsageError,
    )
    from retsnoop_py.kernel.functions import Function
    from retsnoop_py.listing import Listing
    from retsnoop_py.load.model import Explained, LoadResult
    from retsnoop_py.model.difference import Difference
    from retsnoop_py.model.session import (
        Argument,
        Branch,
        Branches,
        Call,
        Entered,
        Event,
        ExplainedFailure,
        Frame,
        Func,
        KernelMessage,
        Lost,
        Missing,
        Origin,
        PidNamespace,
        ProbeHit,
        Result,
        Returned,
        StackEntry,
        ToldBefore,
        UserFrame,
    )
    from retsnoop_py.vm.machine import Machine

__version__ = "0.1.0"

__all__ = [
    "Argument",
    "BpfError",
    "Branch",
    "Branches",
    "Call",
    "CommandNotExecutable",
    "CommandNotFound",
    "DataError",
    "Difference",
    "Entered",
    "Event",
    "Explained",
    "ExplainedFailure",
    "Frame",
    "Func",
    "Function",
    "InputError",
    "Interrupted",
    "KernelMessage",
    "Listing",
    "LoadResult",
    "Lost",
    "Machine",
    "Missing",
    "Origin",
    "OutputError",
    "PidNamespace",
    "PrivilegeError",
    "ProbeHit",
    "Replayed",
    "Result",
    "RetsnoopError",
    "Returned",
    "Run",
    "Session",
    "StackEntry",
    "ToldBefore",
    "UnavailableError",
    "UsageError",
    "UserFrame",
    "__version__",
    "diff",
    "doctor",
    "explain",
    "load_objects",
    "render",
    "replay",
    "select",
    "trace",
    "why",
]

#: The module of this package that defines each name. All other names are in ``errors``.
_PLACES = {
    "api.comparing": ("diff",),
    "api.loading": ("explain", "load_objects"),
    "api.runs": ("Replayed", "Run", "replay", "trace"),
    "api.selecting": ("doctor", "select"),
    "api.why": ("why",),
    "api.sessions": ("Session",),
    "kernel.functions": ("Function",),
    "listing": ("Listing",),
    "load.model": ("Explained", "LoadResult"),
    "model.difference": ("Difference",),
    "model.session": (
        *(
            "Argument",
            "Branch",
            "Branches",
            "Call",
            "Entered",
            "Event",
            "ExplainedFailure",
            "Frame",
            "Func",
        ),
        *("KernelMessage", "Lost", "Missing", "Origin", "PidNamespace", "ProbeHit", "Result"),
        *("Returned", "StackEntry", "ToldBefore", "UserFrame"),
    ),
    "vm.machine": ("Machine",),
}


def __getattr__(name: str) -> object:
    """Import and return the public object ``name`` (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "render":
        return import_module(f"{__name__}.render")
    place = next((one for one, names in _PLACES.items() if name in names), "errors")
    found: object = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
