# SPDX-License-Identifier: BSD-2-Clause
"""Configure the BPF programs for this kernel, the user's settings, and each function.

Before the load: the choice of programs, the sizes of maps, and read-only data. The verifier removes
code that the read-only data disables. After the load: the contents of maps, such as the arguments
to capture of each function. With ``--debug bpf`` the maps also contain function names: the programs
then log every traced call and return to the kernel's trace_pipe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.capture.message_sources import MessageSources
from retsnoop_py.capture.process_ids import choose_program
from retsnoop_py.errors import UsageError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct, constants
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.kernel.switches import JIT
from retsnoop_py.libbpf.object import BpfObject, MapType
from retsnoop_py.settings import ArgSettings, FilterSettings, Settings
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan
    from retsnoop_py.probes.spec import Probe

__all__ = [
    "COUNTED_BY",
    "EXIT_PROGRAM",
    "TASK_PROGRAMS",
    "TREE_PROGRAM",
    "LoadSpec",
    "configure",
    "configure_arguments",
    "fill",
    "ring_bytes",
]

_COMM_LEN = 16
#: Sessions per bucket of their table (table.bpf.h).
_BUCKET_SIZE = 8
#: Amount of data in the ring that wakes its reader. The reader also checks ten times a second.
_WAKE_BYTES = 256 << 10
#: Symbols through which kretprobes return, newest kernels first (6.0, 5.16).
_RETURN_HOOKS = ("arch_rethook_trampoline", "__kretprobe_trampoline")
#: The symbol for kprobe.multi if fprobe hooks returns itself. Since 6.14 (4346ba160409) fprobe uses
#: the function graph tracer, after our entry program has run.
_FPROBE_HOOKS = "fprobe_exit_handler"
_STACK_BYTES = 16 << 10
#: The kernel counts the calls that it does not run programs for. RSN_MISS_PROGRAMS and
#: RSN_MISS_CPUS of misses.bpf.h limit the counters found. Programs on perf events count since 6.7.
_MOST_COUNTED, _MOST_CPUS = 4, 4096
COUNTED_BY = "rsn_find_misses"
#: Options that cost time in every call: a run without them is ``plain``.
_EXTRAS = (
    *("emit_success", "emit_calls", "emit_interim", "use_lbr"),
    *("capture_args", "emit_paths", "debug_log", "keep_call_sites"),
)
TREE_PROGRAM, EXIT_PROGRAM = "rsn_task_fork", "rsn_task_exit"
TASK_PROGRAMS = (EXIT_PROGRAM, "rsn_task_free", TREE_PROGRAM)
#: Machines with objects that use the result of atomic additions (table.bpf.h).
_FETCHING = frozenset({"aarch64"})


class LoadSpec(Value):
    """The inputs of a run: the functions to trace, the settings, and the kernel's features."""

    plan: AttachPlan
    settings: Settings
    features: Features
    facts: KernelFacts
    probes: tuple[Probe, ...]
    captures: CapturePlan | None
    messages: MessageSources = MessageSources()

    @property
    def has_fetch(self) -> bool:
        """True if atomic additions can return the previous value."""
        return self.facts.machine not in _FETCHING or self.features.atomic_result

    @property
    def has_kfuncs(self) -> bool:
        """True if programs may call kernel functions."""
        return self.features.kfuncs

    @property
    def by_address(self) -> bool:
        """True if a mechanism identifies functions by their addresses."""
        return any(mechanism.row.by_address for mechanism in self.plan.mechanisms)

    @property
    def task_programs(self) -> tuple[str, ...]:
        """The programs that follow threads. Forks matter only below a command."""
        every = bool(self.settings.command)
        return tuple(name for name in TASK_PROGRAMS if every or name != TREE_PROGRAM)

    @property
    def probe_programs(self) -> set[str]:
        """The programs of injected probes."""
        if not self.probes:
            return set()
        from retsnoop_py.attach.injected import programs_of

        return programs_of(self.probes)

    @property
    def counted(self) -> list[str]:
        """The programs that report their missed calls in sessions.

        Empty without the BPF JIT: Linux 7.x does not interpret the program that finds the counters.
        """
        if not self.facts.program_counts or JIT.is_off(self.facts.root):
            return []
        # it came with 6.10; the counter in struct bpf_prog with 6.7 (dd8657894c11)
        knows_perf = self.features.raw_cookie
        rows = [one.row for one in self.plan.mechanisms]
        names = [row.counted for row in rows if row.counted and (knows_perf or not row.by_address)]
        names = list(dict.fromkeys(names))
        if knows_perf:
            names += sorted(self.probe_programs)
        return names[:_MOST_COUNTED]


