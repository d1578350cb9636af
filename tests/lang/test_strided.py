"""Views of tensors at linear indices hold what indexing gives, or are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.ir.expr import Expr, Var, const
from ansorc.lang.strided import find_strided_view

ROW, COLUMN = Var("i"), Var("j")


@given(
    factors=st.tuples(*[st.integers(-3, 3)] * 4),
    offsets=st.tuples(st.integers(-2, 9), st.integers(-2, 9)),
    starts=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    extents=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_a_view_is_what_indexing_gives(
    factors: tuple[int, ...],
    offsets: tuple[int, int],
    starts: tuple[int, int],
    extents: tuple[int, int],
) -> None:
    tensor = np.arange(12 * 11).reshape(12, 11)
    i = np.arange(starts[0], starts[0] + extents[0]).reshape(-1, 1)
    j = np.arange(starts[1], starts[1] + extents[1]).reshape(1, -1)
    rows = factors[0] * i + factors[1] * j + offsets[0]
    columns = factors[2] * i + factors[3] * j + offsets[1]
    indices = (
        ROW * factors[0] + (const(factors[1]) * COLUMN + offsets[0]),
        offsets[1] - (ROW * -factors[2]) + COLUMN * factors[3],
    )
    view = find_strided_view(tensor, indices, {"i": i, "j": j})
    inside = rows.min() >= 0 and columns.min() >= 0 and rows.max() < 12 and columns.max() < 11
    assert (view is not None) == inside
    if view is not None:
        assert not view.flags.writeable
        full = np.broadcast_to(view, (extents[0], extents[1]))
        np.testing.assert_array_equal(full, tensor[rows, columns])


@pytest.mark.parametrize("index", [ROW * COLUMN, ROW // 2, ROW % 3, (ROW + COLUMN) * (COLUMN + 1)])
def test_other_indices_have_no_view(index: Expr) -> None:
    axis = np.arange(2).reshape(-1, 1)
    assert find_strided_view(np.zeros(9), (index,), {"i": axis, "j": axis.T}) is None
