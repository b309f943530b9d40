# SPDX-License-Identifier: BSD-2-Clause
"""Follow the executed paths of calls in a live run: read code, attach to blocks, analyse paths."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from retsnoop_py.attach.blocks import MOST_PROBES, BlockEvents
from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.functions import Function
from retsnoop_py.path.text import VmlinuxText
from retsnoop_py.selection.globs import NameGlob, parse
from retsnoop_py.session.paths import Origin, Path

if TYPE_CHECKING:
    from retsnoop_py.attach.plan import AttachContext
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.libbpf.object import BpfObject
    from retsnoop_py.path.analysis import FunctionPaths
    from retsnoop_py.path.probes import BlockProbe
    from retsnoop_py.path.text import CodeSource
    from retsnoop_py.path.variables import ReadVariables
    from retsnoop_py.symbolize.sources import KernelImages

__all__ = ["PathProbes", "configure_paths"]

#: Maximum number of simultaneous sessions with recorded paths, 25 KiB each.
_SESSIONS = 512
#: Bytes of an item in the log: its header and 64 hits.
_ITEM_BYTES = 24 + 64 * 24


def configure_paths(obj: BpfObject, sessions: int) -> None:
    """Make room for the paths of calls before the load; ``sessions``: simultaneous sessions."""
    log_bytes = int.from_bytes(obj.global_bytes(".rodata", "log_bytes")[:], "little")
    logs, room = obj.map("logs"), min(sessions, _SESSIONS)
    logs.set_value_size(logs.value_size + _ITEM_BYTES)
    for name, value in (
        ("emit_paths", 1),
        ("path_sessions", room),
        ("log_bytes", log_bytes + _ITEM_BYTES),
    ):
        obj.set_global(".rodata", name, value)
    obj.map("paths").set_max_entries(room)
    obj.map("path_probes").set_max_entries(MOST_PROBES)


class PathProbes:
    """The functions of a run with calls that are followed block by block.

    It implements :class:`retsnoop_py.session.paths.Origins`. ``said`` contains messages about
    functions that cannot be followed, with reasons. A context manager that detaches.
    """

    def __init__(
        self, facts: KernelFacts, functions: Sequence[Function], images: KernelImages | None
    ) -> None:
        self._facts = facts
        self._functions = functions
        self._images = images
        self._stack = ExitStack()
        self._source: CodeSource | None = None
        self._events: BlockEvents | None = None
        self._followed: dict[int, FunctionPaths] = {}
        #: Probes by their numbers.
        self._probes: list[BlockProbe] = []
        self.said: list[str] = []

    def matching(self, globs: Sequence[str]) -> list[int]:
        """Return the ids of the functions that ``globs`` match. Raises InputError for no match."""
        found: dict[int, None] = {}
        for text in globs:
            glob = parse(text)
            if not isinstance(glob, NameGlob):
                raise InputError(f"--path {text}: expected a function name")
            own = [
                number
                for number, function in enumerate(self._functions)
                if fnmatchcase(function.name, glob.name)
                and (glob.module is None or fnmatchcase(function.module or "", glob.module))
            ]
            if not own:
                raise InputError(
                    f"--path {text} matches no traced function",
                    "name one that can be traced: `retsnoop-py functions GLOB` lists them",
                )
            found.update(dict.fromkeys(own))
        return list(found)

    def read(self, ids: Sequence[int], max_blocks: int) -> None:
        """Read the code of functions.

        Raises PrivilegeError or UnavailableError if the kernel's code cannot be read.
        """
        from retsnoop_py.path.analysis import read_paths

        source = self._open_source()
        for number in ids:
            function = self._functions[number]
            try:
                paths = read_paths(self._facts, function, source, self._variables(function))
            except RetsnoopError as error:
                self.said.append(f"{function.label}: {error.message}")
                continue
            if len(paths.graph.blocks) > max_blocks:
                self.said.append(
                    f"{function.label} has {len(paths.graph.blocks)} blocks, more than "
                    f"{max_blocks}; use --max-blocks {len(paths.graph.blocks)}"
                )
                continue
            self._followed[number] = paths

    def _variables(self, function: Function) -> ReadVariables | None:
        """Return a function that finds the local variables of a function, or None."""
        if self._images is None:
            return None
        return partial(self._images.variables, module=function.module)

    def _open_source(self) -> CodeSource:
        from retsnoop_py.kernel.kcore import Kcore

        if self._source is None:
            try:
                self._source = self._stack.enter_context(Kcore(self._facts.root / "proc/kcore"))
            except RetsnoopError:
                vmlinux = self._images.vmlinux() if self._images is not None else None
                if vmlinux is None:
                    raise
                text = VmlinuxText(vmlinux.dwarf.path, vmlinux.bias)
                self._source = self._stack.enter_context(text)
        return self._source

    def attach(self, context: AttachContext) -> None:
        """Attach to the blocks of the read functions that are not attached yet.

        Raises UnavailableError if the kernel accepts no probe in any block.
        """
        if self._events is None:
            self._events = BlockEvents(context)
        before = len(self._events.probes)
        news = [(number, paths) for number, paths in self._followed.items() if not paths.probed]
        probes = [(number, probe) for number, paths in news for probe in paths.probes]
        if probes:
            self._events.attach(probes)
        for number, probe in self._events.probes[before:]:
            self._probes.append(probe)
            self._followed[number].probed[probe.block] = probe
        refused = [number for number, paths in self._followed.items() if not paths.probed]
        for number in refused:
            self.said.append(
                f"the kernel accepts no probe in {self._followed.pop(number).function.label}"
            )
        if refused and not self._followed:
            raise UnavailableError(self.said.pop())

    @property
    def count(self) -> int:
        """The number of attached blocks."""
        return len(self._probes)

    def follows(self, number: int) -> bool:
        """Return True if the function with id ``number`` is followed."""
        paths = self._followed.get(number)
        return paths is not None and bool(paths.probed)

    def origin(self, path: Path) -> Origin | None:
        """See :class:`retsnoop_py.session.paths.Origins`."""
        paths = self._followed.get(path.id)
        if paths is None:
            return None
        known = [hit for hit in path.hits if hit.probe < len(self._probes)]
        hits = [self._probes[hit.probe] for hit in known]
        blocks, held = [hit.block for hit in hits], [hit.held for hit in hits]
        targets = [hit.target for hit in known]
        return paths.origin(
            blocks,
            path.result,
            is_cut=path.earlier > 0,
            held=held,
            targets=targets,
            handed=path.handed,
        )

    def detach(self) -> None:
        """Detach from all blocks. Idempotent."""
        if self._events is not None:
            self._events.detach()

    def close(self) -> None:
        """Detach, and close the source of the kernel's code. Idempotent."""
        self.detach()
        self._stack.close()
