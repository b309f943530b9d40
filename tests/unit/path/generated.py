# SPDX-License-Identifier: BSD-2-Clause
"""Generate C functions with known error paths, and compute the deciding condition of each call.

A function is a sequence of steps, and each step may fail. A step has its text in C and its meaning
in Python, so the tests know the deciding condition of a call without a compiler. Each step reads
its own members, and each constant is used once, so a condition identifies its step.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from types import SimpleNamespace

from retsnoop_py.kernel.functions import ResultKind, ResultType

__all__ = [
    "HEADER",
    "MEMBERS",
    "SHAPES",
    "Call",
    "Expected",
    "Flags",
    "Function",
    "Kinds",
    "Modes",
    "Obj",
    "generate",
]

HEADER = """\
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef _Bool bool;
struct list_head { struct list_head *next, *prev; };
struct obj {
	int type, count, limit, state;
	u32 flags, max, used, opts;
	long size, quota;
	u64 mask, caps;
	u8 mode, kind, prio, room;
	u16 port, vlan;
	u32 lock : 1, ro : 1, level : 3, rank : 5, rest : 22;
	struct obj *next, *found, *owner, *peer;
	struct list_head list, node;
	int err0, err1, err2, err3;
	u8 ok0, ok1, ok2, ok3;
	int nr, arr[4];
};
#define NULL ((void *)0)
#define true 1
#define false 0
#define CASE __attribute__((noinline, used))
#define IS_ERR(p) ((u64)(p) >= (u64)-4095)
#define offsetof(t, m) __builtin_offsetof(t, m)
#define container_of(p, t, m) ((t *)((char *)(p) - offsetof(t, m)))
#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _c = (a); __typeof__(b) _d = (b); _c > _d ? _c : _d; })
extern int sink;
int sink;
CASE void note(int v) { asm volatile("" : "+m"(sink) : "r"(v) : "memory"); }
CASE void release(struct obj *a) { asm volatile("" : "+m"(sink) : "r"(a) : "memory"); }
#define ASK(n) CASE int ask##n(struct obj *a) { asm volatile("" : "+r"(a)); return a->err##n; }
ASK(0) ASK(1) ASK(2) ASK(3)
#define OK(n) CASE bool ok##n(struct obj *a) { asm volatile("" : "+r"(a)); return a->ok##n; }
OK(0) OK(1) OK(2) OK(3)
CASE struct obj *lookup(struct obj *a) { asm volatile("" : "+r"(a)); return a->found; }
"""


class List(ctypes.LittleEndianStructure):
    """``struct list_head``."""

    _fields_ = (("next", ctypes.c_uint64), ("prev", ctypes.c_uint64))


_BITS = (("lock", 1), ("ro", 1), ("level", 3), ("rank", 5), ("rest", 22))
_POINTERS = ("next", "found", "owner", "peer")
_INTS = ("type", "count", "limit", "state")
_UINTS = ("flags", "max", "used", "opts")


class Obj(ctypes.LittleEndianStructure):
    """``struct obj`` of :data:`HEADER`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in _INTS),
        *((name, ctypes.c_uint32) for name in _UINTS),
        *((name, ctypes.c_int64) for name in ("size", "quota")),
        *((name, ctypes.c_uint64) for name in ("mask", "caps")),
        *((name, ctypes.c_uint8) for name in ("mode", "kind", "prio", "room")),
        *((name, ctypes.c_uint16) for name in ("port", "vlan")),
        *((name, ctypes.c_uint32, bits) for name, bits in _BITS),
        *((name, ctypes.c_uint64) for name in _POINTERS),
        ("list", List),
        ("node", List),
        *((f"err{n}", ctypes.c_int32) for n in range(4)),
        *((f"ok{n}", ctypes.c_uint8) for n in range(4)),
        ("nr", ctypes.c_int32),
        ("arr", ctypes.c_int32 * 4),
    )


#: Members by the shape of the condition that reads them.
MEMBERS = {
    "int": _INTS,
    "uint": _UINTS,
    "long": ("size", "quota"),
    "ulong": ("mask", "caps"),
    "byte": ("mode", "kind", "prio", "room"),
    "half": ("port", "vlan"),
    "bit": ("lock", "ro"),
    "bits": ("level", "rank"),
    "pointer": ("owner", "peer"),
}
_ERRNOS = (22, 22, 22, 1, 16, 95, 2)


# -- conditions in C and their meanings --


class Cast:
    """``(u8)x`` as ``u8 @ x``."""

    def __init__(self, bits: int, *, signed: bool) -> None:
        self.bits, self.signed = bits, signed

    def __matmul__(self, value: object) -> int:
        number = int(value) & (1 << self.bits) - 1  # type: ignore[call-overload]
        sign = self.signed and number >> (self.bits - 1)
        return int(number - (1 << self.bits) if sign else number)


