# SPDX-License-Identifier: BSD-2-Clause
"""Bad input is reported in one message with the next step and a documented status.

Afterwards, nothing of the run is left in the kernel, and the command was not started. Tests that do
not need a real kernel are in tests/unit.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.support import (
    FEW,
    PROGRAMS,
    PYTHON,
    TOOL,
    WORKLOAD,
    compiler,
    errno_of,
    read_recording,
    series,
    trace,
)
from tests.live.test_cleanup import leftovers
from tests.live.test_rungs import works_here

from retsnoop_py.kernel.elf_file import build_id
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.vm.errors import Result, kernel_problems
from retsnoop_py.vm.machine import Machine

ENTRY = ("-e", "*_sys_bpf")
FAILING = (*WORKLOAD, "bpf-map-bad-flags")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
#: Perf functions are hundreds, and to detach them one by one takes a minute: most are denied.
MOST_OF_PERF = (
    *("perf_event*", "perf_a*", "perf_c*", "perf_g*", "perf_m*", "perf_o*", "perf_p*"),
    *("perf_r*", "perf_s*", "perf_t*", "__perf*", "*perform*", "*bpf*", "selinux*", "*trace*"),
    *("x86*", "*freq*", "*cppc*", "*lbr*", "*store*", "*show*", "intel*", "amd*", "*ibs*"),
)


@pytest.fixture(scope="module")
def before(machine: Machine) -> dict[str, Any]:
    """Return the tool's objects in the kernel before the first of these tests."""
    return leftovers(machine)


@pytest.fixture(autouse=True)
def _nothing_started(machine: Machine, before: dict[str, Any]) -> Iterator[None]:
    """The command of :func:`refused` would leave a file."""
    yield
    started = marker(machine).exists()
    marker(machine).unlink(missing_ok=True)
    assert not started


def marker(machine: Machine) -> Path:
    """Return the file that the command would create; the command must not be started."""
    return machine.share / "started"


#: Progress messages if attaching or detaching takes longer than a second.
PROGRESS = re.compile(r"(?:At|De)taching [\d,]+ of [\d,]+ functions\.\.\.$")


def only_error(result: Result) -> str:
    """Return the error message and the hint; fail if there was other output.

    Progress is allowed, because a slow machine shows it.
    """
    lines = [line for line in result.err.splitlines() if not PROGRESS.match(line)]
    assert len(lines) == 2, result.err
    assert lines[0].startswith("retsnoop-py: error: ")
    assert lines[1].startswith("hint: ")
    assert result.out == ""
    return "\n".join(line.partition(": ")[2] for line in lines)


def refused(machine: Machine, *options: str, under: tuple[str, ...] = ()) -> tuple[int, str]:
    """The status and the message of a run that does not come to tracing.

    ``under`` is what starts the tool.
    """
    command = ("touch", str(marker(machine)))
    result = machine.run([*under, TOOL, *options, "--", *command])
    return result.status, only_error(result)


def hiding(*folders: str) -> tuple[str, ...]:
    """Runs a command that finds ``folders`` empty."""
    hide = "".join(f"mount --bind /tmp/empty {folder} && " for folder in folders)
    return ("unshare", "-m", "sh", "-c", f'mkdir -p /tmp/empty && {hide} exec "$@"', "sh")


# -- selected functions --


@pytest.mark.one_kernel
def test_a_glob_without_match_offers_near_names(machine: Machine) -> None:
    status, said = refused(machine, "-e", "bpf_prog_lode")
    assert status == 66
    assert "entry glob 'bpf_prog_lode' matches no kernel function" in said
    assert "did you mean bpf_prog_load" in said


@pytest.mark.one_kernel
def test_a_glob_the_shell_expanded_is_recognised(machine: Machine) -> None:
    folder = machine.share / "files"
    folder.mkdir()
    (folder / "ovl_one").touch()
    script = f'cd {folder} && {TOOL} -e ovl_* "$@"'
    command = ["sh", "-c", script, "sh", "--", "touch", str(marker(machine))]
    one = machine.run(command)
    assert one.status == 66
    assert "Quote it: -e 'ovl_*'" in only_error(one)
    (folder / "ovl_two").touch()
    several = machine.run(command)
    assert several.status == 64
    assert "the shell expanded your glob; quote it" in only_error(several)


