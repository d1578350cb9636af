"""The driver of a network: the C interface whose function calls the kernels one after the other.

int32_t NAME(inputs…, outputs…, void *workspace, int32_t threads)
int32_t NAME_profile(inputs…, outputs…, void *workspace, int32_t threads, double *seconds)
NAME.chain, NAME.timed_chain                       the calls, the latter with clock reads between
int32_t NAME_calls(void)                           how many there are, and their names:
const char *NAME_call_name(int32_t call)
uint64_t NAME_workspace_bytes(void)
NAME.prepare                   makes the derived weights, and moves the others, once, at load
int32_t NAME_open(const char *path), void NAME_close(void)        where the weights are in a file
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.codegen.llvm.parallel import return_if
from ansorc.codegen.llvm.workspace import return_with_workspace
from ansorc.codegen.llvm.writer import ONCE, FunctionWriter, ModuleWriter
from ansorc.codegen.network.plan import BufferSlot, KernelCall, NetworkPlan, PlaceKind
from ansorc.codegen.package.signature import FAULT_RECORD, FAULT_STATUS, NOT_OPEN
from ansorc.codegen.program.compiled import Compiled
from ansorc.target import Target

_CLOCK_MONOTONIC = 1
_MADV_DONTNEED, _MADV_HUGEPAGE, _MADV_NOHUGEPAGE = 4, 14, 15
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23
"""Numbers of Linux; a kernel that does not know one refuses it, which changes no result."""
_PAGE_BYTES, _HUGE_PAGE_BYTES = 1 << 12, 1 << 21
_STEP_PAGES, _SLOW_NS = 4, 2_000_000
"""Huge pages that are made at a time, and what one may take: small ones for as many bytes take 0.7
ms, huge ones 0.2, or 4 where a hypervisor has to find the memory (docs/decisions/0091)."""
_CLOCK = f"""\
define internal i64 @NAME.clock() {ONCE} {{
  %time = alloca {{ i64, i64 }}, align 8
  call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i8, ptr %time, i64 8
  %rest = load i64, ptr %place
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %rest
  ret i64 %sum
}}"""

POPULATE = f"""\
define internal void @NAME.populate(ptr %first, i64 %size) {ONCE} {{
entry:
  br label %step
step:
  %done = phi i64 [ 0, %entry ], [ %next, %check ]
  %left = sub i64 %size, %done
  %part = call i64 @llvm.umin.i64(i64 %left, i64 {_STEP_PAGES * _HUGE_PAGE_BYTES})
  %place = getelementptr i8, ptr %first, i64 %done
  %begin = call i64 @NAME.clock()
  call i32 @madvise(ptr %place, i64 %part, i32 {_MADV_POPULATE_WRITE})
  %end = call i64 @NAME.clock()
  %next = add i64 %done, %part
  %is_over = icmp uge i64 %next, %size
  br i1 %is_over, label %all, label %check
check:
  %taken = sub i64 %end, %begin
  %is_slow = icmp ugt i64 %taken, {_STEP_PAGES * _SLOW_NS}
  br i1 %is_slow, label %small, label %step
small:
  %rest = getelementptr i8, ptr %first, i64 %next
  %others = sub i64 %size, %next
  call i32 @madvise(ptr %rest, i64 %others, i32 {_MADV_NOHUGEPAGE})
  call i32 @madvise(ptr %rest, i64 %others, i32 {_MADV_POPULATE_WRITE})
  call i32 @madvise(ptr %rest, i64 %others, i32 {_MADV_HUGEPAGE})
  ret void
all:
  ret void
}}"""
"""Pages are made, huge ones as long as that is fast; the system makes huge ones of others later."""


def kernel_prefix(plan: NetworkPlan, kernel: int) -> str:
    """Return what stands before the names of all that kernel number `kernel` defines.

    The point keeps it apart from every name in C.
    """
    return f"{plan.name}.{kernel}."


def file_prefix(plan: NetworkPlan) -> str:
    """Return what stands before the names of the functions that open the weights' file."""
    return f"{plan.name}."


def weights_symbol(plan: NetworkPlan) -> str:
    """Return the name of the constants' first byte, which the driver expects elsewhere."""
    return f"{plan.weights_owner or plan.name}.weights"


