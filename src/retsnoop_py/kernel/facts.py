# SPDX-License-Identifier: BSD-2-Clause
"""Facts about a kernel. Each fact is read at its first use."""

from __future__ import annotations

import os
from array import array
from functools import cached_property
from pathlib import Path

from retsnoop_py.errors import DataError, PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel import elf_file
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.kallsyms import Kallsyms, Module, read_modules
from retsnoop_py.kernel.kcore import Kcore
from retsnoop_py.kernel.trace_points import read_trace_points
from retsnoop_py.kernel.tracefs import (
    MOUNT_SYSFS,
    NO_SYSFS,
    KprobeBlacklist,
    Traceable,
    can_list,
    has_sysfs,
)
from retsnoop_py.libbpf.facts import Functions, SymbolTable
from retsnoop_py.text import parse_release

__all__ = ["KernelFacts"]

#: The oldest tested version of Linux.
_OLDEST = (5, 10)
_TO_COUNTS = {
    "task_files_at": ("task_struct", "files"),
    "files_fdt_at": ("files_struct", "fdt"),
    "fdtable_fd_at": ("fdtable", "fd"),
    "file_private_at": ("file", "private_data"),
    "prog_stats_at": ("bpf_prog", "stats"),
}
#: Members of the logs of the verifier and of the BTF check.
_LOGS = {
    "verifier_log": ("bpf_verifier_env", "log"),
    "verifier_item": ("bpf_verifier_env", "insn_idx"),
    "btf_log": ("btf_verifier_env", "log"),
    "btf_item": ("btf_verifier_env", "log_type_id"),
    "level": ("bpf_verifier_log", "level"),
}


