# SPDX-License-Identifier: BSD-2-Clause
"""Facts from a log about an access, a register or an argument: for ``access_rules``."""

from __future__ import annotations

import re

from retsnoop_py.load.read_log import Insn, register_state
from retsnoop_py.load.verifier_case import Case, at_insn, callee, in_bytes, origin_of
from retsnoop_py.load.verifier_rules import Rule
from retsnoop_py.load.verifier_rules import rule as rule_of

__all__ = ["ACCESS_FACTS", "ACCESS_MEANT"]

#: Maximum stack of a call chain in bytes (the kernel's MAX_BPF_STACK).
_MOST_STACK = 512


_ARGUMENTS = ("first", "second", "third", "fourth", "fifth")


#: Functions that release an object, by the helper or kfunc that acquires it.
_RELEASES = {
    "bpf_ringbuf_reserve": "bpf_ringbuf_submit() or bpf_ringbuf_discard()",
    "bpf_ringbuf_reserve_dynptr": "bpf_ringbuf_submit_dynptr() or bpf_ringbuf_discard_dynptr()",
    "bpf_sk_lookup_tcp": "bpf_sk_release()",
    "bpf_sk_lookup_udp": "bpf_sk_release()",
    "bpf_skc_lookup_tcp": "bpf_sk_release()",
    "bpf_task_acquire": "bpf_task_release()",
    "bpf_task_from_pid": "bpf_task_release()",
    "bpf_cgroup_acquire": "bpf_cgroup_release()",
    "bpf_cgroup_from_id": "bpf_cgroup_release()",
    "bpf_cpumask_create": "bpf_cpumask_release()",
    "bpf_obj_new_impl": "bpf_obj_drop(), or into a collection",
    "bpf_kptr_xchg": "the kind's release function",
}


def _of_stack(case: Case) -> Rule:
    """Return the rule for bytes that were never written, or for an access after the stack's end."""
    offset, size = case.first("off"), case.first("size")
    if re.fullmatch(r"-?\d+", offset) and size.isdigit() and int(offset) + int(size) > 0:
        return rule_of("stack-bounds")
    return case.rule


def _of_bounds(case: Case) -> Rule:
    """Return the rule for an access out of bounds, or for stack bytes that were never written.

    Since 6.8 the verifier has the same message for an access in the stack's 512 bytes but below all
    written bytes.
    """
    offset, size = case.first("off"), case.first("size")
    if " read from stack R" not in case.words or not re.fullmatch(r"-\d+", offset):
        return case.rule
    if int(offset) >= -_MOST_STACK and size.isdigit() and int(offset) + int(size) <= 0:
        return rule_of("stack-uninitialised")
    return case.rule


def _leak(case: Case) -> dict[str, str]:
    number = case.first("insn")
    made = None
    for name, insn in case.log.path.acquired.items():
        if (number and insn.index == int(number)) or (not number and name in _RELEASES):
            made = insn
    name = callee(made) if made else ""
    where = at_insn(made)
    return {
        "acquired": f" by {name}(){where}" if made else "",
        "release": _RELEASES.get(name) or _destroyer(name),
    }


def _destroyer(name: str) -> str:
    """Return the function that ends an iterator, which ``name`` begins."""
    if "_iter_" in name and name.endswith("_new"):
        return f"{name.removesuffix('_new')}_destroy()"
    return "the release function that goes with it"


def _packet(case: Case) -> dict[str, str]:
    offset, size = case.first("off"), case.first("size")
    reach = case.first("range")
    span = f": {in_bytes(size)} at offset {offset}" if offset else ""
    if reach and int(reach) > 0:
        proven = f"only {reach} bytes are proven to exist"
    elif case.history.checked is not None:
        proven = "the check on this path does not cover this pointer"
    else:
        proven = "no check on this path proves that the packet is long enough"
    return {"span": span, "proven": proven}


