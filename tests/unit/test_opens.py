# SPDX-License-Identifier: BSD-2-Clause
"""Only ``foreign_path`` opens a path that an object, a log, a recording or DWARF names."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import retsnoop_py

PACKAGE = Path(retsnoop_py.__file__).parent
#: All packages, except the one for guests, which opens what a guest names by descriptor.
ROOMS = tuple(
    sorted(
        path.name
        for path in PACKAGE.iterdir()
        if (path / "__init__.py").exists() and path.name not in ("vm", "workload")
    )
)
OPENS = {"open", "read_text", "read_bytes", "mmap", "copy", "copyfile", "copyfileobj", "FileIO"}
OPENS |= {"getline", "getlines", "fromfile", "ZipFile", "TarFile", "run_path"}
#: Classes that open the file they are given; both are :func:`open_regular` or the C library's.
CLASSES = {"DwarfImage", "BpfObject"}
#: Other files that they open, by file and function, and why no input chooses the path.
ALLOWED = {
    ("api/loading.py", "explain"): "the log that the user named",
    ("api/loading.py", "load_again"): "in a folder that retsnoop-py made",
    ("api/loading.py", "_spans"): "in a folder that retsnoop-py made",
    ("attach/blocks.py", "*"): "tracefs",
    ("attach/function_graph.py", "*"): "tracefs",
    ("attach/guard.py", "*"): "tracefs and /proc/PID/stat",
    ("attach/kprobe.py", "*"): "/sys/bus/event_source",
    ("attach/kprobe_events.py", "*"): "tracefs",
    ("attach/lbr.py", "online_cpus"): "/sys/devices/system/cpu/online",
    ("attach/plan.py", "_has_ibt"): "/proc/cpuinfo",
    ("capture/command.py", "*"): "/dev/null, /dev/tty and /proc/PID/stat",
    ("capture/inherited.py", "environment"): "/proc/self/environ",
    ("capture/load.py", "*"): "an object of this package, also as a copy in memory",
    ("capture/own_session.py", "_take_terminal"): "/dev/null",
    ("capture/process_ids.py", "_require_process"): "/proc/PID/status",
    ("capture/refused.py", "*"): "an object of this package, and the running kernel's modules",
    ("capture/rights.py", "*"): "/proc/self/status and /",
    ("capture/run.py", "_attach"): "no file: the programs of a witness",
    ("capture/running.py", "_read"): "/proc/PID",
    ("capture/witness.py", "open"): "an object of this package",
    ("cli/completion.py", "_install"): "the settings of the user's shell",
    ("cli/completion.py", "_shell"): "/proc/PID/stat",
    ("cli/explain.py", "_opened"): "the log that the user named",
    ("cli/help.py", "_page"): "a page of this package",
    ("cli/on.py", "_open_shared"): "a file of the exchange folder, no link",
    ("cli/on.py", "_fetch"): "the same file, which is open",
    ("cli/report.py", "*"): "/dev/null",
    ("diagnosis/kernel.py", "*"): "fixed names of /proc and /sys",
    ("diagnosis/model.py", "read_text"): "the same",
    ("diagnosis/examine.py", "_open_kprobe"): "/sys/bus/event_source",
    ("diagnosis/rights.py", "*"): "fixed names of /proc and /sys",
    ("kernel/arguments/plan.py", "_fields"): "the format of a tracepoint, in tracefs",
    ("kernel/debuginfod.py", "run"): "no file: a server",
    ("kernel/facts.py", "*"): "fixed names of /proc and /sys, and names of its folders",
    ("kernel/flags.py", ""): "run by a developer",
    ("kernel/kallsyms.py", "*"): "/proc/kallsyms and /proc/modules",
    ("kernel/kcore.py", "__init__"): "/proc/kcore",
    ("kernel/namespaces.py", "levels_above"): "/proc/PID/status",
    ("kernel/switches.py", "is_off"): "a setting of the kernel",
    ("kernel/tracefs.py", "*"): "tracefs",
    ("libbpf/__init__.py", "_machine_of"): "an extension of this package",
    ("libbpf/facts.py", "__init__"): "/proc/kallsyms, or a list of tracefs",
    ("libbpf/object.py", "read_all"): "a map of BPF",
    ("options/live.py", "*"): "fixed names of /proc, /sys and tracefs, and own caches",
    ("options/table.py", "complete_comm"): "/proc/PID/comm",
    ("path/names.py", "_data_name"): "/proc/kallsyms",
    ("selection/globs.py", "load_preset"): "a file of this package",
    ("cause/bpf_programs.py", "_name"): "the kernel's symbols",
    ("cause/busy.py", "_read"): "/proc and /sys/block",
    ("cause/file_systems.py", "write_protected"): "/sys/dev/block, by a device number",
    ("cause/files.py", "attributes"): "a directory, which neither blocks nor acts",
    ("cause/files.py", "mounts"): "/proc/self/mountinfo",
    ("cause/holders.py", "_comm"): "/proc/PID/comm",
    ("cause/holders.py", "_is_written"): "/proc/PID/fdinfo",
    ("cause/holders.py", "_mapped_files"): "/proc/PID/maps",
    ("cause/holders.py", "_mounts"): "/proc/self/mountinfo",
    ("cause/holders.py", "_text"): "/proc/swaps and /sys, by a device number",
    ("cause/ipc.py", "_objects"): "/proc/sysvipc, one of three names",
    ("cause/limits.py", "_events"): "a file of a cgroup",
    ("cause/limits.py", "_mount_point"): "/proc/self/mounts",
    ("cause/limits.py", "_number"): "a file of a cgroup",
    ("cause/modules.py", "_is_disabled"): "a setting of the kernel",
    ("cause/modules.py", "has_module"): "modules.dep of the running kernel",
    ("cause/mount_types.py", "file_system_type"): "/proc/filesystems",
    ("cause/names.py", "_servers"): "/etc/resolv.conf",
    ("cause/netlink.py", "_read"): "/sys/class/net, a name that the kernel gave",
    ("cause/network.py", "_down"): "/sys/class/net, a name of that directory",
    ("cause/network.py", "_rows"): "/proc/net, one of four names",
    ("cause/security_modules.py", "_lockdown"): "a file of securityfs",
    ("cause/security_modules.py", "_yama"): "a setting of the kernel",
    ("cause/sockets.py", "no_ipv6"): "settings of the kernel, of two interfaces",
    ("cause/sockets.py", "no_option"): "a setting of the kernel",
    ("cause/sysctl.py", "_count"): "/proc, by a name of sysctl.toml",
    ("cause/sysctl.py", "_value"): "/proc/sys, by a name of sysctl.toml",
    ("cause/waiting/proc.py", "memory"): "/proc/PID/mem",
    ("cause/waiting/proc.py", "net"): "/proc/PID/net, one of six names",
    ("cause/waiting/proc.py", "text_of"): "a file of /proc, of fixed names and process ids",
    ("load/attaching.py", "_missing"): "the kernel's symbols",
    ("load/attaching.py", "register_once"): "/dev/kmsg",
    (
        "load/attempt.py",
        "_load",
    ): "an OBJECT of the command line, opened before by ObjectFile",
    ("load/attempt.py", "load"): "the object in memory",
    ("load/checked_object.py", "_answer"): "the object in memory",
    ("load/errno_rules.py", "_effective"): "/proc/self/status",
    ("load/errno_rules.py", "_read"): "settings of the kernel",
    ("load/refusal.py", "_type_reason"): "the object in memory",
    ("load/trial.py", "_kernel_btf"): "the kernel's BTF",
    ("load/trial.py", "_refuse_map"): "the object in memory",
    ("load/trial.py", "results"): "the object in memory",
    ("recording/reader.py", "read_frames"): "the recording that the user named",
    ("recording/replay.py", "_data_limit"): "/proc/self/statm",
    ("render/renderers.py", "abandon"): "/dev/null",
    ("unprivileged/dwarf.py", "open_image"): "-k, or the kernel's own debug information",
    ("unprivileged/sandbox.py", "_only_debug_files"): "the folder of installed debug files",
    ("symbolize/user.py", "_read_maps"): "/proc/PID/maps, by a process id",
    ("symbolize/user.py", "_vdso"): "/proc/self/mem",
}
#: Calls with such names that do not open a file.
NO_OPENS = ("self.open", "copy.copy", "state.copy")


def opens(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield function and line of each call that opens a path, except calls of ``foreign_path``."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Call):
                called = child.func
                word = called.attr if isinstance(called, ast.Attribute) else ""
                word = called.id if isinstance(called, ast.Name) else word
                by_fd = any(one.arg == "fd" for one in child.keywords)
                if word in OPENS | CLASSES and not by_fd and not _is_own(child):
                    yield function, child.lineno
            yield from walk(child, name)

    return walk(tree, "")


def _is_own(call: ast.Call) -> bool:
    """Return whether a call has the name of an opening call, but does not open a path."""
    name = ast.unparse(call.func)
    is_memory = isinstance(call.func, ast.Attribute) and name.endswith(".copy") and not call.args
    return is_memory or name in NO_OPENS


@lru_cache(1)
def found() -> dict[tuple[str, str], list[int]]:
    places: dict[tuple[str, str], list[int]] = {}
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            for function, line in opens(ast.parse(path.read_text())):
                file = str(path.relative_to(PACKAGE))
                key = (file, "*") if (file, "*") in ALLOWED else (file, function)
                places.setdefault(key, []).append(line)
    return places


def test_no_other_code_opens_a_path_that_input_names() -> None:
    assert {place: lines for place, lines in found().items() if place not in ALLOWED} == {}


def test_each_allowed_place_is_there() -> None:
    assert ALLOWED.keys() - found().keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(name)",
        "os.open(name, os.O_RDONLY)",
        "Path(name).read_text()",
        "def f():\n    with (folder / name).open('rb') as file: pass",
        "DwarfImage(path)",
        "shutil.copy(name, folder)",
        "io.FileIO(name)",
        "linecache.getlines(name)",
    ],
)
def test_an_open_is_found(line: str) -> None:
    assert len(list(opens(ast.parse(line)))) == 1


def test_what_opens_by_the_one_module_is_not_found() -> None:
    text = "open_file(name)\nread_below(folder, name, 9)\nDwarfImage(path, fd=3)\n"
    assert Counter(opens(ast.parse(text))) == Counter()