@pytest.mark.oldest_and_newest
def test_the_perf_preset_catches_a_failing_perf_event_open(machine: Machine) -> None:
    path = machine.share / "perf.rsn"
    options = ["-c", "perf", *(word for glob in MOST_OF_PERF for word in ("-d", glob))]
    command = (PYTHON, str(PROGRAMS / "perf_event.py"))
    result = trace(machine, *options, "-o", str(path), "--", *command)
    assert result.status == 0, result.err
    assert result.out.startswith("EINVAL\n")
    (session,) = read_recording(path).sessions
    assert errno_of(session) == 22
    assert session.calls[-1].function.name == "register_perf_hw_breakpoint"


# -- the kernel's image --


def elf(machine: Machine, name: str, *options: str) -> str:
    """A program that is not the kernel, compiled where the guest sees it."""
    path = machine.share / name
    argv = [*compiler(machine), "-x", "c", "-o", str(path), *options, "-"]
    subprocess.run(argv, input=b"int main(void) { return 0; }\n", check=True)
    return str(path)


@pytest.mark.one_kernel
def test_an_image_that_will_not_do_is_refused(machine: Machine) -> None:
    running = build_id(machine.run(["cat", "/sys/kernel/notes"]).stdout)
    files = {
        "/nowhere/vmlinux": (66, "no such file"),
        __file__: (65, "not an ELF file"),
        elf(machine, "stripped", f"-Wl,--build-id=0x{running}"): (65, "no DWARF"),
        elf(machine, "other", "-g", "-Wl,--build-id=0xc0ffee"): (
            65,
            f"wrong build id c0ffee != {running}",
        ),
    }
    for path, (status, reason) in files.items():
        told = refused(machine, *ENTRY, "-k", path)
        assert told[0] == status, told
        assert f"-k {path}: " in told[1]
        assert reason in told[1]


# -- rights --


@pytest.mark.one_kernel
def test_without_root_the_next_step_is_root(machine: Machine) -> None:
    path = machine.share / "never.rsn"
    status, said = refused(machine, *ENTRY, "-o", str(path), under=NOBODY)
    assert status == 77
    assert said.endswith("\nrun it as root")
    assert not path.exists()
    dry = machine.run([*NOBODY, TOOL, *ENTRY, "--dry-run"])
    assert dry.status == 77
    assert "/proc/kallsyms hides the addresses" in only_error(dry)


@pytest.mark.one_kernel
def test_root_without_capabilities_hears_their_names(machine: Machine) -> None:
    nothing = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")
    status, said = refused(machine, *ENTRY, under=nothing)
    assert status == 77
    assert "CAP_BPF and CAP_PERFMON, which this root does not have" in said
    blind = ("setpriv", "--bounding-set", "-syslog", "--inh-caps", "-all")
    status, said = refused(machine, *ENTRY, under=blind)
    assert status == 77
    assert "CAP_SYSLOG" in said


@pytest.mark.oldest_and_newest
def test_a_user_with_capabilities_may_trace(machine: Machine) -> None:
    """Debian's kernels have a perf_event_paranoid of 3, which takes single kprobes from them."""
    held = "+bpf,+perfmon,+syslog,+dac_read_search,+sys_resource"
    capable = (*NOBODY, "--inh-caps", held, "--ambient-caps", held)
    options = ("-e", "do_sys_openat2", "-x", "ENOENT")
    if works_here(Mechanism.KPROBE_MULTI, machine):
        result = machine.run([*capable, TOOL, *options, "--", "cat", "/nowhere"])
        assert result.status == 1, result.err
        assert "[-ENOENT]" in result.out
    status, said = refused(machine, "-K", *options, under=capable)
    assert status == 77
    assert "'do_sys_openat2': the kernel forbids it (-EACCES)" in said
    assert "kernel.perf_event_paranoid=2" in said


@pytest.mark.one_kernel
def test_hidden_addresses_name_the_sysctl(machine: Machine) -> None:
    sysctl = "/proc/sys/kernel/kptr_restrict"
    value = machine.run(["cat", sysctl]).out.strip()
    machine.run(["sh", "-c", f"echo 2 > {sysctl}"])
    try:
        status, said = refused(machine, *ENTRY)
    finally:
        machine.run(["sh", "-c", f"echo {value} > {sysctl}"])
    assert status == 77
    assert "kernel.kptr_restrict is 2" in said
    assert "`sysctl kernel.kptr_restrict=1`" in said


def limited(machine: Machine, files: int, memory: int | str, *args: str) -> Result:
    """Run the tool with hard limits of open ``files`` and of locked ``memory`` in bytes."""
    limits = ["prlimit", f"--nofile={files}:{files}", f"--memlock={memory}:{memory}"]
    return machine.run([*limits, "setpriv", "--bounding-set", "-sys_resource", TOOL, *args])


