# SPDX-License-Identifier: BSD-2-Clause
"""A value of the caller that the kernel compared and rejected: out of range, or flags.

The condition and its values were recorded when the call failed. Only comparisons of the caller's
data are explained: an argument of the call, or a member of a struct that the call reads. Several
tests (``A && B``) are explained if all of them compare the caller's data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from retsnoop_py.cause.flags import Bits, bits_of, is_copy
from retsnoop_py.cause.limits import limit_title
from retsnoop_py.cause.operation import descriptor
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.value import Value, replace

__all__ = ["is_of_caller_alone", "other_file", "rejected_value"]

_NAME = r"\*?[A-Za-z_]\w*(?:(?:->|\.)\w+|\[\w+\])*"
_NUMBER = r"-?(?:0x[0-9a-f]+|\d+)"
_COMPARED = re.compile(rf"\(?({_NAME})\)? (!=|==|<=|>=|<|>) ({_NUMBER}|{_NAME})")
_NULL = re.compile(rf"({_NAME}) (==|!=) NULL")
_MASKED = re.compile(rf"\((~?)({_NAME}) & (~?{_NUMBER})\) (==|!=) ({_NUMBER})")
#: A limit of the process.
_LIMIT = re.compile(r"current->signal->rlim\[(RLIMIT_\w+)\]\.rlim_cur")
_PART = re.compile(rf"\(({_NAME}) & (~?{_NUMBER})\) (<=|>=|<|>) ({_NUMBER})")
_WORD = (1 << 64) - 1
_OUTSIDE = re.compile(rf"\(?({_NAME}) < ({_NUMBER}) \|\| \1 > ({_NUMBER})\)?")
_NO_POWER = re.compile(rf"\(\(({_NAME}) - 1\) & \1\) != 0")
#: Names of arguments for which the kernel rejects 0.
_AMOUNTS = frozenset(("len", "length", "entries", "size", "count", "depth"))
#: How many of the bits are shown if one of them is sufficient.
_SOME = 3
#: The largest number that is shown: nobody reads an address in decimal.
_READABLE = 1 << 32
#: The smallest alignment that is not taken for a flag, in bytes.
_LEAST = 4
#: Variables of the kernel that hold a struct which the caller passed.
_COPIES = frozenset(
    (
        *("attr", "uattr", "args", "kargs", "params", "how", "p", "reg", "its", "mreq", "ifr"),
        *("new", "new_spec64", "times", "prep"),
        *("uffdio_api", "uffdio_register", "uffdio_copy", "uffdio_zeropage"),
        *("ruleset_attr", "path_beneath_attr", "net_port_attr", "epds"),
    )
)
#: A comparison with its sides exchanged.
_TURNED = {"!=": "!=", "==": "==", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
#: What two values that both have a name must be, by the comparison that caused the error.
_RELATION = {
    "!=": "it must be equal to",
    "==": "it must differ from",
    ">": "it may not be larger than",
    ">=": "it must be smaller than",
    "<": "it may not be smaller than",
    "<=": "it must be larger than",
}


#: The kinds of files by the name of their operations in the kernel, without its ending.
_KINDS = {
    "bpf_map": "a BPF map",
    "bpf_prog": "a BPF program",
    "eventfd": "an eventfd",
    "eventpoll": "an epoll instance",
    "fanotify": "a fanotify group",
    "fscontext": "a file system context of fsopen()",
    "inotify": "an inotify instance",
    "io_uring": "an io_uring",
    "mqueue": "a message queue",
    "ns": "a namespace",
    "perf": "a performance event",
    "pidfs": "a pidfd",
    "ruleset": "a Landlock rule set",
    "signalfd": "a signalfd",
    "timerfd": "a timer of timerfd_create()",
    "userfaultfd": "a userfaultfd",
}
_OPERATIONS = re.compile(r".*->f_op (!=|==) &(\w+?)(?:_file)?_(?:fops|operations)")


class _Range(Value):
    """Tests of one number: what to call it, its value, and the accepted numbers.

    ``accepted`` are ranges with their lowest and highest numbers, in order and not adjacent. None
    is no bound; without ranges the accepted numbers are unknown. ``variable`` is what the caller
    changes.
    """

    name: str
    value: int
    accepted: tuple[tuple[int | None, int | None], ...]
    variable: str

    def or_by(self, other: _Range) -> _Range:
        """Return both tests of a number: it passes if one of them accepts it."""
        return replace(self, accepted=_united((*self.accepted, *other.accepted)))


class _Flags(Value):
    """Tests of the bits of one expression: the bits that were set, and those that were not.

    ``are_together``: the kernel rejects the set bits only if all of them are set. ``is_any``: one
    of the bits that were not set is sufficient.
    """

    name: str
    has: int
    lacks: int
    are_together: bool = False
    is_any: bool = False

    def with_test(self, other: _Flags) -> _Flags:
        """Return both tests of the same expression as one."""
        return _Flags(self.name, self.has | other.has, self.lacks | other.lacks, are_together=True)


def rejected_value(scene: Scene) -> Reason | None:
    """Return the caller's values that the deciding condition rejected; None for any other one.

    The reason is inferred if other values in the kernel had a part in the condition.
    """
    if scene.condition is None:
        return None
    values = dict(scene.values)
    flags: dict[str, _Flags] = {}
    parts: dict[str, Reason | _Range] = {}
    is_whole = not scene.untold
    tests = scene.condition.split(" && ")
    cases = _cases(tests)
    for test in tests:
        is_last = test is tests[-1]
        found = (
            (_case(scene, test, values, is_last=is_last) if test in cases else None)
            or _misaligned(scene, test, values)
            or _outside(scene, test, values)
            or _flags_in(scene, test, values)
            or _part(scene, test, values)
            or _pointer(scene, test, values)
            or _file_kind(test, is_only=len(tests) == 1)
            or _compared(scene, test, values, others=[one for one in tests if one is not test])
        )
        if found is None:
            is_whole = False
        elif isinstance(found, _Flags):
            known = flags.get(found.name)
            flags[found.name] = found if known is None else known.with_test(found)
        elif isinstance(found, _Range):
            before = parts.get(found.name)
            parts[found.name] = before.or_by(found) if isinstance(before, _Range) else found
        else:
            parts[test] = found
    told = [_range_text(one) if isinstance(one, _Range) else one for one in parts.values()]
    if not flags and not any(one.advice for one in told):
        return None
    return _joined(scene, tuple(flags.values()), told, is_whole=is_whole)


def is_of_caller_alone(scene: Scene) -> bool:
    """Return whether all values that the condition compared are known as those of the caller."""
    names = [re.sub(r"^~| & \S+$", "", name) for name, _ in scene.values]
    return bool(names) and not scene.untold and scene.given.issuperset(names)


def _cases(tests: Sequence[str]) -> list[str]:
    """Return the tests that chose a case, such as ``cmd == 1`` in ``cmd == 1 && aux != 0``."""
    equal = [
        one
        for one in tests
        if (found := _COMPARED.fullmatch(one))
        and found[2] == "=="
        and re.fullmatch(_NUMBER, found[3])
    ]
    return equal[:-1] if len(equal) == len(tests) else equal


def _case(scene: Scene, test: str, values: Mapping[str, int], *, is_last: bool) -> Reason | None:
    """Return the value of a case, without advice unless the test decided."""
    compared = _COMPARED.fullmatch(test)
    if compared is None or not _is_of_caller(scene, compared[1], values):
        return None
    plain = _plain(compared[1])
    text, advice = f"{_begin(plain)} is {values[compared[1]]}.", f"change {plain}"
    return Reason("out-of-range", text, (advice,) if is_last else (), is_seen_later=False)


def other_file(scene: Scene) -> Reason | None:
    """Return the reason if the kernel found another kind of file: ``f_op != &inotify_fops``."""
    tested = _OPERATIONS.fullmatch(scene.condition or "")
    kind = _KINDS.get(tested[2]) if tested is not None and tested[1] == "!=" else None
    if kind is None:
        return None
    text = f"{descriptor(scene.call)} is not {kind}, and {scene.call.name}() needs one."
    return Reason("descriptor", text, (f"pass the descriptor of {kind}",), is_seen_later=False)


def _pointer(scene: Scene, test: str, values: Mapping[str, int]) -> Reason | None:
    """Return the reason for a pointer that is NULL, or that is not."""
    tested = _NULL.fullmatch(test)
    if tested is None or not _is_of_caller(scene, tested[1], values):
        return None
    plain = _plain(tested[1]).lstrip("_")
    if tested[2] == "==":
        text, change = f"{plain} is a NULL pointer.", f"pass the address of data in {plain}"
    else:
        text, change = f"{plain} is no NULL pointer.", f"pass NULL in {plain}"
    return Reason("out-of-range", text, (change,), is_seen_later=False)


def _file_kind(test: str, *, is_only: bool) -> Reason | None:
    """Return the kind of the file, as one of several tests: ``f_op == &eventpoll_fops``."""
    tested = _OPERATIONS.fullmatch(test)
    kind = _KINDS.get(tested[2]) if tested is not None else None
    if tested is None or kind is None or is_only:
        return None
    text = f"The file is {'not ' if tested[1] == '!=' else ''}{kind}."
    return Reason("out-of-range", text, (), is_seen_later=False)


def _flags_in(scene: Scene, test: str, values: Mapping[str, int]) -> _Flags | None:
    """Return the test if it is one of bits of the caller's flags that hold as the value says."""
    masked = _MASKED.fullmatch(test)
    if masked is not None:
        return _masked(scene, masked, values)
    compared = _COMPARED.fullmatch(test)
    if compared is None or compared[2] != ">":
        return None
    plain = _plain(compared[1])
    if "flag" not in plain and not bits_of(scene.call.name, plain):
        return None
    if not re.fullmatch(_NUMBER, compared[3]) or not _is_of_caller(scene, compared[1], values):
        return None
    limit = int(compared[3], 0)
    # compilers write `flags & ~7` as `flags > 7`
    return None if limit & limit + 1 else _Flags(compared[1], values[compared[1]] & ~limit, 0)


