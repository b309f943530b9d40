# SPDX-License-Identifier: BSD-2-Clause
"""The format files of tracepoints, as kernels write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.kernel.tracepoints import TraceField, parse_format

#: In the form that trace_events.c has had since 2009.
EXEC = """\
name: sched_process_exec
ID: 312
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;

print fmt: "filename=%s pid=%d", __get_str(filename), REC->pid
"""

FORMS = {
    "int sig": TraceField("sig", "int", 8, 4),
    "unsigned long long when": TraceField("when", "unsigned long long", 8, 4),
    "const char * path": TraceField("path", "const char *", 8, 4),
    "struct sk_buff *skb": TraceField("skb", "struct sk_buff *", 8, 4),
    "enum hrtimer_mode mode": TraceField("mode", "enum hrtimer_mode", 8, 4),
    "char comm[16]": TraceField("comm", "char", 8, 4, is_array=True),
    "char comm[TASK_COMM_LEN]": TraceField("comm", "char", 8, 4, is_array=True),
    "__u8 mac[ 2 * (3) ]": TraceField("mac", "__u8", 8, 4, is_array=True),
    "__data_loc char[] name": TraceField("name", "char", 8, 4, is_array=True, is_dynamic=True),
    "__rel_loc u32[] list": TraceField(
        "list", "u32", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    # what kernels make of it
    "__rel_loc char text[]": TraceField(
        "text", "char", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    "__rel_loc u32 list[]": TraceField(
        "list", "u32", 8, 4, is_array=True, is_dynamic=True, is_relative=True
    ),
    "__data_loc unsigned long[] mask": TraceField(
        "mask", "unsigned long", 8, 4, is_array=True, is_dynamic=True
    ),
    "void (*function)(struct timer_list *)": TraceField(
        "void (*function)(struct timer_list *)", "", 8, 4
    ),
}


def test_a_format_has_the_fields_of_its_own() -> None:
    assert parse_format(EXEC) == (
        TraceField("filename", "char", 8, 4, is_array=True, is_dynamic=True),
        TraceField("pid", "pid_t", 12, 4, is_signed=True),
    )


@pytest.mark.parametrize("text", FORMS)
def test_a_field_is_read_as_c_declares_it(text: str) -> None:
    assert parse_format(f"\tfield:{text};\toffset:8;\tsize:4;\tsigned:0;") == (FORMS[text],)


NAME = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.startswith("common_")
)
TYPE = st.sampled_from(
    ["int", "unsigned int", "char", "const char *", "struct sock *", "dev_t", "enum x", "void **"]
)


@given(TYPE, NAME, st.integers(0, 1 << 16), st.integers(0, 1 << 16), st.booleans(), st.booleans())
def test_any_declaration_comes_back(
    type_: str, name: str, offset: int, size: int, signed: bool, array: bool
) -> None:
    text = f"{type_} {name}" + ("[N + 1]" if array else "")
    line = f"\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:{signed:d};\n"
    assert parse_format(line) == (TraceField(name, type_, offset, size, signed, array),)


@given(st.text(alphabet="field:\t;ofset0 1z[]*()_common\n", max_size=120))
def test_damaged_formats_do_no_harm(text: str) -> None:
    with suppress(StopIteration):
        assert all(field.offset >= 0 for field in parse_format(text + EXEC))
