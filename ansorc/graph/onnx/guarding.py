"""Whose fault it is when a node cannot be imported: the file's, or ansorc's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ansorc.errors import AnsorcError, GraphError, InternalError
from ansorc.graph.importing import guarding
from ansorc.graph.importing.converter_call import inputs_text
from ansorc.graph.onnx.model import describe, is_onnx_operator, refusal_by_onnx
from ansorc.graph.onnx.node_call import NodeCall
from ansorc.ir.aligned import Array

T = TypeVar("T")


def convert_node(call: NodeCall, convert: Callable[[], T], *, is_users: bool = False) -> T:
    """Return what `convert` returns for a node; its errors name the node.

    What a converter did not foresee is the file's fault where ONNX's own rules refuse the node:
    then raise GraphError, else InternalError. Of other domains, of operators that `is_users`, and
    of graphs that read what is around them, nobody here has the rules: the GraphError says both.
    """
    return guarding.call_converter(
        call, convert, lambda words: _explain(call, words, is_users=is_users)
    )


def _explain(call: NodeCall, words: str, *, is_users: bool) -> AnsorcError:
    node, types = call.node, call.types()
    fault = InternalError(
        f"{node} could not be imported ({words})",
        f"this node: {describe(node)}, opset {call.opset}, with the inputs {inputs_text(types)}",
    )
    if is_users or not is_onnx_operator(node) or any(node.graphs()):
        return GraphError(
            f"{node}: the node is malformed ({words}); if it is as its operator's "
            f"documentation says, {fault}"
        )
    onnx_types = {name: (kind.dtype.numpy, kind.shape) for name, kind in types.items()}
    refusal = refusal_by_onnx(node, onnx_types, _find_known_values(call))
    return GraphError(f"{node}: the node is malformed: {refusal}") if refusal else fault


def _find_known_values(call: NodeCall) -> dict[str, Array]:
    """Return the values of those inputs that are known."""
    values, types = dict[str, Array](), call.types()
    for position, name in enumerate(call.node.inputs):
        value = call.value(position) if name in types else None
        if value is not None:
            values[name] = value
    return values
