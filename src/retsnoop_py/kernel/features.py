# SPDX-License-Identifier: BSD-2-Clause
"""What this kernel's BPF can do: each feature is tried, never guessed from a version."""

from __future__ import annotations

import errno
import os
from functools import cached_property
from pathlib import Path

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.settings import Mechanism
from retsnoop_py.value import Value

#: enum bpf_prog_type, bpf_map_type and bpf_func_id of linux/bpf.h: fixed by the kernel's ABI.
_PROG_KPROBE = 2
_PROG_RAW_TRACEPOINT = 17
_MAP_RINGBUF = 27
_FUNC_GET_FUNC_IP = 173
_FUNC_GET_ATTACH_COOKIE = 174
_FUNC_GET_BRANCH_SNAPSHOT = 176

#: Where the kernel lists what perf_event_open(2) can make, kprobes among it, below its root.
_EVENT_SOURCES = Path("sys/bus/event_source/devices")

#: Switches that leave hooks in place and uncalled: all of ftrace, and kprobes alone. Letting go of
#: a kprobe.multi link made while the first was off makes 6.12 and 7.2 give up ftrace until reboot.
_FTRACE_SWITCH = Path("proc/sys/kernel/ftrace_enabled")
_KPROBES_SWITCH = Path("sys/kernel/debug/kprobes/enabled")
_BY_KPROBES = frozenset({Mechanism.KPROBE_EVENTS, Mechanism.KPROBE})

_TRACEFS = (Path("sys/kernel/tracing"), Path("sys/kernel/debug/tracing"))

#: What a mechanism takes, for who wants it and does not have it.
_TAKES = {
    Mechanism.FSESSION_MULTI: "Linux 7.x on x86-64",
    Mechanism.KPROBE_SESSION: "Linux 6.10 and CONFIG_FPROBE",
    Mechanism.KPROBE_MULTI: "Linux 5.18 and CONFIG_FPROBE",
    Mechanism.FENTRY: "Linux 5.5, CONFIG_DEBUG_INFO_BTF and CONFIG_DYNAMIC_FTRACE",
    Mechanism.KPROBE_EVENTS: "CONFIG_KPROBE_EVENTS and a mounted, writable tracefs",
    Mechanism.KPROBE: "CONFIG_KPROBES and CONFIG_KPROBE_EVENTS",
}


class Verdict(Value):
    """Whether something works here, and the reason if not."""

    works: bool
    reason: str | None = None


