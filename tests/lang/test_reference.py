"""The NumPy reference: meaning, laziness, wrap-around, blocks and speed."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.lang import operators as ops
from ansorc.lang import reference
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from tests.support.dag_strategies import dags, random_inputs
from tests.support.nightly import examples

RNG = np.random.default_rng(0)
V = ac.placeholder(8, "V")
N = ac.placeholder(8, "N", "int32")
ARRAY = np.arange(8.0)
Array = NDArray[Any]


def value(result: Tensor, **inputs: Array) -> Array:
    given = {"V": V, "N": N}
    return reference.evaluate(
        ComputeDAG([*(given[name] for name in inputs), result]), list(inputs.values())
    )[0]


def test_only_the_chosen_arm_is_read() -> None:
    shifted = ac.compute(8, lambda i: ac.if_then_else(i >= 3, V[i - 3], -1.0))
    array = np.arange(8.0)
    np.testing.assert_array_equal(value(shifted, V=array), [-1, -1, -1, 0, 1, 2, 3, 4])


def test_a_read_outside_is_refused_with_its_place() -> None:
    gather = ac.compute(8, lambda i: V[N[i]], "G")
    places = np.array([0, 1, 2, 3, 4, 5, 6, 8], np.int32)
    with pytest.raises(LanguageError, match="'G' reads 'V' outside of it: index 0 is 8"):
        value(gather, V=np.zeros(8), N=places)
    with pytest.raises(LanguageError, match="index 0 is -1"):
        value(gather, V=np.zeros(8), N=places - 1)
    np.testing.assert_array_equal(value(gather, V=np.arange(8.0), N=places % 8), places % 8)


def test_floats_are_computed_in_double_but_literals_keep_their_dtype() -> None:
    tenth = ac.compute(8, lambda i: V[i] + 0.1)
    found = value(tenth, V=np.full(8, 1e-12))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, 1e-12 + float(np.float32(0.1)))


def test_integers_wrap_around_and_round_down() -> None:
    array = np.array([2**31 - 1, -(2**31), 7, -7, 1, 0, 3, -3], np.int32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(value(ac.compute(8, lambda i: N[i] * 3), N=array), array * 3)
    halved = value(ac.compute(8, lambda i: N[i] // 2), N=array)
    np.testing.assert_array_equal(halved, array // 2)
    rest = value(ac.compute(8, lambda i: N[i] % 3), N=array)
    np.testing.assert_array_equal(rest, array % 3)
    k = ac.reduce_axis(8)
    with np.errstate(over="ignore"):
        total = value(ac.compute((), lambda: ac.sum(N[k] * N[k], axis=k)), N=array)
    assert total.dtype == np.int32
    assert total == np.sum(array * array, dtype=np.int32)


FUNCTIONS: list[tuple[Callable[[Scalar], Scalar], Callable[[Array], Array]]] = [
    (ac.exp, np.exp),
    (ac.exp2, np.exp2),
    (ac.expm1, np.expm1),
    (ac.log, np.log),
    (ac.log2, np.log2),
    (ac.log1p, np.log1p),
    (ac.tanh, np.tanh),
    (ac.sqrt, np.sqrt),
    (ac.sin, np.sin),
    (ac.cos, np.cos),
    (ac.floor, np.floor),
    (ac.ceil, np.ceil),
    (ac.round, np.rint),
    (lambda x: ac.abs(-x), np.abs),
    (ac.rsqrt, lambda x: x**-0.5),
    (ac.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    (ac.erf, lambda x: np.array([math.erf(value) for value in x])),
    (lambda x: ac.power(x, 3.0), lambda x: x**3),
    (lambda x: ac.minimum(x, 0.5), lambda x: np.minimum(x, 0.5)),
    (lambda x: ac.cast(ac.cast(x * 10.0, "int32"), "float32"), lambda x: np.trunc(x * 10)),
    (
        lambda x: ac.if_then_else(ac.logical_not(ac.any_of(x < 0.25, x > 0.5)), x, 0.0),
        lambda x: np.where((x >= 0.25) & (x <= 0.5), x, 0),
    ),
]


@pytest.mark.parametrize("case", range(len(FUNCTIONS)))
def test_every_function_of_the_language(case: int) -> None:
    function, expected = FUNCTIONS[case]
    array = np.linspace(0.125, 1.875, 8)
    found = value(ac.compute(8, lambda i: function(V[i])), V=array)
    np.testing.assert_allclose(found, expected(array), rtol=1e-12)


@examples(15, nightly=60)
@given(dags())
def test_small_blocks_give_the_same(dag: ComputeDAG) -> None:
    inputs = random_inputs(dag, np.random.default_rng(1))
    whole = reference.evaluate(dag, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_BLOCK_ELEMENTS", 16)
        blocks = reference.evaluate(dag, inputs)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [(ac.sum, ARRAY * 5), (ac.prod, ARRAY**5), (ac.max, ARRAY), (ac.min, ARRAY)],
)
def test_terms_that_do_not_depend_on_the_reduced_axis(
    reduce: Callable[..., ac.Reduction], expected: Array
) -> None:
    k = ac.reduce_axis(5, "k")
    found = value(ac.compute(8, lambda i: reduce(V[i], axis=k)), V=ARRAY)
    np.testing.assert_allclose(found, expected)


def test_products_of_three_and_sums_over_one_factor() -> None:
    a, b = ac.placeholder((4, 5), "a"), ac.placeholder((5, 6), "b")
    c, k, q = ac.placeholder(6, "c"), ac.reduce_axis(5), ac.reduce_axis(6)
    y = ac.compute(4, lambda i: ac.sum(a[i, k] * b[k, q] * c[q] * 2.0, axis=[k, q]))
    arrays = [RNG.uniform(-1, 1, shape) for shape in ((4, 5), (5, 6), (6,))]
    found = reference.evaluate(ComputeDAG([a, b, c, y]), arrays)[0]
    np.testing.assert_allclose(found, arrays[0] @ arrays[1] @ arrays[2] * 2)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([], "there are 1 inputs \\(V\\), not 0"),
        ([np.zeros(9)], "'V' has shape \\(8,\\), not \\(9,\\)"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[Array], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        reference.evaluate(ComputeDAG([V, ops.relu(V)]), inputs)


def test_outputs_come_in_call_order_and_dtype_can_be_chosen() -> None:
    one, two = ops.relu(V, name="one"), ops.tanh(V, name="two")
    found = reference.evaluate(ComputeDAG([two, V, one]), [np.full(8, -1.0)], np.float32)
    np.testing.assert_allclose(found[0], np.tanh(-1.0), rtol=1e-6)
    np.testing.assert_array_equal(found[1], 0.0)
    assert found[0].dtype == np.float32


def test_large_products_are_fast() -> None:
    """Far from what looping in Python would take, whatever else the machine does."""
    x, w = ac.placeholder((1, 7, 7, 512), "x"), ac.placeholder((3, 3, 512, 512), "w")
    dag = ComputeDAG([x, w, ops.conv2d(x, w, padding=1)])
    arrays = [RNG.uniform(-1, 1, buffer.shape) for buffer in dag.inputs]
    start = time.process_time()
    found = reference.evaluate(dag, arrays)[0]
    assert time.process_time() - start < 10.0
    centre = np.einsum("hwi,hwio->o", arrays[0][0, 2:5, 3:6], arrays[1])
    np.testing.assert_allclose(found[0, 3, 4], centre, rtol=1e-9, atol=1e-9)
