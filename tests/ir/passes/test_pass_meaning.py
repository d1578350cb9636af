from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Binary, BinaryOp, Expr, Load, Select, Var, const
from ansorc.ir.interpret import interpret
from ansorc.ir.node import walk
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.passes.hoist_values import hoist_values
from ansorc.ir.passes.if_to_select import if_to_select
from ansorc.ir.passes.lane_groups import VectorUnit
from ansorc.ir.passes.partition_loops import partition_loops
from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from ansorc.ir.passes.prefetch import prefetch
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.passes.promote_shared_tile import promote_shared_tile
from ansorc.ir.passes.reuse_output_as_scratch import reuse_output_as_scratch
from ansorc.ir.passes.skip_padding import skip_padding
from ansorc.ir.passes.stream_stores import stream_stores
from ansorc.ir.passes.transpose_copies import transpose_copies
from ansorc.ir.passes.vectorize_loops import vectorize_loops
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store
from ansorc.ir.verify import verify
from ansorc.target import Target
from tests.ir.passes.nests import (
    SERIAL,
    UNROLLED,
    VECTORIZED,
    ZERO,
    Loop,
    Matmul,
    loops,
    padded_convolution,
    untiled_matmul,
)
from tests.support.nightly import examples

SIZES = frozenset((1, 2, 4, 8))
MASKED = VectorUnit(32, SIZES, stores_masked_fast=True)
CACHES = "-cache=32768,1048576,33554432"
AVX = Target.parse(f"x86_64-linux-gnu -mcpu=x86-64-v2 -mattr=+avx {CACHES}")
LOADING = Target.parse(f"x86_64-linux-gnu -mcpu=x86-64-v2 -mattr=+avx,+avx2,+avx512bw {CACHES}")
MASKING = replace(LOADING, features=(*LOADING.features, "avx512vl"))
Pass = Callable[[Function], Function]
PASSES: dict[str, Pass] = {
    "simplify": simplify_stmt,
    "skip_padding": skip_padding,
    "if_to_select": if_to_select,
    "hoist_conditions": hoist_conditions,
    "hoist_values": hoist_values,
    "reuse_output_as_scratch": lambda f: reuse_output_as_scratch(f, 16, 4096),
    "vectorize_reductions": lambda f: vectorize_reductions(f, 32, 32, 1 << 20, 4),
    "promote_shared_tile": lambda f: promote_shared_tile(f, 1024),
    "promote_accumulators": lambda f: promote_accumulators(f, 1024),
    "promote_little": lambda f: promote_accumulators(f, 64),
    "partition_loops": lambda f: partition_loops(simplify_stmt(f), 256),
    "vectorize_loops": lambda f: vectorize_loops(f, VectorUnit(32)),
    "vectorize_narrow": lambda f: vectorize_loops(f, VectorUnit(8)),
    "vectorize_masked": lambda f: vectorize_loops(f, MASKED),
    "vectorize_interleaved": lambda f: vectorize_loops(f, VectorUnit(32, interleaved=4)),
    "transpose_copies": transpose_copies,
    "prefetch": lambda f: prefetch(f, 16 * 1024, 16 * 1024, has_streams=True),
    "stream_stores": lambda f: stream_stores(f, 32 * 1024),
    "prepare_for_cpu": lambda f: run_passes(CPU_PASSES, f, AVX),
    "prepare_masked": lambda f: run_passes(CPU_PASSES, f, MASKING),
    "prepare_loading": lambda f: run_passes(CPU_PASSES, f, LOADING),
}


def outcome(function: Function, seed: int) -> list[np.ndarray]:
    """All parameters after running on random ones."""
    rng = np.random.default_rng(seed)
    arrays = [
        rng.standard_normal(param.shape).astype(param.dtype.numpy)
        if param.dtype.is_float
        else rng.integers(0, 4, param.shape).astype(param.dtype.numpy)
        for param in function.params
    ]
    interpret(function, arrays)
    return arrays


def keeps_order(name: str, function: Function) -> bool:
    """Whether the pass adds up the terms of all sums of floats in their order."""
    if name != "vectorize_reductions" and not name.startswith("prepare"):
        return True
    seen: list[Function] = []
    run_passes(CPU_PASSES, function, AVX, lambda _, after: seen.append(after))
    stages = [function] if name == "vectorize_reductions" else seen
    return all(vectorize_reductions(stage, 32, 32, 1 << 20, 4) is stage for stage in stages)


