# SPDX-License-Identifier: BSD-2-Clause
"""Which failing call a command's own words are about."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest
from tests.unit.cpu_limit import at_most

from retsnoop_py.cause import complaint, wording
from retsnoop_py.cause.complaint import (
    Choice,
    Evidence,
    choose,
    errors_written,
    lines_of,
    reported_elsewhere,
)
from retsnoop_py.cause.events import (
    Address,
    Ended,
    Place,
    Request,
    SystemCall,
    Witnessed,
    Written,
)
from retsnoop_py.cause.own_words import own_decision
from retsnoop_py.cause.wording import Wording
from retsnoop_py.value import replace


def call(
    time: int,
    name: str,
    error: int,
    path: str = "",
    *,
    pid: int = 1,
    address: Address | None = None,
) -> SystemCall:
    texts = ((1, path),) if path else ()
    return SystemCall(
        *(time, pid, pid, "tool", name, error, (0,) * 6, texts, address, 0, 0, "/", False)
    )


def wrote(time: int, text: str, pid: int = 1, stream: int = 2) -> Written:
    return Written(time, pid, pid, stream, text)


def best(witnessed: Witnessed, ordinary: Evidence | None = None) -> Choice:
    ranked = choose(witnessed, Wording({}), lambda _: ordinary)
    return ranked[-1]


def test_the_text_decides_and_not_the_order() -> None:
    """A translation that is looked for behind the failure fails as well."""
    calls = (
        call(1, "openat", errno.EACCES, "/srv/data"),
        call(2, "openat", errno.ENOENT, "/usr/share/locale/de/LC_MESSAGES/coreutils.mo"),
    )
    written = (wrote(3, "cat: /srv/data: "), wrote(4, "Permission denied"), wrote(5, "\n"))
    found = best(Witnessed(calls, written))
    assert found.call is calls[0]
    assert found.is_reported
    assert Evidence.FULL_NAME in found.evidence
    assert found.line is not None
    assert found.line.text == "cat: /srv/data: Permission denied\n"


def test_of_calls_with_the_same_error_the_named_one() -> None:
    calls = (
        call(1, "statx", errno.ENOENT, "/nonexistent"),
        call(2, "openat", errno.ENOENT, "/usr/lib/locale/x.mo"),
        call(3, "openat", errno.ENOENT, "/etc/tool.conf"),
    )
    text = "ls: cannot access '/nonexistent': No such file or directory\n"
    assert best(Witnessed(calls, (wrote(4, text),))).call is calls[0]


def test_of_a_temporary_file_the_directory_is_named() -> None:
    """``sort -T /srv/none`` writes no name of the file that it could not create."""
    made = replace(
        call(1, "openat", errno.ENOENT, "/srv/none/sortXbY"), arguments=(0, 0, os.O_CREAT, 0, 0, 0)
    )
    other = call(2, "openat", errno.ENOENT, "/srv/none/tool.conf")
    text = "sort: cannot create temporary file in '/srv/none': No such file or directory\n"
    found = best(Witnessed((made, other), (wrote(3, text),)))
    assert found.call is made
    assert Evidence.SHORT_NAME in found.evidence
    assert found.is_reported


def test_a_name_that_goes_on_is_another_name() -> None:
    """gcc -o /tmp/h /tmp/h.c looks for /tmp/h; its message is about a header that h.c includes."""
    output = call(10, "readlink", errno.ENOENT, "/tmp/h")
    header = call(9, "openat", errno.ENOENT, "/usr/include/nosuch/lib.h")
    text = f"/tmp/h.c:1:10: fatal error: nosuch/lib.h: {os.strerror(errno.ENOENT)}\n"
    found = best(Witnessed((header, output), written=(wrote(20, text),)))
    assert found.call is header


def test_of_several_that_fit_alike_the_last_before_the_text() -> None:
    calls = tuple(call(time, "bind", errno.EADDRINUSE) for time in (1, 2))
    later = call(9, "bind", errno.EADDRINUSE, pid=2)
    found = best(Witnessed((*calls, later), (wrote(3, "Address already in use\n"),)))
    assert found.call is calls[1]
    assert Evidence.LAST_BEFORE in found.evidence


def test_a_parent_tells_of_its_child() -> None:
    calls = (call(1, "execve", errno.ENOENT, "/x/y", pid=2), call(2, "read", errno.EIO))
    said = wrote(3, "FileNotFoundError: [Errno 2] No such file or directory: '/x/y'\n")
    assert best(Witnessed(calls, (said,), parents={2: 1})).call is calls[0]
    assert best(Witnessed(calls, (said,))).call is calls[1], "a stranger's text counts nothing"


def test_other_words_count_less_and_need_the_name() -> None:
    calls = (
        call(1, "newfstatat", errno.ENOENT, "/usr/bin/nosuch"),
        call(2, "openat", errno.ENOENT, "/a"),
    )
    found = best(Witnessed(calls, (wrote(3, "sh: 1: nosuch: not found\n"),)), Evidence.LOOKS)
    assert found.call is calls[0]
    assert found.is_reported


def test_without_any_text_the_last_of_a_process_that_failed() -> None:
    calls = (call(1, "openat", errno.EPERM, "/a"), call(2, "openat", errno.EIO, "/b"))
    found = best(Witnessed(calls, ends=(Ended(3, 1, "tool", 1, 0),)))
    assert found.call is calls[1]
    assert not found.is_reported


def test_an_address_is_named_by_its_port() -> None:
    calls = (
        call(1, "bind", errno.EADDRINUSE, address=Address(2, "127.0.0.1", 8080)),
        call(2, "bind", errno.EADDRINUSE, address=Address(2, "127.0.0.1", 9090)),
    )
    text = "cannot listen on :8080: address already in use\n"
    assert best(Witnessed(calls, (wrote(3, text),))).call is calls[0]


def test_an_error_that_no_call_gave_comes_from_elsewhere() -> None:
    calls = (call(1, "openat", errno.ENOENT, "/a"),)
    refused = Witnessed(calls, (wrote(2, "remote: Permission denied\n"),))
    found = reported_elsewhere(refused, Wording({}), calls)
    assert found is not None
    assert found[1] == "EACCES"
    alike = Witnessed(calls, (wrote(2, "No such file or directory\n"),))
    assert reported_elsewhere(alike, Wording({}), calls) is None


def test_pieces_of_two_processes_are_not_one_line() -> None:
    written = (wrote(1, "a: "), wrote(2, "b: ", pid=2), wrote(3, "one\n"), wrote(4, "two\n", pid=2))
    assert [one.text for one in lines_of(Witnessed(written=written))] == ["a: one\n", "b: two\n"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x: Invalid argument", errno.EINVAL),
        ("open /x: no such file or directory", errno.ENOENT),  # Go
        ("Error: Os { code: 13, kind: PermissionDenied }", None),
        ("Permission denied (os error 13)", errno.EACCES),  # Rust
        ("Error: EADDRINUSE: address already in use :::80", errno.EADDRINUSE),  # node
        ("bpf() failed: -22", None),
        ("prog load failed: errno 22", errno.EINVAL),
        ("err = -28", errno.ENOSPC),
        ("everything is fine", None),
        ("make: *** [Makefile:2: all] Error 1", None),
        ("[Errno 1] no", errno.EPERM),
    ],
)
def test_an_error_in_a_text(text: str, error: int | None) -> None:
    assert Wording({}).errors(text) == (frozenset() if error is None else {error})


def test_the_longest_text_is_meant() -> None:
    """``Is a directory`` is a part of ``Not a directory`` in no language, others are."""
    found = Wording({}).errors("x: Operation not supported on transport endpoint")
    assert found <= {errno.EOPNOTSUPP}


def message_catalog(texts: dict[str, str]) -> bytes:
    """A file as msgfmt(1) writes it: two tables of lengths and places, then the texts."""
    pairs = sorted(texts.items())
    words = [one.encode() for pair in zip(*pairs, strict=True) for one in pair]
    at = 28 + 8 * len(words)
    tables, data = b"", b""
    for word in words:
        tables += struct.pack("<II", len(word), at + len(data))
        data += word + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, at)
    return head + tables + data


@pytest.mark.parametrize("variable", ["LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "NONE"])
def test_texts_of_another_language(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no variable names it: a program may choose its language itself."""
    catalog = tmp_path / "de/LC_MESSAGES/libc.mo"
    catalog.parent.mkdir(parents=True)
    header = "Content-Type: text/plain; charset=UTF-8\n"
    texts = {"": header, os.strerror(errno.EACCES): "Keine Berechtigung"}
    catalog.write_bytes(message_catalog(texts))
    monkeypatch.setattr("retsnoop_py.cause.wording._CATALOGS", (tmp_path,))
    found = Wording({variable: "de_DE.UTF-8"}).errors("cat: x: Keine Berechtigung")
    assert found == {errno.EACCES}


