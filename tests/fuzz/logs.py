# SPDX-License-Identifier: BSD-2-Clause
"""Damaged logs of the verifier and of loaders, and forbidden effects on ``explain``."""

from __future__ import annotations

import ast
import random
from pathlib import Path

from tests.fuzz.objects import explained
from tests.fuzz.recordings import STRINGS, complaint

TESTS = Path(__file__).parents[1] / "unit" / "load"
#: Words that rules search for, words after which rules search on, and separators that patterns
#: repeat.
_WORDS = (
    *("libbpf:", "prog 'x':", "map 'm':", "failed to", "error", "-EINVAL", "-22", "invalid", "R1"),
    *("-- BEGIN PROG LOAD LOG --", "-- END PROG LOAD LOG --", "processed 7 insns", "CONFIG_BPF"),
    *("/sys/module/x/", "unknown func", "type=scp expected=fp", "off=0 size=8", "fp-8", "#35"),
    *("BTF", "vmlinux", "kprobe", "Permission denied", "Invalid argument", "is not set", "0x7fff"),
)
_SEPARATORS = (" ", ".", ":", ": ", "\t", "=", "/", "(", "'", '"', "[", "-", "\\", "0", "x", ",")


def texts() -> list[str]:
    """Return the logs in the tests of ``load``."""
    found = {(TESTS / "agent.log").read_text(errors="replace")}
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return sorted(text for text in found if "\n" in text or len(text) > 40)


class Logs:
    """A generator of damaged logs; ``chance`` makes the choices."""

    def __init__(self) -> None:
        self.texts = texts()
        self.lines = sorted({line for text in self.texts for line in text.splitlines()})

    def make(self, chance: random.Random) -> bytes:
        """Return a new log."""
        lines = chance.choice(self.texts).splitlines()
        for _ in range(chance.choice((1, 2, 4, 8))):
            at = chance.randrange(len(lines) + 1)
            match chance.randrange(5):
                case 0:
                    lines.insert(at, chance.choice(self.lines))
                case 1:
                    lines[at:at] = chance.choice(self.texts).splitlines()
                case 2 if lines:
                    del lines[at : at + chance.choice((1, 2, 8))]
                case 3 if lines:
                    lines.append(lines[at % len(lines)])
                case _ if lines:
                    at %= len(lines)
                    lines[at] = self._changed(chance, lines[at])
        data = "\n".join(lines)[: 1 << 15].encode(errors="surrogateescape") + b"\n"
        if chance.random() < 0.1:
            raw = bytearray(data)
            raw[chance.randrange(len(raw))] = chance.randrange(256)
            data = bytes(raw)
        return data

    def _changed(self, chance: random.Random, line: str) -> str:
        words = line.split(" ")
        at = chance.randrange(len(words))
        match chance.randrange(6):
            case 0:
                words[at] = chance.choice(_WORDS)
            case 1:  # many repetitions of a part that a pattern repeats, then other text
                words.insert(at, chance.choice(_SEPARATORS) * chance.choice((2, 30, 600)) + "y")
            case 2:
                words[at] = chance.choice(("-1", "0", str(1 << 63), str(1 << 70), "0x", "07"))
            case 3:
                words.insert(at, chance.choice(STRINGS))
            case 4:
                words.insert(at, words[chance.randrange(len(words))])
            case _:
                del words[at]
        return " ".join(words)


def damage(path: Path) -> str | None:
    """Run ``explain`` on the log at ``path``. Return a forbidden effect, or None."""
    return complaint(explained(str(path)))
