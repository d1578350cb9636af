"""Which scales move behind a product."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.passes.sink_scales import sink_scales
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.graph.passes.test_pass_guards import assert_kept


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan, 1e-30, 3e38])
@pytest.mark.parametrize("operator", ["multiply", "divide"])
def test_only_usual_numbers_move_behind_a_product(operator: str, number: float) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    y = builder.add(operator, [x, builder.scalar(number, x)])
    z = builder.add("matmul", [y, builder.constant(np.ones((3, 2), np.float32))])
    graph = builder.graph([z])
    names = [str(node.operator) for node in sink_scales(graph).nodes]
    assert names == [operator, "matmul"]
    assert_kept(graph)
