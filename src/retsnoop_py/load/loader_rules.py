# SPDX-License-Identifier: BSD-2-Clause
"""Explain the messages of libbpf and other loaders that need no verifier log.

Each rule of ``environment_rules``, ``attach_rules`` and ``object_rules`` matches one line. No rule
matches lines that only repeat a failure. ``map_rules`` has the rules for maps, ``operation_rules``
the meaning of an errno for an operation, and ``errno_rules`` the meaning of an errno alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import structs

from retsnoop_py.cause.shell import is_plain_word
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.load import since
from retsnoop_py.load.attach_rules import ATTACH_RULES
from retsnoop_py.load.environment_rules import ENVIRONMENT_RULES, VAGUE_RULES
from retsnoop_py.load.errno_rules import EPERM_TEXT, errno_in, explain_errno
from retsnoop_py.load.map_rules import MapFacts, explain_map
from retsnoop_py.load.model import Explanation, LineRule, about_line
from retsnoop_py.load.object_rules import OBJECT_RULES
from retsnoop_py.load.operation_rules import explain_operation, of_xsk
from retsnoop_py.load.own_rules import OWN_RULES
from retsnoop_py.load.prefilter import PatternSet
from retsnoop_py.load.script_rules import LAST_SCRIPT_RULES, SCRIPT_RULES
from retsnoop_py.text import close_names

__all__ = ["explain_line", "is_of_map"]

_SUPPORT = "Kernel Support"

#: The first match counts. Rules about the machine are the most exact, then rules about targets,
#: then rules about objects.
_RULES: tuple[LineRule, ...] = (
    *SCRIPT_RULES,
    *OWN_RULES,
    *ENVIRONMENT_RULES,
    *ATTACH_RULES,
    *OBJECT_RULES,
    *VAGUE_RULES,
    *LAST_SCRIPT_RULES,
)
_PATTERNS = PatternSet([row[2] for row in _RULES], re.IGNORECASE)
_MAP = re.compile(
    r"map '(?P<name>[^']+)': failed to create(?: inner map)?: (?P<why>.*)"
    r"|(?:map \"?(?P<name3>[\w.-]+)\"?: )?\bmap create(?: without BTF)?: (?P<why3>.*)"
    r"|could not open bpf map: (?P<name6>[\w.-]+), error: (?P<why6>.*)"
    r"|bpf_create_map_xattr: (?P<why7>.*)"
    r"|(?:can't|cannot|could not|couldn't|unable to|error) creat(?:e|ing) (?:the )?(?:e?BPF )?map:? ?(?:'?(?P<name9>[\w.-]+)'?)?: (?P<why10>.*)"
    r"|failed to create map \(name: '(?P<name8>[^']+)'\): (?P<why8>.*)|could not open bpf map: (?P<why9>[A-Z].*)"
    r"|[Ff]ailed to create (?:BPF )?map `?'?(?P<name4>[\w.-]+)[`']?.*?(?P<why4>(?:code|with|error|:).*)"
    r"|creating map (?!ELF )(?P<name5>\S+?):? (?P<why5>.*)"
)


#: Messages that a loader prints for a missing target, a target in use and a target without access.
#: The errno makes the difference.
_OPENED = (
    *("tracepoint-missing", "kprobe-target", "uprobe-target", "attach-target-missing", "buffer"),
)
_NOT_MISSING = (
    *("EPERM", "EACCES", "EBUSY", "EEXIST", "ENOMEM", "EMFILE", "EOPNOTSUPP", "EADDRNOTAVAIL"),
)
#: Words at the place of a name that name the kind of attachment instead.
_NO_NAME = ("multi", "session", "event", "events", "probe", "probes")
#: Messages about XDP programs that mean something else for sockets (AF_XDP).
_OF_XDP = ("attach-busy", "attach-unsupported", "interface-missing")
#: A failed bpf(2) call in the output of strace(1), and the fields of a map.
_CALL = re.compile(r"\bbpf\((?P<command>BPF_\w+), (?P<fields>.*)\)\s+= -1 (?P<errno>E[A-Z0-9]+)\b")
_FIELD = re.compile(
    r"\b(map_type|key_size|value_size|max_entries|map_flags|map_name)=(\"[^\"]*\"|\w+)"
)


#: The kernel version for which a kprobe program was built.
_KPROBE_FOR = re.compile(
    r"prog_type=BPF_PROG_TYPE_KPROBE,.*kern_version=KERNEL_VERSION\((?!0, 0, 0)(\d+), (\d+), (\d+)\)"
)
#: Other messages about creating a map, with an errno at the end.
_MAP_MADE = re.compile(
    r"creat\w*\W(?:[^\s:]+ ){0,3}?maps?\b(?! (?:entry|base|dir|pin|path))(?:\W{1,3}(?P<name>@?[\w.-]++)\W{0,2})?.*?:",
    re.IGNORECASE,
)
#: Every line that matches a rule contains one of these words. Most lines of a daemon contain none.
_TOPICS = (
    *(
        "bpf",
        "map",
        "prog",
        "probe",
        "trac",
        "perf",
        "xdp",
        "btf",
        "co-re",
        "relo",
        "elf",
        "attach",
        "executable",
    ),
    *("link", "pin", "cgroup", "qdisc", "filter", "interface", "lsm", "kernel", "symbol", "kfunc"),
    *(
        "extern",
        "struct_ops",
        "verif",
        "insn",
        "mlock",
        "rlim",
        "lock",
        "cap_",
        "privilege",
        "root",
    ),
    *("permission", "permitted", "config", "ring", "buffer", "section", "license", "clang", "llvm"),
    *(
        "llc",
        ".o",
        ".c",
        ".h",
        "stack",
        "helper",
        "load",
        "xsk",
        "umem",
        "usdt",
        "skeleton",
        "mount",
    ),
    *(
        "exclusiv",
        "exit kind",
        "mtu",
        "netdev",
        "dispatcher",
        "event",
        "ksym",
        "object",
        "endian",
        "clsact",
        "tc",
    ),
    *("device", "module", "nlmsg", "cookie", "capability", "func", "cpu", "program", "header"),
    *(
        "sa_family",
        "glibc",
        "undefined symbol",
        "syscall=",
        "kptr",
        "libelf",
        "unsupported",
        "/usr/src",
        "/lib/mod",
        "garbage",
        "perf:",
        "perf ",
        "size",
        "page count",
        "instructions:",
        "(pin)",
        "pinned",
        "slots in",
        "die of",
        "debuginfo",
        "debug info",
        "zero-copy",
        "signedness",
        "matching types",
        "unknown kind",
        "identifier",
        "error,",
        "hash mismatch",
        "unknown type",
        "unknown struct",
        "struct/union",
        "symbol",
        "no jump",
        "struct_ops",
    ),
)


class _Found(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?" if key == "name" else ""

    def in_commands(self) -> _Found:
        """Return these values for a suggestion, where they are words of commands.

        The author of a log chooses them. A value that a shell would not read as one word is
        replaced by the name of its field in capitals, such as NAME.
        """
        return _Found(
            {key: text if is_plain_word(text) else key.upper() for key, text in self.items()}
        )


@lru_cache(maxsize=4096)
def is_of_map(line: str) -> bool:
    """Return True if ``line`` reports that a map could not be created."""
    return _MAP.search(line) is not None


def explain_line(line: str) -> Explanation | None:
    """Return the explanation of a loader's line; None if the line reports no failure of its own."""
    line = line.strip()
    low = line.lower()
    if not any(topic in low for topic in _TOPICS):
        return None
    if call := _CALL.search(line):
        told = _explain_call(call, line)
        if told is not None:
            return told
    if found := _MAP.search(line):
        groups = {key.rstrip("0123456789"): text for key, text in found.groupdict().items() if text}
        kind, entries = _hinted(groups.get("why", ""))
        error = errno_in(groups.get("why", ""))
        it = MapFacts(groups.get("name", ""), kind, entries=entries)
        return explain_map(it, error, line=line)
    for number, found in _PATTERNS.search(line):
        id_, title, _, reason, suggestion = _RULES[number]
        facts = _Found(
            {
                key.rstrip("0123456789"): text.strip().rstrip(".")
                for key, text in found.groupdict().items()
                if text
            }
        )
        if _is_other(id_, facts, line) and (told := explain_operation(line)) is not None:
            return told
        if reason is EPERM_TEXT:
            told = explain_operation(line)
            if told is not None and told.id == id_ and not told.reason.endswith(EPERM_TEXT):
                return told
        _extend(id_, facts)
        why, step = reason.format_map(facts), suggestion.format_map(facts.in_commands())
        if "name" not in facts:
            why = why.replace("function ? that", "function of that name that").replace(" ?", "")
            step = step.replace("*?*", "*NAME*")
        return about_line(id_, title, why, step, line)
    if made := _MAP_MADE.search(line):
        told = _explain_made(made["name"] or "", line)
        if told is not None:
            return told
    return explain_operation(line)


