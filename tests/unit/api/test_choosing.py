# SPDX-License-Identifier: BSD-2-Clause
"""When a killed process is the answer, and when a failing call is."""

from __future__ import annotations

import errno
import os
import signal

import pytest
from tests.unit.api.test_failing import call, session

from retsnoop_py.api import choosing
from retsnoop_py.api.choosing import Chosen, Survey, with_reason, without_functions
from retsnoop_py.api.failing import FailingCalls
from retsnoop_py.cause import files
from retsnoop_py.cause.complaint import Choice, Evidence, Line
from retsnoop_py.cause.events import (
    Deferred,
    Ended,
    Request,
    Signalled,
    SystemCall,
    Witnessed,
    Written,
)
from retsnoop_py.cause.reason import Reason
from retsnoop_py.model.session import KernelMessage
from retsnoop_py.model.why import ExplainedCall
from retsnoop_py.value import replace

SHELL, NOISE, MOUNT, OUTSIDER = 1, 2, 3, 99
CALL = SystemCall(
    *(1, MOUNT, MOUNT, "mount", "mount", errno.ENOTBLK, (0,) * 6),
    *(((0, "/dev/null"), (1, "/mnt")), None, 0, 0, "/", False),
)


def survey(text: str, sender: int) -> tuple[Survey, Chosen | None]:
    """`sh -c 'while ...; do ...; done & mount ...; kill $!'`: a call that fails, then a kill."""
    witnessed = Witnessed(
        calls=(CALL,),
        written=(Written(2, MOUNT, MOUNT, 2, text),),
        ends=(
            Ended(3, MOUNT, "mount", 32, 0),
            Ended(5, NOISE, "sh", 0, signal.SIGTERM),
            Ended(6, SHELL, "sh", 32, 0),
        ),
        signals=(Signalled(4, NOISE, signal.SIGTERM, 0, 0, sender, "sender"),),
        parents={NOISE: SHELL, MOUNT: SHELL},
    )
    made = Survey(FailingCalls((), ()), witnessed, is_named=False)
    return made, made.chosen(failed=True)


@pytest.mark.parametrize(
    ("text", "sender", "status", "is_kill"),
    [
        ("mount: /mnt: Block device required\n", OUTSIDER, 32, False),  # the error is in the text
        ("mount: /mnt: /dev/null is not one.\n", SHELL, 32, False),  # the shell ended its helper
        ("mount: /mnt: /dev/null is not one.\n", SHELL, 128 + signal.SIGTERM, True),
        ("mount: /mnt: /dev/null is not one.\n", OUTSIDER, 32, True),
        ("it failed\n", SHELL, 32, True),  # as timeout(1) does
    ],
)
def test_a_kill_is_the_answer_unless_the_command_reports_a_call(
    text: str, sender: int, status: int, *, is_kill: bool
) -> None:
    made, chosen = survey(text, sender)
    assert chosen is not None
    reason = made.end_reason(chosen, status)
    assert (reason is not None) is is_kill
    if reason is not None:
        assert "SIGTERM killed sh" in reason.text


def test_a_search_for_one_name_is_one_reason() -> None:
    """The compiler looks for a header in several folders, and for these folders themselves."""

    def looked_for(time: int, name: str, path: str) -> SystemCall:
        return replace(CALL, time=time, name=name, error=errno.ENOENT, texts=((1, path),))

    calls = (
        looked_for(1, "openat", "/usr/local/include/x/lib.h"),
        looked_for(2, "readlink", "/usr/include/x"),
        looked_for(2, "execve", "/usr/local/bin/mount"),
        looked_for(3, "openat", "/usr/include/x/lib.h"),
    )
    text = "fatal error: x/lib.h: No such file or directory\n"
    witnessed = Witnessed(calls, written=(Written(4, MOUNT, MOUNT, 2, text),))
    chosen = Survey(FailingCalls((), ()), witnessed, is_named=False).chosen(failed=True)
    assert chosen is not None
    assert chosen.call is calls[3]
    assert chosen.alike == ()


