"""Refuse to make code for a processor that has no instructions for what a program does."""

from __future__ import annotations

from ansorc.errors import BuildError
from ansorc.ir.dtype import FLOAT16, DType
from ansorc.ir.expr import Cast, Const, Dot, Load, dtype_of
from ansorc.ir.node import Node, walk
from ansorc.ir.passes.matrix_nest import matrix_nest
from ansorc.ir.stmt import For, Function, Store
from ansorc.target import Target
from ansorc.target.dot_products import dot_products, missing_features
from ansorc.target.matrix_units import MatrixUnit


def require_features(function: Function, target: Target) -> None:
    """Raise BuildError, naming what is missing, where `target` cannot run `function` well."""
    real = target.real
    halves = not real.is_x86 or {"f16c", "avx512f"} & set(real.features)
    for node in walk(function.body):
        if isinstance(node, Store) and node.is_atomic:
            raise BuildError(
                f"'{function.name}' updates '{node.buffer.name}' atomically, which is done on GPUs "
                "only; give each thread of a CPU a copy"
            )
        if isinstance(node, Dot):
            _require_dot(function.name, node, target)
        if isinstance(node, For) and (nest := matrix_nest(node)) is not None:
            _require_unit(function.name, nest.unit, target)
        if not halves and _dtype(node) == FLOAT16:
            raise BuildError(
                f"'{function.name}' uses float16, which '{real.text}' cannot convert: it lacks "
                "f16c; choose a newer -mcpu (x86-64-v3), add -mattr=+f16c, or use bfloat16"
            )


def _require_dot(kernel: str, node: Dot, target: Target) -> None:
    left, right = (dtype_of(side).element.name for side in (node.left, node.right))
    if dot_products(target, node.terms, left, right, in_pairs=node.in_pairs):
        return
    what = f"'{kernel}' uses dot{node.terms}{'_pairs' * node.in_pairs} of {left} and {right}"
    if missing := missing_features(target, node.terms, left, right, in_pairs=node.in_pairs):
        raise BuildError(
            f"{what}, for which '{target.text}' lacks {' or '.join(missing)}; add it with -mattr, "
            "or schedule the kernel without this step"
        )
    kind = "x86" if target.is_x86 else "ARM"
    raise BuildError(
        f"{what}, for which no {kind} processor known here has an instruction; {_other_way(kind)}"
    )


def _require_unit(kernel: str, unit: MatrixUnit, target: Target) -> None:
    if unit.is_on(target):
        return
    what = f"'{kernel}' uses {unit.function} of {unit.left} and {unit.right}"
    if target.is_x86:
        missing = " and ".join(name for name in unit.features if name not in target.features)
        raise BuildError(
            f"{what}, for which '{target.text}' lacks {missing}; add it with -mattr, or schedule "
            "the kernel without this step"
        )
    raise BuildError(
        f"{what}, for which no ARM processor known here has a unit; use dot4 or dot2, or schedule "
        "the kernel without this step"
    )


def _other_way(kind: str) -> str:
    if kind == "x86":
        return "use dot2, which is exact on any operands of 8 bits, or make one of them uint8"
    return "use dot4 on operands of 8 bits, or schedule the kernel without this step"


def _dtype(node: Node) -> DType | None:
    match node:
        case Load(buffer, _) | Store(buffer, _, _):
            return buffer.dtype
        case Cast(dtype, _) | Const(_, dtype):
            return dtype.element
        case _:
            return None
