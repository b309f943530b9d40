# SPDX-License-Identifier: BSD-2-Clause
"""Objects that kernels reject, loaded on each kernel: verdict, reason and line of every part.

The expected result of a part is a remark at the source line that the reason must name::

    return data[12]; // refused: packet-bounds
    } arena SEC(".maps"); // refused: map-type-unsupported -6.8
    return 0; // refused: attach-target-missing on arm64

``-6.8``: up to that Linux; ``6.9-``: from that Linux on; otherwise on all. A part without a remark
loads everywhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.examples import difference, examples, shown
from tests.live.conftest import selected
from tests.live.support import TOOL, series

from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.load import since
from retsnoop_py.vm.architecture import host, split
from retsnoop_py.vm.machine import Machine

OBJECTS = Path(__file__).parent / "objects"
ROOT = Path(__file__).parents[2]

FUNCTION = re.compile(r"(?:__attribute__\(\(\w+\)\) )?(?:int|__u32|void) (?:BPF_PROG\()?(\w+)\(?")
MAP = re.compile(r"\} (\w+) SEC\(\"\.maps\"\)|(?:PAGES|TABLE)\((\w+),|struct \w+_ops (\w+) = \{")
EXTERN = re.compile(r"extern .*?(\w+)(?:\([^)]*\))? __(?:ksym|kconfig)")
REMARK = re.compile(
    r"(attach )?(refused|blocked): ([\w-]+)(?: (-)?(\d+)\.(\d+)(-)?)?(?: on (\w+))?"
)

#: What is found where the program has been followed to its end, at no line of its own.
WITHOUT_LINE = {"stack-size"}
ENUMS = (
    ("helpers", "bpf_func_id", "BPF_FUNC_"),
    ("map_types", "bpf_map_type", "BPF_MAP_TYPE_"),
    ("program_types", "bpf_prog_type", "BPF_PROG_TYPE_"),
    ("attach_types", "bpf_attach_type", "BPF_"),
)

#: Verdict, reason, and the line that has to be named, 0 where none is.
Outcome = tuple[str, str, int]


def expected(release: tuple[int, int], arch: str) -> dict[tuple[str, str, str], Outcome]:
    """Return the expected result of each part on this Linux and architecture, from the remarks."""
    found: dict[tuple[str, str, str], Outcome] = {}
    for source in sorted(OBJECTS.glob("*.bpf.c")):
        function = ""
        for number, line in enumerate(source.read_text().splitlines(), 1):
            code, _, remark = line.partition("// ")
            kind, name, at = "program", function, number
            if match := MAP.search(code):
                kind, name, at = "map", match[1] or match[2] or match[3], 0
            elif match := EXTERN.match(code):
                kind, name, at = "extern", match[1], 0
            elif match := FUNCTION.match(code):
                kind, name = "program", match[1]
                function = name
            for told in REMARK.finditer(remark):
                bound = (int(told[5]), int(told[6])) if told[5] else (0, 0)
                if (told[4] and release > bound) or (told[7] and release < bound):
                    continue
                if told[8] and told[8] != arch:
                    continue
                part = "attach" if told[1] else kind
                line_told = 0 if told[3] in WITHOUT_LINE else at
                found[source.stem + ".o", part, name] = (told[2], told[3], line_told)
    return found


def compiler(kernel: str) -> list[str]:
    """Return clang with its options for a BPF object of that kernel's machine.

    The types come from the host's headers, because they are the same on both architectures. A host
    does not need the headers of the other architecture.
    """
    includes = (str(ROOT / "build/libbpf/include"), f"/usr/include/{host().gnu}")
    name = split(kernel)[0].name
    machine = {"x86_64": "x86"}.get(name, name)
    words = [word for path in includes for word in ("-I", path)]
    return ["clang", "-target", "bpf", "-g", "-O2", f"-D__TARGET_ARCH_{machine}", *words]


@pytest.fixture(scope="session")
def objects_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Path]]:
    """All objects for each architecture, made before a guest boots: later ones it may not see."""
    made: dict[str, list[Path]] = {}
    for kernel in selected(request.config):
        name = split(kernel)[0].name
        if name in made:
            continue
        folder = tmp_path_factory.mktemp(f"objects-{name}")
        made[name] = []
        for source in sorted(OBJECTS.glob("*.bpf.c")):
            made[name].append(folder / f"{source.stem}.o")
            words = ["-mcpu=v3", "-Wall", "-Werror", "-c", str(source), "-o", str(made[name][-1])]
            subprocess.run([*compiler(kernel), *words], check=True)
            shutil.copy(source, folder)  # README.md has --source .
    return made


@pytest.fixture(scope="module")
def objects(objects_of: dict[str, list[Path]], machine: Machine) -> list[Path]:
    """Those for the machine's architecture."""
    return objects_of[machine.arch.name]