def _masked(scene: Scene, test: re.Match[str], values: Mapping[str, int]) -> _Flags | None:
    """Return the bits that ``(name & mask) == wanted`` or ``(~name & mask) == 0`` found."""
    name, mask, wanted = test[2], _number(test[3]), int(test[5], 0)
    known = values.get(name, _masked_value(name, mask, values))
    if known is None and test[1] and f"~{name}" in values:
        known = ~values[f"~{name}"] & _WORD
    if known is None or not _is_of_caller(scene, name, {name: known}):
        return None
    value = known
    if test[1]:
        wanted = mask & ~wanted
    if test[4] == "!=":
        found = _Flags(name, value & mask & ~wanted, wanted & ~value)
    else:
        is_any = not wanted and not test[1] and mask.bit_count() > 1
        lacks = mask & ~wanted
        found = _Flags(name, wanted & value, lacks, are_together=True, is_any=is_any)
    known_bits = sum(bits_of(scene.call.name, _plain(name)).values())
    if not found.has and not found.lacks & known_bits and not found.is_any:
        return None  # nobody can set a bit without a name
    return found


def _masked_value(name: str, mask: int, values: Mapping[str, int]) -> int | None:
    """Return the value of some bits of an expression, at least those of ``mask``."""
    for one, value in values.items():
        start, _, bits = one.rpartition(" & ")
        if start == name and re.fullmatch(rf"~?{_NUMBER}", bits) and not mask & ~_number(bits):
            return value
    return None


