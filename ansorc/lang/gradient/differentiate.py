"""Differentiate the body of a computation: what flows back to each load of a tensor.

The flow goes from the result of the expression to its leaves, and flows that meet in a node are
added, so the expressions that come out have as many nodes as the body, not as it has paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.ir.expr import (
    Binary,
    Call,
    Cast,
    Checked,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.node import walk
from ansorc.ir.printer import expr_text
from ansorc.lang.gradient.rules import flow_back
from ansorc.lang.gradient.terms import add, is_number


@dataclass(frozen=True)
class Flow:
    """`value` flows back to the element that `load` reads, where all `guards` hold."""

    load: Load
    guards: tuple[Expr, ...]
    value: Expr


class Differentiation:
    """The derivatives of one body by the loads that `is_wanted` accepts."""

    def __init__(self, name: str, is_wanted: Callable[[Load], bool]) -> None:
        self._name, self._is_wanted = name, is_wanted
        self._depends: dict[Expr, bool] = {}

    def run(
        self, body: Expr, flow: Expr, guards: tuple[Expr, ...], known: Mapping[Expr, Expr]
    ) -> Iterator[Flow]:
        """Yield what flows back to the loads of `body` if `flow` does to its value.

        `known` maps expressions to others of the same value, such as loads of the result. Raise
        LanguageError for an operation whose derivative is not known.
        """
        if not self._is_dependent(body):
            return
        flows: dict[Expr, Expr] = {body: flow}
        for node in reversed(self._children_first(body)):
            arriving = flows.get(node)
            if arriving is None or is_number(arriving, 0):
                continue
            if isinstance(node, Load):
                yield Flow(node, guards, arriving)
            elif isinstance(node, Select):
                for arm, guard in self._arms(node):
                    inside = {**known, arm: known[node]} if node in known else known
                    yield from self.run(arm, arriving, (*guards, guard), inside)
            else:
                for operand, share in self._flow_back(node, known.get(node, node), arriving):
                    if self._is_dependent(operand):
                        before = flows.get(operand)
                        flows[operand] = share if before is None else add(before, share)

    def _arms(self, node: Select) -> tuple[tuple[Expr, Expr], ...]:
        return (node.then, node.condition), (node.otherwise, Not(node.condition))

    def _flow_back(self, node: Expr, value: Expr, flow: Expr) -> list[tuple[Expr, Expr]]:
        shares = flow_back(node, value, flow)
        if shares is None:
            raise LanguageError(
                f"ac.gradient: the derivative of {expr_text(node)} in '{self._name}' is not known; "
                "write it by functions that have one"
            )
        return shares

    def _children_first(self, body: Expr) -> list[Expr]:
        """Return the nodes that depend on wanted loads, without those inside arms of choices."""
        order: dict[Expr, None] = {}
        stack = [(body, False)]
        while stack:
            node, is_ready = stack.pop()
            if node in order:
                continue
            if is_ready or isinstance(node, Load | Select):
                order[node] = None
                continue
            stack.append((node, True))
            stack += [(child, False) for child in operands_of(node) if self._is_dependent(child)]
        return list(order)

    def _is_dependent(self, expr: Expr) -> bool:
        """Return whether a derivative of `expr` may be other than 0."""
        known = self._depends.get(expr)
        if known is None:
            known = self._depends[expr] = self._find_dependence(expr)
        return known

    def _find_dependence(self, expr: Expr) -> bool:
        if not dtype_of(expr).is_float:
            return False
        if isinstance(expr, Load):
            return self._is_wanted(expr)
        if isinstance(expr, Const | Var):
            return False
        if isinstance(expr, Select):
            return self._is_dependent(expr.then) or self._is_dependent(expr.otherwise)
        operands = operands_of(expr)
        if operands:
            return any(map(self._is_dependent, operands))
        return any(isinstance(node, Load) and self._is_wanted(node) for node in walk(expr))


def operands_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands through which a derivative of `expr` flows."""
    match expr:
        case Binary(_, left, right):
            return left, right
        case Call(_, args):
            return args
        case Cast(_, operand) | Checked(operand):
            return (operand,)
        case _:
            return ()
