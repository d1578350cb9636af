"""Random nodes of every operator of ONNX, of every version from opset 7 on."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx
from onnx import defs

from ansorc.graph.onnx.model import MAX_OPSET, MIN_OPSET
from ansorc.ir.aligned import Array
from tests.graph.onnx.node_case import CaseMaker, Draw, NodeCase
from tests.graph.onnx.node_cases_math import MATH
from tests.graph.onnx.node_cases_microsoft import MICROSOFT
from tests.graph.onnx.node_cases_network import NETWORK
from tests.graph.onnx.node_cases_tensor import TENSOR
from tests.graph.onnx.onnx_peer import with_output_types
from tests.support.onnx_oracle import node_model

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
        given = [n for n, one in enumerate(case.inputs) if one is not None]
        known = given if folded else [n for n in given if n in case.known]
        domain, _, kind = self.operator.rpartition("::")
        model, inputs = node_model(
            kind, case.inputs, known=known, outputs=case.outputs,
            opset=max(self.opset, MIN_OPSET), domain=domain, **case.attributes,
        )  # fmt: skip
        model.ir_version = 10
        return with_output_types(model), inputs


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