@pytest.mark.oldest_and_newest
def test_refused_limits_leave_functions_out_and_trace_the_others(machine: Machine) -> None:
    path = machine.share / "few.rsn"
    memory: int | str = 64 << 10
    if series(machine) < (5, 11):
        # maps are locked memory
        result = limited(machine, 4096, memory, *ENTRY, "--", "touch", str(marker(machine)))
        assert result.status == 77
        assert "raise `ulimit -l`" in only_error(result)
        memory = "unlimited"
    options = ("-K", *ENTRY, "-a", "bpf_map_*", "-o", str(path))
    result = limited(machine, 128, memory, *options, "--", *FAILING)
    assert result.status == 0, result.err
    assert "only 128 are allowed (RLIMIT_NOFILE)" in result.err
    assert "functions could not be attached; -v lists them with the reason" in result.err
    assert "Traceback" not in result.err
    assert [errno_of(session) for session in read_recording(path).sessions] == [22]


@pytest.mark.one_kernel
def test_too_few_descriptors_for_anything_are_an_error(machine: Machine) -> None:
    command = ("touch", str(marker(machine)))
    result = limited(machine, 48, "unlimited", "-K", *ENTRY, "--", *command)
    assert result.status == 69, result.err
    assert "the limit of open files is too low" in only_error(result)
    assert result.err.endswith("hint: allow more open files: `ulimit -n`\n")


# -- features that the kernel lacks --


@pytest.mark.oldest_and_newest
@pytest.mark.parametrize(
    ("folders", "options", "reason", "hint"),
    [
        (["/sys/kernel/btf"], (), "no BTF", "CONFIG_DEBUG_INFO_BTF=y"),
        (
            ["/sys/kernel/tracing", "/sys/kernel/debug"],
            (),
            "tracefs is not mounted",
            "mount -t tracefs",
        ),
        (["/sys/bus/event_source/devices"], ("-K",), "no kprobes", "retsnoop-py vm run"),
    ],
    ids=["btf", "tracefs", "kprobes"],
)
def test_what_is_missing_is_named(
    folders: list[str], options: tuple[str, ...], reason: str, hint: str, machine: Machine
) -> None:
    status, said = refused(machine, *options, *ENTRY, under=hiding(*folders))
    assert status == 69
    message, next_step = said.splitlines()
    assert reason in message
    assert hint in next_step


#: Files that imitate Debian 10's kernel: its release, and the missing BTF.
OLD = """\
mount -t tmpfs none /sys/kernel/btf
echo 4.19.0-27-amd64 > /run/osrelease
mount --bind /run/osrelease /proc/sys/kernel/osrelease
exec "$@"
"""


@pytest.mark.one_kernel
def test_a_kernel_that_is_too_old_is_told_as_that(machine: Machine) -> None:
    under = ("unshare", "--mount", "sh", "-c", OLD, "sh")
    status, said = refused(machine, *ENTRY, under=under)
    assert status == 69
    message, next_step = said.splitlines()
    assert "no BTF" in message
    assert "Linux 4.19.0-27-amd64 is older than 5.10" in next_step
    why = machine.run([*under, TOOL, "why", "--", "true"])
    assert (why.status, why.err.splitlines()[-1]) == (69, f"hint: {next_step}")
    doctor = machine.run([*under, TOOL, "doctor"])
    assert doctor.status == 69
    assert doctor.out.splitlines()[-1] == f"next: {next_step}"


@pytest.mark.one_kernel
def test_a_kernel_without_kprobes_is_told_before_tracefs_is_missed(machine: Machine) -> None:
    """There, mounting tracefs would only lead to the next error."""
    lacking = ("/sys/kernel/tracing", "/sys/kernel/debug", "/sys/bus/event_source/devices")
    status, said = refused(machine, *ENTRY, under=hiding(*lacking))
    assert status == 69
    assert "this kernel has no kprobes" in said


def test_kprobe_multi_is_refused_where_the_kernel_has_none(machine: Machine) -> None:
    if not works_here(Mechanism.KPROBE_MULTI, machine):
        status, said = refused(machine, "-M", *ENTRY)
        assert status == 69
        assert "kprobe.multi does not work here" in said
        assert "leave out --attach" in said
    else:
        result = trace(machine, "-M", *FEW, "--", *FAILING)
        assert result.status == 0, result.err
        assert "[-EINVAL]" in result.out


# -- the command --