def test_known_words_explain_more_than_one_call_of_a_search() -> None:
    """The linker reads a symbolic link of this name, too."""
    call_of_it = replace(CALL, name="readlink", error=errno.ENOENT, texts=((0, "-lnosuch"),))
    text = "/usr/bin/ld: cannot find -lnosuch: No such file or directory\n"
    witnessed = Witnessed((call_of_it,), written=(Written(4, MOUNT, MOUNT, 2, text),))
    made = Survey(FailingCalls((), ()), witnessed, is_named=False)
    chosen = made.chosen(failed=True)
    assert chosen is not None
    assert chosen.is_reported
    reason = made.end_reason(chosen, 1)
    assert reason is not None
    assert "did not find the library libnosuch.so" in reason.text


def test_known_words_of_the_program_explain_more_than_a_call_that_it_did_not_report() -> None:
    made, chosen = survey('sudo: The "no new privileges" flag is set, which prevents it.\n', SHELL)
    assert chosen is not None
    reason = made.end_reason(chosen, 1)
    assert reason is not None
    assert "has the flag no_new_privs" in reason.text
    # a warning that names the path, and no error, is not about the failure
    made, chosen = survey("/mnt is not used.\nerror: externally-managed-environment\n", SHELL)
    assert chosen is not None
    assert chosen.is_hinted_at
    reason = made.end_reason(chosen, 1)
    assert reason is not None
    assert "pip does not change them" in reason.text


def one_request(error: str) -> FailingCalls:
    """What a run that followed netlink requests saw."""
    requests = FailingCalls()
    for name, number in (("nf_tables_newrule", error), ("rtnetlink_rcv_msg", "EPERM")):
        requests.add(session(call(name, number)))
    return requests


def test_the_netlink_request_with_the_error_that_was_written_is_the_one() -> None:
    words = "Error: Could not process rule: No such file or directory\n"
    made, _ = survey(words, OUTSIDER)
    found = made.with_request(None, one_request("ENOENT"))
    assert found is not None
    assert found.failing is not None
    assert found.failing.function == "nf_tables_newrule"
    explained = with_reason(explained_call("nf_tables_newrule"), found, made.witnessed)
    assert explained.what == "the netlink request to nf_tables_newrule()"
    assert explained.reported is not None
    assert (explained.reported.sure, explained.reported.certainty) == (True, "observed")
    assert explained.reported.line == words.strip()
    assert explained.reason is not None
    assert explained.reason.text == 'The kernel reported: "no chain"'
    other = made.with_request(None, one_request("EEXIST"))
    assert other is not None
    assert other.failing is not None
    assert other.failing.function == "rtnetlink_rcv_msg"
    guessed = with_reason(explained_call("rtnetlink_rcv_msg"), other, made.witnessed)
    assert guessed.reported is not None
    assert guessed.reported.certainty == "inferred"
    assert made.with_request(None, FailingCalls()) is None


def test_a_refused_message_gets_the_functions_that_refused_it() -> None:
    request = Request(0, 16, "", b"")
    sent = replace(CALL, name="RTM_NEWLINK", error=errno.EEXIST, request=request)
    made = Survey(FailingCalls(), Witnessed((sent,), uses_netlink=True), is_named=False)
    chosen = Chosen(None, sent)
    assert made.may_be_request(chosen)
    found = made.with_request(chosen, one_request("EEXIST"))
    assert found is not None
    assert found.failing is not None
    assert (found.call, found.failing.error) == (sent, "EEXIST")
    assert made.with_request(chosen, one_request("ENOENT")) == chosen
    assert not made.may_be_request(None), "all refused messages were seen, and none is chosen"


def test_netlink_takes_a_run_only_of_a_command_that_used_it() -> None:
    for seen, expected in (
        (Witnessed(uses_netlink=True), True),
        (Witnessed(), False),
        (Witnessed(problem="no BPF"), True),
    ):
        made = Survey(FailingCalls(), seen, is_named=False)
        assert made.may_be_request(None) is expected


