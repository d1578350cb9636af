"""`with_precision`: the precision of a network as its user chooses it."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, cast, overload

from ansorc.errors import OptionError
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.narrow_storage import PRODUCTS
from ansorc.ir.dtype import FLOAT32

Precision: TypeAlias = Literal["f32", "bf16", "f16"]
PRECISIONS: Mapping[str, str] = {"f32": "", "bf16": "bfloat16", "f16": "float16"}
"""What float32 results are kept in between kernels, by the name of a precision."""
STARTS = (
    *PRODUCTS, "attention", "attention_scores", "capsule_conv2d", "conv2d_winograd",
    "deformable_conv2d", "einsum",
)  # fmt: skip
"""Operators whose results are narrow, whatever they read."""
LOOKUPS = ("embedding", "gather", "gather_nd", "take")
"""Operators whose results are as narrow as the weights that they look up."""
STATES = ("gru_cell", "gru_reset", "lstm_cell", "rnn_cell")
"""Operators whose results go on from step to step: rounded at each, the state would drift away."""


def with_precision(graph: Graph, precision: str, keep: Sequence[str] = ()) -> Graph:
    """Return `graph`, kept in `precision` between kernels: "f32", "bf16" or "f16".

    Narrow are the results of products, and what is computed from them; sums, norms and softmax are
    computed in float32 and rounded once. Numbers that no product makes stay float32, such as masks
    and positions, and so do the states of recurrent layers. What is added to a float32 tensor of
    the same size is float32, as in PyTorch: a residual stream that begins so is not rounded at
    each sum. What looks up weights is as narrow as they are. Inputs and outputs keep their types.
    `keep` exempts nodes, by the names of their tensors or those of the file's nodes.
    Raise OptionError for another precision, and for a name that there is not.
    """
    kept, storage = find_kept_nodes(graph, keep), PRECISIONS[as_precision(precision) or "f32"]
    narrow: set[str] = set()
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        is_float = any(graph.types[name].dtype == FLOAT32 for name in node.outputs)
        begins = node.builtin in STARTS or bool(node.storage) or _follows(graph, node, narrow)
        is_exempt = node.name in kept or node.builtin in STATES
        is_looked_up = node.builtin in LOOKUPS and _reads_weights(graph, node)
        is_narrow = bool(storage) and is_float and (begins or is_looked_up) and not is_exempt
        if is_float and begins:
            narrow.update(node.outputs)
        nodes.append(replace(node, storage=storage if is_narrow else ""))
    return graph.with_nodes(tuple(nodes))


def _follows(graph: Graph, node: GraphNode, narrow: Container[str]) -> bool:
    """Return whether a node reads narrow tensors, and none in float32 that is as large as they."""
    data = [name for name in node.inputs if graph.types[name].dtype == FLOAT32]
    follows = [name for name in data if name in narrow]
    least = min((graph.types[name].elements for name in follows), default=0)
    wide = (name for name in data if name not in narrow and name not in graph.constants)
    return bool(follows) and all(graph.types[name].elements < least for name in wide)


def _reads_weights(graph: Graph, node: GraphNode) -> bool:
    """Return whether a node reads constants of float32."""
    return any(
        name in graph.constants and graph.types[name].dtype == FLOAT32 for name in node.inputs
    )


def as_precision(given: object) -> Precision | None:
    """Return what a user gives as a precision; raise OptionError for what is none."""
    if given is None or given in PRECISIONS:
        return cast("Precision | None", given)
    integers = "; int8 needs data: ac.quantize(graph, data)" if given == "int8" else ""
    raise OptionError(f"there is no precision '{given}'; use {', '.join(PRECISIONS)}{integers}")


def keep_in_float32(graph: Graph, keep: Sequence[str]) -> Graph:
    """Return `graph`, of whose nodes those named by `keep` have results of float32.

    Raise OptionError for a name that there is not.
    """
    kept = find_kept_nodes(graph, keep)
    return graph.with_nodes(
        tuple(replace(n, storage="") if n.name in kept else n for n in graph.nodes)
    )


@overload
def choose_precision(graph: Graph, precision: str | None, keep: Sequence[str] = ()) -> Graph: ...
@overload
def choose_precision(
    graph: Graph | GraphVariants, precision: str | None, keep: Sequence[str] = ()
) -> Graph | GraphVariants: ...
def choose_precision(
    graph: Graph | GraphVariants, precision: str | None, keep: Sequence[str] = ()
) -> Graph | GraphVariants:
    """Return a network in `precision`; None: as it is, but for the nodes of `keep`."""
    if isinstance(graph, GraphVariants):
        return replace(graph, graphs=tuple(choose_precision(g, precision, keep) for g in graph))
    if precision is None:
        return keep_in_float32(graph, keep) if keep else graph
    return with_precision(graph, precision, keep)


def find_kept_nodes(graph: Graph, keep: Sequence[str]) -> set[str]:
    """Return the names of the nodes that `keep` names; raise OptionError."""
    kept: set[str] = set()
    for given in keep:
        named = [node.name for node in graph.nodes if given in _names(node)]
        if not named:
            raise OptionError(
                f"keep names '{given}', which no node or tensor of '{graph.name}' is called; "
                "print(graph) lists them, their names in the file behind #"
            )
        kept.update(named)
    return kept


def _names(node: GraphNode) -> set[str]:
    """Return what a node may be called: its outputs, and its name in the file."""
    return {*node.outputs, *source_names(node)}


def source_names(node: GraphNode) -> Sequence[str]:
    """Return the name that a node has in its file, if it has one."""
    return re.findall(r"'([^']+)'", node.source)[:1]