def _is_other(id_: str, facts: dict[str, str], line: str) -> bool:
    """Return True if the operation of ``line`` explains its errno better than the rule."""
    errno = errno_in(line)
    return (
        (id_ in _OPENED and errno in _NOT_MISSING)
        or (id_ == "kprobe-target" and errno == "EINVAL")
        or (id_ in _OF_XDP and of_xsk(line))
        or facts.get("name") in _NO_NAME
    )


def _explain_made(name: str, line: str) -> Explanation | None:
    """Return the explanation of a map that was not created; None if ``line`` reports no failure."""
    if error := errno_in(line):
        return explain_map(MapFacts(name), error, line=line)
    if not re.match(r"\W*(?:error|fail)", line, re.IGNORECASE):
        return None
    label = f"Map {name}" if name else "A map"
    return about_line(
        "map-refused",
        f"{_SUPPORT}: Map that cannot be created",
        f"{label} cannot be created, and the loader prints no errno. Usual causes: the limit of locked memory (ulimit -l,"
        " before Linux 5.11), missing privileges, or a map type that the kernel does not have.",
        "strace -f -e bpf COMMAND shows the errno and the map's type; run as root with ulimit -l unlimited.",
        line,
    )


def _explain_call(call: re.Match[str], line: str) -> Explanation | None:
    """Return the explanation of a strace(1) line if its fields or errno are informative."""
    if call["command"] == "BPF_MAP_CREATE":
        fields = dict(_FIELD.findall(call["fields"]))
        kind = fields.get("map_type", "")
        sizes = [_number(fields.get(one, "")) for one in ("max_entries", "key_size", "value_size")]
        it = MapFacts(
            fields.get("map_name", "").strip('"'),
            max(_number(kind), 0) or _map_number(kind.removeprefix("BPF_MAP_TYPE_")),
            max(_number(fields.get("map_flags", "")), 0),
            *sizes,
        )
        told = explain_map(it, call["errno"], line=line)
        return _with_a_name(told) if it.name and told.id == "map-definition" else told
    if call["command"] == "BPF_PROG_LOAD":
        told = explain_errno(call["errno"], "a program", line)
        version = _KPROBE_FOR.search(call["fields"])
        return _for_another(told, version) if told.id == "invalid" and version else told
    if call["command"] == "BPF_BTF_LOAD" and call["errno"] not in ("EPERM", "ENOMEM", "ENOSYS"):
        return explain_line(f"Error loading BTF: {call['errno']}")
    return None


