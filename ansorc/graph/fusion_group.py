"""`FusionGroup`: nodes that become one kernel, and the computation that is tuned for them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.importing.weight_pairs import pairs_fit
from ansorc.ir.aligned import Array
from ansorc.ir.expr import Var, const
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.define import compute
from ansorc.lang.hints import FITS
from ansorc.lang.naming import AutoName
from ansorc.lang.tensor import Tensor, placeholder


@dataclass(frozen=True)
class FusionGroup:
    """Nodes in an order in which they can be computed, and the tensors that come in and go out."""

    nodes: tuple[GraphNode, ...]
    inputs: tuple[str, ...]
    """In the kernel's call order; constants of one element are literals in the code instead."""
    outputs: tuple[str, ...]
    """Behind the inputs, in the kernel's call order."""

    @staticmethod
    def of(graph: Graph, nodes: Sequence[GraphNode], copied: Container[str] = ()) -> FusionGroup:
        """Return the group of `nodes` of `graph`; nobody else needs the results of `copied`."""
        computed = {name for node in nodes for name in node.outputs}
        names = {node.name for node in nodes}
        read = dict.fromkeys(name for node in nodes for name in node.inputs)
        inputs = [n for n in read if n not in computed and not _is_literal(graph, n)]
        outputs = [
            name
            for node in nodes
            if node.name not in copied
            for name in node.outputs
            if name in graph.outputs or any(r.name not in names for r in graph.readers[name])
        ]
        return FusionGroup(tuple(nodes), tuple(inputs), tuple(outputs))

    @property
    def title(self) -> str:
        """The operators, for people: "conv2d + bias_add + relu"."""
        return " + ".join(str(node.operator) for node in self.nodes)

    @property
    def name(self) -> str:
        """The operators as a name in C: "conv2d_bias_add_relu"."""
        return "_".join(re.sub(r"\W", "_", str(node.operator)) for node in self.nodes)

    @property
    def line(self) -> str:
        """Its operators and tensors in one line: "conv2d + relu: x, w -> y"."""
        return f"{self.title}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}"

    def dag(self, graph: Graph) -> ComputeDAG:
        """Return what the kernel computes; weights are constant inputs, names do not matter."""
        tensors: dict[str, Tensor] = {}
        for number, name in enumerate(self.inputs):
            kind, is_constant = graph.types[name], name in graph.constants
            tensors[name] = placeholder(kind.shape, f"p{number}", kind.dtype, constant=is_constant)
        given = list(tensors.values())
        for node in self.nodes:
            for name in node.inputs:
                if name not in tensors:
                    tensors[name] = _literal(graph, name)
            inputs = [tensors[name] for name in node.inputs]
            results = node.operator.apply(inputs, node.attributes)
            tensors.update(zip(node.outputs, results, strict=True))
        dag = ComputeDAG([*given, *(tensors[name] for name in self.outputs)])
        known = {f"p{n}": graph.constants.get(name) for n, name in enumerate(self.inputs)}
        return _with_pairs(dag, {n: array for n, array in known.items() if array is not None})


def _with_pairs(dag: ComputeDAG, known: Mapping[str, Array]) -> ComputeDAG:
    """Return `dag` with a hint for products with weights, `known` by their names, whose pairs fit.

    What instructions may compute them depends on it, and so do their keys.
    """
    ops = tuple(
        replace(op, hints=tuple(sorted({**dict(op.hints), FITS: "1"}.items())))
        if _fits(op, known)
        else op
        for op in dag.ops
    )
    changed = any(new is not old for new, old in zip(ops, dag.ops, strict=True))
    return ComputeDAG.of_ops(dag.params, ops) if changed else dag


def _fits(op: ComputeOp, known: Mapping[str, Array]) -> bool:
    """Return whether pairs of weights along the last sum of `op` fit."""
    weights = [load for load in op.loads if load.buffer.name in known] if op.reduce_axes else []
    if len(weights) != 1 or len(op.loads) != 2:
        return False
    (weight,), term = weights, Var(op.reduce_axes[-1].name)
    axes = [axis for axis, index in enumerate(weight.indices) if index == term]
    return len(axes) == 1 and pairs_fit(known[weight.buffer.name], axes[0])


def _is_literal(graph: Graph, name: str) -> bool:
    return name in graph.constants and graph.types[name].elements == 1


def _literal(graph: Graph, name: str) -> Tensor:
    """Return a constant of one element as a tensor that kernels have in their code."""
    kind, value = graph.types[name], graph.constants[name].reshape(-1)[0].item()
    return compute(kind.shape, lambda *_: const(value, kind.dtype), AutoName("literal"))
