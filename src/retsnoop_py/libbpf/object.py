# SPDX-License-Identifier: BSD-2-Clause
"""BPF objects and their programs, maps and links.

Every failing call raises :class:`~retsnoop_py.errors.BpfError` with the call's name, its errno and
the messages of libbpf or the verifier.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.errors import BpfError
from retsnoop_py.package import read

if TYPE_CHECKING:
    from retsnoop_py._bpf import Buffer, CData

#: Folder of the BPF objects compiled for this machine. Wheels also contain other machines' objects.
OBJECTS = Path(__file__).resolve().parent.parent / "bpf" / os.uname().machine
#: errno values that usually mean a missing privilege.
_DENIED = frozenset({1, 13})
#: The line before the verifier's log in libbpf's messages.
_VERIFIER_LOG = "BEGIN PROG LOAD LOG"
#: libbpf's message if no file with the kernel's BTF can be read.
_KERNEL_BTF = "failed to find valid kernel BTF"


class MapType(IntEnum):
    """The map types that retsnoop-py uses for events (``enum bpf_map_type``)."""

    PERF_EVENT_ARRAY = 4
    RINGBUF = 27


def start_log(level: int) -> None:
    """Collect libbpf's messages of this thread: 0 warnings, 1 information, 2 all messages."""
    lib.rsn_log_start(level)


def take_log() -> str:
    """Return and clear libbpf's messages of this thread since the last call."""
    text: str = ffi.string(lib.rsn_log_text()).decode(errors="replace")
    lib.rsn_log_clear()
    return text


def fail(call: str, err: int) -> NoReturn:
    """Raise BpfError for ``call``, which returned ``err`` (negative errno)."""
    log = take_log()
    hint = None
    if -err in (errno.EMFILE, errno.ENFILE):
        hint = "allow more open files: `ulimit -n`"
    elif _VERIFIER_LOG in log:
        hint = "the verifier rejected a program of retsnoop-py: report this, with `uname -r` and -v"
    elif _KERNEL_BTF in log:
        # retsnoop-py has read this BTF; libbpf stops at a type of a kind that it does not know.
        hint = (
            "libbpf cannot read /sys/kernel/btf/vmlinux, which is newer than it: build with a "
            "later libbpf of the system's, RETSNOOP_LIBBPF=system make build"
        )
    elif -err in _DENIED:
        hint = "run as root, or with CAP_BPF and CAP_PERFMON; `dmesg` may report a lockdown"
        if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY:
            # The caller raises the limit if CAP_SYS_RESOURCE allows it.
            hint += "; before Linux 5.11, raise `ulimit -l` too"
    raise BpfError(call, -err, log, hint)


def check(call: str, result: int) -> int:
    """Return ``result``; raise BpfError if it is a negative errno."""
    if result < 0:
        fail(call, result)
    return result


def check_pointer(call: str, pointer: CData) -> CData:
    """Return ``pointer``; raise BpfError with errno if it is NULL."""
    if pointer == ffi.NULL:
        fail(call, -(ffi.errno or 22))
    return pointer


class Link:
    """An attached program. Closing the link detaches the program."""

    def __init__(self, handle: CData) -> None:
        self._handle: CData | None = handle

    def close(self) -> None:
        """Detach. Idempotent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.bpf_link__destroy(handle)

    @property
    def fd(self) -> int:
        """Return the link's descriptor; -1 after :meth:`close`."""
        return -1 if self._handle is None else int(lib.bpf_link__fd(self._handle))


class FdLink:
    """A link without a libbpf handle, identified by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def fd(self) -> int:
        """Return the descriptor; -1 after :meth:`close`."""
        return self._fd

    def close(self) -> None:
        """Detach. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class VerifierLog:
    """Memory for a program's verifier log; must exist until the load ends."""

    def __init__(self, size: int) -> None:
        self.memory: CData = ffi.new("char[]", size)

    @property
    def text(self) -> str:
        """Return the log."""
        return ffi.string(self.memory).decode(errors="replace")


