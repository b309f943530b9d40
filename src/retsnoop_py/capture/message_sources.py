# SPDX-License-Identifier: BSD-2-Clause
"""The BPF programs that record kernel messages, for this run on this kernel.

Each program is attached to a place where the kernel writes a message. It is used only in runs with
entry functions inside which such messages are possible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from errno import ENOENT

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.kprobe import pmu_type
from retsnoop_py.capture import messages
from retsnoop_py.errors import BpfError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import FuncFlags, Function
from retsnoop_py.libbpf.closing import Closing
from retsnoop_py.libbpf.links import PerfProbes, close_in_child
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.session.model import MessageSource
from retsnoop_py.settings import Settings
from retsnoop_py.text import parse_release
from retsnoop_py.value import Value

__all__ = ["MessageSources", "message_sources"]

PRINTK_PROGRAM, STORED_PROGRAM = "rsn_message_printk", "rsn_message_stored"
NETLINK_PROGRAM = "rsn_message_netlink"
FS_CONTEXT_PROGRAMS = ("rsn_message_fs_begin", "rsn_message_fs_end")
IO_URING_PROGRAM, WORDS_PROGRAM = "rsn_message_io_uring", "rsn_message_words"
#: Since 5.19 (701850dc0c31), the tracepoint printk:console is hit in the thread that logs the
#: message. Before, it is hit in the thread that writes messages of all threads to the console.
_CONSOLE_SINCE = (5, 19)
#: The function that writes to a file system context's log, and entry functions that may call it.
_FS_LOGGER, _MOUNTS = "logfc", re.compile(r"mount|_fs(open|pick|config)")
#: Entry functions inside which io_uring submits requests. The tracepoint has the request and its
#: error in the format of 6.1; older formats have not been examined.
_IO_URING, _REFUSED_SINCE = re.compile(r"io_(uring|submit|init_req)"), (6, 1)
#: Entry functions inside which the verifier or the BTF check may log. Below, the log functions: the
#: index of the format argument, the kind of the first argument, and the source of the message.
_BPF = re.compile(r"bpf|btf")
_SPEAKERS = {
    "verbose": (1, "verifier", MessageSource.VERIFIER),
    "bpf_log": (1, None, MessageSource.VERIFIER),
    "btf_verifier_log": (1, "btf", MessageSource.BTF),
    "__btf_verifier_log_type": (3, "btf", MessageSource.BTF),
    "btf_verifier_log_member": (3, "btf", MessageSource.BTF),
    "btf_verifier_log_vsi": (3, "btf", MessageSource.BTF),
}
#: BPF_PROG_TYPE_KPROBE without an attach type: the kind of a program for single kprobes.
_SINGLE = (2, 0)


class MessageSources(Value):
    """The programs that record kernel messages; a kernel may lack the place for a program.

    ``printk_text``: the address of the text that printk is about to log, on kernels without a
    usable tracepoint. ``speakers``: the functions that write a BPF log, each with the members of
    ``struct speaker``; ``at_once``: one link can hook them all.
    """

    programs: tuple[str, ...] = ()
    printk_text: int = 0
    speakers: tuple[tuple[int, ...], ...] = ()
    at_once: bool = False

    def configure(self, obj: BpfObject, sessions: int) -> None:
        """Configure the programs before the load; ``sessions``: number of simultaneous sessions."""
        obj.map("messages").set_max_entries(sessions)
        obj.set_global(".rodata", "printk_text", self.printk_text)
        if not self.speakers:
            return
        if not self.at_once:
            obj.program(WORDS_PROGRAM).set_kind(*_SINGLE)
        row = BtfStruct(Btf(obj.btf()), "speaker")
        pack = row.packer("address", "level_at", "item_at", "format", "source")
        packed = b"".join(pack(*one) for one in self.speakers)
        obj.global_bytes(".rodata", "speakers")[: len(packed)] = packed

    def attached(self, obj: BpfObject, settings: Settings) -> Iterator[Closing]:
        """Yield links of the programs that this kernel supports and accepts."""
        for name in self.programs:
            try:
                yield self._words(obj) if name == WORDS_PROGRAM else obj.program(name).attach()
            except BpfError as error:
                if error.errno != ENOENT:
                    messages.note(settings, f"not all the kernel says is seen: {error.message}")

    def _words(self, obj: BpfObject) -> Closing:
        program, addresses = obj.program(WORDS_PROGRAM), [one[0] for one in self.speakers]
        if self.at_once:
            link = program.attach_kprobe_multi(addresses, range(len(addresses)))
            try:
                return _LeftToChild([os.dup(link.fd)])
            finally:
                link.close()
        probes = PerfProbes(program.fd, pmu_type(), 0, use_link=False)
        probes.attach(addresses, [0] * len(addresses))  # rejected functions are skipped
        return _LeftToChild([fd for fds in probes.take() for fd in fds if fd >= 0])


class _LeftToChild:
    """Descriptors that take the kernel long to close. A child process closes them."""

    def __init__(self, fds: list[int]) -> None:
        self._fds = fds

    def close(self) -> None:
        fds, self._fds = self._fds, []
        if fds and not close_in_child(fds):
            for fd in fds:
                os.close(fd)


def message_sources(
    facts: KernelFacts, features: Features, functions: Sequence[Function]
) -> MessageSources:
    """Return the message sources of this kernel, and of a run that traces ``functions``."""
    table = FunctionTable.of(functions)
    names = [table.names[number] for number in table.having(FuncFlags.ENTRY)]
    programs: list[str] = [NETLINK_PROGRAM]
    release, text = parse_release(facts.release), None
    if release >= _CONSOLE_SINCE:
        programs.append(PRINTK_PROGRAM)
    elif text := facts.kallsyms.data_address("textbuf"):
        programs.append(STORED_PROGRAM)
    if any(map(_MOUNTS.search, names)) and facts.kallsyms.address_of(_FS_LOGGER):
        programs += FS_CONTEXT_PROGRAMS
    if any(map(_IO_URING.search, names)) and release >= _REFUSED_SINCE:
        programs.append(IO_URING_PROGRAM)
    speakers = _speakers(facts) if any(map(_BPF.search, names)) else ()
    if speakers:
        programs.append(WORDS_PROGRAM)
    at_once = bool(speakers) and features.verdict(Mechanism.KPROBE_MULTI).works
    return MessageSources(tuple(programs), text or 0, speakers, at_once)


def _speakers(facts: KernelFacts) -> tuple[tuple[int, ...], ...]:
    """Return this kernel's log functions; none if the offsets of their fields are unknown."""
    at = facts.bpf_logs
    found = []
    for name, (format_, whose, source) in _SPEAKERS.items() if at else ():
        address = facts.kallsyms.address_of(name)
        if at and address is not None:
            log, item = (at[f"{whose}_log"], at[f"{whose}_item"]) if whose else (0, -1)
            found.append((address, log + at["level"], item, format_, int(source)))
    return tuple(found)