def _part(scene: Scene, test: str, values: Mapping[str, int]) -> _Range | None:
    """Return the range if a number beside flags is out of range: ``(mode & ~0xe000) > 6``."""
    compared = _PART.fullmatch(test)
    if compared is None:
        return None
    name, mask = compared[1], compared[2]
    value = values.get(f"{name} & {mask}", values.get(name, 0) & _number(mask))
    if not _is_of_caller(scene, name, {name: value}):
        return None
    plain = _plain(name)
    what = f"{plain} without its flags" if mask.startswith("~") else f"A part of {plain}"
    return _Range(what, value, _accepted(compared[3], int(compared[4], 0)), plain)


def _misaligned(scene: Scene, test: str, values: Mapping[str, int]) -> Reason | None:
    """Return the reason if a test is for a multiple of a power of 2: ``(addr & 0xfff) != 0``."""
    masked = _MASKED.fullmatch(test)
    if masked is None or masked[1] or masked[4] != "!=" or _number(masked[5]):
        return None
    name, size = masked[2], _number(masked[3]) + 1
    plain = _plain(name)
    is_flags = bits_of(scene.call.name, plain) or re.search("flag|mode|mask", plain)
    if is_flags or size < _LEAST or size & (size - 1) or not _is_of_caller(scene, name, values):
        return None
    value = values[name]
    text = f"{_begin(plain)} is not a multiple of {size}."
    if value <= _READABLE:
        text = f"{_begin(plain)} is {value}, which is not a multiple of {size}."
    change = f"change {plain} to a multiple of {size}"
    return Reason("out-of-range", text, (change,), is_seen_later=False)