def assert_alike(
    found: list[np.ndarray], expected: list[np.ndarray], name: str, *, is_exact: bool
) -> None:
    """Check arrays for equal bytes; floats only for closeness where sums were reordered."""
    for one, other in zip(found, expected, strict=True):
        if is_exact or other.dtype.kind != "f":
            assert one.tobytes() == other.tobytes(), name
        else:
            size = np.abs(other, where=np.isfinite(other), out=np.zeros_like(other)).max(initial=0)
            np.testing.assert_allclose(one, other, 1e-3, 1e-4 * (1 + float(size)), err_msg=name)


def assert_kept(before: Function, seed: int = 0) -> None:
    verify(before)
    expected = outcome(before, seed)
    for name, apply in PASSES.items():
        after = apply(before)
        verify(after)
        is_exact = keeps_order(name, before)
        assert_alike(outcome(after, seed), expected, name, is_exact=is_exact)


small = st.integers(1, 3)
matmuls = st.builds(
    Matmul,
    i=st.tuples(small, st.integers(1, 2), small),
    j=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 13)),
    k=st.tuples(small, small),
    order=st.permutations(("k.1", "i.3", "j.3")).map(lambda x: (x[0], x[1], x[2])),
    i_kind=st.sampled_from([SERIAL, UNROLLED]),
    j_kind=st.sampled_from([SERIAL, UNROLLED, VECTORIZED]),
    k_kind=st.sampled_from([SERIAL, UNROLLED, VECTORIZED]),
    out_kinds=st.tuples(
        st.sampled_from([SERIAL, UNROLLED]), st.sampled_from([SERIAL, UNROLLED, VECTORIZED])
    ),
    op=st.sampled_from([BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX]),
    initial=st.sampled_from([0.0, 1.0, -0.0]),
    guard=st.sampled_from(["", "", "k.1", "i.3", "j.3"]),
)


@examples(9, nightly=40)
@given(matmuls, st.integers(0, 9))
def test_reductions_keep_every_bit(matmul: Matmul, seed: int) -> None:
    assert_kept(matmul.function(), seed)


@pytest.mark.parametrize("extents", [(3, 4, 5), (1, 7, 2), (2, 1, 1)])
def test_untiled_reductions_keep_every_bit(extents: tuple[int, int, int]) -> None:
    assert_kept(untiled_matmul(*extents))


@pytest.mark.parametrize(("channels", "width"), [(8, 3), (5, 2), (1, 1)])
def test_padded_convolutions_keep_every_bit(channels: int, width: int) -> None:
    assert_kept(padded_convolution(channels, width))


