# SPDX-License-Identifier: BSD-2-Clause
"""Verifier messages about a whole program: missing kernel features, structure, limits, policies."""

from __future__ import annotations

from retsnoop_py.load.verifier_rule import (
    CALL,
    LIMIT,
    MEMORY,
    POLICY,
    REGISTER,
    RESOURCE,
    STRUCTURE,
    SUPPORT,
    Rule,
    define,
)

__all__ = ["PROGRAM_RULES"]

PROGRAM_RULES: tuple[Rule, ...] = (
    # -- missing kernel features --
    define(
        "core-relocation",
        SUPPORT,
        "CO-RE relocation without a match",
        r"invalid CO-RE relocation|[Bb]ad CO-RE relocation|(?:invalid func |call )unknown#195896080"
        r"|unknown func unknown#195896080|call 195896080|invalid func 195896080",
        "The program uses {relocation}, which this kernel does not have. The loader replaced it"
        " by an invalid call (195896080, 0xbad2310).",
        "Guard it with {guard}, or read what took its place{near}.",
    ),
    define(
        "unresolved-map",
        SUPPORT,
        "Map that was not created",
        r"BPF map '(?P<name>[^']+)' is referenced but wasn't created|<invalid BPF map reference>"
        r"|(?:invalid func unknown|call unknown)#2001\d{6}|fd \d+ is not pointing to valid bpf_map",
        "{map_reason}",
        "Read the message about that map.",
    ),
    define(
        "kfunc-missing",
        SUPPORT,
        "Kernel function that is not there",
        r"kfunc '(?P<name>[^']+)' is referenced but wasn't resolved|<invalid kfunc call>"
        r"|(?:invalid func unknown|call unknown)#2002\d{6}"
        r"|kernel btf_id (?P<btf>\d+) is not a function|invalid kernel function btf_id"
        r"|kfunc (?:fd_idx|offset) .*|invalid module BTF|BTF (?:fd )?for (?:kfunc|kernel function)\b"
        r"|extern \((?:func|var) ksym\) '(?P<extern>\w+)': not found"
        r"|kernel function btf_id \d+ does not have|cannot find address for kernel function (?P<name2>\w+)"
        r"|address of kernel function (?P<name3>\w+) is out of range|offset disallowed for kernel module function"
        r"|failed to find BTF for kernel function|kernel function call not eliminated"
        r"|calling kernel function (?P<allowed>\w+) is not allowed"
        r"|calling kernel functions? is not (?:allowed|supported)(?! without CONFIG)",
        "{kfunc}",
        "Declare it __weak and ask bpf_ksym_exists() before the call, or require the kernel that"
        " has it.",
    ),
    define(
        "helper-gpl",
        POLICY,
        "Operation is not allowed",
        r"cannot call GPL-restricted function|programs must have a GPL compatible"
        r"|cannot call GPL only function|helper (?P<name>\S+) is not allowed: this helper is re"
        r"|from non-GPL compatible program",
        "{helper} is for programs under a GPL-compatible license, and this one declares another or"
        " none.",
        'Declare char LICENSE[] SEC("license") = "GPL" (or "Dual BSD/GPL" ...), or do without the'
        " helper.",
    ),
    define(
        "helper-unknown",
        SUPPORT,
        "Helper that this program cannot call",
        r"(?:invalid|unknown) func (?:(?P<name>\w+)#)?(?P<number>\d+)"
        r"|program of this type cannot use helper (?P<name2>\w+)(?:#(?P<number2>\d+))?"
        r"|helper call is not allowed"
        r"|func (?P<name3>bpf_\w+)#(?P<number3>\d+) (?:not supported|supported only for)",
        "{helper_reason}",
        "{helper_suggestion}",
    ),
    define(
        "ld-abs",
        POLICY,
        "Operation is not allowed",
        r"LD_ABS is only allowed in functions that return 'int'",
        "The program calls a function that reads the packet by LD_ABS or LD_IND (from"
        " load_byte(), load_half() and load_word()). These end the function with 0 if the packet"
        " is too short, but by its BTF the function returns nothing (void) or no number.",
        "Let that function return int, make it static __always_inline, or read by bpf_skb_load_bytes().",
    ),
    define(
        "ld-abs",
        POLICY,
        "Operation is not allowed",
        r"BPF_LD_\[?ABS\|IND|LD_ABS is only",
        "The old instructions that read a packet (LD_ABS, LD_IND) are not used as they must be: {words}.",
        "They are for socket filters and tc, with the context in R6, nothing acquired at that time and"
        " no calls of functions in the program; bpf_skb_load_bytes() has no such rules.",
    ),
    define(
        "instruction-unknown",
        SUPPORT,
        "Instruction not supported by this kernel",
        r"unknown opcode (?P<code>[0-9a-f]+)|invalid BPF_LD_IMM64 insn|unrecognized bpf_ld_imm64"
        r"|invalid bpf_ld_imm64|BPF_ATOMIC.*not supported|invalid (?:atomic operand|ALU op)|BPF_\w+(?:/\w+)? uses reserved"
        r"|BPF_ATOMIC uses invalid|invalid BPF_(?:ALU|JMP|LD)\S* (?:opcode|mode|insn)"
        r"|invalid may_goto|unknown insn class|fd_idx without fd_array",
        "{instruction}",
        "{instruction_step}",
    ),
    define(
        "global-argument",
        CALL,
        "Argument of a global function",
        r"Arg#(?P<arg>\d+) type (?P<type>\w+) in (?P<function>\S+?)\(\) is not supported yet"
        r"|[Cc]aller passes invalid args into func#\d+|arg\d+ in \S+ is not a pointer to context"
        r"|arg#(?P<arg2>\d+) (?:type|reference type\('[^']*'\)).*(?:not supported|must be)"
        r"|arg#\d+ (?:has (?:invalid combination|unsupported set|pointer tag)|\w+ cannot be combined)"
        r"|[Gg]lobal function \S+ (?:has|with) \d+ > \d+ args",
        "A function that is not static is verified by itself, without its callers. Before Linux"
        " 5.12 such a function takes numbers and the context only; pointers to memory of a known"
        " size came with 5.12.",
        "Make the function static __noinline or __always_inline, or require Linux 5.12; later"
        " kernels also know __arg_nonnull, __arg_ctx and their kin (6.8).",
    ),
    define(
        "global-result",
        CALL,
        "Result of a global function",
        r"[Gg]lobal function (?P<function>\S+?)\(\) (?:doesn't return scalar|return type)",
        "A function that is not static is verified by itself and gives its callers a number, and"
        " {function}() is not declared to: it returns a pointer, a struct, or nothing.",
        "Let it return int, or make it static __noinline or __always_inline.",
    ),
    # -- limits --
    define(
        "too-many-jumps",
        LIMIT,
        "Too many branches at once",
        r"[Tt]he sequence of (?P<count>\d+) jumps is too complex",
        "{count} branches were waiting to be followed at one time, more than the verifier keeps"
        " (8192). It often comes from an unrolled loop with a condition in it.{visited}",
        "Write a real loop (bpf_loop() since 5.17, bpf_for() since 6.4), or move the body into a"
        " global function, which is verified once.",
    ),
    define(
        "too-large",
        LIMIT,
        "Program is too large to follow",
        r"BPF program is too large\.? Processed (?P<count>\d+)|BPF program is too large"
        r"|too many states|program too large",
        "The verifier followed a million instructions without coming to the end of all ways through"
        " the program.{visited}",
        "Bound loops by a smaller constant, use bpf_loop() (5.17) or bpf_for() (6.4), move parts"
        " into global functions, which are verified once, or split the program by tail calls.",
    ),
    define(
        "stack-size",
        LIMIT,
        "Stack is too deep",
        r"combined stack size of (?P<count>\d+) calls is (?P<size>\d+)"
        r"|stack size (?:of subprog \d+ is )?(?P<size2>\d+)(?:\(extra \d+\))?(?: is|\.) [Tt]oo large"
        r"|stack depth (?P<size3>\d+) exceeds|call stack of previous frames is (?P<size4>\d+)"
        r"|[Ss]tack limit of 512"
        r"|the call stack of (?P<frames>\d+) frames is too deep",
        "{stack}",
        "{stack_step}",
    ),
    define(
        "endless-loop",
        STRUCTURE,
        "Loop without an end",
        r"infinite loop detected at insn (?P<at>\d+)|back-edge from insn (?P<from>\d+) to (?P<to>\d+)"
        r"|loop detected at insn",
        "{loop}",
        "Give the loop a bound that the verifier can count, or use bpf_loop() (5.17) or an iterator"
        " such as bpf_for() (6.4).",
    ),
    # -- structure --
    define(
        "unreachable",
        STRUCTURE,
        "Unreachable instruction",
        r"unreachable insn (?P<at>\d+)",
        "No way through the program leads to instruction {at}.",
        "Look for undefined behaviour: __builtin_unreachable(), a missing return, a division by"
        " zero. Or look for assembly behind a jump.",
    ),
    define(
        "operand",
        STRUCTURE,
        "Operand that an instruction cannot have",
        r"^div by zero|invalid shift -?\d+|frame pointer is read only|^R\d+ is invalid$|invalid insn idx"
        r"|cannot return stack pointer to the caller",
        "An instruction is invalid by itself (for example: division by the constant 0, a shift by"
        " the register's width, or the frame's address written or returned): {words}.",
        "Look for a division or shift by what inlining made a constant, for a function that returns the"
        " address of its own variable, or for assembly.",
    ),
    define(
        "jump-too-far",
        LIMIT,
        "Jump is too far",
        r"insn \d+ cannot be patched due to 16-bit range",
        "The kernel puts several instructions in place of some, and with that a jump gets longer than the"
        " 32,767 instructions its 16 bits can name: {words}.",
        "Split the program by tail calls or into functions that are not inlined; arrays that are looked up"
        " (inlined by the kernel) and reads of the context add most. -mcpu=v4 has long jumps (6.6).",
    ),
    define(
        "no-exit",
        STRUCTURE,
        "Subprogram can fall through",
        r"last insn is not an exit or jmp",
        "The last instruction of a function is neither an exit nor a jump. The compiler does that"
        " where it takes the end for unreachable, a loader where it did not append the functions"
        " that are called.",
        "Look for a missing return, a call of a function that never returns (a panic handler), or"
        " a loader that does not know calls between functions.",
    ),
    define(
        "jump-outside",
        STRUCTURE,
        "Jump out of the function",
        r"jump out of range from insn (?P<at>\d+)|jump into the middle of ldimm64"
        r"|call to invalid destination|invalid (?:call|jump) destination",
        "A jump or a call goes where no function of this program is: the loader did not put the"
        " pieces of the program together, or the code is assembly.",
        "Use a loader that relocates calls (libbpf does), or inline the function.",
    ),
    # -- state besides register types, which kernels track since 5.17 and later --
    define(
        "verifier-bug",
        "Kernel",
        "Bug of the verifier",
        r"verifier (?:internal error|(?:backtracking |insn history )?(?:bug|BUG)(?:[:.]| off| type| \())"
        r"|verifier is misconfigured|insn state internal bug"
        r"|verifier narrow ctx \w+ misconfigured|BUG (?:backtracking|stack slots|is_state_visited)"
        r"|BUG: (?:unhandled|in callback)|REG INVARIANTS VIOLATION|kernel subsystem misconfigured"
        r"|in-kernel BTF is malformed|internal bug$|^(?:[Vv]erifier )?bug(?: in function .*|: .*)?$|BUG (?:subprog|regs)"
        r"|non-overwritten BPF_PTR_POISON|(?:invalid|unknown) return type \d+ of func|does not return PTR_TO_BTF_ID"
        r"|unhandled dynamic return type|poke descriptor failed|tracking tail call prog failed|fix kernel include",
        "The verifier is at odds with itself, not with the program: {words}.",
        "Try a later release of that kernel; report it to bpf@vger.kernel.org. Another compiler or a"
        " small change of the program at this place may go around it.",
    ),
    define(
        "jit",
        SUPPORT,
        "JIT compiler",
        r"JIT does(?: not|n't) support",
        "The JIT compiler of this kernel and architecture lacks a feature: {words}.",
        "Use a later kernel, or another architecture: x86-64 usually gets such features first (calls"
        " of kernel functions: 5.13; arm64: 5.18).",
    ),
    define(
        "jit",
        SUPPORT,
        "JIT compiler",
        r"JIT is required|[Jj][Ii][Tt]ed progs?|should be JITed|supported by jit"
        r"|requires BPF JIT|BPF JIT compiler|in non-JITed",
        "The program needs the kernel's JIT compiler, which is off or cannot compile it: {words}.",
        "Run `sysctl net.core.bpf_jit_enable=1` (CONFIG_BPF_JIT). Some architectures got some"
        " features later than x86-64.",
    ),
    define(
        "sleepable",
        POLICY,
        "Operation is not allowed",
        r"helper (?P<name>\S+) might sleep|(?:Sleepable|sleepable) programs? (?:can|cannot|must).*"
        r"|sleepable (?:helper|kfunc|kernel).*(?:in|within|from) .*|global functions? that may sleep"
        r"|Only (?:fentry/fexit|lsm).*sleepable|is (?:not )?sleepable(?: within .*)?$|may sleep\b"
        r"|must be sleepable|(?:cannot|can only) be sleepable",
        "A call that may sleep is made where sleeping is not allowed, or the reverse: {words}.",
        'Use a sleepable section (SEC("fentry.s/..."), "lsm.s/...", "syscall"), outside of RCU and'
        " locks; or do without.",
    ),
    define(
        "unprivileged",
        POLICY,
        "Missing rights",
        r"R(?P<r>\d+) leaks addr|prohibited for !root|R(?P<r2>\d+) pointer comparison prohibited"
        r"|leaking pointer from stack|requires? CAP_\w+|CAP_\w+ are required|allowed (?:only )?(?:for|to) CAP_",
        "Without CAP_PERFMON (CAP_SYS_ADMIN before 5.8) a program must not leak kernel addresses,"
        " and fewer operations are allowed: {words}.",
        "Load as root, or with CAP_BPF and CAP_PERFMON; in a container they are to be given to it.",
    ),
    define(
        "dynptr",
        RESOURCE,
        "Dynptr in another state",
        r"(?<!\w)(?:struct )?(?:bpf_)?[Dd]ynptrs?(?!\w)|bpf_dynptr_from_mem data",
        "The call does not accept this dynptr: {words}.",
        "Let it be a struct bpf_dynptr on the stack, made on every way to here by one call"
        " (bpf_dynptr_from_mem(), bpf_ringbuf_reserve_dynptr() ...); pass its own address, and neither"
        " copy nor overwrite it. One of a ring buffer is submitted or discarded on every way out,"
        " also where making it failed.",
    ),
    define(
        "iterator",
        RESOURCE,
        "Iterator of another size",
        r"cannot pass in iter at an offset=(?P<at>-?\d+)",
        "The kernel's iterator takes more bytes than are left on the stack at offset {at}: its struct is not the one"
        " that the program was compiled with, or no variable of that type stands there.",
        "Compile against the vmlinux.h of this kernel, or take the release of the program that is for it.",
    ),
    define(
        "iterator",
        RESOURCE,
        "Iterator in another state",
        r"(?:un)?initialized iter_(?P<kind>\w+)|valid iter pointer|pointer to an iterator"
        r"|iterator is already initialized|uninitialized iterator use|\b\w+_iter is only allowed in"
        r"|\biter has to be at|cannot pass in iter\b|iterator state must|: too many iterations",
        "An iterator is not in the state that this call takes: {words}.",
        "Let it be a variable on the stack: _new() once, _next() until it gives NULL, _destroy() on"
        " every way out. bpf_for() and bpf_for_each() do all three.",
    ),
    define(
        "special-field",
        MEMORY,
        "Member that only the kernel touches",
        r"(?<!\S)(?P<name>(?!kptr\b)\S+) cannot be accessed (?:in)?directly(?: by (?P<by>\S+))?|(?P<name2>bpf_\w+) access .*cannot have variable",
        "The value contains the kernel's own member {name} (a lock, timer, list or kptr), and"
        " this instruction reads, writes or passes memory that includes it: {words}.",
        "Copy the other members one by one rather than the whole value, or put them into a struct of their"
        " own beside it; that member goes to its own helpers only.",
    ),
    define(
        "map-use",
        SUPPORT,
        "Map value without type information",
        r"map '(?P<name>[^']*)' (?:has to have BTF in order to use|has no valid) (?P<what>\w+)",
        "Map '{name}' has a {what} in its values, and the loader gave the kernel no BTF types to"
        " find it.",
        "Define the map by types (__type(key, ...), __type(value, struct ...)), not by sizes, in .maps; compile with -g;"
        " look above for BTF of the object that the kernel refused, and load by a libbpf that passes it on.",
    ),
    define(
        "lock",
        POLICY,
        "Spin lock",
        r"no valid bpf_(?:res_)?spin_lock|spin_(?:un)?lock (?:of different|without|is missing|at off"
        r"|has to|cannot|must)|[Ll]ocking two bpf_|while holding a lock|'struct bpf_(?:res_)?spin_lock'"
        r"|bpf_(?:res_)?spin_lock-ed|cannot use bpf_(?:res_)?spin_lock|to use bpf_(?:res_)?spin_lock"
        r"|cannot use bpf_\{list|spin_lock.*missing unlock|one bpf_spin_lock|spin_\{lock|held lock and object",
        "The rules of bpf_spin_lock are not kept: {words}.",
        "Hold one lock at a time, that of the map value or object that it protects, and release"
        " it on every path. While holding it, call only functions on lists and trees. Programs"
        " that run in any context (kprobe, tracepoint, perf_event) and socket filters cannot use"
        " locks: use atomics or per-CPU maps, or bpf_res_spin_lock() (6.15) if the kernel allows"
        " it.",
    ),
    define(
        "region",
        POLICY,
        "RCU, preemption or interrupts",
        r"rcu[_ ]read[_ ](?:(?:un)?lock|\{lock)|RCU (?:read|critical|CS)|attempt to enable preemption|bpf_preempt_(?:en|dis)able|preempt_\w+-ed"
        r"|non-preemptible|with preemption disabled|irq (?:flag|state)|IRQ[- ](?:flag|disabled)|local_irq_\w+-ed",
        "A region without RCU grace periods, preemption or interrupts does not begin or end"
        " correctly, or this call is not allowed inside (or outside) one: {words}.",
        "Pair bpf_rcu_read_lock() and _unlock(), bpf_preempt_disable() and _enable(),"
        " bpf_local_irq_save() and _restore() on every way, without sleeping or leaving the program in"
        " between. Pointers that RCU protects are good inside of the region only.",
    ),
    define(
        "kptr",
        REGISTER,
        "Kernel pointer in a map",
        r"(?<!\w)kptrs?(?!_)\b|bpf_kptr_xchg(?!#)",
        "A pointer to a kernel object that a map keeps (kptr) is not used as one: {words}.",
        "Declare it with __kptr (__kptr_ref before 6.4) and its own type in the value's struct."
        " Store and remove it only with bpf_kptr_xchg(), and release the pointer that this"
        " returns.",
    ),
    define(
        "collection",
        RESOURCE,
        "Object of a list or tree",
        r"bpf_(?:list_head|list_node|rb_root|rb_node|refcount)\b|bpf_(?:percpu_)?obj_(?:new|drop)\b"
        r"|allocated object|(?:non-)?owning (?:or|ref)|rbtree_|graph node|must be held for|local type ID argument"
        r"|expected for bpf_(?:percpu_)?obj_drop|operation on \w+ expects arg",
        "An object of bpf_obj_new(), or the list or tree for it, is not used as the verifier can follow:"
        " {words}.",
        "Keep the root beside the bpf_spin_lock that protects it, and hold the lock around each"
        " call on it. After insertion the object belongs to the collection. Check a removed"
        " object for NULL, then drop it (bpf_obj_drop()) or insert it again.",
    ),
    define(
        "trusted-pointer",
        CALL,
        "Pointer that may be gone",
        r"R(?P<r>\d+) must be (?:referenced|a rcu pointer)|(?<!\S)\S+ must be (?:referenced or trusted|a rcu)"
        r"|R(?P<r2>\d+) type=untrusted_\S+ expected=.*|must have zero offset when passed to release"
        r"|release (?:helper|kernel function|kfunc) \S+ expects|reference has not been acquired before",
        "This takes a pointer to an object that is sure to live on - an argument of the program, or one"
        " it has acquired - and this one was read from memory, moved, or given back before: {words}.",
        "Acquire the object first (bpf_task_acquire(), bpf_task_from_pid() ...;"
        " bpf_get_current_task_btf() returns a trusted one), check for NULL, and pass the pointer"
        " unchanged. A pointer read by a->b->c is not trusted, except for members that the kernel"
        " marks.",
    ),
    define(
        "arena",
        POLICY,
        "Arena",
        r"\barena\b|addr_space_cast insn|Only one arena",
        "Memory of an arena is not used as it must be: {words}.",
        "A program that uses an arena's pointers has to refer to its map itself, and to no second one;"
        " pointers are declared __arena, and clang 19 or later keeps the address spaces apart.",
    ),
    define(
        "timer",
        CALL,
        "Timer or work queue",
        r"\bbpf_(?:timer|wq|task_work)\b(?!_)|(?:timer|workqueue) pointer in R|struct bpf_(?:timer|wq)",
        "A timer or work queue is not where it must be: {words}.",
        "Keep struct bpf_timer (bpf_wq) as a member of a map's value, and pass the member of the element"
        " that was looked up with the map it comes from. Programs that run anywhere (kprobe, tracepoint,"
        " perf_event) may have none.",
    ),
    define(
        "callback",
        STRUCTURE,
        "Function that is called back",
        r"[Cc]allbacks? (?:function |subprog |type )?(?:cannot|not|is|are|'|id)|exception (?:cb|callback)"
        r"|failed callback verification|bpf_throw|from callback",
        "A function that is called back - by bpf_loop(), a timer, bpf_throw() - is not as it must be:"
        " {words}.",
        "Pass a static function of this object by its name; one for exceptions is global, takes one"
        " number and returns one.",
    ),
    define(
        "recursion",
        STRUCTURE,
        "Function that calls itself",
        r"recursive call|call graph recursive",
        "Functions call each other in a circle: {words}.",
        "Write it as a loop: the verifier must know the maximum stack depth.",
    ),
    define(
        "map-use",
        SUPPORT,
        "Map that this program cannot use",
        r"programs? can only use .*map|map cannot be used in prog|offload device mismatch"
        r"|only use preallocated|run-time allocat(?:ion|ed)|cannot update sockmap|direct value access support|map_ptr access not supported"
        r"|prog array map for tail call|insn_array map cannot|for sockmap/sockhash"
        r"|only one cgroup storage",
        "Programs of this type cannot use this map, or not like this: {words}.",
        "{map_step}",
    ),
    define(
        "read-only",
        MEMORY,
        "Memory that cannot be written",
        r"write into map forbidden|read into map forbidden|cannot write into|write to change key"
        r"|does not allow writes to packet|(?:into|from) map\b.*forbidden"
        r"|BPF_(?:ST|XADD|ATOMIC) \w+ (?:into|from) R\d+|may write into memory pointed by",
        "This memory may not be written (or read) by this program: {words}.",
        "Copy it to the stack first. Constants are in .rodata, which the loader freezes. Maps"
        " with BPF_F_RDONLY_PROG or _WRONLY_PROG have the restriction in their definition.",
    ),
    define(
        "function-table",
        "Object File",
        "Table of lines or functions",
        r"line_info|func[_ ]info|core_relo|point to KIND_FUNC|in subprogs without BTF|Invalid type of function"
        r"|[Gg]lobal functions need valid BTF|requires prog BTF",
        "The kernel refuses the information about functions and lines in .BTF.ext: {words}.",
        "The object was changed after it was compiled, or the loader put it together wrongly: compile"
        " with -g, strip with llvm-strip -g only, and use a later loader.",
    ),
    define(
        "too-many-parts",
        LIMIT,
        "Too much for one program",
        r"total number of (?:maps|btfs) per program|too many different (?:module BTFs|kernel function)"
        r"|too many subprog(?:ram)?s|number of funcs in func_info|struct nesting depth exceeded",
        "One program may not refer to so many: {words}.",
        "Split it by tail calls (64 maps, 256 functions, 256 kernel functions are a program's share).",
    ),
    define(
        "kernel-btf",
        "Environment",
        "Kernel without BTF",
        r"kernel is missing BTF, make sure|not supported without CONFIG_DEBUG_INFO_BTF",
        "The program uses the kernel's own BTF, and this kernel has none: {words}.",
        "Use a kernel with CONFIG_DEBUG_INFO_BTF=y.",
    ),
    define(
        "ksym-missing",
        SUPPORT,
        "Kernel symbol that is not there",
        r"ldimm64 (?:insn specifies|failed|unable)|pseudo btf_id \d+ in ldimm64|unable to resolve the size of type"
        r"|invalid module BTF object FD",
        "The program refers to a variable of the kernel that cannot be had like this: {words}.",
        "Declare it __ksym and __weak, and compare its address with NULL before it is used; it has to be in"
        " the BTF and the symbols of the kernel that runs.",
    ),
    define(
        "device-bound",
        SUPPORT,
        "Program of one device",
        r"metadata kfuncs (?:require|can't)",
        "Packet metadata from a driver (bpf_xdp_metadata_*) is only for programs that are loaded"
        " for one device: {words}.",
        "Load it with BPF_F_XDP_DEV_BOUND_ONLY and the interface's number (bpf_program__set_ifindex()).",
    ),
    define(
        "format",
        CALL,
        "Format string",
        r"[Ii]nvalid format|string is not zero-terminated|direct value access on string",
        "The format that is printed is not one the kernel takes: {words}.",
        "Keep it a constant of .rodata that ends in 0, with %d %u %x %llx %s %p and their kin only, and as many"
        " arguments as it names.",
    ),
    define(
        "btf-refused",
        "Object File",
        "BTF that the kernel refuses",
        r"(?m)^\[\d+\] (?:[A-Z][A-Z_0-9]+ .*|meta_left.*)?(?P<why>Invalid .*|Unsupported \w+|Unexpected size"
        r"|Linkage not supported|Loop detected|meta_needed.*|exceed\w* .*)"
        r"|(?:type_id|offset|size|val|nr_bits|vlen|linkage)=\S+ +(?:Invalid|Member|Unsupported|Unexpected|exceed).*"
        r"|btf_header not found|hdr_len not found|Unsupported (?:btf_header|version|flags|section found)"
        r"|Invalid (?:magic|string section|section offset|name_offset:\d+)|String section is not at the end"
        r"|Section overlap found|Total section length too long|Exceeded max num of types|Max chain length or cycle"
        r"|Type tags don't precede|Unaligned type_off|No type found|Unable to find .*in BTF",
        "The kernel refuses the object's own BTF: {words}.",
        "Use a clang and a libbpf that support this kernel (libbpf removes parts that a kernel"
        " does not support). Other versions of pahole -J and bpf-linker produce BTF that some"
        " kernels refuse.",
    ),
    define(
        "signature",
        POLICY,
        "Signed program",
        r"signed program|excl_prog_hash",
        "The program's signature does not match the loaded data: {words}.",
        "Sign the program together with its maps (bpftool prog load -S), and load it by its loader"
        " program as it is.",
    ),
)
