"""Reductions inside of an expression, or of another reduction, become stages of their own.

    C[i] = sum(A[i, k], axis=k) / 16 + B[i]     ->     C.sum[i] = sum(A[i, k], axis=k)
                                                       C[i] = C.sum[i] / 16 + B[i]

A stage has those axes of its reader that its terms use, in their order. It is computed whatever the
conditions around the reduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Expr, Var, dtype_of
from ansorc.ir.node import Node, rewrite, walk_distinct
from ansorc.lang.canonical import rename_op
from ansorc.lang.check import check_op
from ansorc.lang.compute_op import Axis, ComputeOp, sizes_of
from ansorc.lang.let import LetLoad, write_lets_out
from ansorc.lang.naming import unique_name
from ansorc.lang.ragged import with_known_extent
from ansorc.lang.reduction import ReduceAxis, ReduceVar, Reduction, ReductionLoad
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.shared_values import with_shared_values
from ansorc.lang.tensor import Tensor

Numbered = Mapping[int, tuple[Axis, int]]
"""The axis and the first value of each reduce axis, by the identity of its variable."""


def number_reduce_axes(
    space: tuple[Axis, ...], axes: Sequence[ReduceAxis]
) -> dict[int, tuple[Axis, int]]:
    """Return the axis and the first value of each reduce axis, by identity."""
    taken = {axis.name for axis in space}
    numbered: dict[int, tuple[Axis, int]] = {}
    for axis in axes:
        name = unique_name(axis.name, taken)
        taken.add(name)
        bounds = map(write_lets_out, axis.bounds)
        numbered[id(axis.expr)] = (_axis(name, axis, tuple(bounds)), axis.lo)
    return numbered


def _axis(name: str, axis: ReduceAxis, bounds: tuple[Expr, ...]) -> Axis:
    begin, end = bounds or (None, None)
    return Axis(name, axis.extent, begin, end, axis.size)


def without_reduce_axes(name: str, body: Expr, reduce: Numbered) -> Expr:
    """Return `body` of the tensor `name` in terms of the axes of `number_reduce_axes`.

    Raise LanguageError for another reduce axis, and for a reduction inside of it.
    """

    def rule(node: Node) -> Node | None:
        if isinstance(node, ReductionLoad):
            raise LanguageError(f"in '{name}', {node.reduction.advice()}")
        if not isinstance(node, ReduceVar):
            return None
        if id(node) not in reduce:
            raise LanguageError(
                f"'{name}' uses the reduce axis '{node.name}' but does not reduce over it; "
                "list it in axis= of the reduction"
            )
        axis, lo = reduce[id(node)]
        return Var(axis.name) + lo if lo else Var(axis.name)

    return rewrite(write_lets_out(body), rule)


@dataclass
class InnerReductions:
    """Takes the reductions out of the expressions of one computation.

    `axes` are its axes, reduce axes too; `reduce` has its reduce axes, and those of its readers
    that are axes here.
    """

    name: str
    axes: tuple[Axis, ...]
    reduce: Numbered
    _stages: dict[ComputeOp, Tensor] = field(default_factory=dict[ComputeOp, Tensor])
    """The stage of each reduction, without its names: equal ones are computed once."""

    def take_out(self, expr: Expr) -> Expr:
        """Return `expr` with each reduction in it read from a stage."""
        if not any(isinstance(node, ReductionLoad | LetLoad) for node in walk_distinct(expr)):
            return expr
        return rewrite(write_lets_out(expr), self._read)

    def _read(self, node: Node) -> Node | None:
        if not isinstance(node, ReductionLoad):
            return None
        op, axes = self._stage(node.reduction)
        names = {buffer.name: buffer.name for buffer in op.reads} | {op.name: "stage"}
        tensor = self._stages.setdefault(
            rename_op(op, names), Tensor(op.buffer, op, has_auto_name=True)
        )
        return tensor[tuple(Scalar(Var(axis.name)) for axis in axes)].expr

    def _stage(self, reduction: Reduction) -> tuple[ComputeOp, tuple[Axis, ...]]:
        """Return the computation of a reduction, and its axes."""
        used = self._used(reduction)
        space = tuple(axis for axis in self.axes if axis.name in used)
        own = number_reduce_axes(space, reduction.axes)
        outer = {key: pair for key, pair in self.reduce.items() if pair[0].name in used}
        numbered = {**outer, **own}
        name = f"{self.name}.{reduction.combiner.value}"
        axes = tuple(
            axis.with_bounds(lambda bound: without_reduce_axes(name, bound, outer))
            for axis, _ in own.values()
        )
        inner = InnerReductions(name, (*space, *axes), numbered, self._stages)
        body = without_reduce_axes(name, inner.take_out(reduction.body), numbered)
        axes = tuple(with_known_extent(axis, [body], name) for axis in axes)
        shape, sizes = tuple(axis.extent for axis in space), sizes_of(space)
        buffer = Buffer(name, shape, dtype_of(body), sizes=sizes)
        op = ComputeOp(name, buffer, space, axes, reduction.combiner, body)
        op = with_shared_values(op)
        check_op(op)
        return op, space

    def _used(self, reduction: Reduction) -> set[str]:
        """Return the names of the axes that a reduction uses, besides its own."""
        used, own = set[str](), {id(axis.expr) for axis in reduction.axes}
        bounds = (bound for axis in reduction.axes for bound in axis.bounds)
        exprs = (reduction.body, *bounds)
        for node in (node for expr in exprs for node in walk_distinct(write_lets_out(expr))):
            if isinstance(node, ReductionLoad):
                used |= self._used(node.reduction) - self._names(own)
            elif isinstance(node, ReduceVar):
                used |= set() if id(node) in own else self._names({id(node)})
            elif isinstance(node, Var):
                used.add(node.name)
        return used

    def _names(self, variables: set[int]) -> set[str]:
        return {self.reduce[key][0].name for key in variables if key in self.reduce}
