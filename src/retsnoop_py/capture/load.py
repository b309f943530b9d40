# SPDX-License-Identifier: BSD-2-Clause
"""Opening a BPF object, telling it what the user asked for, and loading it.

That includes what to capture of each function's arguments, and with ``--debug bpf`` what functions
are called: the programs then log every traced call and return to the kernel's trace_pipe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from errno import ENOENT
from typing import TYPE_CHECKING

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.capture.process_ids import ProcessIds, choose_program, process_ids
from retsnoop_py.errors import BpfError, RetsnoopError, UnavailableError, UsageError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct, constants
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.libbpf.links import unrun
from retsnoop_py.libbpf.object import OBJECTS, BpfObject, Link, MapType
from retsnoop_py.settings import ArgSettings, FilterSettings, Settings, TransportKind
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan
    from retsnoop_py.probes.spec import Probe


#: An item tells its size in 16 bits, its header included.
_MOST = 65_000
#: Bytes an item can have besides what the limits count: ARGS_HEAD of args.bpf.h, the value of the
#: last argument, and padding.
_BESIDES = 80 + 16 + 8
#: Bytes of kernel memory the logs of all sessions may take.
_MOST_MEMORY = 1 << 30


def configure_arguments(
    obj: BpfObject, settings: ArgSettings, plan: AttachPlan, sessions: int, probes: int = 0
) -> None:
    """Before load: limits, and the size of the maps; the log's elements hold the largest item.

    ``sessions`` and ``probes`` are numbers: of those at a time, and of the injected ones.

    Raises UsageError if the logs of so many ``sessions`` were larger than any sane machine has.
    """
    total, data = min(settings.max_total, _MOST), max(settings.max_sized, settings.max_str)
    log_bytes = int.from_bytes(obj.global_bytes(".rodata", "log_bytes")[:], "little")
    more = -(-(_BESIDES + total + data) // 8) * 8
    on_trampolines = _on_trampolines(plan)
    count = len(plan.functions)
    plans = count * (2 if on_trampolines else 1)
    for name, value in (
        ("capture_args", 1),
        ("args_max_total", total),
        ("args_max_data", data),
        ("args_context_plans", count if on_trampolines else 0),
        ("args_probe_plans", plans),
        ("log_bytes", log_bytes + more),
    ):
        obj.set_global(".rodata", name, value)
    logs = obj.map("logs")
    size = logs.value_size + more
    if size * sessions > _MOST_MEMORY:
        raise UsageError(
            f"arguments of {sessions} sessions at a time would take {size * sessions >> 20} MiB"
            " of kernel memory",
            "lower -C bpf.sessions-size or -C args.max-total-args-size",
        )
    logs.set_value_size(size)
    obj.map("args_plans").set_max_entries(plans + probes)


def fill_arguments(obj: BpfObject, captures: CapturePlan, plan: AttachPlan) -> None:
    """After load: what to capture of each function and injected probe."""
    packed = captures.packed(Btf(obj.btf()), trampolines=_on_trampolines(plan))
    obj.map("args_plans").update_many(
        [(struct.pack("=I", index), one) for index, one in enumerate(packed)]
    )


def _on_trampolines(plan: AttachPlan) -> bool:
    return any(mechanism.row.by_btf for mechanism in plan.mechanisms)


#: How each kind of result is written, by ``enum debug_result``; others are DEBUG_INT or DEBUG_LONG.
_RESULTS = {
    ResultKind.VOID: "DEBUG_VOID",
    ResultKind.BOOL: "DEBUG_BOOL",
    ResultKind.PTR: "DEBUG_PTR",
}


def configure_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """Before load: make the programs log, and room for what ``functions`` are called."""
    obj.set_global(".rodata", "debug_log", 1)
    obj.map("debug_funcs").set_max_entries(max(len(functions), 1))


def fill_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """After load: what each function is called and returns, by its id."""
    btf = Btf(obj.btf())
    row, numbers = BtfStruct(btf, "debug_func"), constants(btf, "debug_result")
    pack, room = row.packer("name", "result"), row.lengths["name"] - 1  # its NUL
    obj.map("debug_funcs").update_many(
        [
            (
                struct.pack("=I", number),
                pack(function.name.encode()[:room], numbers[_result_of(function)]),
            )
            for number, function in enumerate(functions)
        ]
    )


def _result_of(function: Function) -> str:
    result = function.result
    return _RESULTS.get(result.kind, "DEBUG_LONG" if result.size > 4 else "DEBUG_INT")


_OBJECT = "trace.bpf.o"
_COMM_LEN = 16
#: Sessions in a bucket of their table (table.bpf.h).
_BUCKET_SIZE = 8
#: So much data in the ring wakes its reader, which comes by ten times a second anyway.
_WAKE_BYTES = 256 << 10
#: What kretprobes return through, newest kernels first (6.0, 5.16).
_RETURN_HOOKS = ("arch_rethook_trampoline", "__kretprobe_trampoline")
#: The same for kprobe.multi, where fprobe hooks by itself; since 6.14 (4346ba160409) it does so
#: through the function graph tracer, after our entry program has run.
_FPROBE_HOOKS = "fprobe_exit_handler"
_STACK_BYTES = 16 << 10
#: The kernel counts the calls that it keeps from programs, and where on each CPU can be found:
#: RSN_MISS_PROGRAMS and RSN_MISS_CPUS of misses.bpf.h. Of those on perf events it does since 6.7.
_MOST_COUNTED, _MOST_CPUS = 4, 4096
COUNTED_BY = "rsn_find_misses"
_TREE_PROGRAM, _EXIT_PROGRAM = "rsn_task_fork", "rsn_task_exit"
TASK_PROGRAMS = (_EXIT_PROGRAM, "rsn_task_free", _TREE_PROGRAM)


#: Machines for which the objects ask atomic additions for what was there before (table.bpf.h).
_FETCHING = frozenset({"aarch64"})
#: struct bpf_insn: code, registers, offset, immediate.
_INSN = struct.Struct("<BBhi")
#: ``BPF_STX | BPF_ATOMIC`` of 4 and of 8 bytes, the immediate of such an addition, of a plain one.
_ATOMIC, _ADD_FETCH, _ADD = (0xC3, 0xDB), 1, 0
#: ``SHF_EXECINSTR``
_IS_CODE = 4


def without_fetch(original: bytes) -> bytes:
    """The BPF object ``original`` with atomic additions that do not give what was there before.

    A kernel without these refuses a program that has one anywhere, in code that never runs too.
    """
    image = bytearray(original)
    with open(os.memfd_create(_OBJECT), "r+b", buffering=0) as file:  # noqa: PTH123
        file.write(original)
        with ElfFile(_OBJECT, file.fileno()) as elf:
            code = [one for one in elf.sections.values() if one.flags & _IS_CODE]
    for section in code:
        for at in range(section.offset, section.offset + section.size, _INSN.size):
            number, registers, offset, operation = _INSN.unpack_from(image, at)
            if number in _ATOMIC and operation == _ADD_FETCH:
                _INSN.pack_into(image, at, number, registers, offset, _ADD)
    return bytes(image)


class LoadedObject(Value):
    """A loaded object, whether its events go through a perf buffer, and its own links.

    ``filters`` are those of the settings with the kernel's ids of processes; ``follows``: whether
    children of the command are traced too.
    """

    obj: BpfObject
    is_perf: bool
    links: tuple[Link, ...]
    ids: ProcessIds
    filters: FilterSettings
    follows: bool

    def set_ready(self, ready: bool) -> None:
        """Open or close the gate in front of every probe."""
        self.obj.set_global(".bss", "ready", int(ready))

    def add_to_tree(self, pid: int) -> None:
        """Follow process ``pid``, a child of ours, and what descends from it.

        Raises UnavailableError where the kernel does not tell its own id of it.
        """
        kernel_id = self.ids.kernel_id(pid)
        if kernel_id is None:
            raise UnavailableError(
                "the kernel does not tell its own id of the command's process, which is in a PID "
                "namespace",
                "run retsnoop-py outside of the container, or in one with --pid=host",
            )
        self.obj.map("tree").update(struct.pack("=I", kernel_id), bytes(8))

    def stats(self) -> bytes:
        """``struct rsn_stats``, raw."""
        return bytes(self.obj.global_bytes(".bss", "stats"))

    def unseen_forks(self) -> int:
        """Forks whose children, of followed processes or of others, nothing looked at.

        Where tracepoints can be preempted (7.x) the kernel does not run a program for one thread
        that another one, preempted in it, keeps busy on that CPU.
        """
        return unrun(self.obj.program(_TREE_PROGRAM)) if self.follows else 0

    def unseen_exits(self) -> int:
        """Exits of threads that nothing looked at, for the same reason."""
        return unrun(self.obj.program(_EXIT_PROGRAM))

    def detach(self) -> None:
        """Detach the task programs. Idempotent."""
        for link in self.links:
            link.close()

    def close(self) -> None:
        """Detach the task programs and free the object. Idempotent."""
        self.detach()
        self.obj.close()


def _opened(change: Callable[[bytes], bytes] | None) -> BpfObject:
    try:
        return BpfObject(OBJECTS / _OBJECT, change)
    except BpfError as error:
        if error.errno != ENOENT:
            raise
        text = f"{_OBJECT} is missing from the installation"
        raise RetsnoopError(text, "run `make build`") from None


def load(
    plan: AttachPlan,
    settings: Settings,
    features: Features,
    facts: KernelFacts,
    probes: Sequence[Probe] = (),
    captures: CapturePlan | None = None,
) -> LoadedObject:
    """Load the programs of ``plan``'s rungs and of injected ``probes``.

    ``captures`` says what they note of arguments.

    Raises BpfError with the verifier's log where the kernel refuses them, UnavailableError where
    it lacks the transport the user insists on.
    """
    is_perf = _choose_perf_buffer(settings, features)
    has_fetch = facts.machine not in _FETCHING or features.atomic_result
    obj = _opened(None if has_fetch else without_fetch)
    try:
        obj.set_global(".rodata", "has_fetch", int(has_fetch))
        counted = _counted(plan, features, probes) if facts.program_counts else []
        for name, place in (facts.program_counts or {}).items():
            obj.set_global(".rodata", name, place)
        _choose_programs(obj, plan, settings, probes)
        obj.program(COUNTED_BY).set_autoload(bool(counted))
        obj.set_global(".rodata", "miss_programs", len(counted))
        _configure(obj, settings, is_perf=is_perf)
        _tell_return_hooks(obj, facts)
        obj.set_global(".rodata", "stack_bytes", _stack_bytes(facts))
        if probes:
            obj.set_global(".rodata", "has_perf_cookie", int(features.cookie))
            obj.set_global(".rodata", "has_raw_cookie", int(features.raw_cookie))
        by_address = any(one.row.by_address for one in plan.mechanisms)
        if by_address:
            _configure_function_ids(obj, plan, features, facts)
        if captures is not None:
            configure_arguments(
                obj, settings.args, plan, settings.bpf.sessions_size, len(captures.probes)
            )
        if settings.follows:
            from retsnoop_py.capture.paths import configure_paths

            configure_paths(obj, settings.bpf.sessions_size)
        if settings.debug_bpf:
            configure_log(obj, plan.functions)
        obj.load()
        if settings.debug_bpf:
            fill_log(obj, plan.functions)
        _find_misses(obj, counted)
        ids = process_ids(obj)
        filters = ids.filters(settings.filters)
        _fill_filters(obj, filters)
        if captures is not None:
            fill_arguments(obj, captures, plan)
        if by_address:
            _fill_addresses(obj, plan)
        links = tuple(
            obj.program(name).attach()
            for name in TASK_PROGRAMS
            if name != _TREE_PROGRAM or settings.command
        )
    except BaseException:
        obj.close()
        raise
    return LoadedObject(obj, is_perf, links, ids, filters, bool(settings.command))


def _choose_programs(
    obj: BpfObject, plan: AttachPlan, settings: Settings, probes: Sequence[Probe]
) -> None:
    wanted = {name for mechanism in plan.mechanisms for name in mechanism.row.programs}
    wanted.update(TASK_PROGRAMS if settings.command else set(TASK_PROGRAMS) - {_TREE_PROGRAM})
    if probes:
        from retsnoop_py.attach.injected import programs_of

        wanted |= programs_of(probes)
    if settings.follows:
        wanted.add("rsn_block")
    namer = choose_program(obj)
    if namer:
        wanted.add(namer)
    for program in obj.programs():
        program.set_autoload(program.name in wanted)
    for row in (mechanism.row for mechanism in plan.mechanisms):
        if row.kind:
            for name in row.programs:
                obj.program(name).set_kind(*row.kind)


def _counted(plan: AttachPlan, features: Features, probes: Sequence[Probe]) -> list[str]:
    """The programs whose missed calls sessions are told of."""
    # it came with 6.10; the counter in struct bpf_prog with 6.7 (dd8657894c11)
    knows_perf = features.raw_cookie
    rows = [one.row for one in plan.mechanisms]
    counted = [row.counted for row in rows if row.counted and (knows_perf or not row.by_address)]
    names = list(dict.fromkeys(counted))
    if knows_perf and probes:
        from retsnoop_py.attach.injected import programs_of

        names += sorted(programs_of(probes))
    return names[:_MOST_COUNTED]


def _find_misses(obj: BpfObject, counted: Sequence[str]) -> None:
    finder = obj.program(COUNTED_BY)
    for number, name in enumerate(counted):
        for cpu in range(min(os.cpu_count() or 1, _MOST_CPUS)):
            finder.run(obj.program(name).fd, number, cpu)


def _choose_perf_buffer(settings: Settings, features: Features) -> bool:
    wanted = settings.bpf.transport
    if wanted is TransportKind.RINGBUF and not features.ringbuf:
        raise UnavailableError(
            "this kernel has no BPF ring buffer (Linux 5.8 and later have it)",
            "leave out -C bpf.transport=ringbuf: the perf buffer is taken instead",
        )
    return wanted is TransportKind.PERFBUF or not features.ringbuf


def _configure(obj: BpfObject, settings: Settings, *, is_perf: bool) -> None:
    events = obj.map("events")
    if is_perf:
        events.set_type(MapType.PERF_EVENT_ARRAY)
        events.set_max_entries(0)
    else:
        room = ring_bytes(settings.bpf.ringbuf_size)
        events.set_max_entries(room)
        obj.set_global(".rodata", "wake_bytes", min(room // 4, _WAKE_BYTES))
    obj.map("sessions").set_max_entries(settings.bpf.sessions_size)
    if settings.views.call_trace or settings.args.capture or settings.follows:
        obj.map("logs").set_max_entries(settings.bpf.sessions_size)
    for name, is_used in (
        ("interims", settings.views.interim),
        ("user_stacks", settings.views.user_stack),
        ("branch_pairs", settings.views.lbr is not None),
    ):
        if is_used:
            obj.map(name).set_max_entries(settings.bpf.sessions_size)
    obj.map("buckets").set_max_entries(-(-settings.bpf.sessions_size // _BUCKET_SIZE))
    filters = settings.filters
    for name, count in (
        ("tgid_filter", len(filters.pids) + len(filters.deny_pids)),
        ("comm_filter", len(filters.comms) + len(filters.deny_comms)),
    ):
        obj.map(name).set_max_entries(max(count, 1))
    for name, value in (
        ("use_ringbuf", not is_perf),
        ("sessions_max", settings.bpf.sessions_size),
        ("tgid_allow_cnt", len(filters.pids)),
        ("tgid_deny_cnt", len(filters.deny_pids)),
        ("comm_allow_cnt", len(filters.comms)),
        ("comm_deny_cnt", len(filters.deny_comms)),
        ("follow_tree", bool(settings.command)),
        ("emit_success", filters.success),
        ("emit_stack", settings.views.call_stack),
        ("emit_calls", settings.views.call_trace),
        ("emit_user_stack", settings.views.user_stack),
        ("emit_interim", settings.views.interim),
        ("use_lbr", settings.views.lbr is not None),
        ("duration_ns", filters.longer_ns),
    ):
        obj.set_global(".rodata", name, int(value))


def ring_bytes(wanted: int) -> int:
    """``wanted`` bytes as the kernel takes them: a power of two, a page at the least."""
    return max(4096, 1 << (wanted - 1).bit_length())


#: By what a program learns which probe is being handled, where no helper tells (before 5.15).
_CURRENT_PROBE = {
    "current_kprobe": "current_kprobe_addr",
    "__per_cpu_offset": "per_cpu_offset_addr",
}


def _configure_function_ids(
    obj: BpfObject, plan: AttachPlan, features: Features, facts: KernelFacts
) -> None:
    """How a probe learns which function fired: a cookie, or an address looked up in a hash."""
    obj.map("ip_to_cookie").set_max_entries(max(len(plan.functions), 1))
    obj.set_global(".rodata", "has_cookie", int(features.cookie))
    obj.set_global(".rodata", "has_func_ip", int(features.func_ip))
    # cookies (5.15) came one release before unwinding behind return probes (19138af1bd88)
    obj.set_global(".rodata", "keep_call_sites", int(not features.cookie))
    if features.func_ip:
        return
    find = facts.kallsyms.data_address
    addresses = {name: find(symbol) for symbol, name in _CURRENT_PROBE.items()}
    if None in addresses.values():  # without CONFIG_KALLSYMS_ALL
        obj.set_global(".rodata", "returns_by_place", 1)
        obj.map("func_cookies").set_max_entries(max(len(plan.functions), 1))
        return
    for name, address in addresses.items():
        obj.set_global(".rodata", name, address or 0)


def _tell_return_hooks(obj: BpfObject, facts: KernelFacts) -> None:
    """What stands in for a return address, by which a probe sees that its return is caught."""
    find = facts.kallsyms.address_of
    hook = next(filter(None, map(find, _RETURN_HOOKS)), 0)
    obj.set_global(".rodata", "graph_hook", find("return_to_handler") or 0)
    obj.set_global(".rodata", "return_hook", hook)
    obj.set_global(".rodata", "multi_return_hook", hook if find(_FPROBE_HOOKS) else 0)


def _stack_bytes(facts: KernelFacts) -> int:
    """``THREAD_SIZE`` of x86-64 and arm64: twice as much for KASAN, no less than a page."""
    kasan = facts.kallsyms.address_of("__asan_load8_noabort") is not None
    return max(_STACK_BYTES << kasan, os.sysconf("SC_PAGE_SIZE"))


def _fill_addresses(obj: BpfObject, plan: AttachPlan) -> None:
    ids = range(len(plan.functions))
    pairs = zip(plan.addresses(ids), plan.cookies(ids), strict=True)
    obj.map("ip_to_cookie").update_many(
        [(struct.pack("=Q", address), struct.pack("=Q", cookie)) for address, cookie in pairs]
    )
    if obj.global_bytes(".rodata", "returns_by_place")[:] == b"\1":
        obj.map("func_cookies").update_many(
            [
                (struct.pack("=I", number), struct.pack("=Q", cookie))
                for number, cookie in zip(ids, plan.cookies(ids), strict=True)
            ]
        )


def _verdicts(allowed: Sequence[bytes], denied: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Allow first, deny second: a value in both lists is denied."""
    return [(key, b"\1") for key in allowed] + [(key, b"\0") for key in denied]


def _comm(name: str) -> bytes:
    return os.fsencode(name)[: _COMM_LEN - 1].ljust(_COMM_LEN, b"\0")


def _fill_filters(obj: BpfObject, filters: FilterSettings) -> None:
    pids = _verdicts(
        [struct.pack("=I", pid) for pid in filters.pids],
        [struct.pack("=I", pid) for pid in filters.deny_pids],
    )
    comms = _verdicts([_comm(n) for n in filters.comms], [_comm(n) for n in filters.deny_comms])
    for name, items in (("tgid_filter", pids), ("comm_filter", comms)):
        for key, value in items:
            obj.map(name).update(key, value)