@pytest.mark.one_kernel
def test_a_command_that_cannot_run_ends_as_a_shell_would(machine: Machine) -> None:
    script, junk = machine.share / "script", machine.share / "junk"
    script.write_text("#!/no/such/interpreter\n")
    junk.write_bytes(b"\x7fELF, not")
    commands = {
        "no-such-command": (127, "no such command"),
        "/etc/passwd": (126, "chmod +x /etc/passwd"),
        str(script): (127, "interpreter"),
        str(junk): (126, "Exec format error"),
    }
    for path in (script, junk):
        path.chmod(0o755)
    for command, (status, reason) in commands.items():
        result = trace(machine, *FEW, "--", command)
        assert result.status == status, result.err
        assert result.err.count("retsnoop-py: error: ") == result.err.count("\nhint: ") == 1
        assert f"cannot run {command}: " in result.err
        assert reason in result.err
        assert result.err.splitlines()[-1].startswith("hint: ")


@pytest.mark.one_kernel
def test_the_command_keeps_its_standard_streams(machine: Machine) -> None:
    script = "cat; echo complaint >&2"
    result = machine.run([TOOL, *FEW, "--", "sh", "-c", script], stdin=b"hi\n")
    assert result.status == 0
    assert result.out == "hi\n"
    assert "complaint" in result.err.splitlines()


# -- the output --


@pytest.mark.one_kernel
def test_a_recording_that_cannot_be_written_stops_the_run_before_it_begins(
    machine: Machine,
) -> None:
    read_only = "mkdir -p /tmp/read-only && mount -t tmpfs -o ro none /tmp/read-only && exec"
    places = {
        "/no/such/folder/x.rsn": "No such file or directory",
        "/tmp": "Is a directory",
        "/tmp/read-only/x.rsn": "Read-only file system",
        "/dev/full": "not a regular file",
    }
    wrapped = ("unshare", "-m", "sh", "-c", f'{read_only} "$@"', "sh")
    for place, reason in places.items():
        status, said = refused(machine, *ENTRY, "-o", place, under=wrapped)
        assert status == 74
        assert f"cannot record to {place}: " in said
        assert reason in said


@pytest.mark.one_kernel
def test_an_output_nobody_takes_ends_the_run(machine: Machine) -> None:
    piped = 'set -o pipefail; "$@" | head -1'
    # Several times the size of a pipe: with less output, the tool may finish before head exits.
    talkative = [TOOL, *FEW, "--", *WORKLOAD, "-n", "800", "bpf-map-bad-type"]
    result = machine.run(["bash", "-c", piped, "bash", *talkative])
    assert result.status == 141, result.err
    assert len(result.out.splitlines()) == 1
    assert "error" not in result.err
    assert "Traceback" not in result.err
    command = [TOOL, *FEW, "--", *FAILING]
    full = machine.run(["bash", "-c", '"$@" >/dev/full', "bash", *command])
    assert full.status == 74
    assert "No space left on device\nhint: " in full.err
    closed = machine.run(["bash", "-c", '"$@" >&-', "bash", *command])
    assert closed.status == 0, closed.err
    assert "error" not in closed.err


# -- a dry run --


@pytest.mark.oldest_and_newest
def test_a_dry_run_does_not_touch_the_kernel(machine: Machine) -> None:
    """Another run traces the dry run: the only bpf() call is the workload's later call."""
    path = machine.share / "dry.rsn"
    present = leftovers(machine)
    dry = [TOOL, *FEW, "-c", "bpf", "--dry-run", "-o", str(machine.share / "no.rsn")]
    script = '"$@" && echo $$ && exec ' + " ".join(FAILING)
    watch = ("-e", "*_sys_bpf", "-e", "security_perf_event_open", "-S", "-o", str(path))
    result = trace(machine, *watch, "--", "sh", "-c", script, "sh", *dry)
    assert result.status == 0, result.err
    assert "Dry run successful, nothing was loaded or attached." in result.out
    (session,) = read_recording(path).sessions
    assert f"\n{session.tgid}\n" in result.out
    assert errno_of(session) == 22
    assert not (machine.share / "no.rsn").exists()
    assert leftovers(machine) == present


# -- after all of them --


def test_nothing_of_all_this_is_left(machine: Machine, before: dict[str, Any]) -> None:
    for what, now in leftovers(machine).items():
        known = before[what]
        assert now <= known if isinstance(now, int) else set(now) <= set(known), (what, now)
    assert kernel_problems(machine.kernel_log()) == []