def _scalar(case: Case) -> dict[str, str]:
    change, made = case.log.path.packet_changed, case.history.made
    lost = change is not None and made is not None and made.index < change.index
    if lost and made is not None and "= *(u32 *)" in made.text:
        return {
            "why_number": f": it pointed into the packet until {callee(change)}(){at_insn(change)},"
            " after which packet pointers are no longer valid",
            "number_suggestion": "Read ctx->data and ctx->data_end again after that call, and"
            " compare them again.",
        }
    taken = _taken_back(case)
    if taken is not None and made is not None:
        return {
            "why_number": f": {callee(made)}() gave it, and {callee(taken)}(){at_insn(taken)} has"
            " taken it back",
            "number_suggestion": f"Use it only before {callee(taken)}().",
        }
    passed = case.history.passed
    if passed is not None:
        return {
            "why_number": f": it was kept on the stack, and {callee(passed)}(){at_insn(passed)} was"
            " given its place there, which this kernel takes for overwritten",
            "number_suggestion": "Pass a copy: __u64 key = (__u64)pointer, and &key, so that the"
            " pointer stays in a variable of its own.",
        }
    if "map_ptr" in case.first("wanted") and (made is None or made.text.endswith("= 0x0")):
        return {
            "why_number": ": this call takes a map there, and the loader put none"
            + (" (0)" if made is not None else ""),
            "number_suggestion": "Load the object by what knows its maps: maps as structs in .maps"
            " take libbpf; ip and tc without libbpf know struct bpf_elf_map in section maps only.",
        }
    is_zero = made is not None and _ZERO.fullmatch(made.text) is not None
    if made is not None and (is_zero or _NULL.fullmatch(case.state)):
        given = f"what {origin_of(made)} gave may be NULL" if "call" in made.text else "it is NULL"
        return {
            "why_number": f", and 0 on this way: {given}",
            "number_suggestion": "Check the pointer before the use: if (!ptr) return 0; where"
            " NULL is intended, pass an argument that may be NULL.",
        }
    why = f"; it is {origin_of(made)}" if made is not None else ""
    step = ""
    if made is not None and _OF_STACK.search(made.text) and _of_packets(case):
        step = (
            " A pointer into the packet that was kept on the stack is a number once a helper may"
            " have changed the packet (bpf_skb_store_bytes(), ..._pull_data(), ..._adjust_*()):"
            " read ctx->data and ctx->data_end again after it, and compare them again."
        )
    if case.history.changed is not None:
        why += f", changed by '{case.history.changed.text}'"
    return {
        "why_number": why,
        "number_suggestion": "If it is an address of the kernel, read it by BPF_CORE_READ() or"
        " bpf_probe_read_kernel(), one of user memory by bpf_probe_read_user(). If it was a"
        " pointer: a cast to a small integer, arithmetic, or two ways that meet made it a number."
        + step,
    }


#: A value that was stored on the function's stack.
_OF_STACK = re.compile(r"= \*\(u64 \*\)\(r10 ")
#: Helpers of programs that have a packet.
_PACKET_HELPER = re.compile(r"bpf_(?:skb|xdp|l[34]_csum)_")


def _of_packets(case: Case) -> bool:
    """Return True if calls in the log, which may begin late, belong to a program with a packet."""
    return any(_PACKET_HELPER.match(name) for name in case.log.path.acquired)


_NULL_TESTED = re.compile(r"if r\d+ [!=]= 0x0 goto")


#: The verifier's texts for a register that is 0.
_NULL = re.compile(r"(?:invP?|P|scalar)?0")


_ZERO = re.compile(r"[rw]\d+ = (?:0x)?0")


_GIVES_BACK = re.compile(
    r"bpf_\w+_(?:submit|discard|release|put|drop|drop_impl|destroy)$|bpf_sk_release$"
)