class Features:
    """What the running kernel has; each is tried when first asked for.

    ``btf_id`` is the vmlinux BTF id of ``vfs_read``, None without BTF: what programs that are
    attached by BTF are tried on. Something that cannot be tried, for want of rights for
    instance, counts as missing.
    """

    def __init__(self, btf_id: int | None = None, root: Path = Path("/")) -> None:
        self._btf_id = btf_id
        self._root = root
        self._verdicts: dict[Mechanism, Verdict] = {}

    @cached_property
    def ringbuf(self) -> bool:
        """The BPF ring buffer (5.8)."""
        from retsnoop_py._bpf import ffi, lib

        lib.rsn_log_start(0)
        found: bool = lib.libbpf_probe_bpf_map_type(_MAP_RINGBUF, ffi.NULL) == 1
        lib.rsn_log_clear()
        return found

    @cached_property
    def func_ip(self) -> bool:
        """``bpf_get_func_ip()`` (5.15)."""
        return _has_helper(_FUNC_GET_FUNC_IP)

    @cached_property
    def cookie(self) -> bool:
        """Attach cookies of perf events (5.15)."""
        return _has_helper(_FUNC_GET_ATTACH_COOKIE)

    @cached_property
    def raw_cookie(self) -> bool:
        """Attach cookies of raw tracepoints (6.10)."""
        return _has_helper(_FUNC_GET_ATTACH_COOKIE, _PROG_RAW_TRACEPOINT)

    @cached_property
    def branch_snapshot(self) -> bool:
        """``bpf_get_branch_snapshot()`` (5.16)."""
        return _has_helper(_FUNC_GET_BRANCH_SNAPSHOT)

    def verdict(self, mechanism: Mechanism) -> Verdict:
        """Whether ``mechanism`` works here; tried once."""
        if mechanism not in self._verdicts:
            self._verdicts[mechanism] = self._try(mechanism)
        return self._verdicts[mechanism]

    def require(self, mechanism: Mechanism) -> None:
        """Raise UnavailableError unless ``mechanism`` works here."""
        verdict = self.verdict(mechanism)
        if not verdict.works and lacks_kprobes(self._root):
            raise no_kprobes()
        if not verdict.works:
            raise UnavailableError(
                f"{mechanism.value} does not work here: {verdict.reason}",
                "leave the mechanism to retsnoop-py, or see `retsnoop-py doctor`",
            )

    def _try(self, mechanism: Mechanism) -> Verdict:
        if self._is_off(_FTRACE_SWITCH):
            return Verdict(False, "kernel.ftrace_enabled is 0, so that no hook is ever called")
        if mechanism in _BY_KPROBES and self._is_off(_KPROBES_SWITCH):
            return Verdict(False, f"/{_KPROBES_SWITCH} is 0, so that no kprobe is ever hit")
        if mechanism is Mechanism.KPROBE_EVENTS:
            return self._try_kprobe_events()
        if mechanism is Mechanism.KPROBE:
            missing = lacks_kprobes(self._root)
            return Verdict(False, f"it takes {_TAKES[mechanism]}") if missing else Verdict(True)
        return self._try_program(mechanism)

    def _is_off(self, switch: Path) -> bool:
        try:
            return (self._root / switch).read_text().strip() == "0"
        except OSError:
            return False

    def _try_program(self, mechanism: Mechanism) -> Verdict:
        from retsnoop_py._bpf import lib

        lib.rsn_log_start(0)
        if mechanism in (Mechanism.KPROBE_MULTI, Mechanism.KPROBE_SESSION):
            error = -lib.rsn_try_kprobe_multi(mechanism is Mechanism.KPROBE_SESSION)
        elif self._btf_id is None:
            return Verdict(False, "this kernel has no BTF")
        elif mechanism is Mechanism.FSESSION_MULTI:
            error = -lib.rsn_try_fsession_multi(self._btf_id)
        else:
            error = -lib.rsn_try_fentry(self._btf_id)
        lib.rsn_log_clear()
        return Verdict(False, _refusal(mechanism, error)) if error else Verdict(True)

    def _try_kprobe_events(self) -> Verdict:
        mechanism = Mechanism.KPROBE_EVENTS
        for tracefs in _TRACEFS:
            path = self._root / tracefs / "kprobe_events"
            try:
                # What is there already goes only if the file is truncated.
                os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                return Verdict(False, f"/{tracefs}/kprobe_events: {error.strerror}")
            return Verdict(True)
        return Verdict(False, f"it takes {_TAKES[mechanism]}")

    def lines(self) -> list[tuple[str, bool]]:
        """(description, verdict) pairs for a person."""
        return [
            ("BPF ringbuf map supported", self.ringbuf),
            ("bpf_get_func_ip() supported", self.func_ip),
            ("bpf_get_branch_snapshot() supported", self.branch_snapshot),
            ("BPF cookie supported", self.cookie),
            ("single kprobes supported", self.verdict(Mechanism.KPROBE).works),
            ("multi-attach kprobe supported", self.verdict(Mechanism.KPROBE_MULTI).works),
        ]


def _has_helper(number: int, prog_type: int = _PROG_KPROBE) -> bool:
    from retsnoop_py._bpf import ffi, lib

    lib.rsn_log_start(0)
    found: bool = lib.libbpf_probe_bpf_helper(prog_type, number, ffi.NULL) == 1
    lib.rsn_log_clear()
    return found


def _refusal(mechanism: Mechanism, error: int) -> str:
    name = ERRNO_NAMES.get(error, str(error))
    if error in (errno.EPERM, errno.EACCES):
        return f"the kernel forbids it (-{name}): rights are missing, or it is locked down"
    return f"the kernel refuses it (-{name}); it takes {_TAKES[mechanism]}"


def lacks_kprobes(root: Path) -> bool:
    """Whether the kernel whose /sys is below ``root`` shows that it has no kprobes."""
    sources = root / _EVENT_SOURCES
    return sources.is_dir() and not (sources / "kprobe").exists()


def no_kprobes() -> UnavailableError:
    """The error that says so."""
    return UnavailableError(
        "this kernel has no kprobes (CONFIG_KPROBES or CONFIG_KPROBE_EVENTS is off)",
        "run on a kernel that has them, or boot one: retsnoop-py vm run --kernel 6.12 -- ...",
    )
