# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel's function_graph tracer writes, and that its settings are put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.attach.function_graph import FunctionGraph
from retsnoop_py.errors import UnavailableError

#: As a 6.1 writes it; the interrupt is cut short.
GRAPH = """\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)               |  __x64_sys_bpf() {
 0)               |    __sys_bpf() {
 0)   0.500 us    |      capable();
 0)   ==========> |
 0)               |      irq_enter_rcu() {
 0)   0.500 us    |        tick_irq_enter();
 0)   0.700 us    |      }
 0)               |      __sysvec_apic_timer_interrupt() {
 0)               |        hrtimer_interrupt() {
 0)   0.500 us    |          __hrtimer_run_queues();
 0)   0.700 us    |        }
 0)   0.700 us    |      }
 0)   <========== |
 0)               |      map_create() {
 0)   0.600 us    |        nft_check [nf_tables]();
 0)   0.400 us    |        array_map_alloc_check();
 0)   2.100 us    |      }
 0)   0.300 us    |      capable();
 0) + 13.100 us   |    }
 0) + 14.600 us   |  }
"""
SETTINGS = {
    "current_tracer": "nop",
    "set_graph_function": "#### all functions enabled ####",
    "set_ftrace_pid": "no pid",
    "options/function-fork": "0",
    "tracing_on": "1",
    "set_event": "",
    "trace": GRAPH,
}


@pytest.fixture
def tracefs(tmp_path: Path) -> Path:
    folder = tmp_path / "sys/kernel/tracing"
    (folder / "options").mkdir(parents=True)
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)
    return folder


def test_functions_newest_first_without_those_of_interrupts(tmp_path: Path, tracefs: Path) -> None:
    with FunctionGraph(tmp_path, "__x64_sys_bpf", 17) as graph:
        assert (tracefs / "set_graph_function").read_text() == "__x64_sys_bpf"
        assert (tracefs / "set_ftrace_pid").read_text() == "17"
        assert (tracefs / "current_tracer").read_text() == "function_graph"
        (tracefs / "trace").write_text(GRAPH)
        assert graph.calls() == [
            "capable",
            "array_map_alloc_check",
            "nft_check[nf_tables]",
            "map_create",
            "__sys_bpf",
            "__x64_sys_bpf",
        ]
    assert (tracefs / "current_tracer").read_text() == "nop"
    assert (tracefs / "tracing_on").read_text() == "1"
    assert (tracefs / "set_graph_function").read_text() == ""


def test_a_tracer_that_is_in_use_is_left_alone(tmp_path: Path, tracefs: Path) -> None:
    (tracefs / "current_tracer").write_text("function")
    with pytest.raises(UnavailableError, match="in use"), FunctionGraph(tmp_path, "f", 17):
        pass
    assert (tracefs / "current_tracer").read_text() == "function"
    assert (tracefs / "trace").read_text() == GRAPH


OTHERS = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/12   #P:2\n#\n"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("set_event", "sched:sched_switch\n", "sched:sched_switch"),
        ("trace", OTHERS, "3 entries of another tool"),
    ],
)
def test_events_of_another_tool_are_left_in_the_buffer(
    name: str, text: str, why: str, tmp_path: Path, tracefs: Path
) -> None:
    (tracefs / name).write_text(text)
    before = {path: path.read_text() for path in tracefs.rglob("*") if path.is_file()}
    with pytest.raises(UnavailableError, match=why), FunctionGraph(tmp_path, "f", 17):
        pass
    assert {path: path.read_text() for path in before} == before


def test_an_empty_buffer_is_nobodys(tmp_path: Path, tracefs: Path) -> None:
    (tracefs / "trace").write_text(OTHERS.replace("3/12", "0/0"))
    with FunctionGraph(tmp_path, "f", 17):
        assert (tracefs / "current_tracer").read_text() == "function_graph"


def test_a_kernel_without_it(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no function_graph"):
        FunctionGraph(tmp_path, "f", 17)