def symbol_of_derived(plan: NetworkPlan) -> str:
    """Return the name of the first byte of the weights that are made at load."""
    return f"{plan.weights_owner or plan.name}.derived"


def symbol_of_bound(plan: NetworkPlan, number: int) -> str:
    """Return the name of the first byte of a weight that lies elsewhere in the process."""
    return f"{plan.name}.bound{number}"


def prepare_symbol(plan: NetworkPlan) -> str:
    """Return the name of the function that makes them; it returns a status as a kernel does."""
    return f"{plan.name}.prepare"


def emit_driver(
    plan: NetworkPlan,
    target: Target,
    file_digest: bytes | None = None,
    *,
    prepares: bool = True,
    moved: int = 0,
) -> str:
    """Return the text of the LLVM module; it refers to kernels and weights by their symbols.

    With the SHA-256 of the weights, `file_digest`, they are in a file that is opened. `prepares`:
    with the function that makes the derived weights, if the plan has any, and moves the others, if
    `moved` is not 0 but their bytes: kernels then read those behind the derived ones.
    """
    module = ModuleWriter(target.real)
    is_mapped = file_digest is not None
    module.functions.append(f'target triple = "{target.real.triple}"')
    for number in sorted({call.kernel for call in plan.calls}):
        _declare_kernel(module, plan, number, plan.kernels[number])
    if file_digest is not None:
        module.functions += _file_functions(plan, file_digest)
    elif plan.weights.nbytes:
        module.declare(f"@{weights_symbol(plan)} = external constant i8, align 64")
    made = plan.derived.nbytes + moved
    if made:
        module.declare(f"@{symbol_of_derived(plan)} = external global i8, align 64")
    if made and prepares:
        module.functions.append(_preparation(module, plan, moved))
    for is_timed in (False, True):
        _write_chain(module, plan, is_timed=is_timed)
        where = _Weights(is_mapped=is_mapped, is_moved=moved > 0)
        _write_entry(module, plan, where, is_timed=is_timed)
    module.declare("declare i32 @clock_gettime(i32, ptr) nounwind")
    module.functions.append(_CLOCK.replace("NAME", plan.name))
    size = f"define i64 @{plan.name}_workspace_bytes() {ONCE}"
    module.functions.append(f"{size} {{\n  ret i64 {plan.signature.workspace_bytes}\n}}")
    module.functions += _names(plan)
    return module.text()


def _declare_kernel(module: ModuleWriter, plan: NetworkPlan, number: int, kernel: Compiled) -> None:
    pointers = ", ".join(["ptr"] * (len(kernel.signature.params) + 1))
    symbol = f"@{kernel_prefix(plan, number)}{kernel.signature.name}"
    module.declare(f"declare i32 {symbol}({pointers}, i32)")


def _preparation(module: ModuleWriter, plan: NetworkPlan, moved: int) -> str:
    """The function that packs the derived weights and moves so many bytes of the others; the first
    status that is not 0 ends it."""
    writer, numbers = FunctionWriter(module), dict[int, int]()
    for number, packer in enumerate(plan.derived.packers, len(plan.kernels)):
        numbers[id(packer)] = number
        _declare_kernel(module, plan, number, packer)
    made = f"@{symbol_of_derived(plan)}", plan.derived.nbytes + moved
    _write_advice(writer, *made, _MADV_HUGEPAGE)
    if moved and made[1] >= _HUGE_PAGE_BYTES:
        begin, length = _pages_inside(writer, *made)
        module.functions.append(POPULATE.replace("NAME", plan.name))
        module.declare("declare i64 @llvm.umin.i64(i64, i64)")
        writer.line(f"call void @{plan.name}.populate(ptr {begin}, i64 {length})")
    for offset, weight in plan.derived.weights.items():
        places = (weights_symbol(plan), weight.source), (symbol_of_derived(plan), offset)
        operands = [
            f"ptr {writer.emit(f'getelementptr inbounds i8, ptr @{symbol}, i64 {start}')}"
            for symbol, start in places
        ]
        name = f"{kernel_prefix(plan, numbers[id(weight.packer)])}{weight.packer.signature.name}"
        status = writer.emit(f"call i32 @{name}({', '.join(operands)}, ptr null, i32 1)")
        return_if(writer, writer.emit(f"icmp ne i32 {status}, 0"), status)
    if moved:
        _write_move(writer, plan, moved)
    writer.line("ret i32 0")
    return f"define i32 @{prepare_symbol(plan)}() {ONCE} {{\n{writer.text()}\n}}"


