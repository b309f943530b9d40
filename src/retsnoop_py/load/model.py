# SPDX-License-Identifier: BSD-2-Clause
"""Define explanations, and the lines that explain and load print with ``--format json``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "VERSION",
    "Condition",
    "Evidence",
    "Explained",
    "Explanation",
    "LineRule",
    "LoadResult",
    "Place",
    "about",
    "about_line",
]

#: Increased if a field changes its meaning or is removed. New fields need no new version.
VERSION = 1


#: A rule for a loader's line: id, title, pattern, reason and suggestion.
LineRule = tuple[str, str, str, str, str]
#: Words of complaint about the thing that a line names.
_COMPLAINT = (
    r"fail|error|unable|missing|lack|denied|invalid|unsupported|unavailable|disabled|inactive"
    r"|\b(?:can|could|do|does|did|is|are|was|has|have|must|should)(?: ?not|n['\u2019]t)\b"
    r"|\bnot?\b|requir|\bneeds?\b|must be|should be|mismatch|exceed|reached|incompatib|unknown"
    r"|undefined|refuse|reject|restrict|prevent|forbid|block|without"
)


class Place(Struct, omit_defaults=True, frozen=True):
    """A line of the program's source; ``context``: lines around it, by their number."""

    text: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    context: tuple[tuple[int, str], ...] = ()


class Evidence(Struct, omit_defaults=True, frozen=True):
    """A step of the way to the failure.

    ``role``: ``made`` the value that is refused, ``changed`` or ``lost`` what was known of it,
    ``checked`` it, or ``needed`` what was not proven. ``instruction`` is its number, -1 where it
    is not known, ``text`` the instruction as the verifier writes it.
    """

    role: Literal["made", "checked", "changed", "lost", "needed", "visited"]
    text: str
    instruction: int = -1
    note: str = ""
    place: Place | None = None


class Condition(Struct, omit_defaults=True, frozen=True):
    """Where a function of the kernel made its result, and which condition decided that.

    As ``retsnoop-py why`` tells it. ``returned`` and ``place`` (of the condition) are
    FILE:LINE:COLUMN where there is debug information, else FUNCTION+OFFSET. ``condition`` is in
    C, an instruction where nothing has a name; ``values``: what its operands were, null where that
    could not be read. ``lines``: all of that for people.
    """

    function: str
    returned: str = ""
    place: str = ""
    condition: str = ""
    values: dict[str, int | None] = {}
    lines: tuple[str, ...] = ()


class Explanation(Struct, omit_defaults=True, frozen=True):
    """Why something was refused.

    ``id`` is stable. ``title`` is ``Category: what`` as Linux 7.3 has it. ``words`` are the
    decisive lines of the log; ``kernel``: the block the kernel itself wrote (7.3), where it did.
    ``chain``: where there is no log, the calls in the kernel that failed, outermost first;
    ``conditions``: by what the last of them did, then those of what that tested; ``said``: what
    the kernel wrote meanwhile, as dmesg(1) and netlink have it.
    """

    id: str
    title: str
    reason: str
    suggestion: str = ""
    words: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    said: tuple[str, ...] = ()
    place: Place | None = None
    instruction: str = ""
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()


def about_line(id_: str, title: str, reason: str, suggestion: str, line: str = "") -> Explanation:
    """Return an explanation of a loader's ``line``; an empty ``line`` is omitted."""
    return Explanation(id_, title, reason, suggestion, (line.strip()[:500],) if line else ())


def about(nouns: str, complaint: str = _COMPLAINT) -> str:
    """Return a pattern for a line with one of ``nouns`` and a complaint, in any order."""
    return rf"^(?=.*?(?:{nouns}))(?=.*?(?:{complaint}))"


class Explained(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="explanation"):
    """A failure that ``explain`` found in a log, which begins at ``line`` of the input."""

    version: int
    line: int
    explanation: Explanation
    program: str = ""
    errno: str = ""
    instructions: int | None = None


#: Reasons that libbpf itself rejects, without a system call.
_LOADERS_OWN = frozenset(
    {
        "attach-section",
        "attach-target-missing",
        "core-relocation",
        "freplace-target",
        "section-unknown",
        "struct-ops-missing",
    }
)


class LoadResult(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="load"):
    """What became of one part of one object on one kernel.

    ``kind``: which part ``name`` is; the object itself has no name. ``verdict``: ``ok``;
    ``refused``; ``blocked`` by another part that was refused; ``unattached``: loaded, and there is
    nothing that it can be attached to by itself; and of a kernel: ``crashed``, ``unbooted``,
    ``timeout``. ``reason`` is the explanation's id. ``instructions``: those the verifier followed.
    """

    version: int
    kernel: str
    object: str
    kind: Literal["object", "btf", "map", "extern", "program", "attach", "kernel"]
    verdict: Literal["ok", "refused", "blocked", "unattached", "crashed", "unbooted", "timeout"]
    name: str = ""
    shape: str = ""
    release: str = ""
    section: str = ""
    errno: str = ""
    reason: str = ""
    source: Place | None = None
    instructions: int | None = None
    seconds: float = 0.0
    #: Start and end of the rejected operation, in ns of CLOCK_MONOTONIC.
    span: tuple[int, int] | None = None
    explanation: Explanation | None = None
    #: The whole verifier log, if logs were requested.
    log: str = ""

    @property
    def part(self) -> tuple[str, ...]:
        """Return what identifies this part: kernel, object, kind, name and shape."""
        return (self.kernel, self.object, self.kind, self.name, self.shape)

    @property
    def is_wordless(self) -> bool:
        """Return True if the kernel rejected the part without a message: no log explains it."""
        why = self.explanation
        return (
            self.verdict == "refused"
            and self.span is not None
            and self.reason not in _LOADERS_OWN
            and why is not None
            and not (why.kernel or why.instruction)
            and all(word.startswith("libbpf:") for word in why.words)
        )

    @property
    def is_failure(self) -> bool:
        """Return True if the verdict is a failure."""
        return self.verdict not in ("ok", "unattached")
