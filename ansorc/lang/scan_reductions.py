"""Reductions in the step of a scan: short ones over states are written out, others are loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from ansorc.errors import LanguageError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import BinaryOp, Expr, Load, Var, binary, const, dtype_of
from ansorc.ir.node import Node, rewrite, walk_distinct
from ansorc.lang.compute_op import Axis, StateBuffer, StepSum
from ansorc.lang.let import write_lets_out
from ansorc.lang.naming import unique_name
from ansorc.lang.reduction import Reduction, ReductionLoad
from ansorc.lang.scan import StateVar

MOST_TERMS = 256
"""The most terms of a reduction over states that are written out: each is code of its own."""


class StepReductions:
    """The reductions over states in the steps of the scan `name` over the axes `space`."""

    def __init__(self, name: str, space: Sequence[Axis]) -> None:
        self._name = name
        self._space = {axis.name for axis in space}
        self._extents: dict[str, int] = {}
        self._known: dict[tuple[object, ...], StepSum] = {}

    @property
    def sums(self) -> tuple[StepSum, ...]:
        """Those that are loops, each once."""
        return tuple(self._known.values())

    def replace(self, expr: Expr, *, is_inner: bool = False) -> Expr:
        """Return `expr` with each reduction that reads states as its terms, or as a loop's value.

        `is_inner`: `expr` is the term of another one. Raise LanguageError for other reductions in
        there, and for long ones.
        """

        def rule(node: Node) -> Node | None:
            if not isinstance(node, ReductionLoad) or not _reads_states(node.reduction.body):
                return None
            return self._replacement(node.reduction, is_inner=is_inner)

        return rewrite(write_lets_out(expr), rule)

    def _replacement(self, reduction: Reduction, *, is_inner: bool) -> Expr:
        is_long = prod(axis.extent for axis in reduction.axes) > MOST_TERMS
        body = write_lets_out(reduction.body)
        body = body if is_long else self.replace(body, is_inner=True)
        has_other = any(isinstance(node, ReductionLoad) for node in walk_distinct(body))
        if has_other or (is_long and is_inner):
            raise LanguageError(
                f"the step of '{self._name}' reduces states with a reduction of something else "
                "inside: put that in its own compute"
            )
        if any(axis.bounds for axis in reduction.axes):
            raise LanguageError(
                f"the step of '{self._name}' reduces states over a range that is data; reduce over "
                "all of them, and what does not belong to the range as 0"
            )
        if not is_long:
            return _write_out(reduction, body)
        axes = self._loop_axes(reduction)
        values: dict[int, Expr] = {}
        for axis, loop in zip(reduction.axes, axes, strict=True):
            var: Expr = Var(loop.name)
            values[id(axis.expr)] = binary(BinaryOp.ADD, var, const(axis.lo)) if axis.lo else var
        term = rewrite(body, lambda node: values.get(id(node)))
        key = axes, reduction.combiner, term
        if key not in self._known:
            title = f"{self._name}.step{len(self._known)}"
            scalar = Buffer(title, (), dtype_of(term), Scope.LOCAL)
            self._known[key] = StepSum(scalar, axes, reduction.combiner, term)
        return Load(self._known[key].buffer, ())

    def _loop_axes(self, reduction: Reduction) -> tuple[Axis, ...]:
        """Return the axes of a loop. A name has one extent in all loops, and one axis in each."""
        axes: list[Axis] = []
        for axis in reduction.axes:
            others = {name for name, extent in self._extents.items() if extent != axis.extent}
            name = unique_name(axis.name, self._space | others | {each.name for each in axes})
            self._extents[name] = axis.extent
            axes.append(Axis(name, axis.extent))
        return tuple(axes)


def _reads_states(expr: Expr) -> bool:
    for node in walk_distinct(write_lets_out(expr)):
        if isinstance(node, StateVar):
            return True
        if isinstance(node, ReductionLoad):
            if _reads_states(node.reduction.body):
                return True
        elif isinstance(node, Load) and isinstance(node.buffer, StateBuffer):
            return True
    return False


def _write_out(reduction: Reduction, body: Expr) -> Expr:
    """Return the terms of a reduction combined, in halves."""
    ranges = (range(axis.lo, axis.lo + axis.extent) for axis in reduction.axes)
    places = [id(axis.expr) for axis in reduction.axes]
    terms = [
        _term(body, dict(zip(places, each, strict=True))) for each in itertools.product(*ranges)
    ]
    return _combine(reduction, terms)


def _term(body: Expr, values: dict[int, int]) -> Expr:
    def rule(node: Node) -> Node | None:
        return const(values[id(node)]) if id(node) in values else None

    return rewrite(body, rule)


def _combine(reduction: Reduction, terms: Sequence[Expr]) -> Expr:
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    left, right = _combine(reduction, terms[:half]), _combine(reduction, terms[half:])
    return reduction.combiner.combine(left, right)
