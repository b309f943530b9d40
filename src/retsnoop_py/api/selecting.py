# SPDX-License-Identifier: BSD-2-Clause
"""List the functions that a trace would use, and this machine's capabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from retsnoop_py.api.keywords import SelectOptions, words
from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import make_plan
from retsnoop_py.capture import messages
from retsnoop_py.capture.rights import raise_memlock, require_rights
from retsnoop_py.capture.target import Target, choose_target
from retsnoop_py.errors import PrivilegeError
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.listing import Listing, build
from retsnoop_py.options.settings import listing_settings
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.kernel import SourceFiles

if TYPE_CHECKING:
    from retsnoop_py.attach.plan import AttachPlan
    from retsnoop_py.diagnosis.examine import Diagnosis
    from retsnoop_py.diagnosis.model import Host

__all__ = ["doctor", "examine_host", "list_functions", "select"]


def select(**options: Unpack[SelectOptions]) -> Listing:
    """Return the functions that a trace with these options would use, and the skipped ones.

    Skipped functions have their reasons. The call attaches nothing, except, if permitted, a probe
    on a function that every kernel has, to find which mechanism works. Raises InputError if no
    requested function can be traced (its ``rejections`` contain the reasons), UsageError for
    invalid options, UnavailableError on a kernel without BTF.
    """
    return list_functions(listing_settings(words(options, SelectOptions.__optional_keys__)))


def list_functions(settings: Settings) -> Listing:
    """Return the result of :func:`select` for settings."""
    target = choose_target(settings, prototypes=True)
    try:
        plan, why_not = _plan(settings, target)
        notes = [] if why_not is None else [why_not]
        count, most = len(target.selection.functions), settings.max_functions
        if count > most:
            notes.append(f"a trace of more than {most} functions takes --max-functions {count}")
        notes += [f"{result}: {reason}" for result, reason in target.ordinary.items()]
        files = SourceFiles(target.images) if target.images is not None else None
        listing = build(target.facts, target.selection, plan, files, notes)
        messages.images(settings, target.image_report)
        for text in target.image_warnings:
            messages.warn(text)
        return listing
    finally:
        if target.images is not None:
            target.images.__exit__()


def _plan(settings: Settings, target: Target) -> tuple[AttachPlan | None, str | None]:
    """Return which mechanism would attach each function, or why that is unknown."""
    from retsnoop_py.attach.fitness import KernelFitness

    try:
        require_rights()
    except PrivilegeError as error:
        return None, f"by which mechanism cannot be tried: {error.message}"
    raise_memlock()
    features = Features(target.facts.require_btf().find("vfs_read", Kind.FUNC))
    chosen = target.selection.functions
    fitness = KernelFitness(target.facts, chosen)
    plan = make_plan(chosen, settings.mechanism, features, fitness)
    return plan, None


def doctor(kernel: str | Path | None = None) -> dict[str, Any]:
    """Return the capabilities of this kernel, CPU and user: the document of ``doctor --json``.

    ``kernel`` is a vmlinux with DWARF to use instead of a search. The keys are documented in
    docs/doctor.md. Features are tested by use where possible; the tests leave no changes behind.
    """
    from retsnoop_py.diagnosis.report import document

    diagnosis, host = examine_host(None if kernel is None else Path(kernel))
    return document(diagnosis, host.facts.release, host.facts.machine)


def examine_host(image: Path | None) -> tuple[Diagnosis, Host]:
    """Return the results of all checks, and the machine they describe."""
    from retsnoop_py.diagnosis.examine import examine, this_host

    raise_memlock()  # like a trace: before Linux 5.11 the limit decides which objects can be loaded
    host = this_host(image)
    return examine(host), host