def _taken_back(case: Case) -> Insn | None:
    """Return the later call that released the value's object, or None."""
    made = case.history.made
    if made is None or callee(made) not in _RELEASES:
        return None
    calls = case.log.path.acquired
    after = [
        one for name, one in calls.items() if _GIVES_BACK.match(name) and one.index > made.index
    ]
    return max(after, key=lambda one: one.index) if after else None


def _or_null_subject(case: Case) -> dict[str, str]:
    made = case.history.made
    if case.register < 0:
        return {"subject": f"An argument of {callee(case.last)}()", "made": "a lookup"}
    if made is not None:
        return {"subject": f"R{case.register}", "made": origin_of(made)}
    kind = case.first("kind", "kind2", "kind3")
    if kind == "mem_or_null":
        return {"subject": f"R{case.register}", "made": "a caller of this global function"}
    where = f"a lookup ({kind})" if kind else "a lookup or an acquiring call"
    return {"subject": f"R{case.register}", "made": where}


def _or_null(case: Case) -> dict[str, str]:
    facts = _or_null_subject(case)
    facts["unchecked"] = "The program does not check it on this path"
    facts["check_step"] = "Check the pointer before using it: if (!ptr) return 0;"
    tested = case.history.checked
    if tested is not None and _NULL_TESTED.match(tested.text):
        facts["unchecked"] = (
            f"The program checks a copy of it ('{tested.text}'), and this kernel does not know that"
            " the copy has the same value"
        )
        facts["check_step"] = (
            "Check and use the same variable. Keep the compiler from copying it: volatile, or"
            " barrier_var(). Kernels before 4.10 do not track copies."
        )
    return facts


def _unset(case: Case) -> dict[str, str]:
    number, last = case.register, case.last
    if number == 0 and last is not None and last.text.startswith("exit"):
        return {
            "unset": "The program ends on this path without a return value (R0 is not set).",
            "unset_suggestion": "Return a value on every path; a function that returns void has"
            " none.",
        }
    calls = [insn for insn in case.log.path.acquired.values() if last and insn.index <= last.index]
    if 1 <= number <= 5 and calls:
        call = max(calls, key=lambda insn: insn.index)
        text = (
            f"R{number} is read, but it is not set on this path after {callee(call)}()"
            f"{at_insn(call)}: a call clears R1 to R5."
        )
    else:
        text = f"The program reads R{number}, which is not set on this path."
    if last is not None and last.text.startswith("call"):
        text = f"{callee(last)}() expects an argument in R{number}, which is not set."
    return {
        "unset": text,
        "unset_suggestion": "Set the variable on every path to this point. Usual causes: a"
        " variable without initial value, or a call with too few arguments.",
    }


def _no_size(case: Case) -> dict[str, str]:
    """Explain memory that a call receives with a size that may be 0, which is not allowed."""
    return {
        "bounds": f"R{case.register} is passed to {callee(case.last)}() with a size that may be 0,"
        " which this kernel does not take beside a value of a map.",
        "bound_step": "Test that the size is not 0 right before the call (if (!size) return 0;),"
        " in the variable that is passed. The compiler may remove the test or apply"
        " it to a copy; barrier_var(size) prevents that. If the call has no size"
        " argument (the format's size for bpf_trace_printk()), the register holds a"
        " random value.",
    }


def _bounds(case: Case) -> dict[str, str]:
    offset, size = case.first("off", "off2"), case.first("size", "size2")
    room = case.first("value", "mem", "key")
    text = ""
    if room and offset:
        text = f"{in_bytes(size)} at offset {offset} of {room} would be accessed"
    joined = "\n".join(case.log.said[-3:])
    if size == "0" and (case.last is None or case.last.text.startswith("call")):
        return _no_size(case)
    side = "both sides"
    if "max value" in joined or "unbounded" in joined:
        side = "its upper side"
        text = text or "the index may be too large"
        if re.search(r"smin(?:_value)?=-", case.state) and "unbounded" in joined:
            side = "both sides"
            text = "the index may be negative, which as an unsigned number is anything"
    if "min value" in joined:
        # the smallest index is too small, or already too large
        is_above = offset.isdigit() and size.isdigit() and int(offset) + int(size) > int(room or 0)
        side = "its upper side" if is_above else "its lower side"
        if not is_above:
            text = "the index may be negative" + (f" ({text})" if text else "")
    known = f" The verifier's state of R{case.register}: {case.state}." if case.state else ""
    return {
        "bounds": f"{text[:1].upper()}{text[1:] or 'The index has no bound'}.{known}",
        "bound_step": f"Limit the index on {side} before you use it: if (i >= COUNT) return 0; for"
        " an unsigned i, or i &= COUNT - 1 where COUNT is a power of two. The compiler may bound a"
        " copy: keep the check by barrier_var(i).",
    }