def configure(obj: BpfObject, spec: LoadSpec, *, is_perf: bool) -> None:
    """Configure the object before the load; ``is_perf``: events go through a perf buffer.

    Raises UsageError if maps would be unreasonably large.
    """
    _choose_programs(obj, spec)
    _configure_misses(obj, spec)
    _configure_settings(obj, spec.settings, is_perf=is_perf)
    _configure_probes(obj, spec)
    _configure_extras(obj, spec)
    plain = not any(any(obj.global_bytes(".rodata", name)[:]) for name in _EXTRAS)
    obj.set_global(".rodata", "plain", int(plain))


def fill(obj: BpfObject, spec: LoadSpec, filters: FilterSettings) -> None:
    """Fill the maps after the load; ``filters`` contain the kernel's process ids."""
    _find_misses(obj, spec.counted)
    _fill_filters(obj, filters)
    _fill_extras(obj, spec)


def _choose_programs(obj: BpfObject, spec: LoadSpec) -> None:
    plan, settings = spec.plan, spec.settings
    wanted = {name for mechanism in plan.mechanisms for name in mechanism.row.programs}
    wanted |= {*spec.task_programs, *spec.probe_programs, *spec.messages.programs}
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


def _configure_misses(obj: BpfObject, spec: LoadSpec) -> None:
    counted = spec.counted
    for name, place in (spec.facts.program_counts or {}).items():
        obj.set_global(".rodata", name, place)
    obj.program(COUNTED_BY).set_autoload(bool(counted))
    obj.set_global(".rodata", "miss_programs", len(counted))


def _find_misses(obj: BpfObject, counted: Sequence[str]) -> None:
    finder = obj.program(COUNTED_BY)
    for number, name in enumerate(counted):
        for cpu in range(min(os.cpu_count() or 1, _MOST_CPUS)):
            finder.run(obj.program(name).fd, number, cpu)


