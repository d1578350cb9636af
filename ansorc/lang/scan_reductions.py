"""Reductions in the step of a scan: those over states are written out, others become stages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from ansorc.errors import LanguageError
from ansorc.ir.expr import Expr, Load, const
from ansorc.ir.node import Node, rewrite, walk_distinct
from ansorc.lang.compute_op import StateBuffer
from ansorc.lang.let import write_lets_out
from ansorc.lang.reduction import Reduction, ReductionLoad
from ansorc.lang.scan import StateVar

MOST_TERMS = 256
"""The most terms of a reduction over states: each is code of its own."""


def write_out_reductions(name: str, expr: Expr) -> Expr:
    """Return `expr` with each reduction that reads states of a scan as the terms that it combines.

    Raise LanguageError if these are too many.
    """

    def rule(node: Node) -> Node | None:
        if not isinstance(node, ReductionLoad) or not _reads_states(node.reduction.body):
            return None
        return _write_out(name, node.reduction)

    return rewrite(write_lets_out(expr), rule)


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


def _write_out(name: str, reduction: Reduction) -> Expr:
    """Return the terms of a reduction combined, in halves."""
    count = prod(axis.extent for axis in reduction.axes)
    if count > MOST_TERMS:
        raise LanguageError(
            f"the step of '{name}' reduces {count} states, and the most are {MOST_TERMS}: such a "
            "reduction is written out in the step"
        )
    body = write_out_reductions(name, reduction.body)
    if any(isinstance(node, ReductionLoad) for node in walk_distinct(body)):
        raise LanguageError(
            f"the step of '{name}' reduces states with a reduction of something else inside: put "
            "that in its own compute"
        )
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
