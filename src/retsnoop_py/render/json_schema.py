# SPDX-License-Identifier: BSD-2-Clause
"""``docs/json-schema.json``: ``python -m retsnoop_py.render.json_schema`` prints it."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from retsnoop_py.load.model import Explained, LoadResult
from retsnoop_py.render.difference import Difference
from retsnoop_py.render.json_types import VERSION, RunResult, Session, Summary
from retsnoop_py.render.why_types import Why

_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A line of `retsnoop-py --format json`",
    "version": VERSION,
}


def schema() -> dict[str, Any]:
    """The JSON schema of a line."""
    (found,), parts = msgspec.json.schema_components(
        [Session | Summary | RunResult | Explained | LoadResult | Difference | Why],
        ref_template="#/$defs/{name}",
    )
    for part in parts.values():
        part["description"] = inspect.cleandoc(part["description"])
    return {**_HEAD, **found, "$defs": dict(sorted(parts.items()))}


def schema_text() -> str:
    """The file as it is to be."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
