# SPDX-License-Identifier: BSD-2-Clause
"""The accepted values of a file below /proc or /sys that rejected a written value.

The bounds of settings below /proc/sys were captured when the call failed. Some files list their
accepted values; for others this module has a table (Documentation/filesystems/proc.rst).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.modules import has_module
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.foreign_path import read_of_kernel
from retsnoop_py.kernel.errno import errno_name

__all__ = ["bad_value"]

_SETTINGS = "/proc/sys/"
#: Maximum characters of a shown value.
_SHOWN = 60
#: The accepted values of a file, by path.
_TAKES = (
    ("/proc/*/oom_score_adj", "a number from -1000 to 1000"),
    ("/proc/*/oom_adj", "a number from -17 to 15"),
    ("/proc/*/coredump_filter", "a number, with a bit for each kind of memory"),
    ("/proc/*/clear_refs", "a number from 1 to 5"),
    ("/proc/irq/*/smp_affinity", "a hexadecimal mask of CPUs that are online"),
    ("/proc/irq/*/smp_affinity_list", "a list of CPUs that are online, such as 0-1"),
    ("/sys/devices/system/cpu/cpu*/online", "0 or 1"),
    ("/sys/*/queue/read_ahead_kb", "a number of KiB"),
)
#: Settings with module names as values, by path, and the common prefix of these names.
_MODULES = (
    ("/proc/sys/net/ipv4/tcp_congestion_control", "tcp_"),
    ("/proc/sys/net/core/default_qdisc", "sch_"),
)
#: The file in the same directory that lists the accepted values, by path; "" for the file itself.
_LISTED = (
    ("/sys/devices/system/cpu/*/scaling_governor", "scaling_available_governors"),
    ("/sys/devices/system/clocksource/*/current_clocksource", "available_clocksource"),
    ("/proc/sys/net/ipv4/tcp_congestion_control", "tcp_available_congestion_control"),
    ("/sys/power/*", ""),
)
#: Files of sysfs that list all accepted words show the chosen word in brackets.
_CHOSEN = re.compile(r"(?:[\w-]+ )*\[[\w-]+\](?: [\w-]+)*")


def bad_value(scene: Scene) -> Reason | None:
    """Return the reason if a file of the kernel does not accept the written value."""
    path, state = scene.path, scene.call.state
    if path is None or not files.is_of_kernel(path):
        return None
    given = state.written.decode(errors="replace").strip() if state is not None else ""
    given = f"the value {show(given)}" if given else "the value that was written"
    if path.startswith(_SETTINGS):
        what, kind = f"The setting {show(path[len(_SETTINGS) :].replace('/', '.'))}", "sysctl"
    else:
        what, kind = f"The file {show(path)}", "out-of-range"
    value = read_of_kernel(path) if kind == "sysctl" else ""
    is_now = f" Its value is {value} now." if value and len(value) < _SHOWN else ""
    bounds = state.bounds if state is not None else None
    if bounds is not None and bounds != (None, None):
        allowed = _numbers(*bounds)
        text = f"{what} takes {allowed}, and not {given}.{is_now}"
        return Reason(kind, text, (f"choose {allowed}",), is_seen_later=False)
    if any(fnmatchcase(path, one) for one, _ in _MODULES):
        return _of_module(path, state.written.decode(errors="replace").strip() if state else "")
    if errno_name(scene.call.error) == "ENOENT":
        return None
    allowed = _listed(path) or next((text for one, text in _TAKES if fnmatchcase(path, one)), "")
    if allowed:
        return Reason(kind, f"{what} takes {allowed}, and not {given}.", (f"write {allowed}",))
    if kind != "sysctl":
        return _of_file(path, f"{what} does not accept {given}")
    return Reason(
        kind,
        f"{what} does not accept {given}: it is out of range, or has the wrong format.{is_now}",
        ("choose another value: the kernel's documentation of the setting has the range",),
    )


def _of_file(path: str, text: str) -> Reason:
    """Return the reason for a file whose accepted values are unknown."""
    value = read_of_kernel(path)
    is_now = f" It has {show(value)} now." if value and len(value) < _SHOWN else ""
    return Reason(
        "out-of-range",
        f"{text}, or not in the present state of the device.{is_now}",
        (f"cat {shell_path(path)} shows how a value looks; Documentation/ABI describes the file",),
        is_inferred=True,
    )


def _of_module(path: str, name: str) -> Reason:
    """Return the reason for a setting with a module's name: whether the kernel has that module."""
    begin = next(text for one, text in _MODULES if fnmatchcase(path, one))
    setting, module = path[len(_SETTINGS) :].replace("/", "."), begin + name
    words = f"The setting {setting} does not have the value {show(name)}: "
    listed = _listed(path)
    if has_module(module):
        text, advice = f"{words}its module is not loaded.", (f"modprobe {shell_word(module)}",)
    else:
        text = f"{words}the kernel has no module {show(module)}."
        advice = (f"write {listed}" if listed else "check the spelling",)
    return Reason("sysctl", text, advice)


def _numbers(low: int | None, high: int | None) -> str:
    """Return the accepted numbers of a setting as text."""
    if low is not None and high is not None:
        return f"a number from {low} to {high}"
    return f"a number of at least {low}" if low is not None else f"a number of at most {high}"


def _listed(path: str) -> str:
    """Return the accepted words of a file from its own or a neighbour's list; "" without a list."""
    beside = next((one for pattern, one in _LISTED if fnmatchcase(path, pattern)), None)
    text = read_of_kernel(str(Path(path).with_name(beside)) if beside else path)
    if beside is None and not (path.startswith("/sys/") and _CHOSEN.fullmatch(text)):
        return ""
    words = re.sub(r"[\[\]]", "", text).split()
    is_shown = words and len(text) < _SHOWN * 2
    return f"one of these words: {', '.join(words)}" if is_shown else ""