#: Objects that take 15 to 35 s each, of 210 s for all: ``make test`` does without them.
HEAVY = tuple(
    f"{name}.bpf.o" for name in ("btf", "large", "limits", "offers", "opsmember", "opswrong")
)


@pytest.fixture(scope="module")
def results(
    machine: Machine, objects: list[Path], request: pytest.FixtureRequest
) -> list[dict[str, Any]]:
    """One run over all objects; over those that are not heavy with ``--quick``."""
    if request.config.getoption("--quick"):
        objects = [one for one in objects if one.name not in HEAVY]
    words = [TOOL, "load", "--try-attach", "--yes", "--format", "json", *map(str, objects)]
    done = machine.run(words, timeout=450)
    assert done.status == 2, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    return list({(*part_of(one), one.get("shape", "")): one for one in told}.values())


def part_of(result: dict[str, Any]) -> tuple[str, str, str]:
    return Path(result["object"]).name, result["kind"], result.get("name", "")


def test_every_part_has_its_verdict_reason_and_line(
    machine: Machine, results: list[dict[str, Any]]
) -> None:
    loaded = {part_of(one)[0] for one in results}
    every = expected(series(machine), machine.arch.name)
    wanted = {part: told for part, told in every.items() if part[0] in loaded}
    assert len(wanted) > 40
    assert {part[0] for part in every.keys() - wanted.keys()} <= {*HEAVY}
    flags = machine.run(["grep", "-m1", "^flags", "/proc/cpuinfo"]).out.split()
    arena = ("maps.bpf.o", "map", "arena_of_6_9")
    is_old_cpu = flags and series(machine) >= (7, 2) and "cx16" not in flags
    if is_old_cpu and arena[0] in loaded:  # see docs/known-issues.md
        wanted[arena] = ("refused", "map-too-large", 0)
    if machine.run(["sh", "-c", "test -e /boot/config-$(uname -r)"]).status:
        # fetched before the kernel's configuration was kept
        wanted["config.bpf.o", "extern", "CONFIG_HZ"] = ("refused", "kconfig", 0)
        wanted["config.bpf.o", "program", "asks_for_hz"] = ("blocked", "kconfig", 0)
    wrong = []
    for result in results:
        part = part_of(result)
        if part == ("btf.bpf.o", "btf", ""):
            continue
        verdict, reason, line = wanted.pop(part, ("ok", "", 0))
        seen = (result["verdict"], result.get("reason", ""))
        if seen == ("unattached", ""):
            seen = ("ok", "")
        told = result.get("source", {}).get("line", 0)
        if seen != (verdict, reason) or (line and told != line):
            wrong.append((part, (verdict, reason, line), (*seen, told), result))
    assert not wrong, "\n".join(map(str, wrong))
    assert not wanted, "never seen"


@pytest.mark.slow
def test_what_is_said_names_what_matters_here(
    machine: Machine, results: list[dict[str, Any]]
) -> None:
    said = {part_of(one)[1:]: one["explanation"] for one in results if "explanation" in one}
    release = series(machine)
    gone = said["program", "field_gone"]
    assert "struct task_struct.no_such_field" in gone["reason"]
    assert "bpf_core_field_exists()" in gone["suggestion"]
    if release >= (6, 7):
        renamed = said["program", "field_renamed"]
        assert "struct inode.i_atime.tv_sec" in renamed["reason"]
        assert "i_atime_sec" in renamed["suggestion"]
    if release < (5, 17):
        assert "came with Linux 5.17" in said["program", "helper_of_5_17"]["reason"]
    if release < (6, 9):
        assert "BPF_MAP_TYPE_ARENA" in said["map", "arena_of_6_9"]["reason"]
    lost = said["program", "packet_check_lost"]
    assert "bpf_xdp_adjust_head()" in lost["reason"]
    assert [step["role"] for step in lost["evidence"]] == ["made", "lost"]
    assert lost["place"]["text"].startswith("return data[12] ? XDP_PASS : XDP_DROP;")
    assert bool(lost.get("kernel")) is (release >= (7, 3))
    assert "did you mean 'kprobe/vfs_read'" in said["program", "section_mistyped"]["reason"].lower()