class Program:
    """A program of a :class:`BpfObject`, valid while the object is open."""

    def __init__(self, handle: CData) -> None:
        self.handle = handle
        self.name: str = ffi.string(lib.bpf_program__name(handle)).decode(errors="replace")
        self.section: str = ffi.string(lib.bpf_program__section_name(handle)).decode(
            errors="replace"
        )

    @property
    def fd(self) -> int:
        """Return the loaded program's file descriptor."""
        return check(f"bpf_program__fd({self.name})", lib.bpf_program__fd(self.handle))

    @property
    def is_loaded(self) -> bool:
        """Return True if the program is loaded."""
        return int(lib.bpf_program__fd(self.handle)) >= 0

    @property
    def kind(self) -> int:
        """Return the type, of ``enum bpf_prog_type``; 0 if libbpf does not know the section."""
        return int(lib.bpf_program__type(self.handle))

    def keep_log(self, size: int, level: int) -> VerifierLog:
        """Before load: keep the verifier log of this program, in ``size`` bytes.

        ``level`` is the log level of bpf(2): 1 and 2 print the executed path, 4 prints statistics.
        """
        log = VerifierLog(size)
        call = f"bpf_program__set_log_buf({self.name})"
        check(call, lib.bpf_program__set_log_buf(self.handle, log.memory, size))
        check(call, lib.bpf_program__set_log_level(self.handle, level))
        return log

    @property
    def instructions(self) -> tuple[CData, int]:
        """Return the program's instructions: ``struct bpf_insn *`` and their number."""
        count = lib.bpf_program__insn_cnt(self.handle)
        return lib.bpf_program__insns(self.handle), int(count)

    def set_autoload(self, autoload: bool) -> None:
        """Before load: select whether this program is loaded."""
        check("bpf_program__set_autoload", lib.bpf_program__set_autoload(self.handle, autoload))

    def set_kind(self, kind: int, attach_type: int) -> None:
        """Before load: set the type of a program in a section that libbpf does not know.

        ``kind`` and ``attach_type`` are of ``enum bpf_prog_type`` and ``bpf_attach_type``.
        """
        check("bpf_program__set_type", lib.bpf_program__set_type(self.handle, kind))
        check(
            "bpf_program__set_expected_attach_type",
            lib.bpf_program__set_expected_attach_type(self.handle, attach_type),
        )

    def replace(self, fd: int, function: str) -> None:
        """Before load: make this program replace ``function`` of the loaded program ``fd``."""
        check(
            f"bpf_program__set_attach_target({self.name}, {function})",
            lib.bpf_program__set_attach_target(
                self.handle, fd, function.encode(errors="surrogateescape")
            ),
        )

    def run(self, *args: int) -> None:
        """Run a raw tracepoint program once, in this process, with these arguments (5.10)."""
        words = ffi.new("uint64_t[]", args)
        check(f"run {self.name}", lib.rsn_run_program(self.fd, words, len(args)))

    def attach(self) -> Link:
        """Attach to the target that the section name gives."""
        link = lib.bpf_program__attach(self.handle)
        return Link(check_pointer(f"attach {self.section}", link))

    def iterate(self) -> bytes:
        """Run an iterator once over all its objects; return its output."""
        link = self.attach()
        try:
            fd = check(f"iterate {self.section}", lib.bpf_iter_create(link.fd))
            with os.fdopen(fd, "rb", buffering=0) as file:
                return file.read()
        except OSError as error:
            fail(f"iterate {self.section}", -(error.errno or errno.EIO))
        finally:
            link.close()

    def attach_kprobe_multi(
        self,
        addresses: Sequence[int],
        cookies: Sequence[int],
        *,
        on_return: bool = False,
        session: bool = False,
    ) -> Link:
        """Attach to all ``addresses`` with one kprobe.multi link; on failure to none."""
        addrs = ffi.new("unsigned long[]", list(addresses))
        values = ffi.new("__u64[]", list(cookies))
        opts = ffi.new("struct bpf_kprobe_multi_opts *")
        opts.sz, opts.cnt = ffi.sizeof("struct bpf_kprobe_multi_opts"), len(addresses)
        opts.addrs, opts.cookies = addrs, values
        opts.retprobe, opts.session = on_return, session
        link = lib.bpf_program__attach_kprobe_multi_opts(self.handle, ffi.NULL, opts)
        return Link(check_pointer(f"attach {self.section} to {len(addresses)} functions", link))


