"""Leave a kernel whose data it refuses: the check, and what remembers why it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ansorc.codegen.llvm.condition import constant_value, negate
from ansorc.codegen.llvm.expr import ExprWriter
from ansorc.codegen.llvm.types import Value
from ansorc.codegen.llvm.vector import any_lane
from ansorc.codegen.llvm.writer import ONCE, RARE, FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import FAULT_RECORD, FAULT_STATUS
from ansorc.ir.arith.affine import Linear
from ansorc.ir.dtype import DType, Kind
from ansorc.ir.expr import Broadcast, Cast, Compare, CompareOp, Const, Expr, Load, dtype_of
from ansorc.ir.fault import MOST_ARGUMENTS, FaultKind, FaultSite
from ansorc.ir.node import walk
from ansorc.ir.stmt import Check, For, Function, LoopKind, fault_sites

_LANE_BITS = 64
_TEXT = f"""\
define internal void @NAME.fault(ptr %record, i64 %site, PARAMETERS) cold {ONCE} {{
entry:
  %old = cmpxchg ptr %record, i64 0, i64 %site monotonic monotonic, align 8
  %is.first = extractvalue {{ i64, i1 }} %old, 1
  br i1 %is.first, label %tell, label %done
tell:
STORES
  br label %done
done:
  ret void
}}"""
"""The first thread that fails says why."""


def define_fault(module: ModuleWriter, function: Function) -> None:
    """Add to `module` what the checks of `function` call."""
    module.fault_sites = fault_sites(function.body)
    module.fault_function = f"@{function.name}.fault"
    if not module.fault_sites:
        return
    stores: list[str] = []
    for number in range(MOST_ARGUMENTS):
        stores.append(f"  %p{number} = getelementptr i64, ptr %record, i64 {number + 1}")
        stores.append(f"  store i64 %a{number}, ptr %p{number}, align 8")
    parameters = ", ".join(f"i64 %a{number}" for number in range(MOST_ARGUMENTS))
    text = _TEXT.replace("NAME", function.name).replace("PARAMETERS", parameters)
    module.functions.append(text.replace("STORES", "\n".join(stores)))


def write_check(writer: FunctionWriter, exprs: ExprWriter, stmt: Check, leaving: str) -> None:
    """Write `stmt`: where it fails the function runs `leaving` and returns the status."""
    condition = exprs.value(stmt.condition)
    if constant_value(condition) is True:
        return
    lanes, wrong = condition.dtype.lanes, negate(writer, condition)
    fails = wrong if lanes == 1 else any_lane(writer, wrong)
    fail, go = writer.name("fault"), writer.name("go")
    writer.open_landing()
    writer.line(f"br i1 {fails.text}, label {fail}, label {go}, !prof {RARE}")
    writer.start_block(fail)
    with writer.inner_scope():
        _write_record(writer, exprs, stmt, wrong)
        if leaving:
            writer.line(leaving)
        writer.line(f"ret i32 {FAULT_STATUS[stmt.kind]}")
    writer.start_block(go)
    writer.close_landing()


@dataclass(frozen=True)
class BlockCheck:
    """A loop that is written out and does nothing but check vectors of places."""

    loop: For
    places: Expr
    """As numbers without sign."""
    limit: int
    """They are below it."""


def block_check(loop: For) -> BlockCheck | None:
    """Return what `loop` checks, None if that is something else or not worth a block."""
    match loop:
        case For(
            _, _, LoopKind.UNROLLED,
            Check(Compare(CompareOp.LT, Cast(DType(Kind.UINT, 32 | 64)) as places,
                          Broadcast(Const(limit))), FaultKind.INDEX),
        ) if loop.extent > 1 and dtype_of(places).lanes > 1:  # fmt: skip
            return BlockCheck(loop, places, int(limit))
        case _:
            return None


def write_block_check(
    writer: FunctionWriter, exprs: ExprWriter, check: BlockCheck, write_loop: Callable[[], None]
) -> None:
    """Write one test of all places that `check` looks at: of the largest in each lane.

    Halves of 64 bits are compared on their own where the limit has 31: the upper ones have to be 0.
    Where it fails, `write_loop` writes a loop that tells which place it was. What was loaded is not
    kept: single places are loaded faster than taken out of vectors.
    """
    lanes, bits = dtype_of(check.places).lanes, dtype_of(check.places).bits
    is_halved = bits == _LANE_BITS and check.limit <= 1 << 31
    kind = f"<{2 * lanes} x i32>" if is_halved else f"<{lanes} x i{bits}>"
    name = f"llvm.umax.v{2 * lanes}i32" if is_halved else f"llvm.umax.v{lanes}i{bits}"
    writer.module.declare(f"declare {kind} @{name}({kind}, {kind})")
    largest = "zeroinitializer"
    for number in range(check.loop.extent):
        exprs.index.bind(check.loop.var.name, Linear(constant=number))
        value = exprs.value(check.places)
        text = writer.emit(f"bitcast {value.typed} to {kind}") if is_halved else value.text
        largest = writer.emit(f"call {kind} @{name}({kind} {largest}, {kind} {text})")
    last = check.limit - 1
    half = f"i32 {last}, i32 0"
    ends = ", ".join([half] * lanes if is_halved else [f"i{bits} {last}"] * lanes)
    wrong = writer.emit(f"icmp ugt {kind} {largest}, <{ends}>")
    count = 2 * lanes if is_halved else lanes
    packed = writer.emit(f"bitcast <{count} x i1> {wrong} to i{count}")
    fails = writer.emit(f"icmp ne i{count} {packed}, 0")
    fail, go = writer.name("fault"), writer.name("go")
    writer.open_landing()
    writer.line(f"br i1 {fails}, label {fail}, label {go}, !prof {RARE}")
    writer.start_block(fail)
    with writer.inner_scope():
        write_loop()
        writer.line(f"ret i32 {FAULT_STATUS[FaultKind.INDEX]}")
    writer.start_block(go)
    writer.close_landing()
    writer.line('call void asm sideeffect "", "~{memory}"()')
    writer.forget_loads(part.buffer.name for part in walk(check.places) if isinstance(part, Load))


def _write_record(writer: FunctionWriter, exprs: ExprWriter, stmt: Check, wrong: Value) -> None:
    module = writer.module
    site = module.fault_sites.index(FaultSite(stmt.kind, stmt.about, len(stmt.args))) + 1
    values = [exprs.value(arg) for arg in stmt.args]
    if any(value.dtype.lanes > 1 for value in values):
        lane = _first_lane(writer, wrong)
        values = [
            value if value.dtype.lanes == 1 else Value(
                writer.emit(f"extractelement {value.typed}, i64 {lane}"), value.dtype.element
            )
            for value in values
        ]  # fmt: skip
    texts = [value.text for value in values] + ["0"] * (MOST_ARGUMENTS - len(values))
    told = ", ".join(f"i64 {text}" for text in texts)
    record = exprs.memory.bases[FAULT_RECORD.name]
    writer.line(f"call void {module.fault_function}(ptr {record}, i64 {site}, {told})")


def _first_lane(writer: FunctionWriter, wrong: Value) -> str:
    """Return the number of the first lane of a mask that is set."""
    width = max(_LANE_BITS, wrong.dtype.lanes)
    bits = writer.emit(f"bitcast {wrong.typed} to i{wrong.dtype.lanes}")
    if wrong.dtype.lanes < width:
        bits = writer.emit(f"zext i{wrong.dtype.lanes} {bits} to i{width}")
    writer.module.declare(f"declare i{width} @llvm.cttz.i{width}(i{width}, i1 immarg)")
    lane = writer.emit(f"call i{width} @llvm.cttz.i{width}(i{width} {bits}, i1 true)")
    return lane if width == _LANE_BITS else writer.emit(f"trunc i{width} {lane} to i64")
