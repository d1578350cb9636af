"""Which nodes a transposition moves behind."""

from __future__ import annotations

import numpy as np

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.passes.move_views import sink_transposes
from ansorc.ir.dtype import INT8
from tests.graph.passes.test_pass_guards import assert_kept, own, transposed


def test_a_scale_for_each_place_along_the_last_axis_stays_behind_a_transposition() -> None:
    for shape in ((3, 3), (2, 3, 4)):
        builder = GraphBuilder()
        y = transposed(builder, shape, INT8)
        scale = builder.constant(np.arange(1, shape[-1] + 1, dtype=np.float32))
        axis = len(shape) - 1
        assert_kept(builder.graph([builder.add("dequantize", [y, scale], axis=axis)]))


def test_an_axis_of_extent_1_is_reversed_where_it_is() -> None:
    builder = GraphBuilder()
    y = transposed(builder, (1, 4))
    assert_kept(builder.graph([builder.add("flip", [y], axis=0)]))


def test_a_definition_that_asks_for_extents_stays_behind_a_transposition() -> None:
    def by_rows(x: ac.Tensor) -> ac.Tensor:
        return ac.compute(x.shape, lambda *i: x[i] / float(x.shape[0]), name="by_rows")

    builder = GraphBuilder()
    y = transposed(builder, (2, 5))
    graph = builder.graph([builder.add(own("my::ByRows", by_rows), [y])])
    assert_kept(graph)
    names = [str(node.operator) for node in sink_transposes(graph).nodes]
    assert names[-2:] == ["transpose", "my::ByRows"]


def test_a_definition_that_refuses_other_shapes_stays_behind_a_transposition() -> None:
    def two_rows(x: ac.Tensor) -> ac.Tensor:
        if x.shape[0] != 2:
            raise ValueError("two rows, please")
        return ac.compute(x.shape, lambda *i: x[i] + 1.0, name="two_rows")

    builder = GraphBuilder()
    y = transposed(builder, (2, 5))
    assert_kept(builder.graph([builder.add(own("my::TwoRows", two_rows), [y])]))