def explained_call(name: str) -> ExplainedCall:
    said = (KernelMessage("netlink", "no chain"),)
    return ExplainedCall(name, "ENOENT", 1, 1, "x", "x", "", "unknown", said=said)


def test_an_ordinary_call_that_only_has_the_error_leaves_netlink_possible() -> None:
    _, reported = survey("mount: /mnt: Block device required\n", OUTSIDER)
    assert reported is not None
    assert not reported.may_be_another
    looked = replace(CALL, name="openat", error=errno.ENOENT)
    choice = Choice(looked, (Evidence.ERROR_TEXT, Evidence.LOOKS), Line(1, 1, 2, "x"))
    assert Chosen(None, looked, choice).may_be_another
    assert Chosen(None, looked).may_be_another


def test_how_sure_a_choice_is() -> None:
    line = Line(1, 1, 2, "x")
    clear = Choice(CALL, (Evidence.ERROR_TEXT,), line)
    assert Chosen(None, CALL, clear).certainty == "observed"
    assert Chosen(None, CALL, clear, alike=("opening /x (ENOENT)",)).certainty == "unknown"
    assert Chosen(None, CALL, Choice(CALL, (), None)).certainty == "inferred"
    assert Chosen(None, CALL, Choice(CALL, (), None), alike=("x",)).certainty == "inferred"
    assert Chosen(None, CALL, Choice(CALL, (), None), is_named=True).certainty == "observed"


def test_a_reason_that_was_read_later_is_inferred() -> None:
    seen = Reason("rlimit", "It is low.", is_seen_later=False)
    assert choosing._told(seen).certainty == "observed"
    assert choosing._told(Reason("not-found", "It is not there.")).certainty == "inferred"


def test_an_error_that_no_system_call_returned_is_not_looked_for_in_the_kernel() -> None:
    later = replace(CALL, name="connect", deferred=Deferred.SOCKET_ERROR)
    found = without_functions(later)
    assert found.certainty == "unknown"
    assert found.unknown is not None
    assert "getsockopt(SO_ERROR)" in found.unknown


def test_processes_that_run_on_are_named() -> None:
    seen = Witnessed(ends=(Ended(1, SHELL, "sh", 3, 0),), parents={NOISE: SHELL})
    text = Survey(FailingCalls(), seen, is_named=False).still_running()
    assert text is not None
    assert "1 process that the command started did not end with it (PID 2)" in text
    assert "why -p 2" in text
    unsure = replace(seen, lost=1)
    assert Survey(FailingCalls(), unsure, is_named=False).still_running() is None


def test_words_alone_do_not_choose_what_a_command_looked_for() -> None:
    look = replace(CALL, name="openat", error=errno.ENOENT, texts=((1, "/etc/modprobe.conf"),))

    def chosen(text: str) -> tuple[Survey, Chosen | None]:
        witnessed = Witnessed(
            calls=(look,),
            written=(Written(2, MOUNT, MOUNT, 2, text),),
            ends=(Ended(9, MOUNT, "mount", 1, 0),),
        )
        found = Survey(FailingCalls(), witnessed, is_named=False)
        return found, found.chosen(failed=True)

    for about_it in (
        "modprobe.conf not found",
        "bad line in /etc/modprobe.conf",
        "open: No such file or directory",
    ):
        assert chosen(about_it)[1] is not None, about_it
    for other in ("module x not found", "modprobe.conf is odd", "x"):
        assert chosen(other)[1] is None, other
    said = chosen("fatal: module x not found\nread modprobe(8)\n")[0]
    assert said.nothing(failed=True, status=1).endswith(
        'this decision itself, and wrote "fatal: module x not found"'
    )


def test_the_call_of_a_session_is_the_next_one_that_ends_in_its_thread() -> None:
    ended = [replace(CALL, time=time, tid=tid) for time, tid in ((5, 3), (9, 4), (12, 3), (20, 3))]
    found = session(call("do_mount", "EINVAL"), tid=3)
    found.end_ns = 10
    assert choosing.call_of(Witnessed(tuple(ended)), found) is ended[2]
    found.end_ns = 21
    assert choosing.call_of(Witnessed(tuple(ended)), found) is None