def _configure_settings(obj: BpfObject, settings: Settings, *, is_perf: bool) -> None:
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
    buckets = -(-settings.bpf.sessions_size // _BUCKET_SIZE)
    obj.map("buckets").set_max_entries(buckets)
    filters = settings.filters
    for name, count in (
        ("tgid_filter", len(filters.pids) + len(filters.deny_pids)),
        ("comm_filter", len(filters.comms) + len(filters.deny_comms)),
    ):
        obj.map(name).set_max_entries(max(count, 1))
    for name, value in (
        ("use_ringbuf", not is_perf),
        ("sessions_max", settings.bpf.sessions_size),
        ("buckets_max", buckets),
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
    """Return ``wanted`` rounded up to a power of two, and to a page at least."""
    return max(4096, 1 << (wanted - 1).bit_length())


#: Kernel variables that identify the current probe, for kernels without a helper (before 5.15).
_CURRENT_PROBE = {
    "current_kprobe": "current_kprobe_addr",
    "__per_cpu_offset": "per_cpu_offset_addr",
}


def _configure_probes(obj: BpfObject, spec: LoadSpec) -> None:
    """Configure the properties of this kernel."""
    features, facts = spec.features, spec.facts
    obj.set_global(".rodata", "has_fetch", int(spec.has_fetch))
    obj.set_global(".rodata", "stack_places", _stack_bytes(facts) // 8)
    _tell_return_hooks(obj, facts)
    if spec.probes:
        obj.set_global(".rodata", "has_perf_cookie", int(features.cookie))
        obj.set_global(".rodata", "has_raw_cookie", int(features.raw_cookie))
    if spec.by_address:
        _configure_function_ids(obj, spec.plan, features, facts)


def _configure_extras(obj: BpfObject, spec: LoadSpec) -> None:
    """Configure optional parts before the load: arguments, paths, messages, a log."""
    settings, captures = spec.settings, spec.captures
    sessions = settings.bpf.sessions_size
    if captures is not None:
        configure_arguments(obj, settings.args, spec.plan, sessions, len(captures.probes))
    if settings.follows:
        from retsnoop_py.capture.paths import configure_paths

        configure_paths(obj, sessions)
    if spec.messages.programs:
        spec.messages.configure(obj, sessions)
    if settings.debug_bpf:
        _configure_log(obj, spec.plan.functions)


def _fill_extras(obj: BpfObject, spec: LoadSpec) -> None:
    """Fill the maps with data per function, after the load."""
    if spec.settings.debug_bpf:
        _fill_log(obj, spec.plan.functions)
    if spec.captures is not None:
        _fill_arguments(obj, spec.captures, spec.plan)
    if spec.by_address:
        _fill_addresses(obj, spec.plan)


def _configure_function_ids(
    obj: BpfObject, plan: AttachPlan, features: Features, facts: KernelFacts
) -> None:
    """Choose how a probe identifies its function: a cookie, or an address in a hash map."""
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
    """Set the addresses that replace a return address when the kernel hooks the return."""
    find = facts.kallsyms.address_of
    hook = next(filter(None, map(find, _RETURN_HOOKS)), 0)
    obj.set_global(".rodata", "graph_hook", find("return_to_handler") or 0)
    obj.set_global(".rodata", "return_hook", hook)
    obj.set_global(".rodata", "multi_return_hook", hook if find(_FPROBE_HOOKS) else 0)


def _stack_bytes(facts: KernelFacts) -> int:
    """Return ``THREAD_SIZE`` of x86-64 and arm64: doubled for KASAN, at least a page."""
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


#: An item stores its size in 16 bits, including its header.
_MOST = 65_000
#: Bytes of an item beyond the limits: ARGS_HEAD of args.bpf.h, the value of the last argument, and
#: padding.
_BESIDES = 80 + 16 + 8
#: Bytes of kernel memory the logs of all sessions may use.
_MOST_MEMORY = 1 << 30


def configure_arguments(
    obj: BpfObject, settings: ArgSettings, plan: AttachPlan, sessions: int, probes: int = 0
) -> None:
    """Set limits and map sizes before the load; a log element can hold the largest item.

    ``sessions`` is the number of simultaneous sessions, ``probes`` the number of injected probes.
    Raises UsageError if the logs of all ``sessions`` would be unreasonably large.
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


def _fill_arguments(obj: BpfObject, captures: CapturePlan, plan: AttachPlan) -> None:
    """Fill in the arguments to capture of each function and injected probe, after the load."""
    packed = captures.packed(Btf(obj.btf()), trampolines=_on_trampolines(plan))
    obj.map("args_plans").update_many(
        [(struct.pack("=I", index), one) for index, one in enumerate(packed)]
    )


def _on_trampolines(plan: AttachPlan) -> bool:
    return any(mechanism.row.by_btf for mechanism in plan.mechanisms)


#: The format of each kind of result, by ``enum debug_result``; others are DEBUG_INT or DEBUG_LONG.
_RESULTS = {
    ResultKind.VOID: "DEBUG_VOID",
    ResultKind.BOOL: "DEBUG_BOOL",
    ResultKind.PTR: "DEBUG_PTR",
}


def _configure_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """Enable the programs' log before the load, with room for the names of ``functions``."""
    obj.set_global(".rodata", "debug_log", 1)
    obj.map("debug_funcs").set_max_entries(max(len(functions), 1))


def _fill_log(obj: BpfObject, functions: Sequence[Function]) -> None:
    """Fill in the name and result type of each function by its id, after the load."""
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
