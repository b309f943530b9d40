# SPDX-License-Identifier: BSD-2-Clause
"""Verifier messages about an access, a register, an argument or an attach target."""

from __future__ import annotations

from retsnoop_py.load.verifier_rule import (
    CALL,
    MEMORY,
    POLICY,
    REGISTER,
    RESOURCE,
    SCALAR,
    SUPPORT,
    Rule,
    define,
)

__all__ = ["ACCESS_RULES"]

ACCESS_RULES: tuple[Rule, ...] = (
    # -- results and resources --
    define(
        "reference-leak",
        RESOURCE,
        "Unreleased resource",
        r"Unreleased reference id=(?P<id>\d+) alloc_insn=(?P<insn>\d+)"
        r"|BPF_EXIT instruction.* would lead to reference leak|reference.* has not been released"
        r"|reference leak|[Ll]eaking reference",
        "The program ends on this path without releasing the reference{acquired}.",
        "Release it on every path to the exit: {release}.",
    ),
    define(
        "result-range",
        POLICY,
        "Result is not allowed",
        r"At (?:(?:program|async callback|subprogram) exit|async callback|(?:async )?callback return) the register"
        r" R(?P<r>\d+) (?:has|is) (?P<has>.*?) should have been (?:in )?(?P<range>.*)"
        r"|At [a-z ]+ (?:exit|return) the register R\d+ (?:is not a (?:known|scalar) value|has unknown)"
        r"|R0 not a scalar value|R0 is not a known value",
        "{who} may return only {range}, but it returns {has} here.",
        "Return an allowed value on every path. Compare a computed value with the limits first.",
    ),
    # -- packets --
    define(
        "packet-helper",
        CALL,
        "Invalid call argument",
        r"helper access to the packet is not allowed",
        "The program passes packet memory to a helper. Programs of this type must not do that.",
        "Copy it to the stack first, by bpf_skb_load_bytes(), bpf_xdp_load_bytes() (5.18) or by reading it.",
    ),
    define(
        "packet-bounds",
        MEMORY,
        "Access outside bounds",
        r"invalid access to packet, off=(?P<off>-?\d+) size=(?P<size>-?\d+), R(?P<r>\d+)"
        r"\((?:[^()]*?r=(?P<range>\d+))?|invalid access to packet"
        r"|R(?P<r2>\d+) offset is outside of the packet"
        r"|R(?P<r3>\d+) min value is outside of the (?:allowed )?packet",
        "The program reads or writes the packet{span}, but {proven}.",
        "Compare the same pointer with data_end on every path to here, for all bytes in use: if"
        " (ptr + n > data_end) return ...; and check again after each change of the packet or the"
        " pointer.",
    ),
    define(
        "pointer-or-null",
        REGISTER,
        "Pointer that may be NULL",
        r"R(?P<r>\d+) invalid mem access '(?P<kind>\w*_or_null\w*|\w*or_null\w*)'"
        r"|R(?P<r2>\d+) type=(?P<kind2>\S*_or_null\S*) expected=(?P<wanted>\S+)"
        r"|Possibly NULL pointer passed to (?:(?:helper|kfunc|trusted) arg\d*|trusted R(?P<r4>\d+))"
        r"|R(?P<r3>\d+) pointer arithmetic on (?P<kind3>\S*_or_null\S*) prohibited"
        r"|Possibly NULL pointer passed",
        "{subject} comes from {made} and may be NULL. {unchecked}.",
        "{check_step}",
    ),
    define(
        "not-a-pointer",
        REGISTER,
        "Invalid dereference",
        rf"R(?P<r>\d+) invalid mem access '(?P<kind>{SCALAR}\w*)'"
        rf"|R(?P<r2>\d+) type=(?P<kind2>{SCALAR}) expected=(?P<wanted>fp|.*ptr.*|.*map_.*|.*sock.*)",
        "The verifier treats R{r} as a number, not as a pointer{why_number}.",
        "{number_suggestion}",
    ),
    define(
        "pointer-kind",
        REGISTER,
        "Invalid dereference",
        r"R(?P<r>\d+) invalid mem access '(?P<kind>[^']+)'",
        "R{r} is a {kind}. The program cannot read or write through it directly.",
        "Read kernel memory by BPF_CORE_READ() or bpf_probe_read_kernel(), and write only to the"
        " stack, to map values and to the context.",
    ),
    define(
        "register-unset",
        REGISTER,
        "Unreadable register",
        r"R(?P<r>\d+) (?:!read_ok|is not readable)",
        "{unset}",
        "{unset_suggestion}",
    ),
    define(
        "two-kinds",
        REGISTER,
        "Pointers of two kinds at one place",
        r"same insn cannot be used with (?:different pointers|and without arena)",
        "Two paths reach this read or write with pointers of different kinds, and the kernel"
        " would need different code for each: {words}.",
        "Keep the ways apart, each with its own read, and the compiler from merging them:"
        " barrier_var(pointer) in front of each.",
    ),
    # -- maps, stack and context --
    define(
        "map-bounds",
        MEMORY,
        "Access outside bounds",
        r"(?:R(?P<r>\d+) )?invalid access to map value, value_size=(?P<value>\d+) off=(?P<off>-?\d+)"
        r" size=(?P<size>-?\d+)|R(?P<r2>\d+) (?P<side>min|max) value is outside of the (?:allowed "
        r"memory|array) range|R(?P<r3>\d+) unbounded memory access, make sure to bounds check"
        r"|R(?P<r4>\d+) min value is negative, either use unsigned index.*"
        r"|invalid access to map value pointer|direct value offset of \d+ is not allowed"
        r"|invalid access to map key, key_size=(?P<key>\d+)"
        r"|invalid access to memory, mem_size=(?P<mem>\d+) off=(?P<off2>-?\d+) size=(?P<size2>\d+)",
        "{bounds}",
        "{bound_step}",
    ),
    define(
        "size-unbounded",
        CALL,
        "Size without a bound",
        r"R(?P<r>\d+) unbounded (?:memory access|size), use 'var &= const'"
        r"|R(?P<r2>\d+) min value is negative, either use unsigned"
        r"|(?:R(?P<r3>\d+) )?invalid zero-sized read|R(?P<r4>\d+) is not a (?:known constant'?|const\b)"
        r"|R(?P<r5>\d+) (?P<state2>min value is negative)",
        "R{r} is a size{argument}. The verifier knows only {state}.",
        "{size_step}",
    ),
    define(
        "pointer-arithmetic-unbounded",
        REGISTER,
        "Pointer offset is not safe",
        r"math between (?P<kind>\S+) pointer and (?:register with unbounded|\S+ is not)"
        r"|R(?P<r>\d+) unbounded memory access|value -?\d+ makes (?P<kind2>\S+) pointer be out of bounds"
        r"|makes pkt pointer be out of bounds|(?<!\S)(?P<kind3>\S+) pointer offset -?\d+ is not allowed",
        "The program adds an unbounded number, or one above 2^29, to a {kind} pointer.",
        "Limit the number first, above and below: keep it unsigned and compare it with a constant, or"
        " mask it.",
    ),
    define(
        "pointer-arithmetic",
        REGISTER,
        "Pointer arithmetic",
        r"R(?P<r>\d+) pointer arithmetic (?:on (?P<kind>\S+) |with \S+ operator )?prohibited"
        r"|R(?P<r2>\d+) (?:32-bit pointer arithmetic|bitwise operator .* on pointer) prohibited"
        r"|R(?P<r3>\d+) pointer [-+*/%&|^<>=]+ (?:operation )?(?:pointer )?prohibited"
        r"|R(?P<r4>\d+) (?:sign-extension part|partial copy) of pointer|dereference of modified (?P<kind2>\S+) ptr"
        r"|addition of negative constant to packet|cannot add integer value with \d+ upper zero bits"
        r"|negative offset (?P<kind4>\S+) ptr|dereference requires the original"
        r"|R(?P<r5>\d+) (?:subtraction from stack pointer|tried to subtract pointer from scalar)",
        "This arithmetic on a pointer{of_kind} is not allowed.",
        "Compute the index first and add it to the pointer once, in 64 bits. Read members of the"
        " context by their fixed offsets (the compiler may have merged two reads: barrier()).",
    ),
    define(
        "stack-uninitialised",
        MEMORY,
        "Uninitialised stack",
        r"invalid (?:indirect )?read from stack (?:R(?P<r>\d+) )?(?:var_)?off (?!size)"
        r"(?P<off>-?\d+|\([^)]*\))\+(?P<at>\d+) size (?P<size>\d+)"
        r"|invalid (?:indirect )?read from stack(?! R\d+ (?:var_)?off=| (?:var_)?off=)",
        "{stack_read}",
        "{stack_read_step}",
    ),
    define(
        "stack-pointer",
        MEMORY,
        "Pointer kept on the stack",
        r"attempt to corrupt spilled pointer|corrupted spill memory|spilled ptr in range|invalid size of register (?:fill|spill)"
        r"|cannot spill pointers to stack",
        "A pointer that was put on the stack is read or overwritten in part, or by another function:"
        " {words}.",
        "Read and write all 8 bytes. Keep pointers and other data in separate places (no union of"
        " both), and keep each function's pointers in its own frame.",
    ),
    define(
        "stack-bounds",
        MEMORY,
        "Access outside the stack",
        r"invalid (?:variable-offset )?(?:indirect )?(?:read from|write to|access to|zero-size(?:d)? (?:read|write)[^.]{0,40})"
        r" ?(?:variable )?stack(?: type)? ?(?:R(?P<r>\d+)(?:_w)? )?(?:var_)?off=(?P<off>\([^)]*\)|\S+)(?: \S+=\S+)?"
        r" size=(?P<size>\d+)"
        r"|invalid stack off=(?P<off2>-?\d+) size=(?P<size2>\d+)|invalid stack(?: type R(?P<r2>\d+)| R\d+| access| off=).*|invalid (?:write|access) to stack"
        r"|(?:variable|unbounded)[- ](?:offset )?stack (?:access|read|write).*prohibited"
        r"|R(?P<r3>\d+) variable stack access"
        r"|invalid (?:unbounded )?variable-offset|variable offset stack pointer cannot be passed",
        "{stack_reach}",
        "{stack_step}",
    ),
    define(
        "context-access",
        POLICY,
        "Context field is not accessible",
        r"invalid bpf_context access off=(?P<off>-?\d+) size=(?P<size>\d+)"
        r"|func '(?P<function>\w+)' (?:doesn't have|arg\d+(?! has btf_id)|size|offset).*"
        r"|R\d+ invalid \w+ access off=-?\d+ size=|context argument offset"
        r"|func '\w+' arg(?P<arg>\d+) type \S+ is not a struct"
        r"|invalid bpf_context access|invalid access to flow keys"
        r"|variable \S+ access var_off=.* disallowed",
        "{context}",
        "Read a field that exists for programs of this type, with the field's size. Read an"
        " argument that is not a pointer with BPF_PROG() or as a number.",
    ),
    define(
        "btf-access",
        MEMORY,
        "Access to a kernel object",
        r"access beyond struct (?P<struct>\w+) at off (?P<off>\d+) size (?P<size>\d+)"
        r"|access beyond the end of member (?P<member>\w+)"
        r"|cannot access ptr member (?P<member2>\w+) with moff (?P<moff>\d+) in struct"
        r" (?P<struct2>\w+)|(?:only read(?: from \S+)? is supported|cannot (?:write|access)[^:]*(?:struct|ptr))"
        r"|Writes through BTF pointers|struct \w+ doesn't have field at"
        r"|field \S+ doesn't have size|direct access to .* is disallowed|no write support to|write access at off"
        r"|only access to \S+ is supported"
        r"|[Tt]ype '?(?P<type>[\w ]+)'? is not a struct|R\d+ is \S+ (?:access|invalid) (?:percpu|user"
        r"|negative|variable).*|R\d+ invalid (?:\w+ buffer access|variable buffer offset).*",
        "{object_reason}: {words}.",
        "{object_step}",
    ),
    define(
        "argument-type",
        CALL,
        "Invalid call argument",
        r"R(?P<r>\d+) type=(?P<kind>\S+) expected=(?P<wanted>.*)"
        r"|[Uu]n(?:supported reg|recognized arg#\d+) type .*|kernel function \S+ \S+ (?:expected )?pointer"
        r"|arg ?#?(?P<arg>\d+) (?:pointer|expected|is|doesn't|must) .*|arg#\d+ .+"
        r"|R(?P<r2>\d+) (?:must (?:be|point)|pointer type|is neither|is not|is of type|doesn't|does not|expected|has type) .*"
        r"|R(?P<r4>\d+) is (?P<kind2>\S+) expected (?P<wanted2>.*)"
        r"|rdonly/rdwr_buf_size|pointer in R\d+ isn't map pointer|invalid map_ptr to access|Function \S+ has \d+ > \d+ args"
        r"|get_local_storage\(\) doesn't support|type ID argument must be|(?<!\S)\S+ has to be at a constant offset"
        r"|Helper has invalid (?:btf/)?btf_id in R\d+|R\d+ is a pointer to in-kernel struct .*"
        r"|(?:cannot pass map_type|invalid map_type|map_type (?P<map>\d+)).*"
        r"|R(?P<r3>\d+)(?:'s)? (?:offset|must have zero offset).*",
        "{argument_reason}",
        "{argument_step}",
    ),
    define(
        "misaligned",
        MEMORY,
        "Misaligned access",
        r"misaligned (?:\w+ ){0,3}access off (?P<off>.*) size (?P<size>\d+)",
        "This access ({size} bytes) is not aligned to them, which this machine or this program type"
        " demands.",
        "Read smaller parts, or align the buffer: __attribute__((aligned(8))).",
    ),
    define(
        "tail-call",
        POLICY,
        "Operation is not allowed",
        r"tail_calls? (?:are|is) (?:only|not) .*|mixing of tail_calls and bpf-to-bpf calls.*"
        r"|cannot do bpf_tail_call with.*|tail_calls are not allowed.*|cannot tail call.*"
        r"|tail_call.*(?:cannot|not allowed|abusing).*",
        "Tail calls are not allowed here: {words}.",
        "Inline the functions of programs with tail calls. x86-64 supports both since Linux 5.10.",
    ),
    define(
        "attach-target",
        SUPPORT,
        "Attach target",
        r"Extension program (?P<what>.*), while (?:the )?original does(?: not|n't)",
        "The program cannot replace this function of another program (freplace): it {what}, and"
        " that function does not, so its callers would keep invalid pointers. libxdp loads"
        " programs this way. Its dispatcher's functions do not fit until a release that handles"
        " this check (kernels since end of 2024, Linux 6.13).",
        "Take a later libxdp, which brings its own xdp-dispatcher.o, or load the program alone: ip link set dev DEV xdp obj"
        " FILE sec SECTION, LIBXDP_SKIP_DISPATCHER=1. An own function that is replaced has to do the same itself.",
    ),
    define(
        "attach-target",
        SUPPORT,
        "Attach target",
        r"tracing progs must use .*|attach_btf_id (?P<id>\d+) is (?:not|invalid).*|[Aa]ttach(?:ing|ment)? (?:to|btf).*not .*"
        r"|\b(?P<name>\w+)\(\) is not (?:modifiable|sleepable)|Cannot (?:replace|extend|recursively).*"
        r"|(?<!\S)\S+ has \d+ args while \S+ has \d+ args|Return type \S+ of \S+ doesn't match type.*"
        r"|bpf_lsm_\w+ .*not|Tracing programs must provide btf_id.*|LSM programs must .*"
        r"|The function \w+ (?:arg\d+|return) type \S+ is unsupported.*"
        r"|[Kk]ernel doesn't have required BTF.*|The address of function (?P<address>\w+) cannot .*"
        r"|attach_btf_id \d+ (?:doesn't|points).*|attach to (?:unsupported|invalid) member.*"
        r"|Extension programs? .*|Program extension requires.*|Tracing program can.*|Target program .*"
        r"|Cannot nest .*|Attaching f\w+(?:/\w+)* to __noreturn .*|Only \S+ progs are attachable.*|(?<!\S)\S+ program can only be attached to another.*"
        r"|(?:can't|cannot) modify return .*|Attaching tracing programs to .*|Can attach to only .*"
        r"|cannot find function \S+ in BTF|cannot attach to exception.*|Attaching .* (?:is|are) rejected"
        r"|struct_ops module \S+ is not found|Subprog \S+ doesn't exist|The function \w+ (?:has|with) .*"
        r"|(?<!\S)\S+\(\) is not a global function|arg\d+ in \S+\(\) (?:is|has) .*|arg\d+ \S+\(struct .* doesn't match"
        r"|ret type \S+ not allowed for fmod_ret|non-faultable tracepoint",
        "The program cannot be attached to its target: {words}.",
        "{target_step}",
    ),
)
