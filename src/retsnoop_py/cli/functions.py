# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py functions GLOB...``."""

# The options are the parameters, and those that only print are dealt with before.
# ruff: noqa: ARG001, PLR0913

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated

from retsnoop_py.cli import options, trace, values
from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.errors import UsageError
from retsnoop_py.settings import Settings
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.attach.plan import AttachPlan
    from retsnoop_py.capture.target import Target
    from retsnoop_py.errors import InputError
    from retsnoop_py.listing.build import Listing

_TEXT = """
List the functions that a trace with these options would trace, and by which mechanism; and \
those that match and would not be traced, with the reason.

A GLOB is one of -e: NAME, NAME[MODULE], :SOURCE/PATH*.c or @FILE. Prototypes come from the \
kernel's BTF, source files from its debug information where that is found. Which mechanism \
takes a function is tried on a function every kernel has; nothing else is attached.

\b
Examples:
  retsnoop-py functions '*_sys_bpf'
  retsnoop-py functions -c bpf --attach=fentry      what can fentry not take?
  retsnoop-py functions ':kernel/bpf/arraymap.c' | cut -f2
  retsnoop-py functions 'nft_*[nf_tables]' --json | jq '.left_out[].text'

\b
In a pipe: a line per function, columns separated by tabs:
  entry, traced or left-out; name; module; mechanism; source file;
  prototype, or the reason. - stands for nothing.
"""

_USAGE = """Usage: retsnoop-py functions [GLOB...] [-c PRESET]* [-a GLOB]* [-d GLOB]* [--json]

'retsnoop-py functions --help' explains all options."""


class FunctionsRequest(Value):
    """What to list, and how."""

    settings: Settings
    json: bool

    @property
    def verbose(self) -> int:
        """How much to say."""
        return self.settings.verbose


def functions(
    *,
    globs: Annotated[list[str], Argument("[GLOB...]", help="As -e.")],
    preset: options.Preset,
    entry: options.Entry,
    allow: options.Allow,
    deny: options.Deny,
    attach: options.Attach = None,
    fentries: options.Fentries = False,
    kprobes_multi: options.KprobesMulti = False,
    kprobes: options.Kprobes = False,
    json: options.Json = False,
    kernel: options.KernelImage = None,
    verbose: options.Verbose = 0,
    version: options.Version = False,
    help_: options.Help = False,
    usage: options.Usage = False,
) -> FunctionsRequest:
    """What the command line asks for. Raises :class:`UsageError` or :class:`InputError`."""
    if not (globs or entry or preset):
        raise UsageError(
            "no functions to list",
            "give a GLOB (retsnoop-py functions '*_sys_bpf') or a preset (-c bpf)",
        )
    settings = Settings(
        selection=trace.selection([*globs, *entry], allow, deny, preset),
        mechanism=values.mechanism(attach, fentry=fentries, multi=kprobes_multi, single=kprobes),
        kernel_image=trace.file_path("-k", kernel),
        dry_run=True,
        verbose=verbose,
    )
    return FunctionsRequest(settings, json)


def run(request: FunctionsRequest) -> int:
    """Print the list. Raises what a trace would raise where nothing can be traced."""
    from retsnoop_py.capture.target import choose_target
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.listing.build import Listing, left_out
    from retsnoop_py.selection.explain import NoMatch

    try:
        target = choose_target(request.settings, prototypes=True)
    except NoMatch as error:
        refused = Listing(left_out=left_out(error.rejections))
        _show(request, refused, KernelFacts().release, error)
        raise
    _show(request, _list(request.settings, target), target.facts.release)
    return 0


def _list(settings: Settings, target: Target) -> Listing:
    from retsnoop_py.capture import messages
    from retsnoop_py.listing.build import build
    from retsnoop_py.symbolize.units import SourceFiles

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
    if target.images is not None:
        target.images.__exit__()
    return listing


def _plan(settings: Settings, target: Target) -> tuple[AttachPlan | None, str | None]:
    """Who would take each function, or why that cannot be told."""
    from retsnoop_py.attach.features import Features
    from retsnoop_py.attach.fitness import KernelFitness
    from retsnoop_py.attach.plan import make_plan
    from retsnoop_py.capture.limits import raise_memlock
    from retsnoop_py.capture.rights import require_rights
    from retsnoop_py.errors import PrivilegeError
    from retsnoop_py.kernel.btf import Kind

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


def _show(
    request: FunctionsRequest, listing: Listing, release: str, error: InputError | None = None
) -> None:
    from retsnoop_py.listing import text
    from retsnoop_py.render.palette import Palette

    width = shutil.get_terminal_size().columns
    if request.json:
        print(listing.as_json(release, error).decode())
    elif sys.stdout.isatty():
        for line in text.groups(listing, width, Palette.of(sys.stdout)):
            print(line)
    else:
        for line in text.columns(listing):
            print(line)
    sys.stdout.flush()
    for line in text.advice(listing, width if sys.stderr.isatty() else 0):
        print(line, file=sys.stderr)


COMMAND = Command(
    function=functions,
    name="retsnoop-py functions",
    synopsis="[GLOB...] [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
)
