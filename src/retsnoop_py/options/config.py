# SPDX-License-Identifier: BSD-2-Clause
"""``-C GROUP.KEY=VALUE`` and ``--config-help``: settings that rarely need an option."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from retsnoop_py.errors import UsageError
from retsnoop_py.settings import (
    ArgMode,
    ArgSettings,
    BpfSettings,
    ResultSettings,
    StackSettings,
    SymbolizeMode,
    TransportKind,
    ViewSettings,
)
from retsnoop_py.value import Value, replace

T = TypeVar("T")
S = TypeVar("S", bound=Value)
_INT_MAX = 2**31 - 1


class Config(Value):
    """All settings of ``-C``. ``symbolize`` is None unless given; ``named``: the given keys."""

    bpf: BpfSettings = BpfSettings()
    stacks: StackSettings = StackSettings()
    args: ArgSettings = ArgSettings()
    views: ViewSettings = ViewSettings()
    results: ResultSettings = ResultSettings()
    symbolize: SymbolizeMode | None = None
    named: frozenset[str] = frozenset()

    @property
    def given(self) -> dict[str, Any]:
        """Return the given values, by their place in :class:`~retsnoop_py.settings.Settings`."""
        return {key.place: at(self, key.place) for key in KEYS if key.name in self.named}


class Key(Value):
    """A setting: its name, help and place in the settings, and the reader of its text.

    ``read`` raises :class:`ValueError` with a description of valid values.
    """

    name: str
    help: str
    place: str
    read: Callable[[str], object]


#: Settings of ``-C`` that affect only the output, so a replay can change them.
_SHOWN = ("stacks.", "fmt.", "args.fmt-", "args.capture-raw-ptrs")
_SHOWN_TEXT = "stacks.*, fmt.*, args.fmt-* and args.capture-raw-ptrs"


def parse(values: Sequence[str], *, replay: bool = False) -> Config:
    """Return the settings of all ``-C``, read in order.

    ``replay``: accept only settings that affect the output. Raise :class:`UsageError`.
    """
    config = Config()
    for text in values:
        key, value = _split(text)
        if replay and not key.name.startswith(_SHOWN):
            raise UsageError(
                f"-C {key.name} concerns tracing, and a recording is already traced",
                f"a replay takes -C {_SHOWN_TEXT}",
            )
        try:
            config = put(config, key.place, key.read(value))
            config = replace(config, named=config.named | {key.name})
        except ValueError as error:
            raise UsageError(
                f"-C {key.name}: invalid value '{value}', expected {error}", _HELP_HINT
            ) from None
    return config


def help_text() -> str:
    """Return the text of ``--config-help``."""
    lines = [
        "Settings for -C GROUP.KEY=VALUE (-C may be given several times).",
        "Booleans are true/y/1 and false/n/0.",
        "",
    ]
    for key in KEYS:
        lines += [f"  {key.name}", *(f"      {line}" for line in key.help.splitlines())]
    return "\n".join(lines)


def _split(text: str) -> tuple[Key, str]:
    """Return the key and the value of ``GROUP.KEY=VALUE``."""
    name, equals, value = text.partition("=")
    group, dot, rest = name.partition(".")
    if not (equals and dot and group and rest):
        raise UsageError(
            f"-C {text}: not of the form GROUP.KEY=VALUE, for example -C stacks.dec-offs=y",
            _HELP_HINT,
        )
    if name in _BY_NAME:
        return _BY_NAME[name], value
    from retsnoop_py.text import did_you_mean, near_names

    hints = filter(None, (did_you_mean(near_names(name, _BY_NAME, 2)), _HELP_HINT))
    raise UsageError(f"-C {name}: no such setting", " ".join(hints))


def at(settings: Any, place: str) -> Any:
    """Return the value at ``place``, such as ``stacks.unfiltered``."""
    group, _, field = place.rpartition(".")
    return getattr(getattr(settings, group) if group else settings, field)


def put(settings: S, place: str, value: object) -> S:
    """Return a copy of ``settings`` with ``value`` at ``place``."""
    group, _, field = place.rpartition(".")
    if not group:
        return replace(settings, **{field: value})
    return replace(settings, **{group: replace(getattr(settings, group), **{field: value})})


def _integer(text: str, low: int = 1, high: int = _INT_MAX) -> int:
    # int() also accepts '1_000', ' 7 ' and digits of other scripts.
    if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
        raise ValueError(f"a whole number from {low} to {high}")
    return int(text)


def _boolean(text: str) -> bool:
    if text == "1" or text.lower() in ("true", "y"):
        return True
    if text == "0" or text.lower() in ("false", "n"):
        return False
    raise ValueError("true/y/1 or false/n/0")


def _choice(text: str, choices: Mapping[str, T]) -> T:
    """Return the choice for a whole name in any case, or for its first letter."""
    for name, value in choices.items():
        if text.lower() == name or text == name[0]:
            return value
    raise ValueError(f"one of {', '.join(choices)}")


def _path(text: str) -> Path:
    if not text:
        raise ValueError("the path of a file")
    return Path(text)


_ARG_MODES = {mode.value: mode for mode in ArgMode}
_TRANSPORTS = {kind.value: kind for kind in TransportKind}
_MODES = {
    mode.value: mode for mode in (SymbolizeMode.LINES, SymbolizeMode.INLINES, SymbolizeMode.NONE)
}

KEYS: tuple[Key, ...] = (
    Key(
        "bpf.ringbuf-size",
        "size of the buffer between the kernel and retsnoop-py in bytes, rounded up\n"
        "to a power of two (default 8388608)",
        "bpf.ringbuf_size",
        _integer,
    ),
    Key(
        "bpf.sessions-size",
        "threads that can be inside a traced call at the same time (default 4096)",
        "bpf.sessions_size",
        _integer,
    ),
    Key(
        "bpf.transport",
        "type of that buffer: auto, ringbuf or perfbuf (default auto: ringbuf if\n"
        "the kernel supports it)",
        "bpf.transport",
        lambda text: _choice(text, _TRANSPORTS),
    ),
    Key(
        "bpf.queue-size",
        "bytes of records that wait in memory for output; further records wait in\n"
        "an unnamed file in $TMPDIR or /var/tmp (default 67108864)",
        "bpf.queue_size",
        _integer,
    ),
    Key(
        "bpf.spool-size",
        "maximum size of that file in bytes; further records are lost and counted;\n"
        "0: no file (default: a quarter of the free space there)",
        "bpf.spool_size",
        lambda text: _integer(text, 0, 1 << 63),
    ),
    Key(
        "bpf.drain-seconds",
        "seconds after a signal or --for in which waiting records are still\n"
        "printed; the rest is dropped and counted; 0: print all (default 8)",
        "bpf.drain_seconds",
        lambda text: _integer(text, 0, 1 << 31),
    ),
    Key(
        "results.ordinary",
        "do not count results as failures that only look like errors, for example\n"
        "NULL from a search without a match; uses the built-in list and your own in\n"
        "~/.config/retsnoop-py/no-failure.txt (default true)",
        "results.ordinary",
        _boolean,
    ),
    Key(
        "results.no-failure",
        "file with further lines for that list: FUNCTION RESULT KERNELS REASON, for\n"
        "example 'find_vma NULL * nothing is mapped there' (default: none)",
        "results.no_failure",
        _path,
    ),
    Key(
        "stacks.symb-mode",
        "linenum, inlines or none: the same as -s, -ss and -sn",
        "symbolize",
        lambda text: _choice(text, _MODES),
    ),
    Key(
        "stacks.unfiltered",
        "keep the stack frames of tracing itself (default false)",
        "stacks.unfiltered",
        _boolean,
    ),
    Key(
        "stacks.emit-addrs",
        "show the address of every frame (default false)",
        "stacks.emit_addrs",
        _boolean,
    ),
    Key(
        "stacks.dec-offs",
        "print offsets in decimal: func+35 instead of func+0x23 (default false)",
        "stacks.dec_offs",
        _boolean,
    ),
    Key(
        "args.max-total-args-size",
        "bytes of arguments to keep per call (default 3072)",
        "args.max_total",
        lambda text: _integer(text, 1, 65536),
    ),
    Key(
        "args.max-sized-arg-size",
        "bytes to keep per argument, or behind its pointer (default 256)",
        "args.max_sized",
        lambda text: _integer(text, 1, 16384),
    ),
    Key(
        "args.max-str-arg-size",
        "bytes to keep per string (default 256)",
        "args.max_str",
        lambda text: _integer(text, 1, 16384),
    ),
    Key(
        "args.capture-raw-ptrs",
        "show pointers as well as the data behind them (default false)",
        "args.raw_pointers",
        _boolean,
    ),
    Key(
        "args.fmt-mode",
        "compact: arguments behind their call; multiline: one line per argument;\n"
        "verbose: nested data on several lines, never truncated (default compact)",
        "args.mode",
        lambda text: _choice(text, _ARG_MODES),
    ),
    Key(
        "args.fmt-max-arg-width",
        "maximum columns of an argument's value, 0: no limit; verbose ignores it\n(default 120)",
        "args.width",
        lambda text: _integer(text, 0, 250),
    ),
    Key(
        "fmt.lbr-max-count",
        "maximum number of branches to show, latest first (default: all)",
        "views.lbr_max",
        _integer,
    ),
    Key(
        "fmt.self-time",
        "show the time without callees in call traces (default false)",
        "views.self_time",
        _boolean,
    ),
    Key(
        "fmt.cpu",
        "show the CPU in call traces (default false)",
        "views.cpu",
        _boolean,
    ),
)
_BY_NAME = {key.name: key for key in KEYS}
_HELP_HINT = "'retsnoop-py --config-help' lists the settings"
