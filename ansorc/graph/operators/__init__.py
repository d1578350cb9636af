"""The operators that a graph may have, by name: all of `ac.ops`, and what frameworks add."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.errors import GraphError
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.operators.elementwise import ELEMENTWISE
from ansorc.lang import operators as ops

_TAKE_LISTS = ("concat", "stack")

OPERATORS: Mapping[str, GraphOperator] = {
    name: GraphOperator(name, getattr(ops, name), takes_list=name in _TAKE_LISTS)
    for name in ops.__all__
} | {name: GraphOperator(name, define) for name, define in ELEMENTWISE.items()}
"""A definition of `ELEMENTWISE` replaces the one of `ac.ops` that has its name."""


def operator_named(name: str) -> GraphOperator:
    """Return the operator `name`; raise GraphError if there is none."""
    if name not in OPERATORS:
        raise GraphError(f"there is no operator '{name}' for graphs; see ac.ops")
    return OPERATORS[name]
