# SPDX-License-Identifier: BSD-2-Clause
"""Functions that are never traced.

The list is ``deny.toml``; ``deny_list.py`` is the same for Python, which reads it in no time
where parsing TOML is a noticeable part of starting. To make it anew::

    python -m retsnoop_py.select.deny
"""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.value import Value

__all__ = ["Deny", "load", "to_python"]

_HERE = Path(__file__).parent
_HEADER = """\
# SPDX-License-Identifier: BSD-2-Clause
\"\"\"``deny.toml`` as made by ``python -m retsnoop_py.select.deny``: group, reason, globs.\"\"\"

from __future__ import annotations

DENY: tuple[tuple[str, str, tuple[str, ...]], ...] = (
"""


class Deny(Value):
    """One glob of the list; ``group`` is a kind of reason, see the head of the file."""

    glob: str
    reason: str
    group: str


def load() -> tuple[Deny, ...]:
    """The whole list, in the order of the file."""
    from retsnoop_py.select.deny_list import DENY

    return tuple([Deny(glob, reason, group) for group, reason, globs in DENY for glob in globs])


def to_python(text: str) -> str:
    """The text of ``deny_list.py`` for that of ``deny.toml``."""
    import json
    import tomllib

    parts = [_HEADER]
    for entry in tomllib.loads(text)["deny"]:
        # JSON's strings are Python's, with the quotes the formatter wants.
        group, reason = json.dumps(entry["group"]), json.dumps(entry["reason"])
        globs = "".join(f"            {json.dumps(glob)},\n" for glob in entry["globs"])
        parts.append(
            f"    (\n        {group},\n        {reason},\n        (\n{globs}        ),\n    ),\n"
        )
    return "".join([*parts, ")\n"])


if __name__ == "__main__":
    made = to_python((_HERE / "deny.toml").read_text())
    (_HERE / "deny_list.py").write_text(made)