def _write_move(writer: FunctionWriter, plan: NetworkPlan, size: int) -> None:
    """Copy the stored weights behind the derived ones, and let go of their pages of the file."""
    writer.module.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    stored = f"@{weights_symbol(plan)}"
    _write_advice(writer, stored, size, _MADV_POPULATE_READ)
    operands = f"ptr align 64 {_move_function(writer, plan)}, ptr align 64 {stored}, i64 {size}"
    writer.line(f"call void @llvm.memcpy.p0.p0.i64({operands}, i1 false)")
    _write_advice(writer, stored, size, _MADV_DONTNEED)


def _move_function(writer: FunctionWriter, plan: NetworkPlan) -> str:
    base = f"ptr @{symbol_of_derived(plan)}"
    return writer.emit(f"getelementptr inbounds i8, {base}, i64 {plan.derived.nbytes}")


def _write_advice(writer: FunctionWriter, symbol: str, size: int, advice: int) -> None:
    """Tell the system about the pages inside of `size` bytes, if a huge one may be among them."""
    if size < _HUGE_PAGE_BYTES:
        return
    begin, length = _pages_inside(writer, symbol, size)
    writer.module.declare("declare i32 @madvise(ptr, i64, i32) nounwind")
    writer.emit(f"call i32 @madvise(ptr {begin}, i64 {length}, i32 {advice})")


def _pages_inside(writer: FunctionWriter, symbol: str, size: int) -> tuple[str, int]:
    """The first whole page of `size` bytes at `symbol`, and how many bytes such pages have."""
    first = writer.emit(f"ptrtoint ptr {symbol} to i64")
    page = writer.emit(
        f"and i64 {writer.emit(f'add i64 {first}, {_PAGE_BYTES - 1}')}, -{_PAGE_BYTES}"
    )
    return writer.emit(f"inttoptr i64 {page} to ptr"), (size - _PAGE_BYTES) & -_PAGE_BYTES


@dataclass(frozen=True)
class _Weights:
    """Where a call finds the weights: as the library holds them, unless one of these is so."""

    is_mapped: bool
    is_moved: bool


def _write_entry(
    module: ModuleWriter, plan: NetworkPlan, where: _Weights, *, is_timed: bool
) -> None:
    writer = FunctionWriter(module)
    params = _arrays(plan)
    weights = f"@{weights_symbol(plan)}" if plan.weights.nbytes else "null"
    if where.is_moved:
        weights = _move_function(writer, plan)
    if where.is_mapped:
        weights = writer.emit(f"load atomic ptr, ptr @{plan.name}.file acquire, align 8")
        return_if(writer, writer.emit(f"icmp eq ptr {weights}, null"), str(NOT_OPEN))
    threads = _most_threads(writer, plan)
    chain = f"@{plan.name}.{'timed_chain' if is_timed else 'chain'}"

    def write_call(base: str) -> str:
        passed = [*params, f"ptr {weights}", f"ptr {base}", f"i32 {threads}"]
        passed += _seconds(is_timed=is_timed)
        return _write_in_team(writer, plan, threads, f"call i32 {chain}({', '.join(passed)})")

    size = plan.signature.workspace_bytes
    if size:
        return_with_workspace(writer, size, write_call)
    else:
        writer.line(f"ret i32 {write_call('null')}")
    listing = ", ".join([*params, "ptr %workspace", "i32 %threads", *_seconds(is_timed=is_timed)])
    name = f"{plan.name}_profile" if is_timed else plan.name
    module.functions.append(f"define i32 @{name}({listing}) {ONCE} {{\n{writer.text()}\n}}")


def _most_threads(writer: FunctionWriter, plan: NetworkPlan) -> str:
    """The number of threads, 0 resolved where it is compared with what a call may use."""
    if not any(plan.is_parallel(call) and call.threads > 1 for call in plan.calls):
        return "%threads"
    writer.module.declare("declare i32 @ansorc_num_threads() nounwind")
    every = writer.emit("call i32 @ansorc_num_threads()")
    is_all = writer.emit("icmp eq i32 %threads, 0")
    return writer.emit(f"select i1 {is_all}, i32 {every}, i32 %threads")