def _size(case: Case) -> dict[str, str]:
    called = callee(case.last)
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    what = f", the {place} argument of {called}()" if place else ""
    state = case.state or (
        "that it may be negative" if "negative" in case.words else "that it may be anything"
    )
    step = (
        "Make it unsigned and limit it before the call: if (size > sizeof(buffer)) size ="
        " sizeof(buffer); or size &= MASK."
    )
    if zero := re.search(r"zero-sized read(?:: u64=\[(\S+),(\S+)\])?", case.words):
        state = (
            f"that it is {zero[1]} to {zero[2]}" if zero[1] else case.state or "that it may be 0"
        )
        state += ", and 0 is not allowed here"
    if re.search(r"not a (?:known )?const", case.words) or called == "bpf_ringbuf_reserve":
        state += ", and it must be a constant"
        step = (
            "Pass a compile-time constant, the largest size that you need. For a ring buffer,"
            " bpf_ringbuf_output() and bpf_ringbuf_reserve_dynptr() (5.19) accept variable sizes."
        )
    return {"argument": what, "state": state, "size_step": step}


def _stack_read(case: Case) -> dict[str, str]:
    size, at = case.first("size2", "size"), case.first("at")
    called = f"{callee(case.last)}()" if case.last and "call" in case.last.text else "This"
    step = (
        "Set all bytes: struct key k = {}; sets members, __builtin_memset(&k, 0, sizeof(k)) also"
        " sets the padding."
    )
    part = f", of which byte {at} was never written" if at else " that nobody wrote"
    why = "padding, or a member that is not set. (With CAP_PERFMON kernels since 6.3 let it.)"
    if "indirect" in case.words and _keeps_pointer(case):
        part = f", of which byte {at} is of a pointer that was put there"
        why = "this kernel lets no helper read one. (Later ones do, with CAP_PERFMON.)"
        step = (
            "Copy the data behind the pointer instead of the pointer. To use an address as a"
            " number, read it into a variable with bpf_probe_read_kernel()."
        )
    text = f"{called} reads {size or 'some'} bytes of the stack{part}: {why}"
    text = "This" + text[4:] if text.startswith("this") else text
    return {"stack_read": text, "stack_read_step": step}


def _keeps_pointer(case: Case) -> bool:
    """Return True if the unreadable stack slot has a register without a number: a pointer."""
    offset, at = case.first("off"), case.first("at")
    if not (re.fullmatch(r"-?\d+", offset) and at):
        return False
    return (int(offset) + int(at)) // 8 * 8 in case.log.path.slots


def _stack_bounds(case: Case) -> dict[str, str]:
    size, offset = case.first("size", "size2"), case.first("off", "off2")
    last = case.last.text if case.last else ""
    if (
        ("(r10 " in last or not last)
        and re.fullmatch(r"-\d+", offset)
        and int(offset) < -_MOST_STACK
    ):
        return {
            "stack_reach": f"The variables of this function need more than the {_MOST_STACK} bytes"
            f" of stack: it would use {in_bytes(size or '8')} at {offset}.",
            "stack_step": "Put large structs and buffers into a per-CPU array map, and use fewer"
            " at the same time.",
        }
    at = offset if re.fullmatch(r"-?\d+", offset) else "an offset that is not known"
    span = f", with {in_bytes(size)} at {at}," if size and offset else ""
    return {
        "stack_reach": f"This reaches{span} beyond the buffer on the stack it was meant for.",
        "stack_step": "Pass a size of at most sizeof(buffer), and index it with bounded numbers."
        " An unknown index into the stack is refused: use a map value.",
    }


