# SPDX-License-Identifier: BSD-2-Clause
"""Why the kernel does not load a module: its message in words, and what to change."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_word
from retsnoop_py.kernel.errno import errno_name

__all__ = ["file_system_module", "has_module", "not_loaded"]

_MODULES = Path("/lib/modules")
_DISABLED = Path("/proc/sys/kernel/modules_disabled")


def not_loaded(scene: Scene) -> Reason | None:
    """init_module(2) or finit_module(2) failed."""
    said = " ".join(scene.said)
    for pattern, find in _MESSAGES:
        found = re.search(pattern, said)
        if found is not None:
            return find(found)
    by_error = _ERRORS.get(errno_name(scene.call.error))
    if by_error is not None:
        return _module(*by_error, path=scene.path)
    if errno_name(scene.call.error) == "EPERM" and _is_disabled():
        return _module(
            "kernel.modules_disabled is 1: the kernel loads no module until it is booted again.",
            "remove the setting (/etc/sysctl.d), and reboot",
        )
    if said:
        words = " ".join(f'"{one}"' for one in scene.said[-2:])
        return _module(f"The kernel reported: {words}")
    return None


def _is_disabled() -> bool:
    try:
        return _DISABLED.read_text().strip() == "1"
    except OSError:
        return False


def _module(text: str, *advice: str, path: str | None = None) -> Reason:
    text = text.replace("{path}", show(path) if path else "The file")
    return Reason("module", text, advice, is_seen_later=False)


def _symbol(found: re.Match[str]) -> Reason:
    module, symbol = found[1], found[2]
    return _module(
        f"The module {module} needs the symbol {symbol}, and neither the kernel nor a loaded "
        "module has that symbol.",
        f"load the modules that {module} needs first: modprobe -- {shell_word(module)} does that "
        "for installed modules",
        f"or build {module} for the running kernel {os.uname().release}",
    )


def _version(found: re.Match[str]) -> Reason:
    return _module(
        f"The module {found[1]} was built for another kernel: its version is '{found[2].strip()}', "
        f"and the running kernel needs '{found[3].strip()}'.",
        f"build it for the running kernel: make -C /lib/modules/{os.uname().release}/build M=$PWD",
    )


def _layout(found: re.Match[str]) -> Reason:
    return _module(
        f"The module {found[1]} was built for another kernel: the symbol {found[2]} differs there.",
        f"build it with the headers of the running kernel {os.uname().release}",
    )


def _signature(_found: re.Match[str]) -> Reason:
    return _module(
        "The module has no signature that this kernel trusts, and the kernel only loads modules "
        "that have one.",
        "sign the module with a key that the kernel trusts (mokutil --import KEY.der for your own)",
        "or switch off Secure Boot, or boot without module.sig_enforce=1",
    )


#: The kernel's messages (kernel/module), and their meanings.
_MESSAGES: tuple[tuple[str, Callable[[re.Match[str]], Reason]], ...] = (
    (r"(\S+): Unknown symbol (\S+)", _symbol),
    (r"(\S+): version magic '([^']*)' should be '([^']*)'", _version),
    (r"(\S+): disagrees about version of symbol (\S+)", _layout),
    (r"Loading of .* is rejected", _signature),
)
#: The meanings of these errors without a kernel message.
_ERRORS: dict[str, tuple[str, ...]] = {
    "EEXIST": ("The module is loaded already.", "lsmod lists the loaded modules"),
    "ENOEXEC": (
        "{path} is not a kernel module for this kernel and machine.",
        "give the file NAME.ko of a module; modinfo FILE shows for which kernel it was built",
    ),
    "ENOKEY": ("The module is signed with a key that this kernel does not have.",),
    "EKEYREJECTED": ("The kernel only loads modules with a signature that it trusts.",),
}


def file_system_module(kind: str) -> tuple[str, ...] | None:
    """Return advice for a file system type that the kernel did not load; None without a module."""
    return (f"load its module: modprobe -- {shell_word(kind)}",) if has_module(kind) else None


def has_module(name: str) -> bool:
    """Return whether the running kernel has a module of this name in /lib/modules."""
    folder = _MODULES / os.uname().release
    try:
        text = (folder / "modules.dep").read_text(errors="replace")
    except OSError:
        return False
    pattern = rf"/{re.escape(name).replace('_', '[-_]')}\.ko[.:]"
    return re.search(pattern, text) is not None