def _write_in_team(writer: FunctionWriter, plan: NetworkPlan, threads: str, chain: str) -> str:
    """Write the call of the chain, whose threads stay awake between its kernels; its status."""
    limits = {call.threads for call in plan.calls if plan.is_parallel(call)}
    if not limits:
        return writer.emit(chain)
    writer.module.declare("declare i32 @ansorc_team_begin(i32) nounwind")
    writer.module.declare("declare void @ansorc_team_end() nounwind")
    most = threads if 0 in limits else _write_smaller(writer, threads, max(limits))
    writer.emit(f"call i32 @ansorc_team_begin(i32 {most})")
    status = writer.emit(chain)
    writer.line("call void @ansorc_team_end()")
    return status


def _write_chain(module: ModuleWriter, plan: NetworkPlan, *, is_timed: bool) -> None:
    """Write the calls; the first status that is not 0 ends them and is returned."""
    writer = FunctionWriter(module)
    limits = _thread_limits(writer, plan)
    clock = f"call i64 @{plan.name}.clock()"
    before = writer.emit(clock) if is_timed else ""
    for number, call in enumerate(plan.calls):
        status = _write_call(writer, plan, call, limits)
        if is_timed:
            after = writer.emit(clock)
            taken = writer.emit(f"sub i64 {after}, {before}")
            seconds = writer.emit(
                f"fmul double {writer.emit(f'sitofp i64 {taken} to double')}, 1.0e-9"
            )
            pointer = writer.emit(f"getelementptr double, ptr %seconds, i64 {number}")
            writer.line(f"store double {seconds}, ptr {pointer}")
            before = after
        if plan.kernels[call.kernel].signature.faults:
            _write_fault(writer, plan, call, status)
        return_if(writer, writer.emit(f"icmp ne i32 {status}, 0"), status)
    writer.line("ret i32 0")
    params = [*_arrays(plan), "ptr %weights", "ptr %arena", "i32 %threads"]
    params += _seconds(is_timed=is_timed)
    name = f"@{plan.name}.{'timed_chain' if is_timed else 'chain'}"
    head = f"define internal i32 {name}({', '.join(params)}) {ONCE}"
    module.functions.append(f"{head} {{\n{writer.text()}\n}}")


def _write_fault(writer: FunctionWriter, plan: NetworkPlan, call: KernelCall, status: str) -> None:
    """If a kernel refused its data, copy what it says of that to where the network says it."""
    copy, go = writer.name("copy"), writer.name("go")
    lines = [f"i32 {each}, label {copy}" for each in FAULT_STATUS.values()]
    writer.line(f"switch i32 {status}, label {go} [ {' '.join(lines)} ]")
    writer.start_block(copy)
    workspace = _pointer(writer, plan, BufferSlot(PlaceKind.ARENA, plan.kernel_workspace))
    record = _pointer(writer, plan, BufferSlot(PlaceKind.ARENA, plan.fault_place))
    for number in range(FAULT_RECORD.elements):
        source = writer.emit(f"getelementptr i64, ptr {workspace}, i64 {number}")
        value = writer.emit(f"load i64, ptr {source}, align 8")
        if number == 0:
            value = writer.emit(f"add i64 {value}, {plan.first_fault(call.kernel)}")
        goal = writer.emit(f"getelementptr i64, ptr {record}, i64 {number}")
        writer.line(f"store i64 {value}, ptr {goal}, align 8")
    writer.line(f"br label {go}")
    writer.start_block(go)


def _thread_limits(writer: FunctionWriter, plan: NetworkPlan) -> dict[int, str]:
    """Write the smaller one of the caller's threads and each number that a call may use."""
    limits = {0: "%threads", 1: "1"}
    for most in sorted({c.threads for c in plan.calls if plan.is_parallel(c)} - limits.keys()):
        limits[most] = _write_smaller(writer, "%threads", most)
    return limits


def _write_smaller(writer: FunctionWriter, threads: str, most: int) -> str:
    is_fewer = writer.emit(f"icmp slt i32 {threads}, {most}")
    return writer.emit(f"select i1 {is_fewer}, i32 {threads}, i32 {most}")


