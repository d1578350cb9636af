"""Random nodes of every operator of ONNX, of every version from opset 7 on."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from graph.node_case import CaseMaker, Draw, NodeCase
from graph.node_cases_math import MATH
from graph.node_cases_microsoft import MICROSOFT
from graph.node_cases_network import NETWORK
from graph.node_cases_tensor import TENSOR
from graph.onnx_peer import with_output_types
from onnx import defs, helper, numpy_helper

from ansorc.graph.onnx.model import MAX_OPSET, MIN_OPSET
from ansorc.ir.aligned import Array

CASES: Mapping[str, CaseMaker] = {**MATH, **TENSOR, **NETWORK, **MICROSOFT}


@dataclass(frozen=True)
class RandomNode:
    """A node, and what it is a random one of."""

    operator: str
    opset: int
    """The first version of the operators that has this meaning of it."""
    case: NodeCase

    def model(self, *, folded: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """Return a model of the node, and its inputs: none where all of them are constants."""
        case = self.case
        names = [f"x{n}" if one is not None else "" for n, one in enumerate(case.inputs)]
        given = {n: one for n, one in zip(names, case.inputs, strict=True) if one is not None}
        fixed = set(given) if folded else {f"x{n}" for n in case.known}
        kinds = {name: helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in given.items()}
        results = [f"y{n}" for n in range(case.outputs)]
        domain, _, kind = self.operator.rpartition("::")
        node = helper.make_node(kind, names, results, "node", domain=domain, **case.attributes)
        graph = helper.make_graph(
            [node],
            "net",
            [
                helper.make_tensor_value_info(name, kinds[name], one.shape)
                for name, one in given.items()
                if name not in fixed
            ],
            [helper.make_empty_tensor_value_info(name) for name in results],
            [numpy_helper.from_array(one, name) for name, one in given.items() if name in fixed],
        )
        opsets = [helper.make_opsetid("", max(self.opset, MIN_OPSET))]
        if domain:
            opsets.append(helper.make_opsetid(domain, 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return with_output_types(model), {
            name: one for name, one in given.items() if name not in fixed
        }


@cache
def versions(operator: str) -> tuple[int, ...]:
    """Return the opsets from which on an operator has a meaning of its own, since the first."""
    if "::" in operator:
        return (17,)
    found = {
        max(schema.since_version, MIN_OPSET)
        for schema in defs.get_all_schemas_with_history()
        if schema.domain == "" and schema.name == operator and not schema.deprecated
        if schema.since_version <= MAX_OPSET
    }
    return tuple(sorted(found))


def random_node(operator: str, seed: int) -> RandomNode:
    """Return a random node of `operator`."""
    rng = np.random.default_rng([zlib.crc32(operator.encode()), seed])
    known = versions(operator)
    draw = Draw(rng, 0)
    draw.opset = int(draw.one_of(*known))
    return RandomNode(operator, draw.opset, CASES[operator](draw))
