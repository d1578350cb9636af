"""Scales and shifts behind a product are folded into its weights where that is exact."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.passes.fold_affine import fold_affine
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.graph.passes.test_pass_guards import NUMBERS, assert_kept
from tests.graph.small_networks import inputs_of


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [(2, 3), (1,), None, -1])
def test_a_reduction_may_follow_a_product(reduction: str, axis: object) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (1, 3, 4, 4)))
    w = builder.constant(NUMBERS.standard_normal((2, 3, 1, 1)).astype(np.float32))
    y = builder.add("conv2d", [x, w], layout="NCHW")
    assert_kept(builder.graph([builder.add(reduction, [y], axis=axis)]))


def test_scales_that_are_no_numbers_stay_behind_a_product() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    y = builder.add("matmul", [x, builder.constant(np.zeros((3, 2), np.float32))])
    scale = builder.constant(np.array([np.inf, 1], np.float32))
    z = builder.add("batch_norm", [y, scale, builder.constant(np.ones(2, np.float32))], axis=1)
    graph = builder.graph([z])
    inputs = inputs_of(graph)
    wanted, found = (run_reference(one, inputs)[z] for one in (graph, fold_affine(graph)))
    np.testing.assert_array_equal(wanted, found)
    assert "batch_norm" in [str(node.operator) for node in fold_affine(graph).nodes]
