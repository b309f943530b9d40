# SPDX-License-Identifier: BSD-2-Clause
"""A probe of this kernel: one place, with all that attaching takes."""

from __future__ import annotations

from retsnoop_py.kernel.tracepoints import Tracepoint
from retsnoop_py.probes.spec import ProbeKind, ProbeSpec
from retsnoop_py.value import Value

__all__ = ["Probe"]


class Probe(Value):
    """One place where a probe is injected; its id is its position among all of the run.

    ``label`` is how it is shown. ``address`` is that of a kprobe or kretprobe, ``function`` the
    name of what that lies in; ``tracepoint`` has no category for a raw one, and is None for
    kprobes; ``event`` is the number of a ``tp``.
    """

    spec: ProbeSpec
    label: str
    address: int = 0
    function: str = ""
    tracepoint: Tracepoint | None = None
    event: int = 0

    @property
    def kind(self) -> ProbeKind:
        """What it is attached to."""
        return self.spec.kind
