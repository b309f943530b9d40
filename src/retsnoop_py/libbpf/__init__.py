# SPDX-License-Identifier: BSD-2-Clause
"""Thin Python objects over libbpf: each owns its handle and raises with errno and the log."""

from pathlib import Path

from retsnoop_py.libbpf.object import BpfMap, BpfObject, FdLink, Link, Program
from retsnoop_py.libbpf.reader import Reader

#: Where the compiled BPF objects lie.
OBJECTS = Path(__file__).resolve().parent.parent / "bpf"

__all__ = ["OBJECTS", "BpfMap", "BpfObject", "FdLink", "Link", "Program", "Reader"]
