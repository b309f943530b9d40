# SPDX-License-Identifier: BSD-2-Clause
"""What the verifier says when it refuses a program, in the words of all kernels, and what it means.

Categories and titles are those of Linux 7.3, which explains a part of its messages itself. The
order is that in which messages are looked for: the particular before the general.
"""

from __future__ import annotations

import re

from retsnoop_py.value import Value

__all__ = ["RULES", "Rule", "rule"]


class Rule(Value):
    """One reason. ``pattern`` finds it, its named groups stand in ``reason`` and ``suggestion``.

    Group ``r`` is the register that is refused, as a number. Behind the groups the texts may
    name ``state`` (what the verifier knows of that register), ``made`` (where its value comes
    from) and what :mod:`retsnoop_py.load.diagnose` adds for this rule.
    """

    id: str
    category: str
    title: str
    pattern: re.Pattern[str]
    reason: str
    suggestion: str


_MEMORY = "Memory Safety"
_REGISTER = "Register Type Safety"
_CALL = "Call Type Safety"
_STRUCTURE = "Program Structure"
_POLICY = "Policy"
_RESOURCE = "Resource Lifetime Safety"
_LIMIT = "Verifier Limit"
_SUPPORT = "Kernel Support"


def _rule(id_: str, category: str, title: str, pattern: str, reason: str, suggestion: str) -> Rule:
    return Rule(id_, category, title, re.compile(pattern), reason, suggestion)


#: A pointer as 5.18 and later call it, or ``inv`` of a scalar before that.
_SCALAR = r"(?:scalar|inv|unknown|imm)"

