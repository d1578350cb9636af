"""Scalars to vectors and back."""

from __future__ import annotations

from ansorc.codegen.llvm.types import Value, register_type, with_lanes
from ansorc.codegen.llvm.writer import FunctionWriter


def splat(writer: FunctionWriter, value: Value, lanes: int) -> Value:
    """Return `value` in each of `lanes` lanes; a vector is returned as it is."""
    dtype = with_lanes(value.dtype, lanes)
    if value.dtype.lanes == lanes:
        return value
    kind = register_type(dtype)
    if not value.text.startswith("%"):
        return Value(f"splat ({value.typed})", dtype)
    memo, key = writer.scopes[-1].memo, (value.text, lanes)
    for scope in writer.scopes:
        if key in scope.memo:
            return Value(scope.memo[key], dtype)
    first = writer.emit(f"insertelement {kind} poison, {value.typed}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    memo[key] = writer.emit(f"shufflevector {kind} {first}, {kind} poison, {zeros}")
    return Value(memo[key], dtype)


def match_lanes(writer: FunctionWriter, *values: Value) -> list[Value]:
    """Return `values` with the lanes of the widest."""
    lanes = max(value.dtype.lanes for value in values)
    return [splat(writer, value, lanes) for value in values]


def extract(writer: FunctionWriter, value: Value, lane: int) -> Value:
    """Return one lane of `value`; a scalar is its own every lane."""
    if value.dtype.lanes == 1:
        return value
    return Value(writer.emit(f"extractelement {value.typed}, i64 {lane}"), value.dtype.element)


def pack(writer: FunctionWriter, values: list[Value]) -> Value:
    """Return the vector of the scalars `values`."""
    dtype = with_lanes(values[0].dtype, len(values))
    kind, vector = register_type(dtype), "poison"
    for lane, value in enumerate(values):
        vector = writer.emit(f"insertelement {kind} {vector}, {value.typed}, i64 {lane}")
    return Value(vector, dtype)


def halves(writer: FunctionWriter, value: Value) -> tuple[Value, Value]:
    """Return the first and the second half of the lanes of `value`; one lane is a scalar."""
    count = value.dtype.lanes // 2
    if count == 1:
        return extract(writer, value, 0), extract(writer, value, 1)
    return _lanes(writer, value, range(count)), _lanes(writer, value, range(count, 2 * count))


def _lanes(writer: FunctionWriter, value: Value, lanes: range) -> Value:
    dtype = with_lanes(value.dtype, len(lanes))
    mask = f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
    kind = register_type(value.dtype)
    return Value(writer.emit(f"shufflevector {value.typed}, {kind} poison, {mask}"), dtype)


def shuffle(writer: FunctionWriter, left: Value, right: Value, lanes: list[int]) -> Value:
    """Return so numbered lanes of two vectors, those of `right` counted after those of `left`."""
    mask = f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
    text = f"shufflevector {left.typed}, {right.typed}, {mask}"
    return Value(writer.emit(text), with_lanes(left.dtype, len(lanes)))


def any_lane(writer: FunctionWriter, mask: Value) -> Value:
    """Return whether any lane of a bool vector holds."""
    lanes = mask.dtype.lanes
    name = f"llvm.vector.reduce.or.v{lanes}i1"
    writer.module.declare(f"declare i1 @{name}(<{lanes} x i1>)")
    return Value(writer.emit(f"call i1 @{name}({mask.typed})"), mask.dtype.element)
