"""Winograd convolutions: their values, how they round, and how their transforms are scheduled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.lang.reference import evaluate
from ansorc.schedule import replay
from ansorc.schedule.stage import Mark
from ansorc.search.evolution.sampling import sample
from ansorc.search.space import design_space, steps
from ansorc.search.tune import tune_task
from tests.search.small_dags import TARGET, check_meaning
from tests.search.small_tasks import options as tune_options

Array = NDArray[Any]


def convolution(
    size: tuple[int, int], ci: int, co: int, padding: int | tuple[int, int] = 1
) -> ac.ComputeDAG:
    x = ac.placeholder((2, *size, ci), "x")
    w = ac.placeholder((3, 3, ci, co), "w")
    return ac.ComputeDAG([x, w, ac.ops.conv2d_winograd(x, w, padding=padding, name="y")])


def direct(x: Array, w: Array, padding: int | tuple[int, int]) -> Array:
    """The definition, in double precision and plain NumPy."""
    p, q = (padding, padding) if isinstance(padding, int) else padding
    x, w = (array.astype(np.float64) for array in (x, w))
    x = np.pad(x, ((0, 0), (p, p), (q, q), (0, 0)))
    h, v = x.shape[1] - 2, x.shape[2] - 2
    terms = (x[:, r : r + h, s : s + v] @ w[r, s] for r in range(3) for s in range(3))
    return np.sum(list(terms), axis=0)


@pytest.mark.parametrize(
    ("size", "padding"), [((7, 9), 1), ((8, 8), 0), ((5, 6), (2, 1)), ((3, 3), 0), ((4, 13), 1)]
)
def test_values(size: tuple[int, int], padding: int | tuple[int, int]) -> None:
    computation = convolution(size, 3, 5, padding)
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=buffer.shape) for buffer in computation.inputs)
    found = evaluate(computation, [x, w])[0]
    np.testing.assert_allclose(found, direct(x, w, padding), rtol=0, atol=1e-12)


def test_rounding() -> None:
    """Relative to the largest result, 64 channels; a direct convolution has less than 1e-6."""
    computation = convolution((14, 14), 64, 16)
    rng = np.random.default_rng(1)
    x, w = (rng.normal(size=b.shape).astype(np.float32) for b in computation.inputs)
    y = np.empty(computation.outputs[0].shape, np.float32)
    ac.build(computation)(x, w, y)
    wanted = direct(x, w, 1)
    assert np.abs(y - wanted).max() / np.abs(wanted).max() < 1e-6


def test_weights_may_be_transformed_before() -> None:
    x, w = ac.placeholder((1, 6, 6, 3), "x"), ac.placeholder((3, 3, 3, 4), "w")
    transform = ac.ComputeDAG([w, ac.ops.winograd_weights(w, name="u")])
    u = ac.placeholder((4, 4, 3, 4), "u", constant=True)
    y = ac.ops.conv2d_winograd(x, u, padding=1, name="y")
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=x.shape), rng.normal(size=w.shape)
    transformed = evaluate(transform, [weight])[0]
    found = evaluate(ac.ComputeDAG([x, u, y]), [data, transformed])[0]
    np.testing.assert_allclose(found, direct(data, weight, 1), rtol=0, atol=1e-12)


def test_there_are_three_sketches() -> None:
    names = [s.name for s in design_space(convolution((8, 8), 8, 8), TARGET).sketches]
    products = {word for name in names for word in name.split(", ") if "tile y.product" in word}
    assert products == {
        "tile y.product", "tile y.product.local in y.product at 1",
        "tile y.product.local in y.product at 2",
    }  # fmt: skip


def test_transforms_are_unrolled_and_vectorised() -> None:
    computation = convolution((8, 8), 16, 16)
    for sketch in design_space(computation, TARGET).sketches:
        state = replay(computation, sketch.steps)
        for name in ("y.rows", "y.data", "y.weights", "y.columns", "y.tiles"):
            marks = [it.mark for it in state.stage(name).iterators[-3:]]
            assert marks == [Mark.UNROLL, Mark.UNROLL, Mark.VECTORIZE]


def test_programs_are_right() -> None:
    computation = convolution((5, 6), 3, 9)
    rng = np.random.default_rng(2)
    sketches = design_space(computation, TARGET).sketches
    for place in rng.choice(len(sketches), 3, replace=False):
        sketch = sketches[int(place)]
        check_meaning(computation, steps(sketch, sample(sketch, 1, rng)[0]))


def test_tuning(tmp_path: Path) -> None:
    task = ac.Task(convolution((4, 4), 8, 8), name="winograd")
    result = tune_task(task, tune_options(tmp_path, trials=2))
    assert result.best is not None
    assert not result.failures
    assert not result.notes


X, W = ac.placeholder((1, 6, 6, 3), "x"), ac.placeholder((3, 3, 3, 4), "w")


@pytest.mark.parametrize(
    ("weight", "options", "words"),
    [
        (W, {"tile": 4}, "tile"),
        (W, {"stride": 2}, "has stride 1, dilation 1 and layout NHWC; use conv2d for others"),
        (W, {"layout": "NCHW"}, "has stride 1, dilation 1 and layout NHWC"),
        (W, {"groups": 2}, "groups"),
        (ac.placeholder((5, 5, 3, 4), "v"), {}, r"must be \[3, 3, ci, co\] or transformed, \[4, 4"),
        (ac.placeholder((3, 3, 2, 4), "v"), {}, "with the ci and the dtype of the data"),
    ],
)
def test_refusals(weight: ac.Tensor, options: dict[str, Any], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        ac.ops.conv2d_winograd(X, weight, **options)


def test_only_three_by_three_weights_are_transformed() -> None:
    with pytest.raises(LanguageError, match=r"winograd_weights of .* it must be \[3, 3, ci, co\]"):
        ac.ops.winograd_weights(ac.placeholder((4, 4, 3, 4), "v"))