def _outside(scene: Scene, test: str, values: Mapping[str, int]) -> Reason | _Range | None:
    """Return the test ``x < 1 || x > 10``, or the reason for a number that is no power of 2."""
    power, range_ = _NO_POWER.fullmatch(test), _OUTSIDE.fullmatch(test)
    found = power or range_
    if found is None or not _is_of_caller(scene, found[1], values):
        return None
    plain, value = _plain(found[1]), values[found[1]]
    if range_ is not None:
        return _Range(plain, value, ((int(range_[2], 0), int(range_[3], 0)),), plain)
    text = f"{_begin(plain)} is {value}. The value must be a power of 2 here."
    return Reason("out-of-range", text, (f"change {plain}",), is_seen_later=False)


def _number(text: str) -> int:
    return ~int(text[1:], 0) & _WORD if text.startswith("~") else int(text, 0)


def _compared(
    scene: Scene, test: str, values: Mapping[str, int], others: Sequence[str]
) -> Reason | _Range | None:
    compared = _COMPARED.fullmatch(test)
    if compared is None:
        return None
    name, operator, other = compared[1], compared[2], compared[3]
    if not _is_of_caller(scene, name, values) and _is_of_caller(scene, other, values):
        name, operator, other = other, _TURNED[operator], name
    if not _is_of_caller(scene, name, values):
        return None
    plain, value = _plain(name), values[name]
    if re.fullmatch(_NUMBER, other):
        limit = int(other, 0)
        is_again = any(re.search(rf"(?<![\w*]){re.escape(name)}\b", one) for one in others)
        if others and not is_again and operator == "!=" and not limit:
            # with other tests: another value than 0 chose what the kernel does
            text, change = f"{_begin(plain)} is {value}.", f"set {plain} to 0"
            return Reason("out-of-range", text, (change,), is_seen_later=False)
        accepted = _accepted(operator, limit) if operator != "!=" or not scene.is_case else ()
        return _Range(plain, value, accepted, plain)
    limit = values.get(other, _WORD)
    if operator == "==" and not 0 <= limit <= _READABLE and other in values:
        text = f"{_begin(plain)} and {_plain(other)} are the same address."
        change = f"change {plain} or {_plain(other)}"
    elif limit > _READABLE:
        return None
    else:
        words = f"{_RELATION[operator]} {_plain(other)}, which is {limit}"
        text = f"{_begin(plain)} is {value}, and {words}."
        change = f"change {plain}"
        if _is_of_caller(scene, other, values):
            change = f"{change} or {_plain(other)}"
    return Reason("out-of-range", text, (change,), is_seen_later=False)


def _is_of_caller(scene: Scene, name: str, values: Mapping[str, int]) -> bool:
    """Return whether the caller chose the value of this expression."""
    if values.get(name) is None:
        return False
    if name in scene.given or is_copy(scene.call.name, name):
        return True
    base, *members = re.split(r"->|\.", name)
    if members:
        return base in _COPIES
    given = {one & 0xFFFFFFFF for one in scene.again or scene.call.arguments}
    is_telling = values[name] != 0 or name in _AMOUNTS
    return is_telling and values[name] & 0xFFFFFFFF in given


def _plain(name: str) -> str:
    """``attr->key_size`` as ``key_size``, ``*optval`` as ``the number at optval``."""
    limit = _LIMIT.fullmatch(name)
    if limit is not None:
        return limit_title(limit[1])
    if name.startswith("*"):
        return f"the number at {name[1:]}"
    return re.split(r"->|\.", name)[-1]


def _begin(plain: str) -> str:
    """Return a name as the begin of a sentence. A name in C keeps its first letter."""
    return f"The{plain[3:]}" if plain.startswith("the ") else plain


def _accepted(operator: str, limit: int) -> tuple[tuple[int | None, int | None], ...]:
    """Return the numbers that pass where ``number operator limit`` is an error."""
    low, high = limit + (operator == "<="), limit - (operator == ">=")
    match operator:
        case "!=":
            return ((limit, limit),)
        case "==":
            return ((None, limit - 1), (limit + 1, None))
        case "<" | "<=":
            return ((low, None),)
    return ((None, high),)


def _united(
    ranges: Sequence[tuple[int | None, int | None]],
) -> tuple[tuple[int | None, int | None], ...]:
    """Return ranges in order, with overlapping and adjacent ones as one."""
    found: list[tuple[int | None, int | None]] = []
    for low, high in sorted(ranges, key=lambda one: (one[0] is not None, one[0] or 0)):
        last = found[-1][1] if found else 0
        if not found or (last is not None and low is not None and low > last + 1):
            found.append((low, high))
        elif last is not None and (high is None or high > last):
            found[-1] = found[-1][0], high
    return tuple(found)


