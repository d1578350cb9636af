"""Tensors held in panels: what they hold, and how they lie in memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.ir.printer import to_text
from ansorc.schedule import Schedule, lower, schedule
from tests.support.nightly import examples


def product(n: int, m: int, k: int) -> ac.ComputeDAG:
    a, b = ac.placeholder((n, k), name="A"), ac.placeholder((k, m), name="B")
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ac.ComputeDAG([a, b, c])


def packed(dag: ac.ComputeDAG, columns: int, width: int, depth: int) -> Schedule:
    s = schedule(dag).cache_read("B", "local", ["C"])
    s = s.split("C", "j", [width, columns]).split("C", "k", [depth])
    s = s.reorder("C", ["j.0", "k.0", "i", "j.1", "k.1", "j.2"])
    s = s.compute_at("B.local", "C", "k.0")
    rows, along = (iterator.name for iterator in s.stage("B.local").iterators)
    s = s.split("B.local", along, [columns])
    s = s.reorder("B.local", [f"{along}.0", rows, f"{along}.1"])
    return s.panel("B.local", f"{along}.1").vectorize("C", "j.2")


def test_a_panel_lies_in_one_piece() -> None:
    text = to_text(lower(packed(product(4, 64, 32), 16, 2, 8)))
    assert "alloc B.local: float32[2, 8, 16] local" in text


@examples(5, nightly=20)
@given(
    st.integers(1, 5), st.integers(1, 50), st.integers(1, 20), st.integers(1, 20),
    st.integers(1, 3), st.integers(1, 9),
)  # fmt: skip
def test_products_of_panels_equal_numpy(
    n: int, m: int, k: int, columns: int, width: int, depth: int
) -> None:
    rng = np.random.default_rng(n * m * k)
    a, b = rng.uniform(-1, 1, (n, k)), rng.uniform(-1, 1, (k, m))
    out = np.full((n, m), np.nan, np.float32)
    module = ac.build(packed(product(n, m, k), columns, width, depth))
    module(a.astype(np.float32), b.astype(np.float32), out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
