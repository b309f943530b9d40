# SPDX-License-Identifier: BSD-2-Clause
"""The whole command line, up to where the kernel would be touched."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retsnoop_py import __version__
from retsnoop_py.cli import main as entry
from retsnoop_py.cli import report, vm
from retsnoop_py.errors import BpfError, DataError, Interrupted, RetsnoopError, UnavailableError
from retsnoop_py.options import table
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.settings import (
    ArgMode,
    ArgSettings,
    BpfSettings,
    FilterSettings,
    Mechanism,
    OutputFormat,
    SelectionSettings,
    Settings,
    StackSettings,
    SymbolizeMode,
    TransportKind,
    ViewSettings,
)


@pytest.fixture(autouse=True)
def _no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETSNOOP_DEBUG", raising=False)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Settings]]:
    """What a command line asks to be traced."""
    seen: list[Settings] = []

    def note(settings: Settings) -> int:
        seen.append(settings)
        return 0

    def settings_of(*argv: str) -> Settings:
        assert entry.main(argv) == 0
        return seen.pop()

    monkeypatch.setattr(entry, "_run_trace", note)
    return settings_of


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Path, ReplayOverrides]]:
    """What a command line asks to be replayed."""
    seen: list[tuple[Path, ReplayOverrides]] = []

    def note(request: object) -> int:
        seen.append((request.path, request.overrides))  # type: ignore[attr-defined]
        return 0

    def request_of(*argv: str) -> tuple[Path, ReplayOverrides]:
        assert entry.main(argv) == 0
        return seen.pop()

    monkeypatch.setattr(entry, "_run_replay", note)
    return request_of


def test_every_option_reaches_its_setting(traced: Callable[..., Settings]) -> None:
    assert traced(
        *shlex.split("-e foo -e bar[kvm] -a :fs/*.c -d baz -c bpf -x ENOMEM -x -NULL -X EINTR -Sn"),
        *shlex.split("-P 2 -n sh -N ls -L 10 -k /boot/vmlinux -ss -C stacks.dec-offs=y -K -vv"),
        *shlex.split("-C bpf.sessions-size=9 -C bpf.transport=perfbuf --dry-run -o out.rsn"),
        *shlex.split("--max-functions 77 --no-system-changes -T -E -A -J kprobe:a -J tp:b:c -B"),
        *shlex.split("-Bcall -I --user-stack --format=json --ascii --count 3 --for 2s --debug bpf"),
        *shlex.split("--debug full-lbr --debug multi-kprobe -C fmt.cpu=y -C args.fmt-mode=m"),
        *["--user", "nobody", "--", "cmd", "-e", "x"],
    ) == Settings(
        SelectionSettings(("foo", "bar[kvm]"), (":fs/*.c",), ("baz",), ("bpf",)),
        FilterSettings(
            (), (2,), ("sh",), ("ls",), 10_000_000, False, frozenset({12, 0}), frozenset({4})
        ),
        StackSettings(dec_offs=True),
        ViewSettings(
            call_stack=True,
            call_trace=True,
            interim=True,
            lbr=1 << 1 | 1 << 5 | 1 << 13,
            lbr_full=True,
            user_stack=True,
            format=OutputFormat.JSON,
            ascii=True,
            cpu=True,
        ),
        ArgSettings(capture=True, mode=ArgMode.MULTILINE),
        BpfSettings(8 << 20, 9, TransportKind.PERFBUF),
        ("kprobe:a", "tp:b:c"),
        stop_count=3,
        stop_after_ns=2_000_000_000,
        debug_bpf=True,
        debug_multi_kprobe=True,
        mechanism=Mechanism.KPROBE,
        symbolize=SymbolizeMode.INLINES,
        kernel_image=Path("/boot/vmlinux"),
        command=("cmd", "-e", "x"),
        user="nobody",
        output=Path("out.rsn"),
        dry_run=True,
        verbose=2,
        max_functions=77,
        system_changes=False,
        counts=True,
    )


def test_the_defaults_are_those_of_settings(traced: Callable[..., Settings]) -> None:
    assert traced("-e", "foo") == Settings(SelectionSettings(("foo",)), counts=True)
    assert traced("-e", "foo", "--no-counts") == Settings(SelectionSettings(("foo",)))
    assert traced("-e", "foo", "--all").each


def test_trace_may_be_said(traced: Callable[..., Settings]) -> None:
    assert traced("trace", "-e", "foo").selection.entry == ("foo",)


def test_a_preset_is_enough(traced: Callable[..., Settings]) -> None:
    assert traced("-c", "bpf", "-c", "perf", "-cbpf").selection.presets == ("bpf", "perf")


def test_the_source_option_is_louder_than_its_setting(traced: Callable[..., Settings]) -> None:
    assert traced("-e", "x", "-C", "stacks.symb-mode=n").symbolize is SymbolizeMode.NONE
    assert traced("-e", "x", "-s", "-C", "stacks.symb-mode=n").symbolize is SymbolizeMode.LINES
    assert traced("-e", "x", "-sn", "-ss").symbolize is SymbolizeMode.INLINES


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_mechanism_is_forced_by_its_name(
    traced: Callable[..., Settings], mechanism: Mechanism
) -> None:
    assert traced("-e", "x", f"--attach={mechanism.value}").mechanism is mechanism


def test_a_mechanism_may_be_said_twice(traced: Callable[..., Settings]) -> None:
    assert traced("-e", "x", "-F", "--attach=fentry").mechanism is Mechanism.FENTRY


def test_processes_filter_a_trace_without_a_command(traced: Callable[..., Settings]) -> None:
    assert traced("-e", "x", "-p", "1", "-p2").filters.pids == (1, 2)


def test_a_trace_alone_is_of_every_call(traced: Callable[..., Settings]) -> None:
    for words, stack, success in (
        ("-T", False, True),
        ("-T -E", True, False),
        ("-T -E -S", True, True),
        ("-T -Sn", False, False),
        ("-T -x any", False, False),
        ("-E", True, False),
    ):
        found = traced("-e", "x", *words.split())
        assert (found.views.call_stack, found.filters.success) == (stack, success), words


def test_any_error_is_no_error_filter(traced: Callable[..., Settings]) -> None:
    assert traced("-e", "x", "-x", "EINVAL", "-x", "any").filters.allow_errors is None


def test_the_exit_status_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_run_trace", lambda _: 42)
    assert entry.main(["-e", "x", "--", "cmd"]) == 42


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        ("-a x", "no entry functions", "give -e GLOB"),
        ("-e @/dev/null", "no entry functions", "give -e GLOB"),
        ("-e x --", "no command behind --", "leave -- out"),
        ("-c nope", "-c nope: no such preset", "bpf, bpf-attach, btf"),
        ("-e x -x EFOO", "-x: unknown error name 'EFOO'", ""),
        ("-e x -p abc", "-p abc: not a process id", "a name goes to -n"),
        ("-e x -C nonsense", "-C nonsense: not of the form", "--config-help"),
        ("-e x -K -M", "-M and -K exclude each other", "give one"),
        ("-e x -F --attach=kprobe", "-F and --attach=kprobe exclude each other", "give one"),
        ("-e x --attach=probe", "--attach=probe: no such mechanism", "kprobe.multi"),
        ("-e x --max-functions=0", "--max-functions 0: not a number", ""),
        ("-e x -S -x EINVAL", "-S asks for successes", "give one"),
        ("-e x -L 0", "-L 0: not a duration", "-L 500ms"),
        ("-e x -k=", "-k '': the name of a file is missing", ""),
        ("-e x --output=", "-o '': the name of a file is missing", ""),
        ("-e x -p 1 -- ls", "-p 1 with a command", "leave out -p"),
        ("-e x y", "unexpected word 'y'", "behind --"),
        ("-e x --for 0", "--for 0: not a duration", "--for 500ms"),
        ("-e x -Bx", "-Bx: no such kind of branch", "any_return"),
        ("--zzz", "unknown option --zzz", "--help"),
        ("replay", "no recording to replay", "replay FILE"),
        ("replay a b", "replay needs one recording, not 2", "replay FILE"),
        ("replay a -e x", "-e/--entry concerns tracing", "replay --help"),
        ("replay a --for 1s", "--for concerns tracing", "replay --help"),
        ("replay a -J kprobe:f", "-J/--inject-probe concerns tracing", "replay --help"),
        ("replay a --debug bpf", "--debug bpf concerns tracing", "full-lbr"),
        ("replay a -C bpf.ringbuf-size=1", "-C bpf.ringbuf-size concerns tracing", "stacks."),
        ("-v vm list", "unexpected word 'vm'", "first word"),
        ("why", "why needs one command, process or recording", "why -- CMD"),
        ("why --errno EFOO -- ls", "--errno: unknown error name 'EFOO'", ""),
        ("why -x EFOO -- ls", "-x: unknown error name 'EFOO'", ""),
        ("explain", "explain needs one log, not 0", "- for standard input"),
        ("vm run --cpus abc -- true", "--cpus abc: not a number of CPUs", "1 to 64"),
        ("vm run --cpus 0 -- true", "--cpus 0: not a number of CPUs", "1 to 64"),
        ("vm run --timeout soon -- true", "--timeout soon: not a duration", "--timeout 500ms"),
        ("--on 5.10 -e x --timeout x -- ls", "--timeout x: not a duration", "--timeout 500ms"),
    ],
)
def test_a_wrong_command_line_is_one_message_a_hint_and_64(
    argv: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(argv.split()) == 64
    out, err = capsys.readouterr()
    first, *rest = err.splitlines()
    assert out == ""
    assert first.startswith(f"retsnoop-py: error: {message}")
    assert len(rest) <= 1
    if hint:
        assert rest[0].startswith("hint: ")
        assert hint in rest[0]


def test_a_missing_file_of_globs_is_66(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["-e", "@/nonexistent/file"]) == 66
    assert "cannot read the globs in '/nonexistent/file'" in capsys.readouterr().err


def test_a_replay_changes_only_what_was_said(
    replayed: Callable[..., tuple[Path, ReplayOverrides]],
) -> None:
    assert replayed("replay", "a.rsn") == (Path("a.rsn"), ReplayOverrides(counts=True))
    assert replayed("-v", "replay", "a.rsn") == (
        Path("a.rsn"),
        ReplayOverrides(verbose=1, counts=True),
    )
    assert replayed("replay", "--", "-odd") == (Path("-odd"), ReplayOverrides(counts=True))
    assert replayed(
        *shlex.split("replay -Sn a.rsn -x any -X EINTR -p 7 -P 8 -n sh -N ls -L 1 -s -k vmlinux"),
        *shlex.split("-C stacks.dec-offs=n -C stacks.emit-addrs=y"),
    )[1] == ReplayOverrides(
        pids=(7,),
        deny_pids=(8,),
        comms=("sh",),
        deny_comms=("ls",),
        longer_ns=1_000_000,
        success=False,
        allow_errors="any",
        deny_errors=frozenset({4}),
        emit_addrs=True,
        dec_offs=False,
        symbolize=SymbolizeMode.LINES,
        kernel_image=Path("vmlinux"),
        counts=True,
    )
    assert replayed("replay", "a", "-x", "EPERM")[1].allow_errors == frozenset({1})
    assert replayed(
        *shlex.split("replay a -T -E -A -I -Bany --user-stack --format json --ascii --count 7"),
        *shlex.split("-C fmt.cpu=y -C fmt.self-time=n -C fmt.lbr-max-count=3 --debug full-lbr"),
        *shlex.split("-C args.fmt-mode=v -C args.fmt-max-arg-width=0 -C args.capture-raw-ptrs=y"),
    )[1] == ReplayOverrides(
        call_stack=True,
        call_trace=True,
        interim=True,
        lbr=0b1010,
        lbr_max=3,
        lbr_full=True,
        user_stack=True,
        format=OutputFormat.JSON,
        ascii=True,
        self_time=False,
        cpu=True,
        capture=True,
        mode=ArgMode.VERBOSE,
        width=0,
        raw_pointers=True,
        stop_count=7,
        counts=True,
    )


@pytest.mark.parametrize("argv", ["-V", "--version", "-V -e", "-h", "replay -V"])
def test_what_only_prints_needs_nothing_else(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    if argv == "-V -e":
        assert entry.main(argv.split()) == 64
        return
    assert entry.main(argv.split()) == 0
    out, err = capsys.readouterr()
    assert not err
    assert out.startswith("Usage: " if argv == "-h" else f"retsnoop-py {__version__}\n")


@pytest.mark.parametrize(
    ("argv", "first"),
    [
        ("--help -V", "Usage: retsnoop-py [OPTIONS] [-- CMD ARG...]"),
        ("-V --config-help", f"retsnoop-py {__version__}"),
        ("--config-help", "Settings for -C GROUP.KEY=VALUE"),
        ("--usage", "retsnoop-py: find out"),
        ("replay --help", "Usage: retsnoop-py replay FILE [OPTIONS]"),
        ("replay --usage", "Usage: retsnoop-py replay FILE"),
        ("functions --help", "Usage: retsnoop-py functions [GLOB...] [OPTIONS]"),
        ("functions --usage", "Usage: retsnoop-py functions [GLOB...]"),
        ("doctor --help -v", "Usage: retsnoop-py doctor [OPTIONS]"),
        ("doctor --usage", "Usage: retsnoop-py doctor"),
    ],
)
def test_the_order_of_what_only_prints(
    argv: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(argv.split()) == 0
    assert capsys.readouterr().out.startswith(first)


def test_help_in_a_pipe_is_plain_grouped_and_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--help"]) == 0
    text = capsys.readouterr().out
    titles = [one for one in table.PANELS if one != table.OBJECTS]
    places = [text.index(f"\n{title}") for title in titles]
    assert places == sorted(places)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert "-S, --success-stacks[=y|n]" in text
    assert "Examples:" in text


def test_functions_takes_what_tracing_takes(tmp_path: Path) -> None:
    from retsnoop_py.cli import declare, functions
    from retsnoop_py.cli.argv import normalise

    globs = tmp_path / "globs"
    globs.write_text("one\ntwo")
    table = declare.command_table(functions.COMMAND)
    line = normalise(
        ["a", "-e", "b", f"@{globs}", "-ac", "-d", "d", "-c", "bpf", "-F", "--json", "-vk", "x"],
        table,
    )
    request = functions.COMMAND.call(line)
    assert request.json
    assert request.settings == Settings(
        selection=SelectionSettings(("a", "one", "two", "b"), ("c",), ("d",), ("bpf",)),
        mechanism=Mechanism.FENTRY,
        kernel_image=Path("x"),
        dry_run=True,
        verbose=1,
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("functions", "no functions to list"),
        ("functions -a x", "no functions to list"),
        ("functions x -S", "-S/--success-stacks concerns tracing"),
        ("functions x -F -K", "-F and -K exclude each other"),
        ("functions x -c nonsense", "-c nonsense: no such preset"),
        ("doctor x", "unexpected word 'x'"),
        ("doctor -- x", "unexpected word 'x'"),
        ("doctor -e x", "-e/--entry concerns tracing"),
        ("doctor -k=", "-k '': the name of a file is missing"),
        ("-v doctor", "unexpected word 'doctor'"),
    ],
)
def test_what_functions_and_doctor_do_not_take(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(argv.split()) == 64
    out, err = capsys.readouterr()
    assert not out
    assert message in err


def ends(error: BaseException, monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    def run(_: Settings) -> int:
        raise error

    monkeypatch.setattr(entry, "_run_trace", run)
    return entry.main(["-e", "x", *argv])


def test_an_error_of_ours_is_told_with_its_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(UnavailableError("no BTF", "rebuild it"), monkeypatch) == 69
    assert capsys.readouterr().err == "retsnoop-py: error: no BTF\nhint: rebuild it\n"


def test_a_verifier_log_is_shown_from_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = "\n".join(f"line {number}" for number in range(100))
    assert ends(BpfError("bpf(PROG_LOAD)", errno.EINVAL, log), monkeypatch) == 69
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "... (-v shows the whole log)"
    assert lines[-2:] == ["line 99", "retsnoop-py: error: bpf(PROG_LOAD): EINVAL"]
    ends(BpfError("bpf(PROG_LOAD)", errno.EINVAL, log), monkeypatch, "-v")
    assert capsys.readouterr().err.splitlines()[0] == "line 0"


def test_control_c_is_130_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err == "retsnoop-py: interrupted\n"
    assert ends(Interrupted("nothing was traced"), monkeypatch) == 130
    assert capsys.readouterr().err == "retsnoop-py: nothing was traced\n"


def test_a_bug_is_told_in_short_and_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(ValueError("odd"), monkeypatch) == 1
    err = capsys.readouterr().err
    assert err.startswith("retsnoop-py: error: ValueError: odd (a bug of retsnoop-py)\nhint: ")
    assert "Traceback" not in err


def test_extensions_that_cannot_be_loaded_are_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = ImportError("file too short", path="/nonexistent/_bpf.abi3.so")
    assert ends(broken, monkeypatch) == 69
    err = capsys.readouterr().err
    assert err.startswith("retsnoop-py: error: the native part of retsnoop-py cannot be loaded: ")
    assert "a bug" not in err
    assert ends(ImportError("no module", path="/nonexistent/other.so"), monkeypatch) == 1


def test_a_traceback_can_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(ValueError("odd"), monkeypatch, "-vv") == 1
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("RETSNOOP_DEBUG", "1")
    assert ends(ValueError("odd"), monkeypatch) == 1
    assert "Traceback" in capsys.readouterr().err
    assert ends(RetsnoopError("foreseen"), monkeypatch) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_os_error_about_a_file_is_not_taken_for_the_output() -> None:
    assert report.output_failed(OSError(errno.ENOSPC, "full", "/some/file")) == 0
    assert report.output_failed(PermissionError(errno.EACCES, "no")) == 0


def test_names_of_kernels_are_whole_on_a_narrow_terminal() -> None:
    row = ("arm64/7.2-full", "trixie-backports, sid", "600 MB", "7.2.13+deb14-cloud-arm64", "about")
    for width in (60, 80, 100, 0):
        told = "\n".join(vm._table([row], width))
        assert row[0] in told
        assert row[3] in told
        assert max(map(len, told.splitlines())) <= (width or 100)


def test_what_a_run_says_has_no_control_characters(capfd: pytest.CaptureFixture[str]) -> None:
    console = report.Console()
    nasty = "CMD \x1b]0;x\x07\u202e"
    console.say(nasty)
    console.say_aside(f"{nasty}\n")
    console.warn(nasty)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    assert [line for line in lines if not line.isprintable()] == []


@pytest.mark.parametrize(
    "name", ["x\n::error::FORGED\n.o", "x ##[error]FORGED.o", "x\n  ::add-mask::a.o"]
)
def test_a_name_in_an_error_is_no_command_of_a_github_job(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert report.failed(DataError(f"{name} is cut short"), 0) == 65
    report.Console().warn(f"{name} is left out\x1b[2J")
    lines = capsys.readouterr().err.splitlines()
    for part in (lines[: len(lines) // 2], lines[len(lines) // 2 :]):
        stop, token = part[0].split("::")[1:]
        assert stop == "stop-commands"
        assert part[-1] == f"::{token}::"
        assert token not in "".join(part[1:-1])
    assert "\x1b" not in "".join(lines)


def test_an_ordinary_error_is_one_line_in_a_github_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    report.failed(DataError("std::vector is no function"), 0)
    assert capsys.readouterr().err == "retsnoop-py: error: std::vector is no function\n"