def _with_a_name(told: Explanation) -> Explanation:
    """Return the explanation of a named map whose definition may be correct."""
    return structs.replace(
        told,
        reason=f"{told.reason} Or it is older than 4.15: the call gives the map a name (map_name), which"
        " kernels before that do not know.",
    )


def _for_another(told: Explanation, version: re.Match[str]) -> Explanation:
    """Return the explanation of a kprobe program that requires one kernel version."""
    release = f"{version[1]}.{version[2]}.{version[3]}"
    return structs.replace(
        told,
        reason=f"{told.reason} The program is a kprobe's, made for Linux {release}: kernels before 5.0 take such a"
        " one only if that is the kernel that runs.",
        suggestion=f"Compare with uname -r: the version comes of the headers that the loader was built with, or finds."
        f" {told.suggestion}",
    )


def _number(text: str) -> int:
    """Return the value of a field in decimal or 0x; -1 if missing, named, or no 64-bit number."""
    if not re.fullmatch(r"[0-9]{1,20}|0x[0-9a-f]{1,16}", text):
        return -1
    return int(text, 16 if text.startswith("0x") else 10)


def _hinted(why: str) -> tuple[int, int]:
    """Return the map type and max_entries from a hint of cilium/ebpf; 0 and -1 if unknown."""
    if "MaxEntries may be incorrectly set to zero" in why:
        return 0, 0
    if "NO_PREALLOC flag may need to be set for map type LPMTrie" in why:
        return _map_number("LPM_TRIE"), -1
    return 0, -1


