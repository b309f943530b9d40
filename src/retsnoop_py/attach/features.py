# SPDX-License-Identifier: BSD-2-Clause
"""The features of this kernel's BPF. Each is tested by use, never derived from a version."""

from __future__ import annotations

import errno
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.kernel.switches import FTRACE, JIT, KPROBES, Switch
from retsnoop_py.kernel.tracefs import (
    MOUNT_SYSFS,
    NO_SYSFS,
    has_sysfs,
    lacks_kprobes,
    no_kprobes,
)
from retsnoop_py.mechanism import LADDER, Mechanism, Row
from retsnoop_py.value import Value

#: The verifier's error for a call of a kernel function if programs are interpreted.
_ENOTSUPP = 524


class Verdict(Value):
    """Whether a feature works here; if not, the reason, and a remedy if known."""

    works: bool
    reason: str | None = None
    next_step: str | None = None


def attachment_of(mechanism: Mechanism) -> type[Any]:
    """Return the class that attaches functions by ``mechanism``, from its own module.

    The class is an :class:`~retsnoop_py.attach.plan.Attachment`.
    """
    module, _, name = mechanism.row.attachment.partition(".")
    found: type = getattr(import_module(f"retsnoop_py.attach.{module}"), name)
    return found


class Features:
    """The features of the running kernel; each is tested on first use.

    ``btf_id`` is the vmlinux BTF id of ``vfs_read``, None without BTF: programs that attach by BTF
    are tested on this function. The kernel's files are below ``root``. A feature that cannot be
    tested, for example without privileges, counts as missing.
    """

    def __init__(self, btf_id: int | None = None, root: Path = Path("/")) -> None:
        self.btf_id = btf_id
        self.root = root
        self._verdicts: dict[Mechanism, Verdict] = {}

    @cached_property
    def ringbuf(self) -> bool:
        """The BPF ring buffer (5.8)."""
        from retsnoop_py.libbpf import links

        return links.has_map(links.MAP_RINGBUF)

    @cached_property
    def func_ip(self) -> bool:
        """``bpf_get_func_ip()`` (9b99edcae5c8, 5.15)."""
        from retsnoop_py.libbpf import links

        return links.has_helper(links.FUNC_GET_FUNC_IP)

    @cached_property
    def cookie(self) -> bool:
        """Attach cookies of perf events (7adfc6c9b315, 5.15)."""
        from retsnoop_py.libbpf import links

        return links.has_helper(links.FUNC_GET_ATTACH_COOKIE)

    @cached_property
    def raw_cookie(self) -> bool:
        """Attach cookies of raw tracepoints (68ca5d4eebb8, 6.10)."""
        from retsnoop_py.libbpf import links

        return links.has_helper(links.FUNC_GET_ATTACH_COOKIE, links.PROG_RAW_TRACEPOINT)

    @cached_property
    def atomic_result(self) -> bool:
        """Atomic additions that return the old value (5.12; 1902472b4fa9: arm64 5.18)."""
        from retsnoop_py.libbpf import links

        return links.atomic_result() == 0

    @cached_property
    def kfuncs(self) -> bool:
        """Calls of kernel functions, if the kernel has any to call: they need the BPF JIT."""
        from retsnoop_py.libbpf import links

        return self.btf_id is None or links.kfunc(self.btf_id) != _ENOTSUPP

    @cached_property
    def branch_snapshot(self) -> bool:
        """``bpf_get_branch_snapshot()`` (5.16)."""
        from retsnoop_py.libbpf import links

        return links.has_helper(links.FUNC_GET_BRANCH_SNAPSHOT)

    def verdict(self, mechanism: Mechanism) -> Verdict:
        """Return whether ``mechanism`` works here; tested once."""
        if mechanism not in self._verdicts:
            self._verdicts[mechanism] = self._try(mechanism)
        return self._verdicts[mechanism]

    def require(self, mechanism: Mechanism) -> None:
        """Raise UnavailableError unless ``mechanism`` works here."""
        verdict = self.verdict(mechanism)
        if not verdict.works and lacks_kprobes(self.root):
            raise no_kprobes()
        if not verdict.works:
            raise UnavailableError(
                f"{mechanism.value} does not work here: {verdict.reason}",
                _run(verdict.next_step) or "leave out --attach, or see `retsnoop-py doctor`",
            )

    def require_any(self) -> None:
        """Raise UnavailableError unless some rung of the ladder works here."""
        verdicts = {one: self.verdict(one) for one in LADDER}
        if any(verdict.works for verdict in verdicts.values()):
            return
        if lacks_kprobes(self.root):
            raise no_kprobes()
        FTRACE.require(self.root, "tracing does not work here")
        last = verdicts[LADDER[-1]]
        raise UnavailableError(
            f"no attach mechanism works here; {LADDER[-1].value}: {last.reason}",
            _run(last.next_step) or "`retsnoop-py doctor` shows the reason of each mechanism",
        )

    def _try(self, mechanism: Mechanism) -> Verdict:
        row = mechanism.row
        for switch, concerned in ((FTRACE, True), (KPROBES, row.by_address)):
            if concerned and switch.is_off(self.root):
                return _off(switch)
        if row.by_btf and self.btf_id is None and not has_sysfs(self.root):
            return Verdict(False, f"the kernel's BTF cannot be read: {NO_SYSFS}", MOUNT_SYSFS)
        if row.by_btf and self.btf_id is None:
            return Verdict(False, "this kernel has no BTF")
        found: int | str = attachment_of(mechanism).trial(self)
        if not found and row.by_kfuncs and not self.kfuncs:
            return _off(JIT)
        if not found:
            return Verdict(True)
        return Verdict(False, found if isinstance(found, str) else _refusal(row, found))

    def lines(self) -> list[tuple[str, bool]]:
        """Return (description, verdict) pairs for a person."""
        return [
            ("BPF ringbuf map supported", self.ringbuf),
            ("bpf_get_func_ip() supported", self.func_ip),
            ("bpf_get_branch_snapshot() supported", self.branch_snapshot),
            ("BPF cookie supported", self.cookie),
            ("single kprobes supported", self.verdict(Mechanism.KPROBE).works),
            ("multi-attach kprobe supported", self.verdict(Mechanism.KPROBE_MULTI).works),
        ]


def _off(switch: Switch) -> Verdict:
    return Verdict(False, switch.off, switch.command)


def _run(command: str | None) -> str | None:
    return f"run `{command}`" if command else None


def _refusal(row: Row, error: int) -> str:
    name = errno_name(error)
    if error in (errno.EPERM, errno.EACCES):
        return f"the kernel forbids it (-{name}): missing privileges, or the kernel is locked down"
    return f"the kernel rejects it (-{name}); it requires {row.takes}"
