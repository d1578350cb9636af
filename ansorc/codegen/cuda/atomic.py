"""Atomic stores as CUDA C: one instruction where there is one, else compare and swap."""

from __future__ import annotations

from ansorc.codegen.cuda.expr import CudaExpressions
from ansorc.codegen.cuda.types import ATOM, CExpr, c_type
from ansorc.ir.dtype import INT64, DType
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Var
from ansorc.ir.interpret_math import integer_range
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import Store

_OF_INTEGERS = {BinaryOp.MAX: "atomicMax", BinaryOp.MIN: "atomicMin"}


def atomic_text(exprs: CudaExpressions, store: Store, name: str) -> str:
    """Return the line of an atomic store; `name` is for the variable of the old value."""
    own, dtype = Load(store.buffer, store.indices), store.buffer.dtype
    place = f"&{exprs.place(store.buffer, store.indices)}"
    if (call := _instruction(store.value, own)) is not None:
        function, term = call
        text = exprs.store_text(exprs.value(term), dtype)
        if dtype.is_float or dtype.bits == 32:
            return f"{function}({place}, {text});"
        kind = "unsigned long long"
        return f"{function}(({kind} *){place}, ({kind})({text}));"
    old, kind = Var(name, dtype), c_type(dtype)
    low, high = integer_range(dtype) if dtype.is_integer else (0, 0)
    exprs.define(name, CExpr(name, dtype, ATOM, low, high, dtype == INT64))
    exprs.parts.update({"atomic"} | ({kind} & {"half", "bfloat16"}))

    def rule(node: Node) -> Node | None:
        return old if node == own else None

    text = exprs.store_text(exprs.value(rewrite(store.value, rule)), dtype)
    exprs.undefine(name)
    return f"atomic_update({place}, [&]({kind} {name}) -> {kind} {{ return {text}; }});"


def _instruction(value: Expr, own: Load) -> tuple[str, Expr] | None:
    """Return the function that combines the element `own` and a term, and the term; or None."""
    dtype = own.buffer.dtype
    if not isinstance(value, Binary) or own not in (value.left, value.right):
        return None
    term = value.right if value.left == own else value.left
    if value.op is BinaryOp.ADD and _adds(dtype):
        return "atomicAdd", term
    if value.op in _OF_INTEGERS and dtype.is_integer and dtype.bits == 32:
        return _OF_INTEGERS[value.op], term
    return None


def _adds(dtype: DType) -> bool:
    """Return whether an instruction adds numbers of `dtype`; integers wrap around."""
    return dtype.bits in (32, 64) and (dtype.is_integer or dtype.is_float)