def _map_number(name: str) -> int:
    known = since.by_name("map_types", name)
    return known.number if known else 0


#: Nouns for lines without a name.
_UNNAMED = {
    "attach-target-missing": "a function",
    "file-missing": "of the name that the loader has",
    "kconfig": "its options",
    "name-missing": "one",
    "pin": "It",
}


def _relocated(said: str) -> str:
    """Return the subject of a relocation, taken from libbpf's message."""
    found = re.search(r"\] (.*?)(?: \(|>|$)", said)
    what = re.sub(r"\s*: -?\d+$", "", found[1] if found else said)
    if what in ("struct", "union", "enum"):
        article = "an" if what == "enum" else "a"
        return f"{article} {what} without a name (so it cannot be found)"
    return what or "a type, member or enumerator"


def _extend(id_: str, facts: dict[str, str]) -> None:
    name = facts.get("name", "")
    if id_ == "kfunc-missing" and (known := since.by_name("kfuncs", name)):
        facts["since"] = f"; it came with Linux {known.since}"
    if id_ == "core-relocation":
        facts["name"] = _relocated(name)
    if id_ == "kprobe-target" and ":" in name:
        facts["name"] = name.rpartition(":")[2]  # of MODULE:FUNCTION
    if facts.get("why"):
        facts["why"] = ": " + facts["why"].lstrip(": ").rstrip(".!")
    elif facts.get("err"):
        number = abs(int(facts["err"]))
        facts["why"] = f": {ERRNO_NAMES.get(number, number)}"
    if "name" not in facts and id_ in _UNNAMED:
        facts["name"] = _UNNAMED[id_]
    if id_ == "section-unknown":
        section = facts.get("section", "")
        facts["near"] = _near_section(section)
        facts["section"] = f"'{section}'" if section else f"that of {facts.get('name', 'this one')}"
    if id_ == "unsupported" and "name" not in facts and facts.get("since"):
        facts["since"] = f": it asks for Linux {facts['since']}"
    if id_ == "program-type-unsupported":
        known = since.by_name("program_types", name.upper())
        release = facts.get("since") or (known.since if known else "")
        facts["since"] = f": they came with Linux {release}" if release else ""


#: Sections that people often misspell, from libbpf's own table.
_SECTIONS = (
    *(
        "kprobe",
        "kretprobe",
        "ksyscall",
        "kretsyscall",
        "uprobe",
        "uretprobe",
        "usdt",
        "kprobe.multi",
    ),
    *("kretprobe.multi", "kprobe.session", "uprobe.multi", "uprobe.session", "tracepoint", "tp"),
    *(
        "raw_tracepoint",
        "raw_tp",
        "tp_btf",
        "fentry",
        "fexit",
        "fmod_ret",
        "freplace",
        "lsm",
        "iter",
    ),
    *("syscall", "xdp", "xdp.frags", "tc", "tcx/ingress", "tcx/egress", "classifier", "action"),
    *("netkit/primary", "netkit/peer", "perf_event", "socket", "sk_msg", "sk_lookup", "sockops"),
    *("sk_skb/stream_parser", "sk_skb/stream_verdict", "cgroup_skb/ingress", "cgroup_skb/egress"),
    *("cgroup/skb", "cgroup/sock_create", "cgroup/connect4", "cgroup/connect6", "cgroup/bind4"),
    *("cgroup/dev", "cgroup/sysctl", "cgroup/getsockopt", "cgroup/setsockopt", "lwt_in", "lwt_out"),
    *("lwt_xmit", "flow_dissector", "struct_ops", "netfilter", "lirc_mode2", "sk_reuseport"),
)


def _near_section(section: str) -> str:
    head, slash, rest = section.partition("/")
    if known := since.attach_type_of(section):
        return f" Later releases of libbpf know it. The feature needs Linux {known.since}."
    near = close_names(section.lower(), _SECTIONS, 1) or close_names(head.lower(), _SECTIONS, 1)
    if not near:
        return ""
    full = near[0] + (slash + rest if "/" not in near[0] else "")
    if full != section:
        return f" Did you mean '{full}'?"
    return (
        f" If it means '{head}': libbpf 1.0 and later takes nothing behind the name of a type that has no"
        " target, and an older one may not know it yet."
    )
