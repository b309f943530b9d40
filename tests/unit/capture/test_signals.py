# SPDX-License-Identifier: BSD-2-Clause
"""Stop signals: the first stops, the second drops what waits, the third kills."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

#: Sends itself a signal; more than 100 ms lie between two of them, or they would be one request.
HEAD = """
import hashlib, os, signal, threading, time
from retsnoop_py.capture.signals import Dropped, StopSignals
from retsnoop_py.cli.report import Console
from retsnoop_py.errors import Interrupted
from retsnoop_py.listener import listening

def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
        time.sleep(0.15)

def later(*numbers):
    threading.Thread(target=send, args=numbers, daemon=True).start()

def in_c():
    "A call into C that does not look at signals, for some seconds."
    hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
heard = listening(Console())
heard.__enter__()
signals = StopSignals()
signals.__enter__()
"""


def ends(script: str, head: str = HEAD) -> tuple[int, list[str]]:
    """Exit status (negative: the signal that killed it) and what a process printed."""
    done = subprocess.run(
        [sys.executable, "-uc", head + script],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_what_is_prepared_is_given_up_at_once() -> None:
    script = """
later(TERM)
try:
    with signals.giving_up("counting"):
        while True:
            time.sleep(60)
except Interrupted as error:
    print(error, error.exit_status)
"""
    assert ends(script) == (0, ["interrupted while counting; nothing was traced 130"])


def test_nothing_is_prepared_after_a_signal() -> None:
    script = """
send(HUP)
try:
    with signals.giving_up("counting"):
        print("counts")
except Interrupted as error:
    print(error)
"""
    assert ends(script) == (0, ["interrupted while counting; nothing was traced"])


def test_the_first_stops_in_the_middle_of_what_goes_on_and_the_second_drops_it() -> None:
    script = """
done = 0
with signals.stopping_by(lambda: print("detached", done)):
    try:
        for done in range(1, 4):
            if done < 3:
                send(INT)
            print("shown", done)
    except Dropped:
        print("dropped", done)
"""
    assert ends(script) == (0, ["detached 1", "shown 1", "dropped 2"])


def test_detaching_is_done_to_its_end_and_says_so() -> None:
    script = """
def detach():
    time.sleep(0.15)
    send(INT)
    print("detached")

signals.patience = "wait\\n"
with signals.stopping_by(detach):
    try:
        send(INT)
        print("shown")
    except Dropped:
        print("dropped", signals.count)
"""
    assert ends(script) == (0, ["wait", "detached", "dropped 2"])


def test_a_time_limit_drops_what_nobody_reads_as_a_second_signal_does() -> None:
    script = """
nobody, _ = os.pipe()
with signals.stopping_by(lambda: print("detached")):
    try:
        send(TERM)
        signals.drop_after(0.1)
        os.read(nobody, 1)
    except Dropped:
        print("dropped", signals.is_late, signals.count)
print(signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM) is signal.SIG_DFL)
"""
    assert ends(script) == (0, ["detached", "dropped True 1", "(0.0, 0.0) True"])


def test_the_first_of_two_limits_counts_and_one_taken_back_does_not() -> None:
    script = """
nobody, _ = os.pipe()
with signals.stopping_by(lambda: None):
    signals.drop_after(3600)
    signals.drop_never()
    print(signal.getitimer(signal.ITIMER_REAL))
    for seconds in (0, 3600):
        signals.drop_after(seconds)
    try:
        os.read(nobody, 1)
    except Dropped:
        print("dropped")
"""
    assert ends(script) == (0, ["(0.0, 0.0)", "dropped"])


def test_a_limit_waits_for_what_is_done_to_its_end() -> None:
    script = """
with signals.stopping_by(lambda: None):
    try:
        with signals.held():
            signals.drop_after(0)
            signal.pause()
            print("written")
        print("shown")
    except Dropped:
        print("dropped")
"""
    assert ends(script) == (0, ["written", "dropped"])


def test_where_signals_are_the_callers_there_is_no_limit() -> None:
    script = """
other = StopSignals()
other.drop_after(1)
print(signal.getitimer(signal.ITIMER_REAL), other.is_late)
"""
    assert ends(script) == (0, ["(0.0, 0.0) False"])


def test_a_frame_of_a_recording_is_written_whole() -> None:
    script = """
with signals.stopping_by(lambda: None):
    try:
        with signals.held():
            send(INT, INT)
            print("written")
        print("shown")
    except Dropped:
        print("dropped")
"""
    assert ends(script) == (0, ["written", "dropped"])


def test_an_import_is_done_before_the_first_signal_stops() -> None:
    script = """
with signals.stopping_by(lambda: print("detached")):
    with signals.postponed():
        send(INT)
        print("imported")
    print("shown")
"""
    assert ends(script) == (0, ["imported", "detached", "shown"])


def test_a_signal_that_came_before_stops_as_well() -> None:
    script = """
send(INT)
with signals.stopping_by(lambda: print("detached")):
    print("shown")
"""
    assert ends(script) == (0, ["detached", "shown"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_third_kills_even_where_python_does_not_run(number: int) -> None:
    started = time.monotonic()
    status, _ = ends(f"later({number}, {number}, {number})\nin_c()\nin_c()\nin_c()")
    assert status == -number
    assert time.monotonic() - started < 10


def test_signals_at_the_same_time_are_one_request() -> None:
    script = """
for number in (HUP, HUP, TERM, INT):
    os.kill(os.getpid(), number)
print(signals.count, signals.stopping())
send()
"""
    assert ends(script) == (0, ["1 True"])


def test_only_an_ignored_hang_up_stays_ignored() -> None:
    script = """
send(HUP)
print(signals.count)
send(INT)
print(signals.count)
"""
    ignored = "".join(f"signal.signal({name}, signal.SIG_IGN)\n" for name in ("HUP", "INT"))
    head = HEAD.replace("signals = Stop", f"{ignored}signals = Stop")
    assert ends(script, head) == (0, ["0", "1"])


@pytest.mark.parametrize(
    ("action", "status", "printed"), [("SIG_IGN", 0, ["goes on"]), ("SIG_DFL", -signal.SIGTERM, [])]
)
def test_a_signal_without_a_handler_has_its_usual_effect(
    action: str, status: int, printed: list[str]
) -> None:
    """Calling the constant SIG_DFL or SIG_IGN as a handler would be a crash."""
    head = f"""
import os, signal
from retsnoop_py.libbpf import process
signal.signal(signal.SIGTERM, signal.{action})
process.watch_signals([signal.SIGTERM])
"""
    script = "os.kill(os.getpid(), signal.SIGTERM)\nprint('goes on')\n"
    assert ends(script, head) == (status, printed)