_CASTS = {f"{s}{b}": Cast(b, signed=s == "s") for s in "su" for b in (8, 16, 32, 64)}
_NAMES = {
    **_CASTS,
    "NULL": 0,
    "min": min,
    "max": max,
    "IS_ERR": lambda value: int(value) & (1 << 64) - 1 >= (1 << 64) - 4095,
}


@lru_cache(1 << 15)
def _compiled(text: str) -> object:
    text = re.sub(r"\(([su]\d+)\)", r"\1 @ ", text.replace("?", ""))
    text = text.replace("->", ".").replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    text = re.sub(r"== not ", "== not ", text)
    text = re.sub(r"&(?=a\.)", "address @ ", text)
    return compile(text.strip(), text, "eval")


def holds(text: str, names: dict[str, object]) -> bool:
    """Return whether a condition in C holds. Raises an exception for an unknown name."""
    return bool(eval(_compiled(text), {"__builtins__": {}}, {**_NAMES, **names}))


@dataclass(frozen=True)
class Expected:
    """The deciding condition: ``atoms`` are tests that all hold, ``whole`` is the whole condition.

    ``callee``: the function that returned the result. ``loose``: any true condition that reads only
    members of ``names`` is right, as at the end of a search. ``lines``: the lines of the test.
    """

    atoms: tuple[str, ...] = ()
    #: Other tests that came out so that they, too, decide: a compiler may ask them first.
    either: tuple[str, ...] = ()
    whole: str = ""
    callee: str = ""
    loose: tuple[str, ...] = ()
    shape: str = ""
    #: Marks in the source at the right lines.
    marks: tuple[str, ...] = ()


@dataclass
class Env:
    """The values in a call."""

    #: Values of members, and of the arguments ``arg``, ``len``.
    values: dict[str, int]
    #: ``type`` and ``kind`` of the objects behind it.
    chain: list[tuple[int, int]]
    array: list[int]

    def names(self) -> dict[str, object]:
        """For :func:`holds`."""
        made = SimpleNamespace(**self.values, arr=self.array, nr=len(self.array))
        after: object = 0
        for number, (type_, kind) in reversed(list(enumerate(self.chain))):
            after = Node(type=type_, kind=kind, next=after, number=number)
        made.next = after
        calls = {
            **{f"ask{n}": (lambda n=n: self.values[f"err{n}"]) for n in range(4)},
            **{f"ok{n}": (lambda n=n: self.values[f"ok{n}"]) for n in range(4)},
            "lookup": lambda: self.values["found"],
        }
        args = {name: self.values[name] for name in ("arg", "len")}
        return {"a": made, **args, **calls}


class Node(SimpleNamespace):
    """An object of the chain: a pointer that is not NULL, with members."""

    def __int__(self) -> int:
        return 0x10000200 + 0x200 * int(self.number)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return int(self) == (int(other) if isinstance(other, int | Node) else None)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Cond:
    """A condition: an atom, or several joined by ``op``."""

    op: str
    text: str = ""
    parts: tuple[Cond, ...] = ()

    @property
    def c(self) -> str:
        """In C."""
        if not self.op:
            return self.text
        return f" {self.op} ".join(f"({one.c})" for one in self.parts)

    def holds(self, names: dict[str, object]) -> bool:
        return holds(self.c, names)

    def why(self, names: dict[str, object]) -> tuple[list[str], list[str]]:
        """The atoms of which each is needed; and others that would have done by themselves."""
        value = self.holds(names)
        if not self.op:
            return [self.text if value else f"!({self.text})"], []
        parts = [one for one in self.parts if one.holds(names) == value]
        if (self.op == "&&") == value:
            found = [one.why(names) for one in parts]
            return [a for one, _ in found for a in one], [b for _, two in found for b in two]
        first, rest = parts[0], parts[1:]
        atoms, either = first.why(names)
        return atoms, [*either, *(a for one in rest for part in one.why(names) for a in part)]


@dataclass(frozen=True)
class Result:
    """The result of a function: its type, and in C the values where it fails and where not.

    ``number`` is the value where it fails. A function of ints returns errors instead.
    """

    c: str = "int"
    bad: str = ""
    good: str = "0"
    number: int = 0
    type: ResultType = ResultType(ResultKind.INT)


INT = Result()
RESULTS = (
    Result("bool", "false", "true", 0, ResultType(ResultKind.BOOL, 1)),
    Result("bool", "true", "false", 1, ResultType(ResultKind.BOOL, 1)),
    Result("struct obj *", "NULL", "a", 0, ResultType(ResultKind.PTR, 8)),
)


