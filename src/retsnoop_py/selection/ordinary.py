# SPDX-License-Identifier: BSD-2-Clause
"""Results that look like failures but are ordinary, from a list of functions.

As a rule, a kernel function that returns a pointer fails with NULL, and a function that returns a
number fails with -4095 to -1. There are exceptions, such as a NULL that means "no object was
requested". Such a result must not become the origin of an error. The list is ``no-failure.txt``
plus the user's entries; each entry has a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.kernel.errno import ERRNO_NAMES, MAX_ERRNO, errno_name
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import ERROR_SHIFT, FuncFlags, Function, source_name
from retsnoop_py.libbpf.facts import glob_match
from retsnoop_py.package import read, user_file
from retsnoop_py.settings_file import read_list, read_user_file
from retsnoop_py.text import printable
from retsnoop_py.value import Value

__all__ = ["SHIPPED", "Rule", "apply_rules", "load", "ordinary_results", "parse"]

SHIPPED = Path(__file__).parent / "no-failure.txt"
#: The file of the user.
_OWN = "no-failure.txt"

_RELEASE = r"([0-9]{1,4})\.([0-9]{1,4})"
_WITHDRAWN = "failure"
_FORM = "FUNCTION RESULT KERNELS REASON"
#: Rules with wildcards in one file. Each is compared with each function of the kernel, and another
#: user may have written the file (``sudo -E``): 100 rules and 60,000 functions take 3 s.
_MOST_WILD = 100


class Rule(Value):
    """An ordinary result of the functions that ``glob`` matches, with the reason.

    ``error`` is a positive error number, 0 for NULL; None removes the earlier rules for these
    functions. ``first`` and ``last`` are the first and last kernel of the rule, as (major, minor).
    """

    glob: str
    error: int | None
    reason: str
    first: tuple[int, int] = (0, 0)
    last: tuple[int, int] = (9999, 0)

    @property
    def result(self) -> str:
        """Return ``NULL``, ``-ENOENT`` or ``failure``, as written in a file."""
        return _WITHDRAWN if self.error is None else _result_text(self.error)


def parse(text: str, name: str) -> list[Rule]:
    """Return the rules of a file: one per line; ``#`` begins a comment.

    Raise :class:`DataError` with the file's ``name`` and the line number for an invalid line.
    """
    rules: list[Rule] = []
    wild = 0
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split(None, 3)
        if not fields or fields[0].startswith("#"):
            continue
        try:
            rules.append(_rule(fields))
        except ValueError as error:
            raise DataError(
                f"{name}:{number}: {error}",
                f"a line is {_FORM}, such as: find_vma NULL * nothing is mapped there",
            ) from None
        wild += _is_wild(rules[-1])
        if wild > _MOST_WILD:
            raise DataError(
                f"{name}:{number}: more than {_MOST_WILD} functions have wildcards",
                "name the functions, or use shorter wildcards for several of them",
            )
    return rules


def _rule(fields: Sequence[str]) -> Rule:
    if len(fields) < 4:
        raise ValueError(f"{len(fields)} of 4 fields, {_FORM}")
    glob, result, kernels, reason = fields
    first, last = _kernels(kernels)
    return Rule(glob, _error(result), printable(reason.strip()), first, last)


def _error(text: str) -> int | None:
    if text == _WITHDRAWN:
        return None
    if text == "NULL":
        return 0
    name = text.removeprefix("-")
    if name.isascii() and name.isdigit() and len(name) <= 4:
        number = int(name)
    else:
        number = next((one for one, known in ERRNO_NAMES.items() if known == name), 0)
    if not text.startswith("-") or not 0 < number <= MAX_ERRNO:
        raise ValueError(f"'{text}' is neither NULL, -ENAME, -NUMBER nor {_WITHDRAWN}")
    return number


def _kernels(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the range of ``*``, ``6.1``, ``7.0-``, ``-6.6`` or ``5.10-6.1``; ends included."""
    if text == "*":
        return (0, 0), (9999, 0)
    first, dash, last = text.partition("-")
    if first + last and all(not end or re.fullmatch(_RELEASE, end) for end in (first, last)):
        low = _version(first) if first else (0, 0)
        return low, (_version(last) if last else (9999, 0)) if dash else low
    raise ValueError(f"kernels '{text}': expected *, 6.1, 7.0-, -6.6 or 5.10-6.1")


