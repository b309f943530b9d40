# SPDX-License-Identifier: BSD-2-Clause
"""A tracing-multi link: BPF trampolines for many functions, both sides in one program (7.x)."""

from __future__ import annotations

from collections.abc import Sequence

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.attach.multi import TRAMPOLINE_BUSY, MultiAttachment
from retsnoop_py.libbpf import FdLink
from retsnoop_py.libbpf.object import check
from retsnoop_py.settings import Mechanism

#: ``BPF_TRACE_FSESSION_MULTI`` of linux/bpf.h, newer than libbpf's own headers.
FSESSION_MULTI = 61


class FsessionMultiAttachment(MultiAttachment):
    """fsession.multi: one link, which finds functions by their BTF ids."""

    mechanism = Mechanism.FSESSION_MULTI
    programs = ("rsn_fsession",)
    busy = TRAMPOLINE_BUSY

    def _link(self, ids: Sequence[int]) -> list[FdLink]:
        functions = self._plan.functions
        btf_ids = ffi.new("uint32_t[]", [functions[i].btf_id or 0 for i in ids])
        cookies = ffi.new("uint64_t[]", self._plan.cookies(ids))
        program = self._context.obj.program("rsn_fsession")
        fd = lib.rsn_tracing_multi_link(program.fd, FSESSION_MULTI, btf_ids, cookies, len(ids))
        return [FdLink(check(f"attach {program.section} to {len(ids)} functions", fd))]