def test_a_line_about_the_end_of_the_program_is_quoted_before_hints() -> None:
    text = "fatal: no destination.\nConfigure one, which cannot hurt.\n"
    witnessed = Witnessed(written=(Written(2, MOUNT, MOUNT, 2, text),))
    found = Survey(FailingCalls(), witnessed, is_named=False)
    assert found.nothing(failed=True, status=1).endswith('and wrote "fatal: no destination."')


def test_a_device_in_use_is_explained_by_the_call_and_not_by_the_words_of_mkfs() -> None:
    """The call leads to the mount point; the words do not name it."""
    opened = replace(CALL, name="openat", error=errno.EBUSY, texts=((1, "/dev/loop7"),))
    text = "/dev/loop7 is mounted; will not make a filesystem here!\n"
    witnessed = Witnessed((opened,), written=(Written(4, MOUNT, MOUNT, 2, text),))
    made = Survey(FailingCalls(), witnessed, is_named=False)
    chosen = made.chosen(failed=True)
    assert chosen is not None
    assert chosen.is_reported
    assert made.end_reason(chosen, 1) is None


def test_the_meaning_of_an_exit_status_is_the_answer_if_no_call_failed() -> None:
    silent = Witnessed(ends=(Ended(9, MOUNT, "grep", 1, 0),))
    made = Survey(FailingCalls(), silent, is_named=False)
    reason = made.end_reason(made.chosen(failed=True), 1)
    assert reason is not None
    assert reason.text.startswith("No line matches the pattern.")
    assert reason.certainty == "inferred"
    with_call = Survey(FailingCalls(), replace(silent, calls=(CALL,)), is_named=False)
    assert with_call.end_reason(with_call.chosen(failed=True), 1) is None
    look = replace(CALL, name="openat", error=errno.ENOENT, texts=((1, "/root/.config/grep"),))
    with_search = Survey(FailingCalls(), replace(silent, calls=(look,)), is_named=False)
    reason = with_search.end_reason(with_search.chosen(failed=True), 1)
    assert reason is not None
    assert reason.text.startswith("No line matches the pattern.")


def test_the_end_of_its_time_is_the_answer_of_timeout_and_not_the_signal() -> None:
    witnessed = Witnessed(
        ends=(Ended(3, NOISE, "sleep", 0, signal.SIGTERM), Ended(4, SHELL, "timeout", 124, 0)),
        signals=(Signalled(2, NOISE, signal.SIGTERM, 0, 0, SHELL, "timeout"),),
        parents={NOISE: SHELL},
    )
    made = Survey(FailingCalls(), witnessed, is_named=False)
    reason = made.end_reason(made.chosen(failed=True), 124)
    assert reason is not None
    assert "the time was over" in reason.text


def test_a_missing_driver_behind_an_error_that_no_call_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """mount(8) without a loop device writes EPERM."""
    monkeypatch.setattr(files, "missing_part", lambda path: (path, None))
    monkeypatch.setattr(os.path, "exists", lambda _: False)
    texts = ((1, "/dev/loop-control"),)
    look = replace(CALL, name="newfstatat", error=errno.ENOENT, texts=texts)
    text = "mount: /mnt: mount failed: Operation not permitted.\n"
    witnessed = Witnessed((look,), written=(Written(4, MOUNT, MOUNT, 2, text),))
    made = Survey(FailingCalls(), witnessed, is_named=False)
    assert made.chosen(failed=True) is None
    reason = made.end_reason(None, 1)
    assert reason is not None
    assert "the module loop is not loaded" in reason.text
    assert reason.certainty == "inferred"
    other = replace(look, texts=((1, "/dev/other"),))
    without = Survey(FailingCalls(), replace(witnessed, calls=(other,)), is_named=False)
    assert without.end_reason(None, 1) is None