def test_the_error_alone_does_not_show_that_an_ordinary_call_is_meant() -> None:
    """As nft(8) writes the ENOENT of an answer, and looked for files that are not there."""
    looked = call(1, "openat", errno.ENOENT, "/etc/x.conf")
    written = (wrote(2, "Error: Could not process rule: No such file or directory\n"),)
    assert best(Witnessed((looked,), written)).is_reported
    found = best(Witnessed((looked,), written), Evidence.LOOKS)
    assert not found.is_reported
    assert found.is_ordinary
    named = (wrote(2, "cat: /etc/x.conf: No such file or directory\n"),)
    assert best(Witnessed((looked,), named), Evidence.LOOKS).is_reported


def test_the_last_line_with_an_error_tells_which_errors_were_written() -> None:
    written = (wrote(1, "a: Permission denied\n"), wrote(2, "b: Bad address\n"), wrote(3, "end\n"))
    found = errors_written(Witnessed((), written), Wording({}))
    assert found is not None
    errors, line = found
    assert (errors, line.text) == ({errno.EFAULT}, "b: Bad address\n")
    assert errors_written(Witnessed(), Wording({})) is None


def test_the_last_error_that_was_written_counts_more_than_an_earlier_one() -> None:
    """As of a program behind a wrapper that wrote about a file and went on."""
    calls = (
        call(1, "openat", errno.ENOENT, "/opt/wrapper/realpath.so"),
        call(3, "connect", errno.ECONNREFUSED),
    )
    written = (
        wrote(2, "open /opt/wrapper/realpath.so: No such file or directory\n"),
        wrote(4, "connect: Connection refused\n"),
        wrote(5, "giving up\n"),
    )
    found = best(Witnessed(calls, written))
    assert found.call is calls[1]
    assert Evidence.LAST_WORDS in found.evidence