class KernelFacts:
    """The kernel with /proc and /sys below ``root``.

    Reading a fact that the kernel hides raises :class:`UnavailableError` or :class:`PrivilegeError`
    with the reason and the advice. ``loading``: BPF programs may be loaded to read facts faster;
    then ``root`` is the running kernel's. ``keeping``: the facts serve several runs, so
    :meth:`drop_lists` keeps facts that take long to read.
    """

    def __init__(
        self, root: Path = Path("/"), *, loading: bool = False, keeping: bool = False
    ) -> None:
        self.root = root
        self._loading = loading
        self._keeping = keeping
        #: The functions, and the symbol table that they index.
        self._functions: tuple[SymbolTable, Functions] | None = None
        self._module_btf: dict[str, Btf | None] = {}

    @cached_property
    def release(self) -> str:
        """Return the kernel release, as ``uname -r`` prints it."""
        return self._sysctl("osrelease") or os.uname().release

    @cached_property
    def machine(self) -> str:
        """Return the machine, as ``uname -m`` prints it."""
        # This sysctl exists since Linux 6.1.
        return self._sysctl("arch") or os.uname().machine

    @property
    def too_old(self) -> str | None:
        """Return advice for a kernel older than all tested versions; None for other kernels.

        An old kernel is not rejected, because distributions backport features to old kernels.
        """
        if parse_release(self.release) >= _OLDEST:
            return None
        return (
            f"Linux {self.release} is older than 5.10, the oldest that is tested: use a later one, "
            "or boot one: retsnoop-py vm run --on 6.12 -- ..."
        )

    def _sysctl(self, name: str) -> str | None:
        try:
            return (self.root / "proc/sys/kernel" / name).read_text().strip()
        except OSError:
            return None

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """Return the loaded modules."""
        return read_modules(self.root / "proc/modules")

    @cached_property
    def kallsyms(self) -> Kallsyms:
        """Return the kernel's symbols."""
        btf = self.btf if self._loading else None
        return Kallsyms(self.root / "proc/kallsyms", self.modules, btf)

    @cached_property
    def traceable(self) -> Traceable:
        """Return the functions that ftrace can hook, by name unless :meth:`tell_namesakes` ran."""
        return Traceable(self.root, addresses=False)

    @property
    def functions(self) -> Functions:
        """Return every function by its index in ``kallsyms.table``, and if ftrace can hook it."""
        table = self.kallsyms.table
        if self._functions is None or self._functions[0] is not table:
            self._functions = table, self._read_functions()
        return self._functions[1]

    def _read_functions(self) -> Functions:
        if self._trace_points is not None:
            return self.kallsyms.functions_at(self._trace_points)
        return self.kallsyms.functions(self.traceable)

    @property
    def traceable_count(self) -> int:
        """Return the number of functions that ftrace can hook."""
        if self._trace_points is not None:
            return len(self.functions.listed)
        return len(self.traceable)

    @cached_property
    def _trace_points(self) -> array[int] | None:
        """Return the addresses in ftrace's own records; None if its list must be read instead.

        If no list can be read, the code that reads the list reports the error.
        """
        start = self.kallsyms.table.trace_points if self._loading else 0
        if not start or self.btf is None or not can_list(self.root):
            return None
        try:
            with Kcore(self.root / "proc/kcore") as memory:
                return read_trace_points(memory, start, self.btf)
        except RetsnoopError:
            return None

    def tell_namesakes(self) -> bool:
        """Make ``functions`` distinguish functions of the same name; False if not supported."""
        if self._trace_points is not None or self.traceable.has_addresses:
            return False
        self.traceable = Traceable(self.root)
        self._functions = None
        return self.traceable.has_addresses

    @cached_property
    def kprobe_blacklist(self) -> KprobeBlacklist:
        """Return the address ranges where kprobes are forbidden."""
        return KprobeBlacklist(self.root / "sys/kernel/debug/kprobes/blacklist")

    @property
    def program_counts(self) -> dict[str, int] | None:
        """Return the offsets in bytes of the members that lead from a thread to a program's counts.

        Names are those of ``src/bpf/misses.bpf.h``. Return None for kernels that keep no counts in
        the program itself (before 5.12), and for kernels without BTF.
        """
        found = {name: self._places[name] for name in _TO_COUNTS if name in self._places}
        return found if len(found) == len(_TO_COUNTS) else None

    @property
    def bpf_logs(self) -> dict[str, int] | None:
        """Return the offsets in bytes of the members in _LOGS, of the verifier's state and log.

        Return None for kernels that lack one of the members, or BTF.
        """
        found = {name: self._places[name] for name in _LOGS if name in self._places}
        return found if len(found) == len(_LOGS) else None

    @cached_property
    def _places(self) -> dict[str, int]:
        """Return the offsets of members of the kernel's structs, all found in one search."""
        if self.btf is None:
            return {}
        wanted = {**_TO_COUNTS, **_LOGS}
        found = self.btf.find_all({struct for struct, _ in wanted.values()}, Kind.STRUCT)
        places = {}
        for name, (struct, member) in wanted.items():
            for one in self.btf.members(found[struct]) if struct in found else ():
                if one.name == member:
                    places[name] = one.bit_offset // 8
        return places

    def drop_lists(self) -> None:
        """Free the facts that only the selection of functions uses; they can be read again."""
        if "btf" in self.__dict__:
            _ = self._places  # loading a program uses these offsets
        self._functions = None
        self.__dict__.pop("_trace_points", None)
        if self._keeping:
            return
        for name in ("traceable", "kprobe_blacklist", "btf"):
            self.__dict__.pop(name, None)
        self._module_btf.clear()

    # -- BTF --

    @cached_property
    def btf(self) -> Btf | None:
        """Return the types of vmlinux; None on a kernel without BTF."""
        return self._read_btf("vmlinux", None)

    def require_btf(self) -> Btf:
        """Return the types of vmlinux; raise UnavailableError on a kernel without BTF."""
        if self.btf is None:
            if not has_sysfs(self.root):
                raise UnavailableError(f"the kernel's BTF cannot be read: {NO_SYSFS}", MOUNT_SYSFS)
            raise UnavailableError(
                f"this kernel has no BTF: {self._btf_path('vmlinux')} is missing",
                self.too_old or "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
            )
        return self.btf

    def module_btf(self, name: str) -> Btf | None:
        """Return the types of module ``name``, or None."""
        if name not in self._module_btf:
            base = self.btf
            self._module_btf[name] = self._read_btf(name, base) if base else None
        return self._module_btf[name]

    def _btf_path(self, name: str) -> Path:
        return self.root / "sys/kernel/btf" / name

    def _read_btf(self, name: str, base: Btf | None) -> Btf | None:
        path = self._btf_path(name)
        try:
            return Btf(path.read_bytes(), base)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise UnavailableError(f"cannot read {path}: {err.strerror}") from err
        except DataError as err:
            raise DataError(f"{path}: {err.message}") from err

    # -- identity of images --

    @cached_property
    def build_id(self) -> str | None:
        """Return the build id of vmlinux in hex; None if the kernel does not show it."""
        return self._build_id(self.root / "sys/kernel/notes")

    def module_build_id(self, name: str) -> str | None:
        """Return the build id of module ``name`` in hex, or None."""
        folder = self.root / "sys/module" / name / "notes"
        if not folder.is_dir():
            return None
        found = (self._build_id(path) for path in sorted(folder.iterdir()))
        return next(filter(None, found), None)

    @staticmethod
    def _build_id(path: Path) -> str | None:
        try:
            return elf_file.build_id(path.read_bytes())
        except OSError:
            return None

    def module_sections(self, name: str) -> dict[str, int]:
        """Return the address of each section of module ``name``; empty if it is not loaded."""
        folder = self.root / "sys/module" / name / "sections"
        if not folder.is_dir():
            return {}
        try:
            return {path.name: int(path.read_text(), 16) for path in folder.iterdir()}
        except PermissionError as err:
            raise PrivilegeError(f"cannot read {err.filename}", "run as root") from err
