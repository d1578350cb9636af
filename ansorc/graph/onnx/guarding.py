"""Whose fault it is when a node cannot be imported: the file's, or ansorc's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ansorc.errors import AnsorcError, GraphError, InternalError
from ansorc.graph.onnx.model import described, is_onnx_operator, refusal_by_onnx
from ansorc.graph.onnx.node_call import NodeCall
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.aligned import Array
from ansorc.lang.arguments import too_deep

T = TypeVar("T")


def guarded(call: NodeCall, convert: Callable[[], T], *, is_users: bool = False) -> T:
    """Return what `convert` returns for a node; its errors name the node.

    What a converter did not foresee is the file's fault where ONNX's own rules refuse the node:
    then raise GraphError, else InternalError. Of other domains, of operators that `is_users`, and
    of graphs that read what is around them, nobody here has the rules: the GraphError says both.
    """
    node = call.node
    try:
        return convert()
    except (GraphError, InternalError, MemoryError):
        raise
    except AnsorcError as error:
        raise GraphError(f"{node}: {error}") from error
    except RecursionError as error:
        raise GraphError(str(too_deep(str(node)))) from error
    except Exception as error:
        words, kinds = f"{type(error).__name__}: {error}", call.types()
        fault = InternalError(f"{node} could not be imported ({words})", _report(call, kinds))
        if is_users or not is_onnx_operator(node) or any(node.graphs()):
            raise GraphError(
                f"{node}: the node is malformed ({words}); if it is as its operator's "
                f"documentation says, {fault}"
            ) from error
        onnx_types = {name: (kind.dtype.numpy, kind.shape) for name, kind in kinds.items()}
        refusal = refusal_by_onnx(node, onnx_types, _known_values(call))
        if refusal:
            raise GraphError(f"{node}: the node is malformed: {refusal}") from error
        raise fault from error


def _known_values(call: NodeCall) -> dict[str, Array]:
    """Return the values of those inputs that are known."""
    values, types = dict[str, Array](), call.types()
    for position, name in enumerate(call.node.inputs):
        value = call.value(position) if name in types else None
        if value is not None:
            values[name] = value
    return values


def _report(call: NodeCall, kinds: dict[str, TensorType]) -> str:
    """Return what to send to those who mend ansorc: the node, and what it reads."""
    inputs = ", ".join(f"'{name}' of {kind}" for name, kind in kinds.items()) or "none"
    return f"this node: {described(call.node)}, opset {call.opset}, with the inputs {inputs}"
