"""Constants in the order of their reads: the layout, the packed program, and refusals in words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.errors import PromiseError, ScheduleError
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.interpret import interpret
from ansorc.ir.packing import PackedPart, Packing
from ansorc.ir.printer import to_text
from ansorc.ir.verify import verify
from ansorc.lang.reference import evaluate
from ansorc.lang.scalar_type import Scalar
from ansorc.schedule import (
    Schedule,
    lower,
    packings,
    replay,
    schedule,
    steps_from_json,
    steps_to_json,
)
from ansorc.target import Target
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

"""Weights are packed for a single call."""


def matmul(n: int = 8, m: int = 24, depth: int = 6, *, constant: bool = True) -> ac.ComputeDAG:
    a = ac.placeholder((n, depth), "A")
    b = ac.placeholder((depth, m), "B", constant=constant)
    k = ac.reduce_axis(depth, "k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), "C")
    return ac.ComputeDAG([a, b, ac.compute((n, m), lambda i, j: ac.maximum(c[i, j], 0.0), "D")])


def convolution() -> ac.ComputeDAG:
    x, w = ac.placeholder((1, 9, 3), "X"), ac.placeholder((3, 3, 7), "W", constant=True)
    return ac.ComputeDAG([x, w, ac.ops.relu(ac.ops.conv1d(x, w, padding=1, name="conv"))])


def reversed_weights() -> ac.ComputeDAG:
    x = ac.placeholder((13,), "X")
    w = ac.placeholder((2, 9, 5), "W", constant=True)
    k = ac.reduce_axis(4, "k")
    return ac.ComputeDAG([
        x, w,
        ac.compute((9, 5), lambda i, c: ac.sum(x[i + k] * w[1, 7 - 2 * k, c], axis=k), "Y"),
    ])  # fmt: skip


def shifted_weights() -> ac.ComputeDAG:
    w = ac.placeholder((7, 11), "W", constant=True)

    def body(i: Scalar, j: Scalar) -> Scalar:
        return ac.if_then_else(ac.all_of(i >= 2, j < 10), w[i - 2, j + 1] * 2.0, 0.0)

    return ac.ComputeDAG([w, ac.compute((9, 11), body, "Y")])


DAGS = (matmul(7, 11, 5), matmul(4, 13, 6), convolution(), reversed_weights(), shifted_weights())
_OPTIONS = settings(
    deadline=None,
    database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)


def tiled(dag: ac.ComputeDAG, i: tuple[int, ...], j: tuple[int, ...]) -> Schedule:
    """A matmul in tiles: i0 j0 i1 j1 k i2 j2 i3 j3."""
    state = schedule(dag).split("C", "i", i).split("C", "j", j)
    order = ("i.0", "j.0", "i.1", "j.1", "k", "i.2", "j.2", "i.3", "j.3")
    return state.reorder("C", order)


def test_the_layout_follows_the_tile_levels() -> None:
    state = tiled(matmul(512, 512, 512), (4, 8, 8), (8, 4, 4)).rewrite_layout("C", "B")
    (packing,) = packings(state)
    assert packing.packed.shape == (4, 8, 512, 4, 4)  # j.0 j.1 k j.2 j.3
    assert packing.parts == (
        PackedPart(1, 128, 4), PackedPart(1, 16, 8), PackedPart(0, 1, 512), PackedPart(1, 4, 4),
        PackedPart(1, 1, 4),
    )  # fmt: skip
    assert "B laid out in the order of its reads" in str(state)


def test_the_program_reads_the_weight_by_its_loops() -> None:
    state = schedule(matmul()).split("D", "j", [16]).reorder("D", ["j.0", "i", "j.1"])
    state = state.fuse("D", ["j.0", "i"]).parallel("D", "j.0@i").compute_at("C", "D", "j.0@i")
    state = state.reorder("C", ["i", "k", "j"]).vectorize("C", "j").rewrite_layout("C", "B")
    text = to_text(lower(state))
    assert "B: float32[2, 6, 16] constant" in text
    assert "B[j.0@i // 8, k, j]" in text  # 24 columns fill 1.5 panels, so no guard is needed
    (packing,) = packings(state)
    assert (packing.apply(np.ones((6, 24), np.float32))[1, :, 8:] == 0).all()


def test_what_one_loop_reads_as_one_index_is_one_dimension() -> None:
    state = schedule(matmul()).split("C", "j", [2, 4]).reorder("C", ["j.0", "j.1", "i", "k", "j.2"])
    assert packings(state.rewrite_layout("C", "B"))[0].packed.shape == (3, 2, 6, 4)
    state = state.fuse("C", ["j.0", "j.1"]).parallel("C", "j.0@j.1").rewrite_layout("C", "B")
    (packing,) = packings(state)
    assert packing.parts == (PackedPart(1, 4, 6), PackedPart(0, 1, 6), PackedPart(1, 1, 4))
    assert "B[j.0@j.1, k, j.2]" in to_text(simplify_stmt(lower(state)))


def test_the_vectorised_loop_comes_last() -> None:
    state = schedule(matmul()).split("C", "j", [8]).reorder("C", ["i", "j.0", "j.1", "k"])
    assert packings(state.rewrite_layout("C", "B"))[0].packed.shape == (3, 8, 6)
    state = state.vectorize("C", "j.1").rewrite_layout("C", "B")
    assert packings(state)[0].packed.shape == (3, 6, 8)


def test_the_layout_follows_steps_that_come_later() -> None:
    early = tiled(matmul(), (2, 2, 2), (2, 2, 2))
    first = schedule(matmul()).rewrite_layout("C", "B")
    later = replay(matmul(), (*first.steps, *early.steps))
    assert packings(later) == packings(early.rewrite_layout("C", "B"))


def weights_of(state: Schedule) -> list[tuple[str, str]]:
    """(reader, constant) for each constant that one live stage reads."""
    found: list[tuple[str, str]] = []
    for buffer in state.dag.inputs:
        readers = state.readers(buffer.name)
        if buffer.constant and len(readers) == 1 and buffer.name not in state.rewritten:
            found.append((readers[0].name, buffer.name))
    return found


@examples(21, nightly=100, options=_OPTIONS)
@given(schedules(st.sampled_from(DAGS), most=14))
def test_any_tiling_computes_the_same_with_packed_weights(state: Schedule) -> None:
    for reader, weight in weights_of(state):
        state = state.rewrite_layout(reader, weight)
    assume(state.rewritten)
    dag, rng = state.dag, np.random.default_rng(len(state.steps))
    inputs = [rng.uniform(-1, 1, b.shape).astype(np.float32) for b in dag.inputs]
    wanted = evaluate(dag, inputs)
    function = lower(state)
    verify(function)
    layouts = {packing.source.name: packing for packing in packings(state)}
    packed: dict[str, np.ndarray] = {n: p.apply(inputs[_place(dag, n)]) for n, p in layouts.items()}
    arrays: list[np.ndarray] = []
    for buffer in dag.params:
        given_inputs = {b.name: array for b, array in zip(dag.inputs, inputs, strict=True)}
        empty = np.full(buffer.shape, np.nan, np.float32)
        arrays.append(given_inputs.get(buffer.name, empty))
    interpreted = [packed.get(b.name, array) for b, array in zip(dag.params, arrays, strict=True)]
    interpret(function, interpreted, fresh_outputs=True)
    np.testing.assert_allclose(interpreted[-1], wanted[0], 1e-4, 1e-4)
    arrays[-1] = np.full_like(arrays[-1], np.nan)
    compile_module(function, Target.parse("native"), packings=packings(state))(*arrays, threads=2)
    np.testing.assert_allclose(arrays[-1], wanted[0], 1e-4, 1e-4)
    for name, packing in layouts.items():
        copy = np.full(packing.packed.shape, np.nan, np.float32)
        interpret(packing.function("pack"), [inputs[_place(dag, name)], copy], fresh_outputs=True)
        np.testing.assert_array_equal(copy, packed[name])
        merged = packing.merged.apply(inputs[_place(dag, name)])
        np.testing.assert_array_equal(merged.reshape(-1), copy.reshape(-1))
        assert Packing.from_json(packing.to_json()) == packing
    assert packings(replay(dag, steps_from_json(steps_to_json(state.steps)))) == packings(state)


def _place(dag: ac.ComputeDAG, name: str) -> int:
    return [buffer.name for buffer in dag.inputs].index(name)


def test_a_packing_that_runs_backwards_and_over_the_edges() -> None:
    source = Buffer("W", (5, 2), FLOAT32, constant=True)
    packing = Packing(source, (PackedPart(1, 1, 2), PackedPart(0, -2, 4)), (5, 0))
    array = np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    packed = packing.apply(array)
    np.testing.assert_array_equal(packed, [[0, 7, 3, 0], [0, 8, 4, 0]])  # rows 5, 3, 1, -1
    assert packed.ctypes.data % 64 == 0
    assert not packing.is_plain
    assert Packing.plain(source).is_plain


def two_readers() -> Schedule:
    w = ac.placeholder((4, 4), "W", constant=True)
    first = ac.compute((4, 4), lambda i, j: w[i, j] * 2.0, "P")
    return schedule(ac.ComputeDAG([w, first, ac.compute((4, 4), lambda i, j: w[j, i] + 1.0, "Q")]))


def reads_of(read: Callable[[ac.Tensor, Scalar, Scalar], Scalar]) -> Schedule:
    w = ac.placeholder((8, 8), "W", constant=True)
    return schedule(ac.ComputeDAG([w, ac.compute((4, 4), lambda i, j: read(w, i, j), "Y")]))


def inlined_after() -> Schedule:
    w = ac.placeholder((4,), "W", constant=True)
    p = ac.compute((4,), lambda i: w[i] * 2.0, "P")
    outputs = [ac.compute((4,), lambda i: p[i] + 1.0, name) for name in ("Q", "R")]
    state = schedule(ac.ComputeDAG([w, *outputs])).rewrite_layout("P", "W")
    return state.compute_inline("P")


REFUSALS: tuple[tuple[str, Callable[[], Schedule]], ...] = (
    ("'A' is not constant.*placeholder.*constant=True.*cache_read",
     lambda: schedule(matmul()).rewrite_layout("C", "A")),
    ("'C' is not an input; the inputs are 'A', 'B'",
     lambda: schedule(matmul()).rewrite_layout("D", "C")),
    ("'D' does not read 'B'", lambda: schedule(matmul()).rewrite_layout("D", "B")),
    ("the layout of 'B' is rewritten already",
     lambda: schedule(matmul()).rewrite_layout("C", "B").rewrite_layout("C", "B")),
    ("'W' is read by 'P' and 'Q'; a layout follows the loops of one",
     lambda: two_readers().rewrite_layout("P", "W")),
    (r"'Y' reads it as W\[i, j\] and W\[j, i\]; one layout cannot follow both",
     lambda: reads_of(lambda w, i, j: w[i, j] + w[j, i]).rewrite_layout("Y", "W")),
    (r"the index i // 2 of W\[i // 2, j\] does not step along axes",
     lambda: reads_of(lambda w, i, j: w[i // 2, j] * 2.0).rewrite_layout("Y", "W")),
    (r"the axis i moves two indices of W\[i, i \+ j\]",
     lambda: reads_of(lambda w, i, j: w[i, i + j] * 2.0).rewrite_layout("Y", "W")),
    ("the layout of 'W' is rewritten, but then 'W' is read by 'Q' and 'R'", inlined_after),
)  # fmt: skip


@pytest.mark.parametrize(("words", "make"), REFUSALS)
def test_refusals(words: str, make: Callable[[], Schedule]) -> None:
    with pytest.raises(ScheduleError, match=words):
        make()


def test_packed_constants_may_be_filled_up_with_zeros() -> None:
    x = ac.placeholder((4, 6), "x", "int32")
    w = ac.placeholder((6, 9), "w", "int32", constant=True, range=(1, 5))
    dag = ac.ComputeDAG([x, w, ac.ops.matmul(x, w, "y")])
    state = schedule(dag).split("y", "j", [8]).rewrite_layout("y", "w")
    module, data = ac.build(state), np.full((4, 6), 2, np.int32)
    np.testing.assert_array_equal(module(data, np.full((6, 9), 3, np.int32)), np.full((4, 9), 36))
    with pytest.raises(PromiseError, match="got 7 in 'w', whose values were promised"):
        module(data, np.full((6, 9), 7, np.int32))