RULES: tuple[Rule, ...] = (
    # -- what the kernel does not have --
    _rule(
        "core-relocation",
        _SUPPORT,
        "CO-RE relocation without a match",
        r"invalid CO-RE relocation|[Bb]ad CO-RE relocation|(?:invalid func |call )unknown#195896080"
        r"|unknown func unknown#195896080|call 195896080|invalid func 195896080",
        "The program uses {relocation}, which this kernel does not have: the loader put a call that"
        " nobody can make (195896080, 0xbad2310) in its place.",
        "Guard it with {guard}, or read what took its place{near}.",
    ),
    _rule(
        "unresolved-map",
        _SUPPORT,
        "Map that was not created",
        r"BPF map '(?P<name>[^']+)' is referenced but wasn't created|<invalid BPF map reference>"
        r"|(?:invalid func unknown|call unknown)#2001\d{6}",
        "The program uses map {name}, which could not be created.",
        "Look at what is said of that map.",
    ),
    _rule(
        "kfunc-missing",
        _SUPPORT,
        "Kernel function that is not there",
        r"kfunc '(?P<name>[^']+)' is referenced but wasn't resolved|<invalid kfunc call>"
        r"|(?:invalid func unknown|call unknown)#2002\d{6}"
        r"|kernel btf_id (?P<btf>\d+) is not a function"
        r"|extern \((?:func|var) ksym\) '(?P<extern>\w+)': not found"
        r"|calling kernel function (?P<allowed>\w+) is not allowed"
        r"|calling kernel functions? is not (?:allowed|supported)",
        "{kfunc}",
        "Declare it __weak and ask bpf_ksym_exists() before the call, or require the kernel that"
        " has it.",
    ),
    _rule(
        "helper-gpl",
        _POLICY,
        "Operation is not allowed",
        r"cannot call GPL-restricted function"
        r"|cannot call GPL only function|helper (?P<name>\S+) is not allowed: this helper is re"
        r"|from non-GPL compatible program",
        "{helper} is for programs under a GPL-compatible license, and this one declares another or"
        " none.",
        'Declare char LICENSE[] SEC("license") = "GPL" (or "Dual BSD/GPL" ...), or do without the'
        " helper.",
    ),
    _rule(
        "helper-unknown",
        _SUPPORT,
        "Helper that this program cannot call",
        r"(?:invalid|unknown) func (?:(?P<name>\w+)#)?(?P<number>\d+)"
        r"|program of this type cannot use helper (?P<name2>\w+?)(?:#(?P<number2>\d+))?$"
        r"|helper call is not allowed|func (?P<name3>bpf_\w+)#(?P<number3>\d+) not supported",
        "{helper_reason}",
        "{helper_suggestion}",
    ),
    _rule(
        "instruction-unknown",
        _SUPPORT,
        "Instruction that this kernel does not know",
        r"unknown opcode (?P<code>[0-9a-f]+)|invalid BPF_LD_IMM64 insn|unrecognized bpf_ld_imm64"
        r"|BPF_ATOMIC.*not supported|invalid (?:atomic operand|ALU op)|BPF_STX uses reserved fields"
        r"|BPF_ALU uses reserved fields|BPF_LDX uses reserved fields|BPF_JMP32? uses reserved",
        "The object has an instruction that this kernel does not know: atomics take Linux 5.12,"
        " 32-bit compares (-mcpu=v3) 5.1, sign extension and long jumps (-mcpu=v4) 6.6.",
        "Compile with an older -mcpu (v1, v2 or v3), or require a later kernel.",
    ),
    _rule(
        "global-argument",
        _CALL,
        "Argument of a global function",
        r"Arg#(?P<arg>\d+) type (?P<type>\w+) in (?P<function>\S+?)\(\) is not supported yet"
        r"|Caller passes invalid args into func#\d+"
        r"|arg#(?P<arg2>\d+) (?:type|reference type\('[^']*'\)).*(?:not supported|must be)",
        "A function that is not static is verified by itself, without its callers. Before Linux"
        " 5.12 such a function takes numbers and the context only; pointers to memory of a known"
        " size came with 5.12.",
        "Make the function static __noinline or __always_inline, or require Linux 5.12; later"
        " kernels also know __arg_nonnull, __arg_ctx and their kin (6.8).",
    ),
    # -- limits --
    _rule(
        "too-many-jumps",
        _LIMIT,
        "Too many branches at once",
        r"[Tt]he sequence of (?P<count>\d+) jumps is too complex",
        "{count} branches were waiting to be followed at one time, more than the verifier keeps"
        " (8192). It often comes from an unrolled loop with a condition in it.{visited}",
        "Make a real loop of it (bpf_loop() since 5.17, bpf_for() since 6.4), or move the body into"
        " a global function, which is verified once.",
    ),
    _rule(
        "too-large",
        _LIMIT,
        "Program is too large to follow",
        r"BPF program is too large\.? Processed (?P<count>\d+)|BPF program is too large"
        r"|too many states|program too large",
        "The verifier followed a million instructions without coming to the end of all ways through"
        " the program.{visited}",
        "Bound loops by a smaller constant, use bpf_loop() (5.17) or bpf_for() (6.4), move parts"
        " into global functions, which are verified once, or split the program by tail calls.",
    ),
    _rule(
        "stack-size",
        _LIMIT,
        "Stack is too deep",
        r"combined stack size of (?P<count>\d+) calls is (?P<size>\d+)"
        r"|stack size (?P<size2>\d+) is too large|[Ss]tack limit of 512"
        r"|the call stack of (?P<frames>\d+) frames is too deep",
        "The functions of one chain of calls use {stack} of stack together; 512 are allowed (each"
        " function's share is rounded up), in at most 8 calls.",
        "Put large buffers into a per-CPU array map, or have fewer of them alive at once.",
    ),
    _rule(
        "endless-loop",
        _STRUCTURE,
        "Loop without an end",
        r"infinite loop detected at insn (?P<at>\d+)|back-edge from insn (?P<from>\d+) to (?P<to>\d+)"
        r"|loop detected at insn",
        "{loop}",
        "Give the loop a bound that the verifier can count, or use bpf_loop() (5.17) or an iterator"
        " such as bpf_for() (6.4).",
    ),
    # -- structure --
    _rule(
        "unreachable",
        _STRUCTURE,
        "Unreachable instruction",
        r"unreachable insn (?P<at>\d+)",
        "No way through the program leads to instruction {at}.",
        "Look for what the compiler took for undefined: __builtin_unreachable(), a missing return,"
        " a division by zero; or for assembly behind a jump.",
    ),
    _rule(
        "no-exit",
        _STRUCTURE,
        "Subprogram can fall through",
        r"last insn is not an exit or jmp",
        "The last instruction of a function is neither an exit nor a jump. The compiler does that"
        " where it takes the end for unreachable, a loader where it did not append the functions"
        " that are called.",
        "Look for a missing return, a call of a function that never returns (a panic handler), or"
        " a loader that does not know calls between functions.",
    ),
    _rule(
        "jump-outside",
        _STRUCTURE,
        "Jump out of the function",
        r"jump out of range from insn (?P<at>\d+)|jump into the middle of ldimm64"
        r"|call to invalid destination|invalid (?:call|jump) destination",
        "A jump or a call goes where no function of this program is: the loader did not put the"
        " pieces of the program together, or the code is assembly.",
        "Use a loader that relocates calls (libbpf does), or inline the function.",
    ),
    # -- results and resources --
    _rule(
        "reference-leak",
        _RESOURCE,
        "Unreleased resource",
        r"Unreleased reference id=(?P<id>\d+) alloc_insn=(?P<insn>\d+)"
        r"|BPF_EXIT instruction.* would lead to reference leak|reference.* has not been released"
        r"|reference leak|cannot be used inside bpf_\w+-ed region|bpf_spin_lock is missing unlock"
        r"|BPF_EXIT instruction cannot be used inside",
        "What was acquired{acquired} is not given back on this way to the end.",
        "Release it on every way out: {release}.",
    ),
    _rule(
        "result-range",
        _POLICY,
        "Result is not allowed",
        r"At (?:program|async callback|subprogram) exit the register R(?P<r>\d+)"
        r" (?:has|is) (?P<has>.*?) should have been in (?P<range>.*)"
        r"|At program exit the register R\d+ is not a known value"
        r"|At program exit the register R\d+ has unknown",
        "A program of this type may return {range} only, and here it returns {has}.",
        "Return one of those values on every way; a value from elsewhere takes a comparison first.",
    ),
    # -- packets --
    _rule(
        "packet-bounds",
        _MEMORY,
        "Access outside bounds",
        r"invalid access to packet, off=(?P<off>-?\d+) size=(?P<size>-?\d+), R(?P<r>\d+)"
        r"\((?:[^()]*?r=(?P<range>\d+))?|invalid access to packet"
        r"|R(?P<r2>\d+) offset is outside of the packet"
        r"|R(?P<r3>\d+) min value is outside of the (?:allowed )?packet",
        "This reads or writes the packet{span}, and {proven}.",
        "Compare the same pointer with data_end on every way to here, for all bytes that are used:"
        " if (ptr + n > data_end) return ...; and do it again after whatever changes the packet"
        " or the pointer.",
    ),
    _rule(
        "pointer-or-null",
        _REGISTER,
        "Pointer that may be NULL",
        r"R(?P<r>\d+) invalid mem access '(?P<kind>\w*_or_null\w*|\w*or_null\w*)'"
        r"|R(?P<r2>\d+) type=(?P<kind2>\S*_or_null\S*) expected=(?P<wanted>\S+)"
        r"|Possibly NULL pointer passed to (?:helper|kfunc|trusted) arg\d*"
        r"|R(?P<r3>\d+) pointer arithmetic on (?P<kind3>\S*_or_null\S*) prohibited"
        r"|Possibly NULL pointer passed",
        "{subject} is what {made} gave, which may be NULL, and nothing on this way has checked it.",
        "Check the pointer before it is used: if (!ptr) return 0;",
    ),
    _rule(
        "not-a-pointer",
        _REGISTER,
        "Invalid dereference",
        rf"R(?P<r>\d+) invalid mem access '(?P<kind>{_SCALAR}\w*)'"
        rf"|R(?P<r2>\d+) type=(?P<kind2>{_SCALAR}) expected=(?P<wanted>fp|.*ptr.*|.*map_.*|.*sock.*)",
        "R{r} is a number for the verifier, no pointer that it knows{why_number}.",
        "{number_suggestion}",
    ),
    _rule(
        "pointer-kind",
        _REGISTER,
        "Invalid dereference",
        r"R(?P<r>\d+) invalid mem access '(?P<kind>[^']+)'",
        "R{r} is a {kind}, which cannot be read or written like this.",
        "Read kernel memory by BPF_CORE_READ() or bpf_probe_read_kernel(), and write only to the"
        " stack, to map values and to the context.",
    ),
    _rule(
        "register-unset",
        _REGISTER,
        "Unreadable register",
        r"R(?P<r>\d+) !read_ok",
        "{unset}",
        "{unset_suggestion}",
    ),
    # -- maps, stack and context --
    _rule(
        "map-bounds",
        _MEMORY,
        "Access outside bounds",
        r"(?:R(?P<r>\d+) )?invalid access to map value, value_size=(?P<value>\d+) off=(?P<off>-?\d+)"
        r" size=(?P<size>-?\d+)|R(?P<r2>\d+) (?P<side>min|max) value is outside of the (?:allowed "
        r"memory|array) range|R(?P<r3>\d+) unbounded memory access, make sure to bounds check"
        r"|R(?P<r4>\d+) min value is negative, either use unsigned index.*"
        r"|invalid access to map key, key_size=(?P<key>\d+)"
        r"|invalid access to memory, mem_size=(?P<mem>\d+) off=(?P<off2>-?\d+) size=(?P<size2>\d+)",
        "{bounds}",
        "Bound the index on {side} before it is used: if (i >= COUNT) return 0; for an unsigned i,"
        " or i &= COUNT - 1 where COUNT is a power of two. The compiler may bound a copy: keep the"
        " check by barrier_var(i).",
    ),
    _rule(
        "size-unbounded",
        _CALL,
        "Size without a bound",
        r"R(?P<r>\d+) unbounded memory access, use 'var &= const'"
        r"|R(?P<r2>\d+) min value is negative, either use unsigned"
        r"|R(?P<r3>\d+) invalid zero-sized read|R(?P<r4>\d+) is not a known constant'?"
        r"|R(?P<r5>\d+) (?P<state2>min value is negative)",
        "R{r} is a size{argument}, and the verifier knows of it only {state}.",
        "Make it unsigned and bound it before the call: if (size > sizeof(buffer)) size ="
        " sizeof(buffer); or size &= MASK.",
    ),
    _rule(
        "pointer-arithmetic-unbounded",
        _REGISTER,
        "Pointer offset is not safe",
        r"math between (?P<kind>\S+) pointer and (?:register with unbounded|\S+ is not)"
        r"|R(?P<r>\d+) unbounded memory access|value -?\d+ makes (?P<kind2>\S+) pointer be out of bounds"
        r"|makes pkt pointer be out of bounds",
        "A number without bounds is added to a {kind} pointer.",
        "Bound the number first, on both sides: keep it unsigned and compare it with a constant, or"
        " mask it.",
    ),
    _rule(
        "pointer-arithmetic",
        _REGISTER,
        "Pointer arithmetic",
        r"R(?P<r>\d+) pointer arithmetic (?:on (?P<kind>\S+) |with \S+ operator )?prohibited"
        r"|R(?P<r2>\d+) (?:32-bit pointer arithmetic|bitwise operator .* on pointer) prohibited"
        r"|R(?P<r3>\d+) pointer [-+*/%&|^<>=]+ (?:operation )?(?:pointer )?prohibited"
        r"|R(?P<r4>\d+) partial copy of pointer|dereference of modified (?P<kind2>\S+) ptr"
        r"|R(?P<r5>\d+) (?:subtraction from stack pointer|tried to (?:add|sub)).*prohibited",
        "This computes with a pointer{of_kind} in a way that makes it none.",
        "Compute the index first and add it to the pointer once, in 64 bits; members of the context"
        " are read by their fixed offsets (the compiler may have merged two of them: barrier()).",
    ),
    _rule(
        "stack-uninitialised",
        _MEMORY,
        "Uninitialised stack",
        r"invalid (?:indirect |unbounded |variable-offset )*read from stack (?:R(?P<r>\d+) )?"
        r"(?:var_)?off[= ](?P<off>-?\d+|\([^)]*\)\S*) ?size[ =]?(?P<size>\d+)"
        r"|invalid indirect read from stack(?: R(?P<r2>\d+))? ?off (?P<off2>-?\d+)\+(?P<at>\d+)"
        r" size (?P<size2>\d+)|invalid (?:indirect )?read from stack",
        "{stack_read}",
        "Set all of it: struct key k = {{}}; sets members, __builtin_memset(&k, 0, sizeof(k)) sets"
        " the padding too.",
    ),
    _rule(
        "stack-bounds",
        _MEMORY,
        "Access outside the stack",
        r"invalid (?:indirect )?(?:write to|access to|zero-size(?:d)? (?:read|write)[^.]*) ?(?:variable )?stack"
        r"(?: type)? ?(?:R(?P<r>\d+)(?:_w)? )?(?:var_)?off=(?P<off>\S+)(?: \S+=\S+)? size=(?P<size>\d+)"
        r"|invalid stack(?: type R(?P<r2>\d+)| access| off=).*|invalid (?:write|access) to stack"
        r"|(?:variable|unbounded)[- ](?:offset )?stack (?:access|read|write).*prohibited"
        r"|R(?P<r3>\d+) variable stack access|attempt to corrupt spilled pointer"
        r"|invalid (?:unbounded )?variable-offset",
        "This reaches{span} beyond the buffer on the stack it was meant for.",
        "Pass a size that is no larger than the buffer (sizeof(buffer)), and index it by bounded"
        " numbers; unknown indexes into the stack are refused: take a map value instead.",
    ),
    _rule(
        "context-access",
        _POLICY,
        "Context field is not accessible",
        r"invalid bpf_context access off=(?P<off>-?\d+) size=(?P<size>\d+)"
        r"|func '(?P<function>\w+)' (?:doesn't have|arg\d+|size).*"
        r"|func '\w+' arg(?P<arg>\d+) type \S+ is not a struct"
        r"|invalid bpf_context access",
        "{context}",
        "Read a field that programs of this type have, with its own size; an argument that is no"
        " pointer is read by BPF_PROG() or as a number.",
    ),
    _rule(
        "btf-access",
        _MEMORY,
        "Access to a kernel object",
        r"access beyond struct (?P<struct>\w+) at off (?P<off>\d+) size (?P<size>\d+)"
        r"|access beyond the end of member (?P<member>\w+)"
        r"|cannot access ptr member (?P<member2>\w+) with moff (?P<moff>\d+) in struct"
        r" (?P<struct2>\w+)|(?:only read is supported|cannot (?:write|access)[^:]*(?:struct|ptr))"
        r"|type '?(?P<type>[\w ]+)'? is not a struct",
        "The program uses a kernel object as its BTF does not allow: {words}.",
        "Use the type of this kernel (CO-RE relocates it: preserve_access_index), and write to"
        " kernel objects by the helpers that are for it.",
    ),
    _rule(
        "argument-type",
        _CALL,
        "Invalid call argument",
        r"R(?P<r>\d+) type=(?P<kind>\S+) expected=(?P<wanted>.*)"
        r"|arg ?#?(?P<arg>\d+) (?:pointer|expected|is|doesn't|must) .*"
        r"|R(?P<r2>\d+) (?:must be|is neither|doesn't|expected) .*"
        r"|(?:cannot pass map_type|invalid map_type|map_type (?P<map>\d+)).*"
        r"|R(?P<r3>\d+)(?:'s)? (?:offset|must have zero offset).*",
        "{argument_reason}",
        "Pass what {callee} takes. A pointer that was cast, computed with or kept in a map loses its"
        " type.",
    ),
    _rule(
        "misaligned",
        _MEMORY,
        "Misaligned access",
        r"misaligned (?:packet |stack |value |pkt )?access off (?P<off>.*) size (?P<size>\d+)",
        "This access ({size} bytes) is not aligned to them, which this machine or this program type"
        " demands.",
        "Read smaller parts, or align the buffer: __attribute__((aligned(8))).",
    ),
    _rule(
        "sleepable",
        _POLICY,
        "Operation is not allowed",
        r"helper (?P<name>\S+) might sleep|(?:Sleepable|sleepable) programs? (?:can|cannot|must).*"
        r"|sleepable (?:helper|kfunc|kernel).*(?:in|within|from) .*|global functions? that may sleep"
        r"|Only (?:fentry/fexit|lsm).*sleepable",
        "What sleeps is called where nothing may sleep, or the other way round: {words}.",
        'Use a sleepable section (SEC("fentry.s/..."), "lsm.s/...", "syscall"), outside of RCU and'
        " locks; or do without.",
    ),
    _rule(
        "tail-call",
        _POLICY,
        "Operation is not allowed",
        r"tail_calls? (?:are|is) (?:only|not) .*|mixing of tail_calls and bpf-to-bpf calls.*"
        r"|cannot do bpf_tail_call with.*|tail_calls are not allowed.*",
        "Tail calls do not go together with this: {words}.",
        "Inline the functions of programs that make tail calls; x86-64 takes both since 5.10.",
    ),
    _rule(
        "attach-target",
        _SUPPORT,
        "Attach target",
        r"attach_btf_id (?P<id>\d+) is (?:not|invalid).*|[Aa]ttach(?:ing|ment)? (?:to|btf).*not .*"
        r"|(?P<name>\w+)\(\) is not (?:modifiable|sleepable)|Cannot (?:replace|extend|recursively).*"
        r"|\S+ has \d+ args while \S+ has \d+ args|Return type \S+ of \S+ doesn't match type.*"
        r"|bpf_lsm_\w+ .*not|Tracing programs must provide btf_id.*|LSM programs must .*"
        r"|The function \w+ (?:arg\d+|return) type \S+ is unsupported.*"
        r"|[Kk]ernel doesn't have required BTF.*|The address of function (?P<address>\w+) cannot .*",
        "The program cannot be attached to what it names: {words}.",
        "Name a function that is in the kernel's BTF and can be traced: retsnoop-py functions NAME"
        " says so.",
    ),
)


def rule(id_: str) -> Rule:
    """The rule of this id; KeyError where there is none."""
    for one in RULES:
        if one.id == id_:
            return one
    raise KeyError(id_)