def _write_call(
    writer: FunctionWriter, plan: NetworkPlan, call: KernelCall, limits: dict[int, str]
) -> str:
    signature = plan.kernels[call.kernel].signature
    operands = [f"ptr {_pointer(writer, plan, slot)}" for slot in call.arguments]
    workspace = BufferSlot(PlaceKind.ARENA, plan.kernel_workspace)
    scratch = _pointer(writer, plan, workspace) if signature.workspace_bytes else "null"
    threads = limits[call.threads if plan.is_parallel(call) else 1]
    listing = ", ".join([*operands, f"ptr {scratch}", f"i32 {threads}"])
    symbol = f"@{kernel_prefix(plan, call.kernel)}{signature.name}"
    return writer.emit(f"call i32 {symbol}({listing})")


def _pointer(writer: FunctionWriter, plan: NetworkPlan, slot: BufferSlot) -> str:
    match slot.kind:
        case PlaceKind.INPUT:
            return f"%p{slot.offset}"
        case PlaceKind.OUTPUT:
            return f"%p{len(plan.inputs) + slot.offset}"
        case PlaceKind.ARENA:
            return writer.emit(f"getelementptr inbounds i8, ptr %arena, i64 {slot.offset}")
        case PlaceKind.WEIGHTS:
            return writer.emit(f"getelementptr inbounds i8, ptr %weights, i64 {slot.offset}")
        case PlaceKind.DERIVED:
            base = f"ptr @{symbol_of_derived(plan)}"
            return writer.emit(f"getelementptr inbounds i8, {base}, i64 {slot.offset}")
        case PlaceKind.BOUND:
            symbol = f"@{symbol_of_bound(plan, slot.offset)}"
            writer.module.declare(f"{symbol} = external constant i8, align 64")
            return symbol


def _arrays(plan: NetworkPlan) -> list[str]:
    return [f"ptr %p{number}" for number in range(len(plan.inputs) + len(plan.outputs))]


def _seconds(*, is_timed: bool) -> Sequence[str]:
    return ["ptr %seconds"] if is_timed else []


def _file_functions(plan: NetworkPlan, digest: bytes) -> list[str]:
    """Where the weights are, how many and which they must be; what opens and closes them."""
    name, state = plan.name, f"@{plan.name}.file"
    kind, key = "{ ptr, i64, [32 x i8] }", "".join(f"\\{byte:02X}" for byte in digest)
    value = f'{{ ptr null, i64 {plan.weights.nbytes}, [32 x i8] c"{key}" }}'
    opened = f"@{file_prefix(plan)}ansorc_weights_open"
    closed = f"@{file_prefix(plan)}ansorc_weights_close"
    return [
        f"{state} = internal global {kind} {value}",
        f"declare i32 {opened}(ptr, ptr)",
        f"declare void {closed}(ptr)",
        f"define i32 @{name}_open(ptr %path) {ONCE} {{\n"
        f"  %status = call i32 {opened}(ptr {state}, ptr %path)\n"
        "  ret i32 %status\n}",
        f"define void @{name}_close() {ONCE} {{\n  call void {closed}(ptr {state})\n  ret void\n}}",
    ]


def _names(plan: NetworkPlan) -> list[str]:
    """The functions that tell the names of the calls, and the table that they look into."""
    count, parts = len(plan.calls), list[str]()
    for number, call in enumerate(plan.calls):
        text = call.name.encode() + b"\0"
        escaped = "".join(f"\\{byte:02X}" for byte in text)
        head = f"@{plan.name}.name{number} = private constant"
        parts.append(f'{head} [{len(text)} x i8] c"{escaped}"')
    listing = ", ".join(f"ptr @{plan.name}.name{number}" for number in range(count))
    table = f"@{plan.name}.names"
    parts.append(f"{table} = internal constant [{count} x ptr] [{listing}]")
    parts.append(f"define i32 @{plan.name}_calls() {ONCE} {{\n  ret i32 {count}\n}}")
    parts.append(
        f"define ptr @{plan.name}_call_name(i32 %call) {ONCE} {{\n"
        f"  %known = icmp ult i32 %call, {count}\n"
        "  br i1 %known, label %found, label %none\n"
        "found:\n"
        f"  %index = zext i32 %call to i64\n"
        f"  %place = getelementptr ptr, ptr {table}, i64 %index\n"
        "  %name = load ptr, ptr %place\n"
        "  ret ptr %name\n"
        "none:\n"
        "  ret ptr null\n"
        "}"
    )
    return parts