ROWS, SPAN = 3, 64
A = Buffer("A", (ROWS, SPAN), FLOAT32)
X = Buffer("X", (ROWS, SPAN), FLOAT32)
Y = Buffer("Y", (SPAN,), FLOAT32)
T = Buffer("T", (2,), FLOAT32, Scope.LOCAL)
s, v, w = Var("s"), Var("v"), Var("w")
columns = st.sampled_from(
    [v, v + 1, v * 2, v * 3 + 1, v // 2, v // 4 * 4 + v % 4, v % 4, 20 - v, s * 16 + v, s, w, v + w,
     v * 2 + w, v * 3 + w, (s * 20 + v) // 4, Select(v < 5, v, v + 1)]
)  # fmt: skip
rows = st.sampled_from([s, const(0), w, v % 3])
tests = st.sampled_from(
    [
        v < 7,
        v >= 3,
        s < 2,
        w < 1,
        v + s < 9,
        v + w * 5 >= 4,
        v % 2 < 1,
        v // 4 < 1,
        s * 20 + v < 40,
        Load(Y, (const(0),)) < 0.5,
        Load(X, (s, v % 2)) < 0.5,
    ]
)
grid = st.tuples(rows, columns)
line = st.tuples(columns)
local = st.tuples(st.sampled_from([const(0), w, v % 2]))
loads: st.SearchStrategy[Expr] = (
    st.builds(Load, st.sampled_from([A, X]), grid)
    | st.builds(Load, st.just(Y), line)
    | st.builds(Load, st.just(T), local)
    | st.floats(-2, 2, width=16).map(lambda value: const(value, FLOAT32))
)


def _bigger(values: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ops = st.sampled_from([BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MAX])
    both = st.builds(Binary, st.just(BinaryOp.AND), tests, tests) | tests
    return st.builds(Binary, ops, values, values) | st.builds(Select, both, values, values)


values: st.SearchStrategy[Expr] = st.recursive(loads, _bigger, max_leaves=3)
stores: st.SearchStrategy[Stmt] = (
    st.builds(Store, st.just(X), grid, values)
    | st.builds(Store, st.just(Y), line, values)
    | st.builds(Store, st.just(T), local, values)
)


def _bigger_stmt(parts: st.SearchStrategy[Stmt]) -> st.SearchStrategy[Stmt]:
    several = st.lists(parts, min_size=2, max_size=3)
    otherwise = st.none() | parts
    return several.map(lambda found: Seq(tuple(found))) | st.builds(If, tests, parts, otherwise)


bodies: st.SearchStrategy[Stmt] = st.recursive(stores, _bigger_stmt, max_leaves=4)
kinds = st.sampled_from([SERIAL, UNROLLED, VECTORIZED, VECTORIZED])
nestings = st.permutations([("s", ROWS), ("v", 0), ("w", 2)])


@st.composite
def tangled(draw: st.DrawFn) -> Function:
    """Loops that carry, scatter, gather, branch: most must not be vectorised or promoted."""
    extent = draw(st.integers(1, 20))
    headers: list[Loop] = [(name, length or extent, draw(kinds)) for name, length in draw(nestings)]
    place = draw(st.integers(0, 2))
    first = Seq((Store(T, (const(0),), ZERO), Store(T, (const(1),), ZERO)))
    nest = Allocate(T, Seq((first, loops(headers[place:], draw(bodies)))))
    return Function("tangled", (A, X, Y), loops(headers[:place], nest))


@examples(21, nightly=100)
@given(tangled(), st.integers(0, 9))
def test_tangled_loops_keep_every_bit(function: Function, seed: int) -> None:
    assert_kept(function, seed)


def test_zeros_of_both_signs_are_two_values() -> None:
    """max(T, 0.0) and max(T, -0.0) are not one value that is computed twice."""
    held = Load(T, (const(0),))
    both = [
        Store(Y, (v,), Binary(BinaryOp.MAX, held, const(0.0, FLOAT32))),
        Store(X, (const(0), v), Binary(BinaryOp.MAX, held, const(-0.0, FLOAT32))),
    ]
    for order in (both, both[::-1]):
        nest = Seq((Store(T, (const(0),), ZERO), loops([("v", 4, SERIAL)], Seq(tuple(order)))))
        assert_kept(Function("zeros", (A, X, Y), Allocate(T, nest)))


def test_what_was_stored_is_asked_about_anew() -> None:
    most = const(9.0, FLOAT32)  # of what there is at first
    held = Load(X, (const(0), const(0))) < most
    again = If(held, Store(Y, (const(0),), most))
    first = If(held, Seq((Store(X, (const(0), const(0)), most), again)))
    assert_kept(Function("nested", (A, X, Y), first))
    row = Store(X, (const(0), v), Load(X, (const(0), v)) + most)
    later = If(held, loops([("v", 4, UNROLLED)], row))
    assert_kept(Function("unrolled", (A, X, Y), loops([("w", 2, UNROLLED)], later)))


def test_bounds_of_one_loop_say_nothing_of_another() -> None:
    """Both have the same body, which is one object, and variables of one name."""
    value = Select(w * 8 + v < 16, const(1.0, FLOAT32), const(2.0, FLOAT32))
    body = Store(X, (w, v), value)
    parts = [loops([("w", extent, SERIAL)], body) for extent in (2, 3)]
    assert_kept(Function("twins", (A, X, Y), loops([("v", 8, VECTORIZED)], Seq(tuple(parts)))))


@examples(8, nightly=30)
@given(tangled())
def test_nothing_is_left_to_vectorize_or_to_simplify(function: Function) -> None:
    after = run_passes(CPU_PASSES, function, AVX)
    kinds_left = {part.kind for part in walk(after) if isinstance(part, For)}
    assert LoopKind.VECTORIZED not in kinds_left
    assert simplify_stmt(after) is after


@pytest.mark.parametrize("kind", [UNROLLED, SERIAL])
def test_a_product_that_is_not_chosen_may_be_infinite(kind: LoopKind) -> None:
    x, w, y = Buffer("X", (8,), FLOAT32), Buffer("W", (3,), FLOAT32), Buffer("Y", (8,), FLOAT32)
    i, r = Var("i"), Var("r")
    product = Load(x, (i,)) * Load(w, (r,))
    term = Select(i + r < 4, product, ZERO)
    update = Store(y, (i,), Load(y, (i,)) + term)
    body = loops([("r", 3, SERIAL), ("i", 8, kind)], update)
    function = Function("sums", (x, w, y), body)
    rng = np.random.default_rng(0)
    data = rng.uniform(1, 2, 8).astype(np.float32)
    weights = np.array([1, 2, np.inf], np.float32)
    wanted, found = np.zeros(8, np.float32), np.zeros(8, np.float32)
    interpret(function, [data, weights, wanted])
    interpret(run_passes(CPU_PASSES, function, MASKING), [data, weights, found])
    np.testing.assert_allclose(found, wanted, 1e-6)
    assert not np.isnan(found).any()
