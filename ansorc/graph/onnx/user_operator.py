"""ONNX nodes that a definition of the user's computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from ansorc.errors import AnsorcError, GraphError
from ansorc.graph.graph_operator import GraphOperator, attributes_of
from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import NodeCall

MAX_ATTRIBUTE_ELEMENTS = 4096
"""The most elements of a tensor that becomes a list of numbers."""


def user_outputs(call: NodeCall, operator: GraphOperator) -> list[Value]:
    """Add a node that `operator` defines, and return its outputs."""
    given = _attributes(call)
    names = [call.input(position) for position in range(call.count) if call.has(position)]
    if any(call.node.inputs[len(names) :]):
        call.refuse("an input in the middle is left out; a registered definition takes all before")
    types = tuple(call.builder.type(name) for name in names)
    try:
        count = len(operator.types(types, attributes_of(given)))
    except AnsorcError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise GraphError(f"{call.node}: its registered definition raised {words}") from error
    return list(call.builder.add_many(operator, names, [""] * count, **given))


def _attributes(call: NodeCall) -> Mapping[str, object]:
    attributes: dict[str, object] = {}
    for name, value in call.node.attributes.items():
        if not isinstance(value, np.ndarray):
            attributes[name] = value
            continue
        array = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value)
        if array.size > MAX_ATTRIBUTE_ELEMENTS:
            call.refuse(f"its attribute '{name}' is a tensor of {array.size} elements; too many")
        attributes[name] = array.tolist()
    return attributes
