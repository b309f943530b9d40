# SPDX-License-Identifier: BSD-2-Clause
"""What an explanation is, and the lines of ``--format json`` of explain and load."""

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

#: Grows when a field changes its meaning or goes away; new fields may come without that.
VERSION = 1


#: What a line of a loader means: id, title, pattern, reason and suggestion.
LineRule = tuple[str, str, str, str, str]
#: Words by which a line complains of what it names.
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
    """An explanation of ``line``, which a loader wrote; "" where nothing was written."""
    return Explanation(id_, title, reason, suggestion, (line.strip()[:500],) if line else ())


def about(nouns: str, complaint: str = _COMPLAINT) -> str:
    """The pattern of a line that names one of ``nouns`` and complains, whatever stands first."""
    return rf"^(?=.*?(?:{nouns}))(?=.*?(?:{complaint}))"


class Explained(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="explanation"):
    """A failure that ``explain`` found in a log, which begins at ``line`` of the input."""

    version: int
    line: int
    explanation: Explanation
    program: str = ""
    errno: str = ""
    instructions: int | None = None


#: What libbpf refuses by itself: the kernel is not asked.
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
    #: When it was refused: two times of CLOCK_MONOTONIC, in ns, between which that was.
    span: tuple[int, int] | None = None
    explanation: Explanation | None = None
    #: The verifier's whole log, where logs were asked for.
    log: str = ""

    @property
    def part(self) -> tuple[str, ...]:
        """Which part this is of, in which shape, on which kernel."""
        return (self.kernel, self.object, self.kind, self.name, self.shape)

    @property
    def is_wordless(self) -> bool:
        """Whether the kernel refused it and wrote nothing: where it failed is in no log."""
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
        """Whether it is not as it should be."""
        return self.verdict not in ("ok", "unattached")
