"""Rows, norms and attention of random shapes, between pages that cannot be touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc import ops
from ansorc.codegen.call.build import compile_module
from ansorc.ir.aligned import Array
from ansorc.ir.buffer import Buffer
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, steps
from tests.support.assumed import executable
from tests.support.guarded_memory import guarded
from tests.support.nightly import examples

SHORT, LONG = st.integers(1, 12), st.integers(1, 90)
BYTES = ("uint8", "int8")
MACHINES = ("znver4", "haswell", "x86-64-v2")


@st.composite
def rows(draw: st.DrawFn) -> ComputeDAG:
    x = ac.placeholder((draw(LONG), draw(LONG)), "x")
    chosen = draw(st.sampled_from([ops.softmax, ops.log_softmax, ops.l2_normalize]))
    return ComputeDAG([x, chosen(x, name="y")])


@st.composite
def norms(draw: st.DrawFn) -> ComputeDAG:
    groups, each, layout = draw(SHORT), draw(SHORT), draw(st.sampled_from(["NCHW", "NHWC"]))
    sizes = {"N": draw(st.integers(1, 3)), "H": draw(SHORT), "W": draw(SHORT), "C": groups * each}
    x = ac.placeholder(tuple(sizes[letter] for letter in layout), "x")
    scale, shift = ac.placeholder((groups * each,), "s"), ac.placeholder((groups * each,), "b")
    found = ops.group_norm(x, scale, shift, groups, layout=layout, name="y")
    return ComputeDAG([x, scale, shift, found])


@st.composite
def attentions(draw: st.DrawFn) -> ComputeDAG:
    heads, queries, keys = (draw(SHORT), draw(LONG), draw(LONG))
    q, k = (ac.placeholder((1, heads, n, 9), name) for n, name in ((queries, "q"), (keys, "k")))
    v = ac.placeholder((1, heads, keys, draw(LONG)), "v")
    is_causal = draw(st.booleans())
    return ComputeDAG([q, k, v, ops.attention(q, k, v, causal=is_causal, name="y")])


@st.composite
def images_of_bytes(draw: st.DrawFn) -> ComputeDAG:
    """Channels first, transposed, convolved channel by channel, quantised and transposed back."""
    channels, height, width, margin = draw(LONG), draw(SHORT), draw(SHORT), draw(st.integers(1, 2))
    data = ac.placeholder((1, channels, height, width), "x", draw(st.sampled_from(BYTES)))
    weight = ac.placeholder((3, 3, channels), "w", "int8")
    total = ops.depthwise_conv2d(
        ops.transpose(data, (0, 2, 3, 1)), weight, padding=margin, pad_value=7, sum_dtype="int32"
    )  # fmt: skip
    kind = draw(st.sampled_from((*BYTES, "int16")))
    result = ac.compute(total.shape, lambda *i: (total[i].astype("float32") * 0.25).astype(kind))
    return ComputeDAG([data, weight, ops.transpose(result, (0, 3, 1, 2), name="y")])


def numbers(tensor: Buffer, rng: np.random.Generator) -> Array:
    if tensor.dtype.is_float:
        return rng.standard_normal(tensor.shape).astype(np.float32)
    return rng.integers(0, 256, tensor.shape).astype(np.uint8).view(tensor.dtype.numpy)


@pytest.mark.parametrize(
    "kind",
    [rows(), norms(), attentions(), pytest.param(images_of_bytes(), marks=pytest.mark.nightly)],
    ids=["rows", "norms", "attention", "bytes"],
)
@examples(3, nightly=6)
@given(data=st.data())
def test_results_are_right_and_nothing_else_is_touched(
    kind: st.SearchStrategy[ComputeDAG], data: st.DataObject
) -> None:
    dag, seed = data.draw(kind), data.draw(st.integers(0, 1 << 30))
    cpu = data.draw(st.sampled_from(MACHINES))
    target = executable(f"x86_64-linux-gnu -mcpu={cpu} -cores=2")
    rng, chosen = np.random.default_rng(seed), default_steps(dag, target)
    if data.draw(st.booleans()):
        sketches = design_space(dag, target).sketches
        sketch = sketches[seed % len(sketches)]
        chosen = steps(sketch, sample(sketch, 1, rng)[0])
    inputs, output = [numbers(each, rng) for each in dag.inputs], dag.outputs[0]
    poison = np.nan if output.dtype.is_float else 85
    result = np.full(output.shape, poison, output.dtype.numpy)
    arrays = [guarded(each, at_end=bool(seed % 2)) for each in (*inputs, result)]
    compile_module(lower(replay(dag, chosen)), target)(*arrays)
    np.testing.assert_allclose(arrays[-1], evaluate(dag, inputs)[0], rtol=3e-4, atol=3e-4)