def _version(release: str) -> tuple[int, int]:
    found = re.match(_RELEASE, release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def load(further: Path | None = None) -> list[Rule]:
    """Return the shipped rules, the user's own rules if any, and the rules of ``further``.

    Raise :class:`InputError` if ``further`` cannot be read, :class:`DataError` for an invalid file.
    """
    rules = _read(SHIPPED, read)
    rules += _read(user_file(_OWN), lambda path: read_user_file(path.name) or b"")
    return rules + _read(further, read_list) if further is not None else rules


def _read(path: Path, contents: Callable[[Path], bytes]) -> list[Rule]:
    try:
        return parse(contents(path).decode(), str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8") from None


def apply_rules(
    functions: Sequence[Function], rules: Sequence[Rule], release: str
) -> tuple[FunctionTable, dict[str, str]]:
    """Return ``functions`` with the flags of ordinary results, and the reason for each sentence.

    A compiler's variant (``.constprop.0`` ...) counts as the function itself. If several rules for
    a function have NULL, the last rule counts. The same is true of error numbers; a function can
    have only one.
    """
    kernel = _version(release)
    true_here = [rule for rule in rules if rule.first <= kernel <= rule.last]
    #: Places of rules in this list, because the order of rules counts.
    named: dict[str, list[int]] = {}
    for place, rule in enumerate(true_here):
        if not _is_wild(rule):
            named.setdefault(rule.glob, []).append(place)
    wild = [place for place, rule in enumerate(true_here) if _is_wild(rule)]
    table = FunctionTable.of(functions)
    changed: dict[int, int] = {}
    reasons: dict[str, str] = {}
    for number, name in enumerate(table.names):
        if "." in name:
            name = source_name(name)  # noqa: PLW2901 - the name that rules have
        places = named.get(name, [])
        if wild:
            places = sorted([*places, *(one for one in wild if _matches(true_here[one], name))])
        found = [true_here[place] for place in places]
        if not found:
            continue
        function = table[number]
        for rule in (kept := _effective(function, found)):
            reasons[f"{rule.result} of '{function.label}' is no failure"] = rule.reason
        if kept:
            changed[number] = int(function.flags) | _flags(kept)
    return table.with_flags(changed), reasons


def _is_wild(rule: Rule) -> bool:
    return "*" in rule.glob or "?" in rule.glob


def _matches(rule: Rule, name: str) -> bool:
    return glob_match(rule.glob, name)


def _effective(function: Function, rules: Iterable[Rule]) -> list[Rule]:
    """Return the effective rules for a function: at most one for NULL and one for an error."""
    null: Rule | None = None
    number: Rule | None = None
    for rule in rules:
        if rule.error is None:
            null = number = None
        elif rule.error:
            number = rule
        elif function.flags & FuncFlags.PTR:
            null = rule
    if function.flags & FuncFlags.CANT_FAIL:
        number = None
    return [rule for rule in (null, number) if rule is not None]


def _flags(rules: Iterable[Rule]) -> int:
    flags = 0
    for rule in rules:
        flags |= (rule.error or 0) << ERROR_SHIFT if rule.error else int(FuncFlags.NULL_OK)
    return flags


def ordinary_results(function: Function) -> tuple[str, ...]:
    """Return the ordinary results of a function that look like failures: ``NULL``, ``-ENOENT``."""
    flags = int(function.flags)
    number = flags >> ERROR_SHIFT
    null = ("NULL",) if flags & FuncFlags.NULL_OK else ()
    return (*null, _result_text(number)) if number else null


def _result_text(error: int) -> str:
    return f"-{errno_name(error)}" if error else "NULL"