class BpfMap:
    """A map of a :class:`BpfObject`; keys and values are raw bytes."""

    def __init__(self, name: str, handle: CData) -> None:
        self.name = name
        self.handle = handle

    @property
    def fd(self) -> int:
        """Return the created map's file descriptor."""
        return check(f"bpf_map__fd({self.name})", lib.bpf_map__fd(self.handle))

    def set_type(self, kind: MapType) -> None:
        """Change the map's type before load."""
        check(f"bpf_map__set_type({self.name})", lib.bpf_map__set_type(self.handle, kind))
        if kind is MapType.PERF_EVENT_ARRAY:
            check("bpf_map__set_key_size", lib.bpf_map__set_key_size(self.handle, 4))
            check("bpf_map__set_value_size", lib.bpf_map__set_value_size(self.handle, 4))

    def set_max_entries(self, count: int) -> None:
        """Set the size of the map before load (ring buffers: in bytes)."""
        check(
            f"bpf_map__set_max_entries({self.name}, {count})",
            lib.bpf_map__set_max_entries(self.handle, count),
        )

    @property
    def kind(self) -> int:
        """Return the type, of ``enum bpf_map_type``."""
        return int(lib.bpf_map__type(self.handle))

    @property
    def flags(self) -> int:
        """Return the flags for creation, ``BPF_F_*``."""
        return int(lib.bpf_map__map_flags(self.handle))

    @property
    def is_internal(self) -> bool:
        """Return True if libbpf made the map, for a section such as .rodata."""
        return bool(lib.bpf_map__is_internal(self.handle))

    def set_autocreate(self, autocreate: bool) -> None:
        """Before load: select whether the map is created."""
        call = f"bpf_map__set_autocreate({self.name})"
        check(call, lib.bpf_map__set_autocreate(self.handle, autocreate))

    def unpin(self) -> None:
        """Before load: do not pin the map, and do not use a pinned map."""
        call = f"bpf_map__set_pin_path({self.name})"
        check(call, lib.bpf_map__set_pin_path(self.handle, ffi.NULL))

    @property
    def key_size(self) -> int:
        """Return the size of a key in bytes."""
        return int(lib.bpf_map__key_size(self.handle))

    @property
    def value_size(self) -> int:
        """Return the size of a value in bytes."""
        return int(lib.bpf_map__value_size(self.handle))

    def set_value_size(self, size: int) -> None:
        """Before load: change the size of the values, in bytes."""
        call = f"bpf_map__set_value_size({self.name}, {size})"
        check(call, lib.bpf_map__set_value_size(self.handle, size))

    @property
    def max_entries(self) -> int:
        """Return the maximum number of elements."""
        return int(lib.bpf_map__max_entries(self.handle))

    def functions(self, programs: Sequence[Program]) -> dict[int, str]:
        """Return the ``programs`` of a struct_ops map, by their offset in bytes."""
        known = {int(ffi.cast("uintptr_t", one.handle)): one.name for one in programs}
        members = enumerate(self._members())
        return {at * 8: known[value] for at, value in members if value in known}

    def leave_out(self, offsets: Iterable[int]) -> None:
        """Before load: remove functions from a struct_ops map, by their offsets in bytes."""
        members = self._members()
        for at in offsets:
            members[at // 8] = 0

    def _members(self) -> CData:
        """Return the members of a struct_ops map before load: pointers to programs, or values."""
        size = ffi.new("size_t *")
        base = check_pointer(f"map {self.name}", lib.bpf_map__initial_value(self.handle, size))
        return ffi.cast(f"uint64_t[{size[0] // 8}]", base)

    def attach(self) -> Link:
        """Register a struct_ops map until the link is closed."""
        link = lib.bpf_map__attach_struct_ops(self.handle)
        return Link(check_pointer(f"attach table {self.name}", link))

    def lookup(self, key: bytes) -> bytes:
        """Return an element's value."""
        value = ffi.new("char[]", self.value_size)
        check(f"look up {self.name}", lib.bpf_map_lookup_elem(self.fd, key, value))
        return bytes(ffi.buffer(value))

    def read_all(self) -> bytes:
        """Return all elements of a mmapable array, one after another, without bpf(2)."""
        size = self.max_entries * self.value_size
        try:
            with mmap.mmap(self.fd, size, prot=mmap.PROT_READ) as memory:
                return memory[:]
        except OSError as error:
            raise BpfError(f"map {self.name}", error.errno or 0) from error

    def update(self, key: bytes, value: bytes) -> None:
        """Set one element."""
        check(f"update {self.name}", lib.bpf_map_update_elem(self.fd, key, value, 0))

    def update_many(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Set many elements, with one system call if the kernel supports batches."""
        if not items:
            return
        count = ffi.new("__u32 *", len(items))
        keys = b"".join(key for key, _ in items)
        values = b"".join(value for _, value in items)
        if lib.bpf_map_update_batch(self.fd, keys, values, count, ffi.NULL) < 0:
            for key, value in items:
                self.update(key, value)


class BpfObject:
    """A compiled BPF object: open, adjust, load and close it (a context manager).

    ``globals`` are set by name before :meth:`load` (``.rodata``), and read or set at any time after
    it (``.bss``). ``change`` maps the file's contents to the contents that are opened. ``kconfig``:
    lines of the kernel's configuration; the kernel's own file is read only for other options.
    ``image``: the bytes of the object; then ``path`` is only its name.
    """

    def __init__(
        self,
        path: Path,
        change: Callable[[bytes], bytes] | None = None,
        kconfig: str = "",
        image: bytes | None = None,
    ) -> None:
        self.path = path
        take_log()
        opts = ffi.new("struct bpf_object_open_opts *")
        opts.sz = ffi.sizeof("struct bpf_object_open_opts")
        self._name = ffi.new("char[]", b"retsnoop_py")
        opts.object_name = self._name
        self._kconfig = ffi.new("char[]", kconfig.encode(errors="surrogateescape"))
        if kconfig:
            opts.kconfig = self._kconfig
        try:
            data = read(path) if image is None else image
            self._image = data if change is None else change(data)
        except OSError as error:
            fail(f"open {path.name}", -(error.errno or errno.EIO))
        handle = lib.bpf_object__open_mem(self._image, len(self._image), opts)
        self.handle = check_pointer(f"open {path.name}", handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all memory and descriptors except those of links. Idempotent."""
        handle: CData | None = self.handle
        self.handle = None  # type: ignore[assignment] # so that a later call is a TypeError
        if handle is not None:
            lib.bpf_object__close(handle)

    def load(self) -> None:
        """Create the maps and load the programs."""
        check(f"load {self.path.name}", lib.bpf_object__load(self.handle))

    def program(self, name: str) -> Program:
        """Return the program called ``name``."""
        handle = lib.bpf_object__find_program_by_name(
            self.handle, name.encode(errors="surrogateescape")
        )
        return Program(check_pointer(f"program {name}", handle))

    def programs(self) -> list[Program]:
        """Return all programs, in the object's order."""
        found = []
        handle = lib.bpf_object__next_program(self.handle, ffi.NULL)
        while handle != ffi.NULL:
            found.append(Program(handle))
            handle = lib.bpf_object__next_program(self.handle, handle)
        return found

    def map(self, name: str) -> BpfMap:
        """Return the map called ``name``; data sections have their own names (``.rodata``)."""
        handle = lib.bpf_object__find_map_by_name(
            self.handle, name.encode(errors="surrogateescape")
        )
        return BpfMap(name, check_pointer(f"map {name}", handle))

    def maps(self) -> list[BpfMap]:
        """Return all maps, including those of data sections, in the object's order."""
        found = []
        handle = lib.bpf_object__next_map(self.handle, ffi.NULL)
        while handle != ffi.NULL:
            found.append(BpfMap(ffi.string(lib.bpf_map__name(handle)).decode(), handle))
            handle = lib.bpf_object__next_map(self.handle, handle)
        return found

    def btf(self) -> bytes:
        """Return the object's own BTF as raw bytes."""
        size = ffi.new("uint32_t *")
        data = lib.btf__raw_data(lib.bpf_object__btf(self.handle), size)
        return bytes(ffi.buffer(check_pointer("btf__raw_data", data), size[0]))

    def global_bytes(self, section: str, name: str) -> Buffer:
        """Return the memory of a global variable as a cffi buffer, readable and writable."""
        offset, size = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        btf = lib.bpf_object__btf(self.handle)
        call = f"find {name} in {section}"
        check(
            call,
            lib.rsn_find_global(
                btf,
                section.encode(errors="surrogateescape"),
                name.encode(errors="surrogateescape"),
                offset,
                size,
            ),
        )
        total = ffi.new("size_t *")
        base = lib.bpf_map__initial_value(self.map(section).handle, total)
        base = check_pointer(f"map {section}", base)
        return ffi.buffer(ffi.cast("char *", base) + offset[0], size[0])

    def set_global(self, section: str, name: str, value: int) -> None:
        """Set an integer or bool global variable of any width."""
        memory = self.global_bytes(section, name)
        memory[:] = value.to_bytes(len(memory), "little")
