"""How many vectors a sum in lanes has."""

from __future__ import annotations

import pytest

from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Load, Var, const
from ansorc.ir.node import walk
from ansorc.ir.passes.vectorize_reductions import vectorize_reductions
from ansorc.ir.stmt import Allocate, For, Function, Store
from tests.ir.passes.nests import (
    VECTORIZED,
)


@pytest.mark.parametrize(("last_cache_bytes", "vectors"), [(1 << 14, 8), ((1 << 14) - 1, 4)])
def test_sums_of_what_comes_from_memory_have_fewer_vectors(
    last_cache_bytes: int, vectors: int
) -> None:
    source = Buffer("source", (1 << 12,), FLOAT32)
    total = Buffer("total", (1,), FLOAT32)
    value = Load(total, (const(0),)) + Load(source, (Var("k"),))
    body = For(Var("k"), 1 << 12, VECTORIZED, Store(total, (const(0),), value))
    function_of_sum = Function("sum", (source, total), body)
    function = vectorize_reductions(function_of_sum, 32, 32, last_cache_bytes, 4)
    (lanes,) = [s.buffer for s in walk(function.body) if isinstance(s, Allocate)]
    assert lanes.shape == (vectors, 8)
    narrow = vectorize_reductions(function_of_sum, 32, 32, last_cache_bytes, 1)
    (lanes,) = [s.buffer for s in walk(narrow.body) if isinstance(s, Allocate)]
    assert lanes.shape == (1 if vectors == 4 else vectors, 8)