def _range_text(found: _Range) -> Reason:
    """Return the reason for a number that none of the tests accepts."""
    words = " or ".join(_range_words(low, high) for low, high in found.accepted)
    words = words.replace(" or must be ", " or ") if words.startswith("must be ") else words
    points = [str(low) for low, high in found.accepted if low == high]
    if not found.accepted:
        sentence = "The kernel does not accept this value here."
    elif len(points) == len(found.accepted):
        sentence = f"The value must be {_either(points)} here."
    elif found.accepted == _accepted("==", found.value):
        sentence = f"The value must not be {found.value} here."
    else:
        sentence = f"The value {words} here."
    is_one = len(points) == len(found.accepted) == 1
    change = f"set {found.variable} to {points[0]}" if is_one else f"change {found.variable}"
    text = f"{_begin(found.name)} is {found.value}. {sentence}"
    return Reason("out-of-range", text, (change,), is_seen_later=False)


def _either(words: Sequence[str]) -> str:
    """``4, 6 or 7``."""
    before = ", ".join(words[:-1])
    return f"{before} or {words[-1]}" if before else words[-1]


def _range_words(low: int | None, high: int | None) -> str:
    if low is None:
        return f"may be at most {high}"
    if high is None:
        return f"must be at least {low}"
    return f"must be {low}" if low == high else f"must be from {low} to {high}"


def _joined(
    scene: Scene, flags: Sequence[_Flags], ranges: Sequence[Reason], *, is_whole: bool
) -> Reason:
    """Return one reason for all tests of a condition."""
    texts, advice = [], []
    for one in flags:
        text, change = _flags_text(scene, one, is_only=not ranges and len(flags) == 1)
        texts.append(text)
        advice.append(change)
    texts += [one.text for one in ranges]
    advice += [change for one in ranges for change in one.advice]
    kind = "unsupported" if flags and not ranges else "out-of-range"
    if not is_whole:
        texts.append("Another value inside the kernel had a part in it.")
    text, is_inferred = " ".join(texts), not is_whole
    return Reason(kind, text, _alternatives(advice), False, is_inferred=is_inferred)


def _alternatives(advice: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"or {one}" if number else one for number, one in enumerate(advice))


def _flags_text(scene: Scene, flags: _Flags, *, is_only: bool) -> tuple[str, str]:
    """Return a sentence about flags, and a change of them."""
    name, known = _plain(flags.name), bits_of(scene.call.name, _plain(flags.name))
    has, lacks = _listed(flags.has, known), _listed(flags.lacks, known)
    what = f"{name} of {scene.call.name}()"
    unknown = flags.has & ~sum(known.values())
    if flags.is_any and not flags.has:
        some = [one for one, bit in known.items() if flags.lacks & bit == bit][:_SOME]
        text = f"{what} has none of the bits that the kernel needs here"
        if not some:
            return f"{text}.", f"change {name}"
        return f"{text}: {', '.join(some)} and others.", f"add one of them to {name}"
    if not flags.lacks or (unknown and known):
        text = f"{what} has {has} set (value {flags.has})."
        if not is_only:
            return text, f"remove {has} from {name}"
        change = f"remove {has} from {name}"
        if flags.are_together and flags.has.bit_count() > 1:
            text = f"{text} The kernel does not accept them together."
            return text, f"remove one of them from {name}"
        if unknown or not known:
            text = f"{text} This kernel does not accept that there."
            return text, f"{change}, or use a newer kernel"
        return f"{text} The kernel does not accept that here.", change
    if not flags.has:
        return f"{what} lacks {lacks}.", f"add {lacks} to {name}"
    change = f"add {lacks} to {name}, or remove {has}" if is_only else f"remove {has} from {name}"
    return f"{what} has {has}, and lacks {lacks}.", change


def _listed(value: int, known: Bits) -> str:
    """Return the bits in ``value``: ``CLONE_VM and CLONE_FS``, ``the bits 3, 30``."""
    names = [name for name, bit in known.items() if value & bit == bit]
    rest = value & ~sum(known[name] for name in names)
    bits = [str(bit) for bit in range(64) if rest >> bit & 1]
    if bits:
        names.append(f"the bit {bits[0]}" if len(bits) == 1 else f"the bits {', '.join(bits)}")
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
