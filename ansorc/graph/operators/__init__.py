"""The operators that a graph may have, by name: all of `ac.ops`, and what frameworks add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.errors import GraphError
from ansorc.graph.graph_operator import GraphOperator
from ansorc.graph.operators.activation import ACTIVATIONS
from ansorc.graph.operators.attention import ATTENTION
from ansorc.graph.operators.einsum import EINSUM
from ansorc.graph.operators.elementwise import ELEMENTWISE
from ansorc.graph.operators.indexing import INDEXING
from ansorc.graph.operators.loss import LOSSES
from ansorc.graph.operators.normalization import NORMALIZATION
from ansorc.graph.operators.patches import PATCHES
from ansorc.graph.operators.pool import POOL
from ansorc.graph.operators.quantized import QUANTIZED
from ansorc.graph.operators.recurrent import RECURRENT
from ansorc.graph.operators.reduce import REDUCTIONS
from ansorc.graph.operators.registered import find_registered
from ansorc.graph.operators.resize import RESIZE
from ansorc.graph.operators.rois import ROIS
from ansorc.graph.operators.sampling import SAMPLING
from ansorc.graph.operators.view import VIEWS
from ansorc.lang import operators as ops
from ansorc.lang.operators.sorting import SORTING
from ansorc.lang.tensor import Tensor

_TAKE_LISTS = ("concat", "einsum", "stack")
_DEFINITIONS: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    **{name: getattr(ops, name) for name in ops.__all__},
    **ELEMENTWISE,
    **ATTENTION,
    **ACTIVATIONS,
    **EINSUM,
    **INDEXING,
    **LOSSES,
    **NORMALIZATION,
    **PATCHES,
    **POOL,
    **QUANTIZED,
    **RECURRENT,
    **REDUCTIONS,
    **ROIS,
    **SAMPLING,
    **SORTING,
    **VIEWS,
    **RESIZE,
}
"""A definition of a graph's own replaces the one of `ac.ops` that has its name."""

OPERATORS: Mapping[str, GraphOperator] = {
    name: GraphOperator(name, define, takes_list=name in _TAKE_LISTS)
    for name, define in _DEFINITIONS.items()
}

_RENAMED: Mapping[str, str] = {"max_pool_places": "max_pool_with_indices"}
"""The present names of operators that graphs printed by earlier versions call otherwise."""


def operator_named(name: str) -> GraphOperator:
    """Return the operator `name`, maybe a registered one; raise GraphError if there is none.

    The name of an earlier version is accepted.
    """
    operator = OPERATORS.get(_RENAMED.get(name, name)) or find_registered(name)
    if operator is None:
        raise GraphError(f"there is no operator '{name}' for graphs; see ac.ops")
    return operator