def test_a_name_in_the_output_is_no_complaint() -> None:
    """As of a wrapper that looks for a program and hands its path on."""
    looked = call(1, "newfstatat", errno.ENOENT, "/usr/sbin/readlink")
    failed = call(3, "rmdir", errno.EBUSY, "/proc")
    ended = (Ended(9, 1, "tool", 1, 0),)
    output = (wrote(2, "/usr/bin/readlink\n", stream=1),)
    assert best(Witnessed((looked, failed), output, ended)).call is failed
    errors = (wrote(2, "/usr/bin/readlink\n"),)
    assert best(Witnessed((looked, failed), errors, ended)).call is looked


def test_the_message_of_a_netlink_answer_is_the_command_s_own_words() -> None:
    """ip(8) prints the kernel's message, and not the error."""
    refused = replace(
        call(1, "RTM_NEWLINK", errno.EOPNOTSUPP, "x"),
        request=Request(0, 16, "Unknown device type", b""),
    )
    other = call(2, "openat", errno.ENOENT, "/x")
    written = (wrote(3, "Error: Unknown device type.\n"),)
    found = best(Witnessed((refused, other), written))
    assert found.call is refused
    assert found.is_reported
    assert Evidence.ANSWER in found.evidence
    silent = replace(refused, request=Request(0, 16, "", b""))
    assert Evidence.ANSWER not in best(Witnessed((silent,), written)).evidence


def test_a_message_behind_a_meter_of_progress_is_a_line_of_its_own() -> None:
    """curl(1) writes its warning behind the line that it draws again and again."""
    failed = call(20, "openat", errno.ENOENT, "/nodir/x")
    noise = call(5, "openat", errno.ENOENT, "/root/.curlrc")
    text = f"Warning: Failed to open the file /nodir/x: {os.strerror(errno.ENOENT)}\n"
    written = (
        wrote(10, "\r"),
        wrote(11, "  0  0"),
        *(wrote(30 + at, one) for at, one in enumerate(text)),
    )
    found = best(Witnessed((noise, failed), written))
    assert found.call is failed
    assert found.line is not None
    assert found.line.text.endswith(text)


@pytest.mark.parametrize(
    "piece", ["." * 512, "errno 1" + "0" * 505, "a/" * 256], ids=["dots", "digits", "names"]
)
def test_a_line_without_end_is_read_in_little_time(piece: str) -> None:
    """A progress bar of dots, or a command that wants to keep ``why`` busy."""
    pieces = [wrote(at, piece) for at in range(200)]
    witnessed = Witnessed(
        (call(1, "open", errno.EPERM),), (*pieces, wrote(201, "\n"), wrote(202, "swapon: x: bad\n"))
    )
    with at_most(5):
        assert own_decision(witnessed) is None
        best(witnessed)


