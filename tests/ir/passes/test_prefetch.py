"""Where memory is asked for ahead of its use."""

from __future__ import annotations

import pytest

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Load, Ramp, Var, const
from ansorc.ir.node import walk
from ansorc.ir.passes.pipeline import CPU_PASSES, run_passes
from ansorc.ir.passes.prefetch import prefetch
from ansorc.ir.stmt import For, Function, Prefetch, Store
from ansorc.target import Target
from tests.ir.passes.nests import (
    SERIAL,
    UNROLLED,
    VECTORIZED,
    loops,
)


@pytest.mark.parametrize("asks_ahead", [True, False])
def test_memory_is_asked_for_ahead_where_that_pays(*, asks_ahead: bool) -> None:
    source = Buffer("source", (1 << 14,), FLOAT32)
    total = Buffer("total", (1,), FLOAT32)
    value = Load(total, (const(0),)) + Load(source, (Var("k"),))
    body = For(Var("k"), 1 << 14, VECTORIZED, Store(total, (const(0),), value))
    name = "x86-64-v4" if asks_ahead else "znver4"
    target = Target.parse(f"x86_64-linux-gnu -mcpu={name} -cache=16384,32768,32768")
    prepared = run_passes(CPU_PASSES, Function("sum", (source, total), body), target)
    assert any(isinstance(part, Prefetch) for part in walk(prepared)) is asks_ahead


def test_panels_of_constants_that_the_last_cache_holds_are_not_asked_for() -> None:
    weight = Buffer("W", (8, 64, 16), FLOAT32, constant=True)
    result = Buffer("C", (8, 4, 4, 16), FLOAT32)
    p, i, k, c, lanes = Var("p"), Var("i"), Var("k"), Var("c"), Ramp(const(0), const(1), 16)
    value = Load(result, (p, i, c, lanes)) + Load(weight, (p, k, lanes))
    tile = loops([("p", 8, SERIAL), ("i", 4, SERIAL), ("k", 64, SERIAL), ("c", 4, UNROLLED)],
                 Store(result, (p, i, c, lanes), value))  # fmt: skip
    function = Function("shared", (weight, result), tile)
    assert prefetch(function, 1 << 14, 8 * weight.bytes, has_streams=True) == function
    asked = prefetch(function, 1 << 14, 8 * weight.bytes - 1, has_streams=True)
    assert sum(isinstance(part, Prefetch) for part in walk(asked)) == 1
