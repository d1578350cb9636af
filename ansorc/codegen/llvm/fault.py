"""Leave a kernel whose data it refuses: the check, and what remembers why it failed."""

from __future__ import annotations

from ansorc.codegen.llvm.condition import known, negate
from ansorc.codegen.llvm.expr import ExprWriter
from ansorc.codegen.llvm.types import Value
from ansorc.codegen.llvm.vector import any_lane
from ansorc.codegen.llvm.writer import ONCE, RARE, FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import FAULT_RECORD, FAULT_STATUS
from ansorc.ir.fault import MOST_ARGUMENTS, FaultSite
from ansorc.ir.stmt import Check, Function, fault_sites

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
    if known(condition) is True:
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
    found = writer.emit(f"call i{width} @llvm.cttz.i{width}(i{width} {bits}, i1 true)")
    return found if width == _LANE_BITS else writer.emit(f"trunc i{width} {found} to i64")