def test_the_end_of_a_long_line_is_read() -> None:
    pieces = [wrote(at, "." * 512) for at in range(20)]
    (line,) = lines_of(Witnessed((), (*pieces, wrote(30, " failed: Permission denied\n"))))
    assert line.time == 0
    assert line.text.endswith("... failed: Permission denied\n")
    assert Wording({}).errors(line.text) == {errno.EACCES}


def test_many_calls_and_long_lines_are_compared_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last calls are compared first, and the evidence tells that others were not."""
    monkeypatch.setattr(complaint, "_SECONDS", 0.2)
    calls = tuple(call(time, "openat", errno.ENOENT, f"/{time}/{'a' * 99}") for time in range(500))
    last = call(500, "openat", errno.ENOENT, "/srv/last")
    text = "a" * 4000 + ": No such file or directory\n"
    written = [wrote(600 + number, text) for number in range(199)]
    written.append(wrote(900, "/srv/last: No such file or directory\n"))
    with at_most(5):
        found = best(Witnessed((*calls, last), tuple(written)))
    assert found.call is last
    assert Evidence.UNREAD in found.evidence


def test_the_name_of_a_language_is_no_path() -> None:
    names = "de/../../../../tmp/x:../x:/tmp/x:de_DE.UTF-8@euro"
    assert wording._languages({"LANGUAGE": names}) == ["de_DE.UTF-8@euro"]


@pytest.mark.parametrize("text", ["line {} of many", "tool: /x{}: Permission denied"])
def test_only_the_last_lines_of_a_flood_are_read(text: str) -> None:
    """A command can write a million lines; each costs a search for the words of all errors."""

    class Counted(Wording):
        count = 0

        def errors(self, text: str) -> frozenset[int]:
            self.count += 1
            return super().errors(text)

    calls = (call(1, "openat", errno.EACCES, "/x7999"),)
    lines = tuple(wrote(2 + number, text.format(number) + "\n") for number in range(8000))
    flood, wording_ = Witnessed(calls, lines), Counted({})
    (found,) = choose(flood, wording_, lambda _: None)
    assert wording_.count <= 2 * complaint._MOST_LINES
    assert found.is_reported == ("denied" in text)
    wording_.count = 0
    errors_written(flood, wording_)
    assert wording_.count <= complaint._MOST_LINES


def test_a_directory_on_the_way_is_not_the_object_of_a_line() -> None:
    calls = (
        call(1, "access", errno.ENOENT, "/sys/bus/kprobe/events"),
        call(2, "openat", errno.ENOENT, "/sys/tracing/nosuch"),
    )
    text = "Error: File /sys/kernel/events/nosuch not found.\n"
    found = choose(Witnessed(calls, (wrote(3, text),)), Wording({}), lambda _: None)
    named = {one.call.name: Evidence.SHORT_NAME in one.evidence for one in found}
    assert named == {"access": False, "openat": True}


def test_a_search_of_path_that_found_the_program_is_over() -> None:
    """touch(1) writes its own name, which the shell looked for before."""
    looked = replace(call(1, "newfstatat", errno.ENOENT, "/usr/sbin/touch"), process="sh")
    opened = replace(call(2, "openat", errno.ENOENT, "x"), process="touch")
    text = "touch: cannot touch 'x': No such file or directory\n"
    found = best(Witnessed((looked, opened), (wrote(3, text),)))
    assert found.call is opened
    assert Evidence.FULL_NAME in found.evidence
    failed = best(Witnessed((looked,), (wrote(3, "sh: touch: not found\n"),)))
    assert failed.call is looked


def test_the_file_of_a_descriptor_is_named_by_its_path() -> None:
    """chattr(1) writes another error than the one of the call."""
    file = Place("/proc/version", 0o100444, 7)
    asked = replace(call(1, "ioctl", errno.ENOTTY), places=((0, file),))
    text = "chattr: Operation not supported while reading flags on /proc/version\n"
    found = best(Witnessed((asked,), (wrote(2, text),)), Evidence.ORDINARY)
    assert found.is_reported


def test_a_port_is_named_within_an_address() -> None:
    address = Address(2, "127.0.0.1", 7070)
    one = call(1, "connect", errno.ECONNREFUSED, address=address)
    found = best(Witnessed((one,), (wrote(2, "http://localhost:7070/status: refused\n"),)))
    assert Evidence.SHORT_NAME in found.evidence
