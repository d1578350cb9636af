"""The operators that only graphs have: definitions and machine code against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.graph.graph_operator import Attributes, attributes_of
from ansorc.graph.operators import operator_named
from ansorc.graph.tensor_type import TensorType
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from tests.support.nightly import sampled

Array = NDArray[Any]
FLOAT32_ULP = 2.0**-23
RANGES = {
    "acos": (-1.0, 1.0), "acosh": (1.0, 1e30), "asin": (-1.0, 1.0), "asinh": (-1e30, 1e30),
    "atan": (-50.0, 50.0), "atanh": (-0.9999, 0.9999), "cosh": (-89.0, 89.0),
    "sinh": (-89.0, 89.0), "tan": (-1.5, 1.5),
}  # fmt: skip
NUMPY = {name: getattr(np, f"arc{name[1:]}" if name[0] == "a" else name) for name in RANGES}


def dag_of(name: str, *arrays: Array, **given: object) -> ComputeDAG:
    attributes: Attributes = attributes_of(given)
    return operator_named(name).dag(tuple(map(TensorType.of_array, arrays)), attributes)


def both(name: str, *arrays: Array, **given: object) -> tuple[list[Array], list[Array]]:
    """The outputs by the reference, and those of machine code."""
    dag = dag_of(name, *arrays, **given)
    results = [np.empty(buffer.shape, buffer.dtype.numpy) for buffer in dag.outputs]
    ac.build(dag)(*arrays, *results)
    return evaluate(dag, arrays), results


def spread(low: float, high: float) -> Array:
    """Numbers of a range, many near each end and near 0, from tiny to large."""
    rng, large = np.random.default_rng(0), max(abs(low), abs(high))
    sizes = large * 10.0 ** rng.uniform(-6, 0, 500)
    values = np.concatenate([rng.uniform(low, high, 500), sizes, -sizes, [low, high]])
    return values[(values >= low) & (values <= high)].astype(np.float32)


@pytest.mark.parametrize("name", RANGES)
def test_trigonometric_functions_are_accurate(name: str) -> None:
    x = spread(*RANGES[name])
    (reference,), (compiled,) = both(name, x)
    expected = NUMPY[name](x.astype(np.float64))
    np.testing.assert_allclose(reference, expected, rtol=FLOAT32_ULP, atol=1e-30)
    np.testing.assert_allclose(compiled, expected, rtol=6 * FLOAT32_ULP, atol=1e-30)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "atanh"])
def test_outside_of_their_domain_functions_are_nan(name: str, kind: type[np.floating[Any]]) -> None:
    outside = {"acosh": [0.99, 0.0, -1.0, -1.5, -7.0, -1e8, -1e20]}
    sizes = [1.01, 1.5, 7.0, 1e8, 1e20]
    x = np.array([*outside.get(name, [*sizes, *(-one for one in sizes)]), -np.inf, np.nan], kind)
    for (found,) in both(name, x):
        assert np.isnan(found).all()


@pytest.mark.parametrize("name", ["acosh", "atan"])
def test_functions_of_float64_are_accurate(name: str) -> None:
    x = spread(*RANGES[name]).astype(np.float64)
    (reference,), (compiled,) = both(name, x)
    for found in (reference, compiled):
        np.testing.assert_allclose(found, NUMPY[name](x), rtol=1e-14, atol=1e-30)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("and", np.int8), ("or", np.uint8), ("xor", np.int32), ("and", np.uint16), ("or", np.int64)],
)
def test_bits_by_arithmetic(name: str, kind: type[np.integer[Any]]) -> None:
    rng, info = np.random.default_rng(0), np.iinfo(kind)
    a, b = (rng.integers(info.min, info.max, 64, dtype=kind, endpoint=True) for _ in range(2))
    a[:2], b[:1] = info.min, info.max
    expected = getattr(np, f"bitwise_{name}")(a, b)
    for (found,) in both(f"bitwise_{name}", a, b):
        np.testing.assert_array_equal(found, expected)
    for (found,) in both("bitwise_not", a):
        np.testing.assert_array_equal(found, ~a)


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.uint64])
def test_shifts(kind: type[np.unsignedinteger[Any]]) -> None:
    rng, bits = np.random.default_rng(0), np.iinfo(kind).bits
    a = rng.integers(0, np.iinfo(kind).max, 2 * bits, dtype=kind)
    by = np.tile(np.arange(bits, dtype=kind), 2)
    for (found,) in both("shift_left", a, by):
        np.testing.assert_array_equal(found, a << by)
    for (found,) in both("shift_right", a, by):
        np.testing.assert_array_equal(found, a >> by)


def test_integers_are_divided_towards_zero() -> None:
    a = np.array([7, -7, 7, -7, 6, -6, 0, -(2**31)], np.int32)
    b = np.array([2, 2, -2, -2, 3, 3, -5, 2], np.int32)
    for (found,) in both("truncated_divide", a, b):
        np.testing.assert_array_equal(found, np.trunc(a / b).astype(np.int32))
    for (found,) in both("truncated_mod", a, b):
        np.testing.assert_array_equal(found, np.fmod(a, b))


def test_the_rest_of_floats_is_exact() -> None:
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(1000) * 1000).astype(np.float32)
    b = rng.choice([-1, 1], 1000).astype(np.float32) * rng.uniform(0.1, 9, 1000).astype(np.float32)
    _, (found,) = both("truncated_mod", a, b)
    np.testing.assert_array_equal(found, np.fmod(a, b))


def test_signs_and_sizes_of_all_kinds() -> None:
    floats = np.array([-2.5, 0.0, 3.0, np.nan, np.inf], np.float32)
    for kind, x in (
        ("f", floats),
        ("i", np.array([-3, 0, 9])),
        ("u", np.array([0, 255], np.uint8)),
    ):
        for name in ("sign", "abs"):
            for (found,) in both(name, x):
                np.testing.assert_array_equal(found, getattr(np, name)(x), err_msg=f"{name} {kind}")


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_elements_in_order(largest: bool) -> None:  # noqa: FBT001
    x = np.random.default_rng(0).integers(0, 9, (3, 11, 2)).astype(np.float32)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :4]
    for values, places in both("top_k", x, k=4, axis=1, largest=largest):
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("extent", sampled([600, 601], [601]))
@pytest.mark.parametrize("largest", sampled([True, False], [False]))
def test_the_largest_of_many_are_those_of_their_blocks(extent: int, largest: bool) -> None:  # noqa: FBT001
    x = np.random.default_rng(0).integers(0, 99, (2, extent, 2)).astype(np.int32)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :7]
    for values, places in both("top_k", x, k=7, axis=1, largest=largest):
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("combine", ["none", "add", "mul", "max", "min"])
def test_elements_are_scattered(combine: str) -> None:
    rng = np.random.default_rng(0)
    data, updates = rng.standard_normal((5, 4)), rng.standard_normal((3, 2))
    indices = np.array([[0, 4], [-1, 0], [0, 2]])
    expected = data.copy()
    joins: dict[str, Callable[[float, float], float]] = {
        "none": lambda _, b: b, "add": operator.add, "mul": operator.mul, "max": max, "min": min,
    }  # fmt: skip
    for (i, j), place in np.ndenumerate(indices):
        expected[place, j] = joins[combine](float(expected[place, j]), float(updates[i, j]))
    for (found,) in both("scatter_elements", data, indices, updates, axis=0, combine=combine):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("combine", ["none", "add"])
def test_slices_are_scattered(combine: str) -> None:
    rng = np.random.default_rng(0)
    data, updates = rng.standard_normal((4, 3, 2)), rng.standard_normal((3, 2))
    indices = np.array([[0, 1], [3, 2], [0, 1]])
    expected = data.copy()
    for (i, j), update in zip(indices, updates, strict=True):
        expected[i, j] = update + (expected[i, j] if combine == "add" else 0)
    for (found,) in both("scatter_nd", data, indices, updates, combine=combine):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_logarithms_of_sums_do_not_overflow() -> None:
    x = np.array([[1e3, 1e3], [-np.inf, -np.inf], [0.0, 1.0]], np.float32)
    expected = np.logaddexp(x[:, 0].astype(np.float64), x[:, 1])
    for (found,) in both("log_sum_exp", x, axis=1):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_running_sums() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for (found,) in both("cumulative_sum", x, axis=1):
        np.testing.assert_array_equal(found, x.cumsum(1))
    for (found,) in both("cumulative_sum", x, axis=0, exclusive=True, reverse=True):
        np.testing.assert_array_equal(found, x[::-1].cumsum(0)[::-1] - x)


@pytest.mark.parametrize("extent", [80, 300, 1027])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_long_rows(extent: int, exclusive: bool, reverse: bool) -> None:  # noqa: FBT001
    x = np.random.default_rng(0).integers(-9, 9, (2, extent, 3)).astype(np.int64)
    turned = x[:, ::-1] if reverse else x
    expected = turned.cumsum(1) - (turned if exclusive else 0)
    expected = expected[:, ::-1] if reverse else expected
    for (found,) in both("cumulative_sum", x, axis=1, exclusive=exclusive, reverse=reverse):
        np.testing.assert_array_equal(found, expected)
    y = (np.sign(x) + 0.5) * 1.3
    for (found,) in both("cumulative_product", y, axis=1):
        np.testing.assert_allclose(found, y.cumprod(1), rtol=1e-9)


def test_determinants() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 4))
    for (found,) in both("determinant", x):
        np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-9)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_images_are_sampled(mode: str, padding: str) -> None:
    rng = np.random.default_rng(0)
    x, grid = rng.standard_normal((2, 3, 5, 4)), rng.uniform(-1.6, 1.6, (2, 3, 3, 2))
    (reference,), (compiled,) = both("grid_sample", x, grid, mode=mode, padding=padding)
    np.testing.assert_allclose(compiled, reference, rtol=1e-9, atol=1e-12)


def test_an_image_sampled_at_its_elements_is_itself() -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4))
    places = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    grid = np.stack(places[::-1], axis=-1)[None]
    for mode in ("linear", "nearest", "cubic"):
        for (found,) in both("grid_sample", x, grid, mode=mode, align_corners=True):
            np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-12)


def test_a_part_is_overwritten() -> None:
    rng = np.random.default_rng(0)
    data, update, starts = rng.random((2, 5, 3)), rng.random((2, 3, 3)), np.array([1, 4])
    expected = data.copy()
    for b, start in enumerate(starts):
        for n in range(3):
            expected[b, (start + n) % 5] = update[b, n]
    for (found,) in both("overwrite", data, update, starts, axis=1, is_circular=True):
        np.testing.assert_array_equal(found, expected)
    expected = data.copy()
    expected[0, 1:4], expected[1, 4] = update[0], update[1, 0]
    for (found,) in both("overwrite", data, update, starts, axis=1):
        np.testing.assert_array_equal(found, expected)
