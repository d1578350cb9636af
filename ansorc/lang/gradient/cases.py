"""Split a contribution so that its indices are sums, quotients and remainders of axes.

The index max(i - 1, 0) is i - 1 where that is not less than 0, and 0 elsewhere: two contributions,
whose axes run over what is left to each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ansorc.ir.arith.interval import Interval, narrow
from ansorc.ir.arith.scalar import conjuncts
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.expr import Binary, BinaryOp, Compare, CompareOp, Const, Expr, Load, Not, Select
from ansorc.ir.node import Node, children, rewrite, walk

_MOST = 64
"""The most cases of one contribution; others are decided element by element."""


@dataclass(frozen=True)
class Contribution:
    """`value` is added to the element at `indices` for all values of axes where `guards` hold.

    `axes` are the first and the last value of each axis, by name. Indices that are data are
    `places` instead, by the index of the element; those are None in `indices`.
    """

    axes: Mapping[str, Interval]
    indices: tuple[Expr | None, ...]
    guards: tuple[Expr, ...]
    value: Expr
    places: tuple[tuple[str, Expr], ...] = ()


def split_cases(contribution: Contribution) -> list[Contribution]:
    """Return contributions without min, max and choices of axes in their indices.

    Cases that never happen are left out.
    """
    cases, pending = list[Contribution](), [contribution]
    while pending:
        narrowed = _narrow(pending.pop())
        if narrowed is None:
            continue
        choice = next(_choices(narrowed), None)
        if choice is None or len(cases) + len(pending) > _MOST:
            cases.append(narrowed)
        else:
            pending += list(_both(narrowed, choice))
    return cases


def _choices(contribution: Contribution) -> Iterator[Select]:
    for index in contribution.indices:
        for node in () if index is None else walk(index):
            if isinstance(node, Select) and _is_of_axes(node.condition):
                yield node


def _is_of_axes(condition: Expr) -> bool:
    return not any(isinstance(part, Load | Select) for part in walk(condition))


def _both(contribution: Contribution, choice: Select) -> Iterator[Contribution]:
    """Yield the contribution where the condition of `choice` holds, and where it does not."""
    sides = ((Not(choice.condition), choice.otherwise), (choice.condition, choice.then))
    for guard, arm in sides:

        def rule(node: Node, arm: Expr = arm) -> Node | None:
            return arm if node == choice else None

        indices = tuple(i if i is None else rewrite(i, rule) for i in contribution.indices)
        yield replace(contribution, indices=indices, guards=(*contribution.guards, guard))


def _narrow(contribution: Contribution) -> Contribution | None:
    """Return the contribution with its guards used to shorten axes; None if it never happens."""
    ranges, kept = dict(contribution.axes), list[Expr]()
    for _ in range(2):  # what one guard says of an axis may decide another
        kept = list[Expr]()
        for guard in contribution.guards:
            for part in conjuncts(simplify(guard, ranges)):
                if isinstance(part, Const):
                    if not part.value:
                        return None
                    continue
                kept.append(part)
                if isinstance(part, Compare):
                    narrow(part, ranges)
    indices = tuple(
        index if index is None else _as_choices(simplify(index, ranges), ranges)
        for index in contribution.indices
    )
    return replace(contribution, axes=ranges, indices=indices, guards=tuple(kept))


def _as_choices(index: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """Return `index` with each min and max of integers as a choice."""

    def rule(node: Node) -> Node | None:
        if isinstance(node, Binary) and node.op in (BinaryOp.MIN, BinaryOp.MAX):
            op = CompareOp.LE if node.op is BinaryOp.MIN else CompareOp.GE
            return Select(Compare(op, node.left, node.right), node.left, node.right)
        return None

    if any(isinstance(node, Load) for node in walk(index)):
        return index
    return simplify(rewrite(index, rule), ranges) if list(children(index)) else index