def test_this_linux_has_what_since_toml_says(machine: Machine) -> None:
    """Each feature begins exactly at its version there; a feature missing there is not an error."""
    copy = machine.share / "vmlinux.btf"
    assert machine.run(["cp", "/sys/kernel/btf/vmlinux", str(copy)]).status == 0
    btf, release = Btf(copy.read_bytes()), series(machine)
    for kind, enum, prefix in ENUMS:
        type_id = btf.find(enum, Kind.ENUM)
        assert type_id is not None, enum
        here = {name.removeprefix(prefix) for name in btf.enumerators(type_id)}
        rows = since.table(kind)
        assert {row.name for row in rows if row.release <= release} <= here
        assert here.isdisjoint(row.name for row in rows if row.release > release)
    late = [row.name for row in since.table("kfuncs") if row.release > release]
    assert not btf.functions(late)


@pytest.mark.slow
def test_instructions_are_counted_and_refused_btf_is_told(results: list[dict[str, Any]]) -> None:
    seen = {part_of(one): one for one in results}
    assert seen["btf.bpf.o", "btf", ""]["reason"] == "btf-refused"
    assert seen["flow.bpf.o", "program", "loop_bounded"]["instructions"] > 300
    assert seen["limits.bpf.o", "program", "too_large"]["instructions"] > 1_000_000
    assert seen["limits.bpf.o", "program", "too_large"]["errno"] == "E2BIG"
    too_large = seen["limits.bpf.o", "program", "too_large"]["explanation"]["reason"]
    assert re.search(r"Followed most: .*for \(int i = 0; i < 1000000; i\+\+\)", too_large)
    assert "sum += bpf_get_prandom_u32()" in too_large
    uncounted = seen["large.bpf.o", "program", "instructions_uncounted"]["explanation"]
    assert "1,000,003 instructions" in uncounted["reason"]


@pytest.mark.slow
def test_what_the_kernel_logs_of_a_table_of_functions_is_told(
    machine: Machine, results: list[dict[str, Any]]
) -> None:
    """Older ones refuse it before they come to their message."""
    said = {part_of(one)[1:]: one["explanation"] for one in results if "explanation" in one}
    words = "rsn_no_undo does not implement required ops"
    is_logged = words in machine.run(["dmesg"]).out
    assert is_logged or series(machine) < (6, 12)
    assert (words in said["attach", "without_undo"]["reason"]) is is_logged


def test_where_the_kernel_writes_nothing_its_own_functions_are_told(
    results: list[dict[str, Any]],
) -> None:
    said = {part_of(one)[1:]: one["explanation"] for one in results if "explanation" in one}
    assert said["map", "array_key"]["chain"][-1].startswith("array_map_alloc_check  [EINVAL]")
    assert said["map", "trie_without_flag"]["chain"][-1].endswith("  [EINVAL]")
    key = said["map", "array_key"]["conditions"][0]
    assert key["function"] == "array_map_alloc_check"
    assert 8 in key["values"].values()
    # The verifier explains this refusal, so the kernel's functions are not needed.
    assert "chain" not in said["program", "packet_unchecked"]


@pytest.mark.slow
def test_of_a_refused_attachment_the_kernels_functions_are_told(
    results: list[dict[str, Any]],
) -> None:
    said = {part_of(one)[1:]: one["explanation"] for one in results if "explanation" in one}
    assert "[ENOENT]" in said["attach", "raw_tracepoint_missing"]["chain"][-1]
    assert "closed to kprobes" in said["attach", "kprobe_closed"]["reason"]
    assert "no symbol no_such_function" in said["attach", "kprobe_target_missing"]["reason"]


@pytest.mark.oldest_and_newest
def test_memory_that_may_be_locked_is_told_where_it_counts(
    machine: Machine, objects: list[Path]
) -> None:
    maps = next(one for one in objects if one.name == "maps.bpf.o")
    limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set", "-sys_resource"]
    words = ["load", str(maps), "--map", "spacious", "--no-trace", "--format", "json"]
    done = machine.run([*limited, TOOL, *words])
    told = [json.loads(line) for line in done.out.splitlines()]
    (spacious,) = [one for one in told if one.get("name") == "spacious"]
    assert (spacious.get("reason") == "rights-memlock") is (series(machine) < (5, 11)), spacious


def test_nothing_is_pinned_and_nothing_pinned_is_used(
    machine: Machine, results: list[dict[str, Any]]
) -> None:
    (pinned,) = [one for one in results if one.get("name") == "pinned_by_name"]
    assert pinned["verdict"] == "ok"
    assert "pinned_by_name" not in machine.run(["ls", "/sys/fs/bpf"]).out