def _context(case: Case) -> dict[str, str]:
    offset, size = case.first("off"), case.first("size")
    if case.first("function"):
        text = f"The program reads an argument as it is not: {case.words}."
    elif not offset:
        text = f"The program reads its context, or what belongs to it, as it may not: {case.words}."
    else:
        writes = case.last is not None and case.last.text.startswith("*(")
        text = (
            f"{in_bytes(size)} at offset {offset} of the context: no field that programs of this"
            f" type may {'write' if writes else 'read in that size'}, on this kernel."
        )
    return {"context": text}


def _argument(case: Case) -> dict[str, str]:
    called = callee(case.last)
    wanted, kind = case.first("wanted", "wanted2"), case.first("kind", "kind2")
    place = _ARGUMENTS[case.register - 1] if 1 <= case.register <= 5 else ""
    if wanted:
        which = f"The {place} argument (R{case.register}) of {called}()"
        text = f"{which} is {kind}, and it takes {wanted}."
    else:
        text = f"{called}() does not accept one of its arguments: {case.words}."
    step = (
        f"Pass what {called}() takes. A pointer that was cast, computed with or kept in a map loses"
        " its type."
    )
    if wanted == "fp" and not kind.startswith(("inv", "scalar", "unknown", "imm")):
        step = (
            "This kernel takes memory of the stack alone here: copy it there first. Later ones take"
            " other memory, too: values of maps 4.11 and, as keys, 4.18."
        )
    return {"argument_reason": text.replace("The  argument", "An argument"), "argument_step": step}


_BASE = re.compile(r"(?:[rw]\d+ = )?\(?\*\([us]\d+ \*\)\(r(\d+) ")


def _object(case: Case) -> dict[str, str]:
    """Explain an access to a kernel object, or to a map where its value was meant."""
    base = _BASE.match(case.last.text) if case.last else None
    if base and register_state(case.log, int(base[1])).startswith("map_ptr"):
        return {
            "object_reason": f"R{base[1]} is a map itself, not a value in it, and the instruction"
            " reads or writes the kernel's own struct",
            "object_step": "Look up a value (bpf_map_lookup_elem()). If the source has a global"
            " variable here, the loader inserted its map instead of its memory:"
            " older loaders do so for .bss, or for variables without an initial"
            " value.",
        }
    return {
        "object_reason": "The program uses a kernel object as its BTF does not allow",
        "object_step": "Use the type of this kernel (CO-RE relocates it: preserve_access_index),"
        " and write to kernel objects by the helpers that are for it.",
    }


def _arithmetic(case: Case) -> dict[str, str]:
    kind = case.first("kind", "kind2", "kind3", "kind4")
    return {"of_kind": f" ({kind})" if kind else "", "kind": kind or "kernel"}


#: Replacements of a rule if the instruction has more information than the message.
ACCESS_MEANT = {
    "stack-bounds": _of_bounds,
    "stack-uninitialised": _of_stack,
}
#: Facts for a rule's texts, in addition to its pattern's groups.
ACCESS_FACTS = {
    "argument-type": _argument,
    "btf-access": _object,
    "context-access": _context,
    "map-bounds": _bounds,
    "not-a-pointer": _scalar,
    "packet-bounds": _packet,
    "pointer-arithmetic": _arithmetic,
    "pointer-arithmetic-unbounded": _arithmetic,
    "pointer-or-null": _or_null,
    "reference-leak": _leak,
    "register-unset": _unset,
    "size-unbounded": _size,
    "stack-bounds": _stack_bounds,
    "stack-uninitialised": _stack_read,
}
