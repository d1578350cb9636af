"""Features of random programs against what their loops do when they run."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.ir.expr import BinaryOp
from ansorc.ir.node import walk
from ansorc.ir.stmt import If, Store
from ansorc.lang import ComputeDAG, placeholder
from ansorc.lang import operators as ops
from ansorc.schedule import lower, replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import MACHINE_FEATURES, Features, FeatureSet
from ansorc.search.features.access import Access, accesses_of, in_panels
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.sketch import ParallelLoops, Sketch
from ansorc.search.space import (
    Space,
    choice_values,
    design_space,
    extract,
    population_state,
    steps,
)
from ansorc.search.space.genes import Genes
from bench.search.paper_features import PAPER_FEATURES
from tests.search.features import brute_force
from tests.search.features.enumerated import Run
from tests.search.workloads import ZEN, convolution, matmul, smoothing, transpose
from tests.support.nightly import examples

OPTIONS = SearchOptions(max_locations=6, is_simd_aware=False)  # every tile divides


def batch_products() -> ComputeDAG:
    a, b = placeholder((2, 4, 6), name="A"), placeholder((2, 6, 8), name="B")
    return ComputeDAG([a, b, ops.batch_matmul(a, b)])


def depthwise() -> ComputeDAG:
    x, w = placeholder((1, 6, 6, 4), name="X"), placeholder((3, 3, 4), name="W", constant=True)
    return ComputeDAG([x, w, ops.depthwise_conv2d(x, w, padding=1)])


def dilated() -> ComputeDAG:
    x = placeholder((1, 8, 6, 2), name="X")
    w = placeholder((3, 3, 2, 4), name="W", constant=True)
    return ComputeDAG([x, w, ops.relu(ops.conv2d(x, w, padding=2, dilation=2))])


def sums() -> ComputeDAG:
    x = placeholder((6, 8), name="X")
    return ComputeDAG([x, ops.softmax(x)])


OPERATORS = {
    "matrix product": lambda: matmul(8, 12, 6),
    "convolution": lambda: convolution(4, 4, 1, constant=True),
    "convolution of stride 2": lambda: convolution(8, 4, 2),
    "transposition": lambda: transpose(12, 8),
    "smoothing": lambda: smoothing(24),
    "batch of products": batch_products,
    "depthwise convolution": depthwise,
    "dilated convolution": dilated,
    "softmax": sums,
}


@lru_cache
def space_of(name: str) -> Space:
    return design_space(OPERATORS[name](), ZEN, OPTIONS)


def drawn(name: str, seed: int) -> tuple[Sketch, Genes]:
    """Random programs of a random sketch, with one parallel loop at most, so that none is fused."""
    rng = np.random.default_rng(seed)
    sketches = space_of(name).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    genes = sample(sketch, 3, rng, OPTIONS)
    for column, choice in enumerate(sketch.choices, start=len(sketch.variables)):
        if isinstance(choice, ParallelLoops):
            genes[:, column] = np.minimum(genes[:, column], 1)
    return sketch, genes


def runs_of(sketch: Sketch, row: Genes) -> dict[str, Run]:
    """The statements of a program, run, those left out that are in a guard."""
    function = lower(replay(sketch.dag, steps(sketch, row)))
    guards = [node for node in walk(function.body) if isinstance(node, If)]
    guarded = {
        found.buffer.name for node in guards for found in walk(node) if isinstance(found, Store)
    }
    found = brute_force.statements(function)
    return {name: Run(each) for name, each in found.items() if name not in guarded}


def unscaled(features: FeatureSet, values: Features) -> dict[str, float]:
    return {
        column.name: float(2.0**value - 1 if column.is_log else value)
        for column, value in zip(features.columns, values.astype(np.float64), strict=True)
    }


def nest_of(sketch: Sketch, genes: Genes, stage: str) -> tuple[LoopNest, dict[str, Access]]:
    """The nest of a stage, and its accesses, for all rows at once."""
    state = population_state(sketch, genes)
    nests = LoopNests(state, len(genes), choice_values(sketch, genes))
    nest = nests.nest(state.stage(stage))
    found = [in_panels(nests, access) for access in accesses_of(nests, nest, sketch.target)]
    return nest, {access.buffer.name: access for access in found}


def check_places(run: Run, row: int, nest: LoopNest, accesses: dict[str, Access]) -> None:
    """Compare the elements touched inside each loop; of a box, where loads may not happen."""
    places = [0] + [n + 1 for n, loop in enumerate(nest.loops) if loop.extent[row] > 1]
    assert [int(nest.loops[place - 1].extent[row]) for place in places[1:]] == run.extents
    for name, access in accesses.items():
        for number, place in enumerate(places):
            touched = run.touched(name, number)
            expected = len(touched)
            if run.is_padded:
                sides = [len(np.unique(side)) for side in touched.T]
                shape = [np.broadcast_to(extent, access.rows)[row] for extent in access.shape]
                expected = prod(min(pair) for pair in zip(sides, shape, strict=True))
            assert access.elements[place, row] == expected, (name, number)


def check_numbers(run: Run, found: dict[str, float]) -> None:
    """Compare what the features of both sets say of the whole statement."""
    iterations = prod(run.extents)
    added = run.operations(BinaryOp.ADD, BinaryOp.SUB)
    multiplied = run.operations(BinaryOp.MUL)
    assert found["loops.iterations"] == pytest.approx(iterations, rel=1e-4)
    assert found["loops.count"] == len(run.extents)
    assert found["nest.count"] == pytest.approx(len(run.extents), rel=1e-4)
    assert found["operations.float_added"] == pytest.approx(added, rel=1e-4, abs=1e-3)
    assert found["operations.float_multiplied"] == pytest.approx(multiplied, rel=1e-4, abs=1e-3)
    fused = found["operations.fused"]
    assert fused + found["operations.added"] == pytest.approx(added, rel=1e-4, abs=1e-3)
    assert fused + found["operations.multiplied"] == pytest.approx(multiplied, rel=1e-4, abs=1e-3)


def check_buffers(run: Run, found: dict[str, float], accesses: dict[str, Access]) -> None:
    """Compare what the features say of each tensor, the one written first, then the largest."""
    first, *reads = accesses.values()
    order = [first, *sorted(reads, key=lambda access: -access.buffer.bytes)]
    for place, access in enumerate(order[:4]):
        name, size = access.buffer.name, access.element_bytes
        own = {
            key.partition(".")[2]: v
            for key, v in found.items()
            if key.startswith(f"buffer{place}.")
        }
        stride = run.inner_stride(name) if run.extents else 0
        assert own["inner_stride"] == pytest.approx(stride, rel=1e-4, abs=1e-4), name
        loop = run.reuse_loop(name)
        if loop is None:
            assert own["reuse_count"] == 0, name
            continue
        between = sum(
            len(run.touched(other, loop + 1)) * each.element_bytes
            for other, each in accesses.items()
        )
        assert own["reuse_count"] == pytest.approx(run.extents[loop], rel=1e-4), name
        assert own["reuse_iterations"] == pytest.approx(prod(run.extents[loop + 1 :]), rel=1e-4)
        if not run.is_padded:
            assert own["bytes"] == pytest.approx(len(run.touched(name, 0)) * size, rel=1e-4)
            assert own["reuse_bytes"] == pytest.approx(between, rel=1e-4), name


@pytest.mark.parametrize("name", OPERATORS)
@examples(1, nightly=3)
@given(seed=st.integers(0, 10_000))
def test_random_programs_do_what_their_features_say(name: str, seed: int) -> None:
    sketch, genes = drawn(name, seed)
    sets = (MACHINE_FEATURES, PAPER_FEATURES)
    rows = [extract(sketch, genes, ZEN, features) for features in sets]
    stages = [s.name for s in population_state(sketch, genes).stages if not s.is_inlined]
    for row in range(len(genes)):
        runs = runs_of(sketch, genes[row])
        for statement, stage in enumerate(stages):
            if stage in runs:
                found: dict[str, float] = {}
                for features, values in zip(sets, rows, strict=True):
                    found |= unscaled(features, values[row, statement])
                nest, accesses = nest_of(sketch, genes, stage)
                check_places(runs[stage], row, nest, accesses)
                check_numbers(runs[stage], found)
                check_buffers(runs[stage], found, accesses)