def test_shapes_rights_and_bad_input(machine: Machine, objects: list[Path]) -> None:
    shape = next(one for one in objects if one.name == "shape.bpf.o")
    done = machine.run(
        [TOOL, "load", str(shape), "--set", "old:is_modern=0", "--set", "new:is_modern=1"]
    )
    assert done.status == 2, done.err
    rows = [line.split() for line in done.out.splitlines() if "program by_switch" in line]
    assert [row[-3:-1] for row in rows] == [["[old]", "ok"], ["[new]", "EINVAL"]], done.out
    assert "CO-RE relocation" in done.out
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    assert machine.run([*nobody, TOOL, "load", str(shape)]).status == 66, "a folder of root's"
    readable = "/run/shape.bpf.o"
    assert machine.run(["install", "-m", "644", str(shape), readable]).status == 0
    denied = machine.run([*nobody, "--bounding-set", "-all", TOOL, "load", readable])
    assert denied.status == 2, denied.err
    assert "CAP_BPF and CAP_PERFMON are missing" in denied.out
    assert machine.run([TOOL, "load", str(shape), "--set", "nope=1"]).status == 66
    assert machine.run([TOOL, "load", "/nowhere.o"]).status == 66
    broken = machine.share / "broken.bpf.o"
    broken.write_bytes(shape.read_bytes()[:300])
    wrong = machine.run([TOOL, "load", str(broken), sys.executable])
    assert wrong.status == 2, wrong.err
    assert "Not a BPF object" in wrong.out
    (example,) = examples("load")
    there = f"import os; os.chdir({str(machine.share)!r})\n"
    (machine.share / "prog.bpf.o").write_bytes(shape.read_bytes())
    from_python = machine.run([sys.executable, "-W", "error", "-c", there + example])
    assert from_python.status == 0, from_python.err
    assert "old program by_switch ok" in from_python.out
    assert "new program by_switch refused EINVAL core-" in from_python.out


@pytest.fixture
def release_without_guest(machine: Machine) -> str:
    """The kernel's release, the shared guest being down so that one VM is up at a time."""
    machine.close()
    return machine.release


@pytest.mark.one_kernel
def test_a_matrix_with_expectations_reports_and_a_baseline(
    release_without_guest: str, objects: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kernel = request.node.callspec.params["machine"]
    chosen = [str(one) for one in objects if one.name in ("license.bpf.o", "shape.bpf.o")]
    expect = tmp_path / "known"
    expect.write_text(f"{kernel} license.bpf.o helper_for_gpl helper-gpl # on purpose\n")
    junit = tmp_path / "load.xml"
    argv = [
        TOOL,
        "load",
        *chosen,
        "--on",
        kernel,
        "--known-failures",
        str(expect),
        "--junit",
        str(junit),
    ]
    argv += ["--format", "json", "--logs", str(tmp_path / "logs"), "--github"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["release"] for one in results} == {release_without_guest}
    (suite,) = ET.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == (str(len(results)), "1")
    assert "::error file=" in done.stderr
    log = tmp_path / "logs" / kernel.replace("/", "_") / "license.bpf.o.helper_for_gpl.log"
    assert "GPL" in log.read_text()


@pytest.mark.one_kernel
@pytest.mark.parametrize(
    "name", [pytest.param("docs/load.md", marks=pytest.mark.slow), "README.md"]
)
@pytest.mark.usefixtures("release_without_guest")
def test_the_page_shows_what_a_matrix_prints(objects: list[Path], name: str) -> None:
    page = [one for one in shown(name) if one.command.startswith("retsnoop-py load")]
    assert page
    for one in page:
        env = {"PATH": f"{Path(TOOL).parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"]}
        words = ["sh", "-c", one.command]
        done = subprocess.run(
            words, cwd=objects[0].parent, env=env, stdout=-1, text=True, timeout=400, check=False
        )
        assert not difference(one.output or "", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.one_kernel
def test_a_matrix_over_two_architectures(
    release_without_guest: str, objects: list[Path], request: pytest.FixtureRequest
) -> None:
    """Beside a chosen kernel of another architecture; objects go to both as they are."""
    own = request.node.callspec.params["machine"]
    foreign = [one for one in selected(request.config) if split(one)[0] != split(own)[0]]
    kernels = [own, *foreign[:1]]
    chosen = [str(one) for one in objects if one.name in ("license.bpf.o", "machine.bpf.o")]
    argv = [TOOL, "load", *chosen, "--on", ",".join(kernels), "--format", "json", "--no-trace"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 2, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["kernel"] for one in told} == set(kernels)
    for kernel in kernels:
        seen = {
            one["name"]: (one["verdict"], one.get("reason", ""))
            for one in told
            if one["kernel"] == kernel
        }
        of_x86 = ("refused", "attach-target-missing")
        assert seen == {
            "helper_for_gpl": ("refused", "helper-gpl"),
            "helper_for_all": ("ok", ""),
            "call_of_x86": of_x86 if split(kernel)[0].name == "arm64" else ("ok", ""),
            "call_of_all": ("ok", ""),
        }, kernel
    assert release_without_guest in {one["release"] for one in told}