class Pools:
    """Members and constants that are not used yet."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.left = {kind: rng.sample(names, len(names)) for kind, names in MEMBERS.items()}
        self.constants = iter(rng.sample(range(3, 120), 100))
        self.bits = iter(rng.sample(range(2, 30), 28))
        self.calls = iter(rng.sample(range(4), 4))
        self.oks = iter(rng.sample(range(4), 4))
        self.used: list[tuple[str, int]] = []
        self.once: set[str] = set()

    def number(self) -> int:
        return next(self.constants)

    def member(self, kind: str) -> str | None:
        return self.left[kind].pop() if self.left[kind] else None

    def note(self, name: str, *values: int) -> None:
        self.used += [(name, one) for one in values]

    def atom(self) -> str:
        """A test that reads a member of its own."""
        while True:
            kind = self.rng.choice((*MEMBERS, "int", "uint", "arg", "len", "pair"))
            text = self._atom(kind)
            if text:
                return text

    def _atom(self, kind: str) -> str | None:  # noqa: C901, PLR0911 - a table
        rng, number = self.rng, self.number()
        if kind in ("arg", "len"):
            if kind in self.once:
                return None
            self.once.add(kind)
            self.note(kind, number, number + 1, 0, number - 1)
            if kind == "len":
                return rng.choice((f"len > {number}", f"len == {number}", f"len & {number}"))
            return rng.choice((f"arg < {number}", f"arg & {number}", f"arg > {number}", "arg < 0"))
        if kind == "pair":
            name = self.member("int")
            other = self.member("int") if name else None
            if other is None:
                return None
            self.note(f"a.{name}", number, number + 1)
            self.note(f"a.{other}", number, number + 1)
            return f"a->{name} {rng.choice(('<', '>=', '>'))} a->{other}"
        name = self.member(kind)
        if name is None:
            return None
        key = f"a.{name}"
        match kind:
            case "int" | "byte" | "half":
                self.note(key, number, number + 1, number - 1, 0)
                return f"a->{name} {rng.choice(('==', '!=', '<', '>', '>=', '<='))} {number}"
            case "uint":
                bit = next(self.bits)
                self.note(key, 1 << bit, number, 0, number + 1, 1 << bit | number)
                odd = rng.choice((0x30, 0xC0, 0x500))
                self.note(key, odd)
                form = rng.choice(("set", "clear", "more", "field"))
                return {
                    "set": f"a->{name} & {1 << bit:#x}",
                    "clear": f"!(a->{name} & {1 << bit:#x})",
                    "more": f"a->{name} > {number}",
                    "field": f"(a->{name} & {odd | odd << 1:#x}) == {odd:#x}",
                }[form]
            case "long":
                big = number << rng.choice((0, 33))
                self.note(key, big, big + 1, -1, 0)
                return f"a->{name} {rng.choice(('<', '>', '=='))} {big}"
            case "ulong":
                bit = 1 << rng.choice((3, 12, 40))
                self.note(key, bit, bit | 1, 0)
                return rng.choice((f"a->{name} & {bit:#x}", f"!(a->{name} & {bit:#x})"))
            case "bit":
                self.note(key, 0, 1)
                return rng.choice((f"a->{name}", f"!a->{name}"))
            case "bits":
                self.note(key, 0, 1, 2, 3, 4, 5, 6, 7)
                return f"a->{name} {rng.choice(('>', '==', '<'))} {rng.choice((2, 3, 5))}"
        self.note(key, 0, 0x10000800)
        return rng.choice((f"!a->{name}", f"a->{name}"))

    def cond(self, depth: int = 1) -> Cond:
        """Return a condition with one to three atoms."""
        kind = self.rng.choice(("atom", "atom", "&&", "||"))
        if kind == "atom" or not depth:
            return Cond("", self.atom())
        return Cond(kind, parts=(self.cond(depth - 1), self.cond(depth - 1)))


# -- steps --


class Step:
    """Something that may fail. ``shape`` is its name in the table of results."""

    shape = ""
    #: Functions before this function in the source.
    before: tuple[str, ...] = ()

    def __init__(self, pools: Pools, mark: str) -> None:
        self.pools = pools
        self.mark = mark
        self.errno = pools.rng.choice(_ERRNOS)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        """In C; ``fail`` makes the statement that fails with a value."""
        raise NotImplementedError

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        """The error and what decided, if it fails."""
        raise NotImplementedError

    def expected(self, **fields: object) -> Expected:
        return Expected(shape=self.shape, marks=(self.mark,), **fields)  # type: ignore[arg-type]

    def by(self, cond: Cond, names: dict[str, object], **more: object) -> Expected:
        atoms, either = cond.why(names)
        whole = cond.c if cond.holds(names) else f"!({cond.c})"
        return self.expected(atoms=tuple(atoms), either=tuple(either), whole=whole, **more)


class If(Step):
    """``if (...) return -E;``."""

    shape = "if"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.cond = pools.cond(2)
        if self.cond.op:
            self.shape = "nested && ||" if any(one.op for one in self.cond.parts) else self.cond.op

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"if ({self.cond.c}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.cond.holds(names):
            return None
        return -self.errno, self.by(self.cond, names)


class Stored(If):
    """``err = -E; if (...) goto out;``."""

    shape = "stored first"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.shape = "stored first"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"err = {-self.errno};"
        yield from ("note(20);", "") if self.pools.rng.random() < 0.5 else ()
        yield f"if ({self.cond.c}) /* {self.mark} */"
        yield f"\t{fail('err')}"


class Inlined(If):
    """The same in an inlined function that returns an error."""

    shape = "inlined error"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.shape = "inlined error"
        name = f"check_{mark}"
        self.before = (
            f"static inline int {name}(struct obj *a, int arg, u64 len)",
            "{",
            f"\tif ({self.cond.c}) /* {mark} */",
            f"\t\treturn {-self.errno};",
            "\treturn 0;",
            "}",
        )
        self.call = f"{name}(a, arg, len)"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"err = {self.call}; /* {self.mark} */"
        yield f"if (err) /* {self.mark} */"
        yield f"\t{fail('err')}"


class InlinedBool(If):
    """The same by an inlined helper that says yes or no."""

    shape = "inlined bool"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.shape = "inlined bool"
        self.denied = pools.rng.random() < 0.5
        value = f"!({self.cond.c})" if self.denied else self.cond.c
        self.before = (
            f"static inline bool is_{mark}(struct obj *a, int arg, u64 len)",
            "{",
            f"\treturn {value}; /* {mark} */",
            "}",
        )

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        sign = "!" if self.denied else ""
        yield f"if ({sign}is_{self.mark}(a, arg, len)) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"


class Ternary(If):
    """``err = c ? -E : 0; if (err) ...``."""

    shape = "chosen"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.shape = "chosen"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"err = {self.cond.c} ? {-self.errno} : 0; /* {self.mark} */"
        yield f"if (err) /* {self.mark} */"
        yield f"\t{fail('err')}"


class Defaulted(Step):
    """A value with a default, and two tests of the value in one statement."""

    shape = "default"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.names = [pools.member("int") for _ in range(3)]
        numbers = [pools.number() for _ in range(3)]
        for name in self.names:
            pools.note(f"a.{name}", *numbers)
        pools.note(f"a.{self.names[0]}", 0, 0)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if None in self.names:
            return
        one, two, three = self.names
        yield f"{{ int own = a->{one};"
        yield "if (!own)"
        yield f"\town = a->{two};"
        yield f"if (own < a->{two} || /* {self.mark} */"
        yield f"    a->{two} < a->{three}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if None in self.names:
            return None
        one, two, three = (getattr(names["a"], str(name)) for name in self.names)
        texts = [f"a->{self.names[0]} < a->{self.names[1]}"] if one and one < two else []
        texts += [f"a->{self.names[1]} < a->{self.names[2]}"] if two < three else []
        if not texts:
            return None
        whole = f"a->{self.names[0]} != 0 && {texts[0]}" if one and one < two else ""
        return -self.errno, self.expected(
            atoms=tuple(texts[:1]), either=tuple(texts[1:]), whole=whole
        )


class InlinedChecks(Step):
    """An inlined function that says no for one of several reasons, one behind the other."""

    shape = "inlined checks"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.steps: list[Step] = [
            pools.rng.choice((If, If, Nested, Defaulted))(pools, mark)
            for _ in range(pools.rng.randrange(2, 4))
        ]
        self.is_valid = pools.rng.random() < 0.5
        bad, good = ("false", "true") if self.is_valid else ("true", "false")
        body = [line for one in self.steps for line in one.lines(lambda _: f"return {bad};")]
        self.before = (
            f"static inline bool is_{mark}(struct obj *a, int arg, u64 len)",
            "{",
            *(f"\t{line}" for line in body),
            f"\treturn {good};",
            "}",
        )

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        sign = "!" if self.is_valid else ""
        yield f"if ({sign}is_{self.mark}(a, arg, len)) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        for step in self.steps:
            found = step.run(names)
            if found is not None:
                return -self.errno, replace(found[1], shape=self.shape)
        return None


class Nested(Step):
    """An if in an if."""

    shape = "if in if"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.outer, self.inner = Cond("", pools.atom()), Cond("", pools.atom())

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"if ({self.outer.c}) {{ /* {self.mark} */"
        yield "\tnote(30);"
        yield f"\tif ({self.inner.c}) /* {self.mark} */"
        yield f"\t\t{fail(str(-self.errno))}"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not (self.outer.holds(names) and self.inner.holds(names)):
            return None
        whole = f"({self.outer.c}) && ({self.inner.c})"
        return -self.errno, self.expected(atoms=(self.inner.c,), whole=whole)


class Asks(Step):
    """``err = ask(a); if (err) return err;``."""

    shape = "callee's error"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.call = f"ask{next(pools.calls)}"
        self.sign = pools.rng.choice(("", " < 0"))
        pools.note(f"a.err{self.call[-1]}", -self.errno, 0, 0)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"err = {self.call}(a);"
        yield f"if (err{self.sign}) /* {self.mark} */"
        yield f"\t{fail('err')}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        value = names[self.call]()  # type: ignore[operator]
        if not value:
            return None
        return value, self.expected(callee=self.call, atoms=(f"{self.call}() < 0",))


class Replaced(Asks):
    """``if (ask(a)) return -E;``."""

    shape = "callee's error replaced"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"if ({self.call}(a){self.sign}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        found = super().run(names)
        text = f"{self.call}(){self.sign or ' != 0'}"
        return found and (-self.errno, self.expected(atoms=(text,)))


class Denied(Step):
    """``if (a->... && !ok(a)) return -EPERM;``."""

    shape = "cond && !call()"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.call = f"ok{next(pools.oks)}"
        pools.note(f"a.{self.call}", 0, 1)
        self.cond = Cond("", f"!{self.call}()")
        if pools.rng.random() < 0.7:
            self.cond = Cond("&&", parts=(Cond("", pools.atom()), self.cond))
        else:
            self.shape = "!call()"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"if ({self.cond.c.replace('()', '(a)')}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.cond.holds(names):
            return None
        return -self.errno, self.by(self.cond, names)


class Lookup(Step):
    """``p = lookup(a); if (!p) return -E; if (IS_ERR(p)) return PTR_ERR(p);``."""

    shape = "pointer"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.once = "lookup" not in pools.once
        pools.once.add("lookup")
        self.null = pools.rng.random() < 0.5
        pools.note("a.found", 0x10000800, 0x10000800, 0 if self.null else (1 << 64) - self.errno)
        self.shape = "NULL" if self.null else "ERR_PTR"

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.once:
            return
        yield "p = lookup(a);"
        if self.null:
            yield f"if (!p) /* {self.mark} */"
            yield f"\t{fail(str(-self.errno))}"
        else:
            yield f"if (IS_ERR(p)) /* {self.mark} */"
            yield f"\t{fail('(int)(long)p')}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        value = names["lookup"]()  # type: ignore[operator]
        if not self.once or value == 0x10000800 or (self.null != (value == 0)):
            return None
        if self.null:
            return -self.errno, self.expected(atoms=("lookup() == NULL",))
        return value - (1 << 64), self.expected(callee="lookup", atoms=("IS_ERR(lookup())",))


class Last(If):
    """``ok = !(...);`` as the last statement of a function that does not return errors."""

    shape = "returned condition"

    def __init__(self, pools: Pools, mark: str, result: Result) -> None:
        super().__init__(pools, mark)
        self.shape = "returned condition"
        self.result = result

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        yield f"ok = ({self.cond.c}) ? {self.result.bad} : {self.result.good}; /* {self.mark} */"


class Switch(Step):
    """A switch, of which some cases fail."""

    shape = "switch"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.name = pools.member("int") or pools.member("byte") or ""
        start = pools.number()
        self.numbers = [start + n for n in range(6)]
        self.fails = pools.rng.choice(self.numbers)
        self.by_default = pools.rng.random() < 0.5
        pools.note(f"a.{self.name}", *self.numbers, self.fails, self.fails, start + 9)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.name:
            return
        yield f"switch (a->{self.name}) {{ /* {self.mark} */"
        for number in self.numbers:
            yield f"case {number}: /* {self.mark} */"
            if number == self.fails:
                yield f"\t{fail(str(-self.errno))}"
            else:
                yield f"\tnote({number}); break;"
        yield "default:"
        yield f"\t{fail('-38')}" if self.by_default else "\tbreak;"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.name:
            return None
        value = getattr(names["a"], self.name)
        if value == self.fails:
            atoms = (f"a->{self.name} == {self.fails}",)
            return -self.errno, self.expected(atoms=atoms, loose=(f"a->{self.name}",))
        if self.by_default and value not in self.numbers:
            return -38, self.expected(loose=(f"a->{self.name}",))
        return None


class Search(Step):
    """A search in a chain that finds nothing."""

    shape = "list search"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.once = "search" not in pools.once
        pools.once.add("search")
        self.number = pools.number()
        pools.note("chain", self.number, 1)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.once:
            return
        yield f"for (p = a->next; p; p = p->next) /* {self.mark} */"
        yield f"\tif (p->type == {self.number}) /* {self.mark} */"
        yield "\t\tbreak;"
        yield f"if (!p) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.once:
            return None
        one = names["a"].next  # type: ignore[attr-defined]
        while one:
            if one.type == self.number:
                return None
            one = one.next
        return -self.errno, self.expected(loose=("next",))


class Entries(Step):
    """``list_for_each_entry()`` that finds nothing, or something that fails."""

    shape = "list_head search"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.once = "entries" not in pools.once
        pools.once.add("entries")
        self.number = pools.number()
        self.found = pools.rng.random() < 0.5
        pools.note("chain", self.number, 1)
        self.shape = "list_head entry" if self.found else self.shape

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.once:
            return
        head = "struct list_head"
        yield f"{{ {head} *at; int found = 0;"
        yield f"for (at = a->list.next; at != &a->list; at = at->next) {{ /* {self.mark} */"
        yield "\tstruct obj *e = container_of(at, struct obj, node);"
        yield f"\tif (e->kind == {self.number}) {{ /* {self.mark} */"
        yield "\t\tfound = 1;"
        yield "\t\tbreak;"
        yield "\t}"
        yield "}"
        yield f"if ({'' if self.found else '!'}found) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.once:
            return None
        one, found = names["a"].next, False  # type: ignore[attr-defined]
        while one:
            found = found or one.kind == self.number
            one = one.next
        if found is not self.found:
            return None
        return -self.errno, self.expected(loose=("kind",) if self.found else ("next", "list"))


class Loop(Step):
    """An element of an array that is not allowed."""

    shape = "array in a loop"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.once = "array" not in pools.once
        pools.once.add("array")
        self.number = pools.number()
        pools.note("array", self.number, 1)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.once:
            return
        yield "for (int i = 0; i < a->nr; i++)"
        yield f"\tif (a->arr[i] == {self.number}) /* {self.mark} */"
        yield f"\t\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.once:
            return None
        if self.number not in names["a"].arr:  # type: ignore[attr-defined]
            return None
        return -self.errno, self.expected(loose=("arr",))


class Least(Step):
    """``if (min(x, y) < n)``."""

    shape = "min() or max()"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.names = [pools.member("int"), pools.member("int")]
        self.number = pools.number()
        self.is_min = pools.rng.random() < 0.5
        for name in self.names:
            pools.note(f"a.{name}", self.number - 1, self.number, self.number + 2)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if None in self.names:
            return
        what, sign = ("min", "<") if self.is_min else ("max", ">")
        one, two = self.names
        yield f"if ({what}(a->{one}, a->{two}) {sign} {self.number}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if None in self.names:
            return None
        values = [getattr(names["a"], str(name)) for name in self.names]
        sign = "<" if self.is_min else ">"
        atoms = [
            f"a->{name} {sign} {self.number}"
            for name, value in zip(self.names, values, strict=True)
            if (value < self.number if self.is_min else value > self.number)
        ]
        if not atoms:
            return None
        loose = tuple(f"a->{name}" for name in self.names)
        return -self.errno, self.expected(
            atoms=tuple(atoms[:1]), either=tuple(atoms[1:]), loose=loose
        )


class Reloaded(Step):
    """A value that is kept on the stack over calls."""

    shape = "reloaded from the stack"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.name = pools.member("int")
        self.number = pools.number()
        pools.note(f"a.{self.name}", self.number, self.number + 1)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.name:
            return
        yield f"{{ volatile int kept = a->{self.name};"
        yield "note(40);"
        yield f"if (kept > {self.number}) /* {self.mark} */"
        yield f"\t{fail(str(-self.errno))}"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.name or getattr(names["a"], self.name) <= self.number:
            return None
        return -self.errno, self.expected(atoms=(f"a->{self.name} > {self.number}",))


def _all(*parts: Cond | str) -> Cond:
    return Cond("&&", parts=tuple(Cond("", one) if isinstance(one, str) else one for one in parts))


def _any(*parts: Cond | str) -> Cond:
    return replace(_all(*parts), op="||")


class Flags(If):
    """Flags that exclude each other: several tests of one value."""

    shape = "flags"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.name = pools.member("uint")
        rng = pools.rng
        shift = rng.randrange(8)
        a, b, c = (1 << shift + at for at in rng.sample(range(4), 3))
        for one, two, three in product((0, a), (0, b), (0, c)):
            pools.note(f"a.{self.name}", one | two | three)
        has_a, has_b, has_c, has_both = (f"a->{self.name} & {one:#x}" for one in (a, b, c, a | c))
        sign = rng.choice(("!({})", "({}) == 0"))
        no_b, no_c = sign.format(has_b), sign.format(has_c)
        other = pools.cond(0)
        self.conds = {
            "two": [_all(has_a, no_b)],
            "each": [_all(has_both, has_b)],
            "three": [_all(has_a, has_b, no_c)],
            "either": [_all(has_a, no_b), _all(has_c, _any(no_b, other))],
            "one of": [_all(_any(has_a, other), no_b)],
        }[rng.choice(("two", "each", "three", "either", "one of"))]
        self.known = a | b | c if rng.random() < 0.5 else 0

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.name:
            return
        if self.known:
            yield f"if (a->{self.name} & ~{self.known:#x})"
            yield f"\t{fail(str(-self.errno))}"
        for cond in self.conds:
            yield f"if ({cond.c}) /* {self.mark} */"
            yield f"\t{fail(str(-self.errno))}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        for cond in self.conds if self.name else ():
            if cond.holds(names):
                return -self.errno, self.by(cond, names)
        return None


class Modes(Step):
    """A switch over some bits of a value, of which some cases require another bit."""

    shape = "flag of a case"

    def __init__(self, pools: Pools, mark: str) -> None:
        super().__init__(pools, mark)
        self.name = pools.member("uint")
        self.required = pools.rng.randrange(1, 5)
        for number in range(32):
            pools.note(f"a.{self.name}", number)

    def lines(self, fail: Callable[[str], str]) -> Iterator[str]:
        if not self.name:
            return
        yield f"switch (a->{self.name} & 0x1e) {{ /* {self.mark} */"
        for number in (0, 2, 4, 8, 16):
            yield f"case {number}: /* {self.mark} */"
            if number == 1 << self.required:
                yield f"\tif (!(a->{self.name} & 1)) /* {self.mark} */"
                yield f"\t\t{fail(str(-self.errno))}"
            elif number == 2:
                yield "\tnote(2);"
            yield "\tbreak;"
        yield "default:"
        yield f"\t{fail(str(-self.errno))}"
        yield "}"

    def run(self, names: dict[str, object]) -> tuple[int, Expected] | None:
        if not self.name:
            return None
        value = getattr(names["a"], self.name)
        if value & 0x1E not in (0, 2, 4, 8, 16):
            return -self.errno, self.expected(loose=(f"a->{self.name}",))
        if value & 0x1E != 1 << self.required or value & 1:
            return None
        atom = f"!(a->{self.name} & 1)"
        case = f"(a->{self.name} & 0x1e) == {1 << self.required}"
        return -self.errno, self.expected(atoms=(case, atom), whole=f"({case}) && ({atom})")


#: Kinds of steps; none for all kinds.
Kinds = tuple[type[Step], ...]
STEPS: Kinds = (
    *(If, If, If, Stored, Stored, Inlined, InlinedBool, Ternary, Nested, Asks, Asks, Replaced),
    *(Defaulted, InlinedChecks),
    *(Denied, Denied, Lookup, Lookup, Switch, Search, Entries, Loop, Least, Reloaded),
    *(Flags, Flags, Modes),
)
#: Those of functions that do not return errors.
PLAIN: Kinds = (
    *(If, If, If, If, Ternary, Nested, Replaced, Denied, Defaulted, Defaulted, InlinedChecks),
    *(InlinedBool, Switch, Search, Entries, Loop, Least, Reloaded),
    *(Flags, Modes),
)
SHAPES = (
    *("if", "&&", "||", "nested && ||", "stored first", "inlined error", "inlined bool", "chosen"),
    *("if in if", "callee's error", "callee's error replaced", "cond && !call()", "!call()"),
    *("NULL", "ERR_PTR", "switch", "list search", "list_head search", "list_head entry"),
    *("default", "inlined checks", "returned condition", "flags", "flag of a case"),
    *("array in a loop", "min() or max()", "reloaded from the stack", "later error wins"),
)


STYLES = ("return", "goto", "goto", "mixed", "collect")
#: The shares of functions that do not return errors, and of functions that end in a condition.
PLAINLY, LAST = 0.3, 0.4


@dataclass
class Call:
    """A call of a function: its arguments, its result and the deciding condition."""

    env: Env
    result: int
    expected: Expected


@dataclass
class Function:
    """A function in C, and its meaning."""

    name: str
    source: str
    steps: list[Step]
    pools: Pools
    #: Whether errors of later steps may replace the error of the first step.
    collects: bool
    result: Result = INT
    calls: list[Call] = field(default_factory=list)

    def run(self, env: Env) -> Call | None:
        """A call that fails; None for one that does not."""
        names = env.names()
        found = None
        for step in self.steps:
            failed = step.run(names)
            if failed is not None:
                found = failed
                if not self.collects:
                    break
        if not found:
            return None
        value, expected = found
        if self.result is INT:
            return Call(env, value, expected)
        shape = f"{self.result.bad}: {expected.shape}"
        return Call(env, self.result.number, replace(expected, shape=shape))

    def env(self, rng: random.Random) -> Env:
        """Values that its conditions tell apart."""
        values = {name: 0 for name, *_ in Obj._fields_}
        values |= {f"ok{n}": 1 for n in range(4)}
        values |= {"found": 0x10000800, "arg": 0, "len": 0}
        by_name: dict[str, list[int]] = {}
        for name, value in self.pools.used:
            by_name.setdefault(name, []).append(value)
        for name, choices in by_name.items():
            values[name.removeprefix("a.")] = rng.choice(choices)
        types = by_name.get("chain", [1])
        chain = [(rng.choice(types), rng.choice(types)) for _ in range(rng.randrange(4))]
        array = [rng.choice(by_name.get("array", [1])) for _ in range(rng.randrange(5))]
        for name in ("next", "list", "node", "nr", "arr", "chain", "array"):
            values.pop(name, None)
        return Env(values, chain, array)


def _steps(
    rng: random.Random, pools: Pools, name: str, style: str, result: Result, kinds: Kinds
) -> list[Step]:
    kinds = kinds or (PLAIN if result.bad else STEPS)
    chosen = [rng.choice(kinds) for _ in range(rng.randrange(1, 5))]
    if style == "collect":  # each error is stored, and the last one is returned
        chosen = [If for _ in chosen]
    steps = [one(pools, f"{name}_{number}") for number, one in enumerate(chosen)]
    if style == "collect":
        for step, errno in zip(steps, rng.sample((22, 1, 16, 95, 2), len(steps)), strict=True):
            step.errno, step.shape = errno, "later error wins"
    if result.bad and rng.random() < LAST:
        steps.append(Last(pools, f"{name}_{len(steps)}", result))
    return steps


def _fails(style: str, result: Result) -> Callable[[str], str]:
    """The statement that fails with a value."""
    kept = "ok" if result.bad else "err"

    def fail(value: str) -> str:
        value = result.bad or value
        if style == "return":
            return f"return {value};"
        store = f"{kept} = {value};" if value != kept else ""
        return store if style == "collect" else f"{{ {store} goto out; }}"

    return fail


def _function(rng: random.Random, name: str, kinds: Kinds) -> Function:
    pools = Pools(rng)
    result = rng.choice(RESULTS) if rng.random() < PLAINLY else INT
    style = rng.choice(STYLES[:-1] if result.bad else STYLES)
    steps = _steps(rng, pools, name, style, result, kinds)
    body: list[str] = ["int err = 0;", "struct obj *p = a;", "note(1);"]
    body += [f"{result.c} ok = {result.good};"] if result.bad else []
    for step in steps:
        own = style if style != "mixed" else rng.choice(("return", "goto"))
        body += step.lines(_fails(own, result))
        if rng.random() < 0.4:
            body.append(f"note({rng.randrange(50, 90)});")
        if rng.random() < 0.3:
            body.append("if (a->rest & 2) note(91);")
    body.append("err = 0;" if style != "collect" else "")
    body += ["note(2);", "out: __attribute__((unused));"]
    if rng.random() < 0.5:
        body.append("if (a->rest & 1) release(a);")
    if rng.random() < 0.3:
        body.append("if (ask3(a)) note(3);" if rng.random() < 0.5 else "release(p);")
    body.append("return ok;" if result.bad else "return err;")
    before = [line for step in steps for line in step.before]
    lines = [
        *before,
        f"CASE {result.c} {name}(struct obj *a, int arg, u64 len)",
        "{",
        *(f"\t{line}" for line in body),
        "}",
        "",
    ]
    return Function(name, "\n".join(lines), steps, pools, style == "collect", result)


def generate(
    seed: int, count: int, calls: int = 6, tries: int = 150, kinds: Kinds = ()
) -> list[Function]:
    """``count`` functions, each with up to ``calls`` failing calls that have different reasons.

    ``kinds``: the kinds of their steps, if not all.
    """
    rng = random.Random(seed)
    made = []
    for number in range(count):
        function = _function(rng, f"f{number}", kinds)
        seen: dict[Expected, int] = {}
        for _ in range(tries):
            call = function.run(function.env(rng))
            if call is None or seen.get(call.expected, 0) >= 2:
                continue
            call.env.values["rest"] = rng.randrange(4)
            if not any(getattr(one, "call", "") == "ask3" for one in function.steps):
                call.env.values["err3"] = rng.choice((0, -5))
            seen[call.expected] = seen.get(call.expected, 0) + 1
            function.calls.append(call)
            if len(function.calls) >= calls:
                break
        made.append(function)
    return made
