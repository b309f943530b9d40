# SPDX-License-Identifier: BSD-2-Clause
"""fentry and fexit: a pair of programs for each function, through a BPF trampoline (5.5)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.multi import TRAMPOLINE_BUSY
from retsnoop_py.attach.plan import AttachContext, AttachPlan, Miss, Refusal, refused
from retsnoop_py.attach.trampoline import Signature, SignatureFlags, read_signatures
from retsnoop_py.kernel.functions import Function
from retsnoop_py.libbpf import links

#: Functions per call into C: between two calls, Ctrl-C is handled and progress shown.
_CHUNK = 4
_SLOT = 8
#: ARGS_IN_COOKIE of src/bpf/args.bpf.h.
COUNT_SHIFT = 40
#: Above this number of functions, detaching happens in the background.
_AT_ONCE = 8


def result_offset(signature: Signature) -> int:
    """Return the offset of the result in an fexit program's context: behind the arguments.

    The offset is in bytes, or -1 for a void function, where the verifier does not allow the read.
    """
    return -1 if signature.flags & SignatureFlags.VOID else _SLOT * signature.slots


class FentryAttachment:
    """Functions ``ids`` of ``plan``, each with a copy of the templates rsn_fentry and rsn_fexit.

    A program is verified for the function it is loaded for. Therefore each function and side needs
    its own program.
    """

    @classmethod
    def trial(cls, features: Features) -> int | str:
        """Attach a program: arm64 before 6.4 loads such programs but cannot call them."""
        return links.fentry(features.btf_id or 0)

    def __init__(self, plan: AttachPlan, ids: Sequence[int], context: AttachContext) -> None:
        self._plan = plan
        self._ids = ids
        self._context = context
        self._signatures = read_signatures(context.facts, [plan.functions[i] for i in ids])
        #: Function ids, and the links of their entries and exits.
        self._chunks: list[tuple[list[int], links.Descriptors, links.Descriptors]] = []
        self.attached = 0
        self.refusals: dict[int, Refusal] = {}

    def attach(self) -> None:
        """Attach each function; rejected functions are skipped."""
        done = 0
        for module, ids in self._by_module().items():
            btf_fd = links.module_btf_fd(module) if module else 0
            try:
                for start in range(0, len(ids), _CHUNK):
                    if self._context.stopping():
                        return
                    chunk = ids[start : start + _CHUNK]
                    self._attach_chunk(chunk, btf_fd)
                    done += len(chunk)
                    self._context.progress(done, len(self._ids))
            finally:
                if btf_fd > 0:
                    os.close(btf_fd)

    def _by_module(self) -> dict[str | None, list[int]]:
        """Return ids by module; those that start sessions first, in case descriptors run out."""
        functions = self._plan.functions
        groups: dict[str | None, list[int]] = {}
        for i in sorted(self._ids, key=lambda i: not functions[i].is_entry):
            groups.setdefault(functions[i].module, []).append(i)
        return groups

    def _attach_chunk(self, ids: list[int], btf_fd: int) -> None:
        functions = [self._plan.functions[i] for i in ids]
        errors = [-btf_fd] * len(ids) if btf_fd < 0 else self._attach_all(ids, functions, btf_fd)
        for i, function, error in zip(ids, functions, errors, strict=True):
            if error:
                self.refusals[i] = refused(function, error)
            else:
                self.attached += 1

    def _attach_all(self, ids: list[int], functions: list[Function], btf_fd: int) -> list[int]:
        """Attach functions of the same BTF; return the errno of each, 0 for success."""
        templates = (
            self._context.obj.program("rsn_fentry"),
            self._context.obj.program("rsn_fexit"),
        )
        targets = [
            links.FentryTarget(
                function.btf_id or 0, cookie, result_offset(self._signatures[function.address])
            )
            for function, cookie in zip(functions, self._cookies(ids), strict=True)
        ]
        errors, entries, exits = links.attach_fentry(templates, btf_fd, targets)
        self._chunks.append((ids, entries, exits))
        return errors

    def _cookies(self, ids: list[int]) -> list[int]:
        """Return cookies with the number of arguments, so that the verifier checks no more."""
        counts = self._context.argument_counts
        cookies = self._plan.cookies(ids)
        if not counts:
            return cookies
        return [
            cookie | counts[i] + 1 << COUNT_SHIFT for i, cookie in zip(ids, cookies, strict=True)
        ]

    def misses(self) -> list[Miss]:
        """Return calls for which the kernel did not run our programs, by function."""
        misses = []
        for ids, *sides in self._chunks:
            counts = zip(*map(links.unrun_by_links, sides), strict=True)
            for i, counted in zip(ids, counts, strict=True):
                if any(counted):
                    function = self._plan.functions[i]
                    misses.append(Miss(function, max(counted), TRAMPOLINE_BUSY, told=False))
        return misses

    def detach(self, context: AttachContext) -> None:
        """Detach all; for many functions in a background process. Idempotent.

        By then the programs do nothing, so waiting is unnecessary.
        """
        chunks, self._chunks = self._chunks, []
        fds = [fd for _, *sides in chunks for side in sides for fd in side]
        if len(fds) > 2 * _AT_ONCE and links.close_in_child(fds):
            return
        for done, fd in enumerate(fds, 1):
            if fd >= 0:
                os.close(fd)
            context.progress(done // 2, len(self._ids))
