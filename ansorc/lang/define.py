"""`compute`: define a tensor element by element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, overload

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Operand, Value, Var, as_expr, dtype_of
from ansorc.ir.node import Node, rewrite
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.hints import Hints, as_hints
from ansorc.lang.naming import AutoName, check_axis_name, check_tensor_name, unique_name
from ansorc.lang.reduction import ReduceAxis, Reduction
from ansorc.lang.tensor import Tensor, extents_of

Element: TypeAlias = "Value | Reduction"
Body: TypeAlias = Callable[..., Element]
FixedRank: TypeAlias = (
    Callable[[Var], Element]
    | Callable[[Var, Var], Element]
    | Callable[[Var, Var, Var], Element]
    | Callable[[Var, Var, Var, Var], Element]
    | Callable[[Var, Var, Var, Var, Var], Element]
    | Callable[[Var, Var, Var, Var, Var, Var], Element]
    | Callable[[], Element]
)
"""Functions of one index for each dimension, spelled out so that lambdas are type-checked."""


class AnyRank(Protocol):
    """A function like `lambda *indices: …`."""

    def __call__(self, *indices: Var) -> Element: ...


_COMPUTE = AutoName("compute")


@overload
def compute(
    shape: int | Sequence[int],
    fn: AnyRank,
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: int | Sequence[int],
    fn: FixedRank,
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: int | Sequence[int],
    fn: Body,
    name: str = ...,
    hints: Hints | None = ...,
    axes: Sequence[str] | None = ...,
) -> Tensor: ...
def compute(
    shape: int | Sequence[int],
    fn: Body,
    name: str = _COMPUTE,
    hints: Hints | None = None,
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the tensor of `shape` whose element at (i, j, …) is `fn(i, j, …)`.

    `fn` returns an expression, a Python number, or a reduction (`sum`, `max`, `min`, `prod`). Its
    parameter names, or else `axes`, name the axes. `hints` are for the search (lang/hints.py).
    Raise LanguageError where that has no meaning: a wrong rank, mixed dtypes, a read outside of a
    tensor, a bad name.
    """
    check_tensor_name(name)
    extents = extents_of(shape, name)
    names = _axis_names(fn, len(extents), name) if axes is None else tuple(axes)
    for axis in names:
        check_axis_name(axis)
    if len(names) != len(extents) or len(set(names)) != len(names):
        raise LanguageError(f"'{name}' of shape {extents} needs as many different axes: {names}")
    try:
        value = fn(*(Var(axis) for axis in names))
    except LanguageError as error:
        raise LanguageError(f"in the definition of '{name}': {error}") from error
    space = tuple(Axis(axis, extent) for axis, extent in zip(names, extents, strict=True))
    op = _op(str(name), space, value, as_hints(hints or {}))
    check_op(op)
    return Tensor(op.buffer, op, isinstance(name, AutoName))


def _op(
    name: str, space: tuple[Axis, ...], value: Value | Reduction, hints: tuple[tuple[str, str], ...]
) -> ComputeOp:
    reduction = value if isinstance(value, Reduction) else None
    body = reduction.body if reduction is not None else _scalar(name, value)
    reduce = {} if reduction is None else _reduce_axes(space, reduction)
    body = _without_reduce_axes(name, body, reduce)
    buffer = Buffer(name, tuple(axis.extent for axis in space), dtype_of(body))
    combiner = None if reduction is None else reduction.combiner
    axes = tuple(axis for axis, _ in reduce.values())
    return ComputeOp(name, buffer, space, axes, combiner, body, hints)


def _scalar(name: str, value: Value | Reduction) -> Expr:
    if isinstance(value, (Operand, int, float)):
        return as_expr(value)
    raise LanguageError(
        f"the function of '{name}' returned {value!r} ({type(value).__name__}); "
        "return one expression"
    )


def _reduce_axes(space: tuple[Axis, ...], reduction: Reduction) -> dict[int, tuple[Axis, int]]:
    """Return the axis and the first value of each reduce axis, by identity."""
    taken = {axis.name for axis in space}
    found: dict[int, tuple[Axis, int]] = {}
    for axis in reduction.axes:
        name = unique_name(axis.name, taken)
        taken.add(name)
        found[id(axis)] = (Axis(name, axis.extent), axis.lo)
    return found


def _without_reduce_axes(name: str, body: Expr, reduce: Mapping[int, tuple[Axis, int]]) -> Expr:
    def rule(node: Node) -> Node | None:
        if not isinstance(node, ReduceAxis):
            return None
        if id(node) not in reduce:
            raise LanguageError(
                f"'{name}' uses the reduce axis '{node.name}' but does not reduce over it; "
                "list it in axis= of sum, max, min or prod"
            )
        axis, lo = reduce[id(node)]
        return Var(axis.name) + lo if lo else Var(axis.name)

    return rewrite(body, rule)


def _axis_names(fn: Body, rank: int, name: str) -> tuple[str, ...]:
    parameters = inspect.signature(fn).parameters.values()
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        names += [f"i{place}" for place in range(len(names), rank)]
    if len(names) != rank:
        raise LanguageError(
            f"'{name}' has {rank} dimensions, but its function takes {len(names)} parameters "
            f"({', '.join(names)}); it takes one index a dimension"
        )
    return tuple(names)
