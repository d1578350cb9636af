"""Gradients of functions, reductions and whole computations, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.ir.operator import MATH_FUNCTIONS
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.gradient.rules import FUNCTIONS
from ansorc.lang.reference import evaluate
from ansorc.lang.scalar import fma
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.lang.trace import key_of, list_tensors
from tests.lang.gradient.finite_differences import check_gradient, refusal_of, tensors_of
from tests.support.dag_strategies import dags, random_inputs
from tests.support.nightly import examples, sampled


def _let(x: Scalar) -> Scalar:
    y = ac.let(x * ac.exp(x))
    z = ac.let(ac.sin(y) * y)
    return y * z + z * z


UNARY: dict[str, Callable[[Scalar], Scalar]] = {
    "exp": ac.exp, "exp2": ac.exp2, "expm1": ac.expm1, "log": ac.log, "log2": ac.log2,
    "log1p": ac.log1p, "tanh": ac.tanh, "erf": ac.erf, "sigmoid": ac.sigmoid, "sqrt": ac.sqrt,
    "rsqrt": ac.rsqrt, "sin": ac.sin, "cos": ac.cos, "abs": lambda x: ac.abs(0.8 - x),
    "floor": lambda x: ac.floor(x * 3.0), "ceil": lambda x: ac.ceil(x * 3.0),
    "round": lambda x: ac.round(x * 3.0), "negate": lambda x: -x, "power": lambda x: x**7,
    "square root of a power": lambda x: x**1.5, "quotient": lambda x: 2.0 / (x + 1.0),
    "choice": lambda x: ac.if_then_else(x > 0.7, x * x, 1.0 - x),
    "choice of a guard": lambda x: ac.if_then_else(x < 0.0, ac.log(x), x * 2.0),
    "base": lambda x: ac.power(2.5, x), "to and from float32": lambda x: x.astype("float32"),
    "over an integer": lambda x: x * (x * 3.0).astype("int32").astype("float64"),
    "trunc": lambda x: ac.trunc(x * 3.0), "copysign": lambda x: ac.copysign(x, 0.7 - x),
    "tan": ac.tan, "asin": lambda x: ac.asin(x / 2.0), "acos": lambda x: ac.acos(x / 2.0),
    "atan": ac.atan, "sinh": ac.sinh, "cosh": ac.cosh, "asinh": ac.asinh, "cbrt": ac.cbrt,
    "acosh": lambda x: ac.acosh(x + 1.0), "atanh": lambda x: ac.atanh(x / 2.0), "log10": ac.log10,
    "let": _let,
    "shared": lambda x: ac.tanh(x * x) * (x * x) + ac.exp(x * x),
}  # fmt: skip
BINARY: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "pow": ac.power, "fmod": lambda x, y: ac.fmod(x * 3.0, y), "mod": lambda x, y: (-x * 3.0) % y,
    "floor_divide": lambda x, y: (x * 3.0) // y, "maximum": ac.maximum, "minimum": ac.minimum,
    "atan2": ac.atan2, "hypot": ac.hypot,
    "fma": lambda x, y: fma(x, y, x),
}  # fmt: skip


def _inputs(*shapes: tuple[int, ...]) -> tuple[list[Tensor], list[np.ndarray]]:
    rng = np.random.default_rng(5)
    tensors = [ac.placeholder(shape, f"x{n}", "float64") for n, shape in enumerate(shapes)]
    return tensors, [rng.uniform(0.2, 1.4, shape) for shape in shapes]


@pytest.mark.parametrize("name", UNARY)
def test_function(name: str) -> None:
    (x,), arrays = _inputs((23,))
    function = UNARY[name]
    y = ac.compute(x.shape, lambda i: function(x[i]).astype("float64") * x[i], "y")
    check_gradient(y, [x], arrays)


@pytest.mark.parametrize("name", UNARY)
def test_function_of_its_own_value(name: str) -> None:
    """Where the function is the whole body, its derivative may read the result."""
    (x,), arrays = _inputs((23,))
    function = UNARY[name]
    check_gradient(ac.compute(x.shape, lambda i: function(x[i]), "y"), [x], arrays)


@pytest.mark.parametrize("name", BINARY)
def test_function_of_two(name: str) -> None:
    (x, y), arrays = _inputs((23,), (23,))
    function = BINARY[name]
    check_gradient(ac.compute(x.shape, lambda i: function(x[i], y[i]), "z"), [x, y], arrays)


def test_every_math_function_has_a_derivative() -> None:
    assert set(MATH_FUNCTIONS) == set(FUNCTIONS)


@examples(15, nightly=2000)
@given(dags(dtypes=("float64",)), st.integers(0, 1 << 30))
def test_random_computations(dag: ComputeDAG, seed: int) -> None:
    outputs = [buffer for buffer in dag.outputs if buffer.dtype.is_float]
    assume(outputs)
    tensors, rng = tensors_of(dag), np.random.default_rng(seed)
    drawn = zip(dag.inputs, random_inputs(dag, rng), strict=True)
    arrays = {b.name: a + 0.01 * rng.uniform(-1, 1, a.shape) * b.dtype.is_float for b, a in drawn}
    loss = tensors[outputs[0].name]
    behind = {key_of(tensor) for tensor in list_tensors([loss])}
    inputs = [t for b in dag.inputs if key_of(t := tensors[b.name]) in behind]
    assume(any(tensor.dtype.is_float for tensor in inputs))
    if words := refusal_of(loss, inputs):
        known = "reducer of your own", "by another", "ranges that are data", "other places than"
        assert any(each in words for each in known)
    else:
        check_gradient(loss, inputs, [arrays[tensor.name] for tensor in inputs], rng=rng)


@pytest.mark.parametrize("combine", [ac.sum, ac.max, ac.min, ac.prod])
def test_reduction(combine: Callable[..., ac.Reduction]) -> None:
    (x,), arrays = _inputs((4, 6))
    k = ac.reduce_axis(6, "k")
    y = ac.compute(4, lambda i: combine(x[i, k] * x[i, k], axis=k), "y")
    check_gradient(y, [x], arrays)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_products_with_zeros(zeros: int) -> None:
    (x,), (array,) = _inputs((3, 5))
    array[1, :zeros] = 0.0
    k = ac.reduce_axis(5, "k")
    check_gradient(ac.compute(3, lambda i: ac.prod(x[i, k], axis=k), "y"), [x], [array])


def _evaluate(outputs: Sequence[Tensor], inputs: Sequence[Tensor], *arrays: np.ndarray):
    return evaluate(ComputeDAG([*inputs, *outputs]), list(arrays))


def test_the_first_of_equal_elements_is_the_largest() -> None:
    x = ac.placeholder((2, 4), "x")
    k = ac.reduce_axis(4, "k")
    y = ac.compute(2, lambda i: ac.max(x[i, k], axis=k), "y")
    (gradient,) = ac.gradient(ac.ops.sum(y), [x])
    array = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], np.float32)
    assert _evaluate([gradient], [x], array)[0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_relu_has_no_slope_at_zero() -> None:
    x = ac.placeholder(3, "x")
    (gradient,) = ac.gradient(ac.ops.sum(ac.ops.relu(x)), [x])
    assert _evaluate([gradient], [x], np.array([-1, 0, 1], np.float32))[0].tolist() == [0, 0, 1]


def test_the_value_of_argmax() -> None:
    (x,), arrays = _inputs((4, 6))
    k = ac.reduce_axis(6, "k")
    value, _ = ac.compute_tuple(4, lambda i: ac.argmax(x[i, k] * x[i, k], axis=k), ["v", "p"])
    check_gradient(ac.compute(4, lambda i: ac.exp(value[i]), "y"), [x], arrays)


def test_a_reducer_of_sums() -> None:
    (x,), arrays = _inputs((4, 6))
    k = ac.reduce_axis(6, "k")
    moments = ac.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0))
    first, second = ac.compute_tuple(
        4, lambda i: moments(x[i, k], x[i, k] * x[i, k], axis=k), ["m", "s"]
    )
    y = ac.compute(4, lambda i: second[i] / 6.0 - first[i] * first[i] / 36.0, "y")
    check_gradient(y, [x], arrays)


def test_a_scalar_loss_needs_no_seed() -> None:
    x = ac.placeholder((3, 4), "x")
    (gradient,) = ac.gradient(ac.ops.mean(ac.ops.multiply(x, x)), [x])
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.allclose(_evaluate([gradient], [x], array)[0], array / 6)
    assert "sum" not in ComputeDAG([x, gradient]).to_text()


def test_second_derivatives() -> None:
    (x,), arrays = _inputs((5,))
    y = ac.compute(5, lambda i: x[i] ** 3 * ac.sin(x[i]), "y")
    (first,) = ac.gradient(ac.ops.sum(y), [x])
    check_gradient(first, [x], arrays)


def test_by_an_intermediate_tensor() -> None:
    (x,), arrays = _inputs((5,))
    y = ac.compute(5, lambda i: x[i] * x[i], "y")
    z = ac.compute(5, lambda i: y[i] * x[i], "z")
    by_x, by_y = ac.gradient(ac.ops.sum(z), [x, y])
    found = _evaluate([by_x, by_y], [x], *arrays)
    assert np.allclose(found[0], 3 * arrays[0] ** 2)
    assert np.allclose(found[1], arrays[0])


def test_tensors_of_one_default_name_are_told_apart() -> None:
    a, b = (ac.placeholder((4,), dtype="float64") for _ in range(2))
    product = ac.compute((4,), lambda i: a[i] * b[i] * b[i])
    check_gradient(product, [a, b], [np.arange(1.0, 5), np.arange(3.0, 7)])


def test_sums_of_narrow_floats_are_wide() -> None:
    x = ac.placeholder((3000, 2), "x", "float16")
    w = ac.placeholder((2,), "w", "float16")
    (gradient,) = ac.gradient(ac.ops.sum(ac.ops.multiply(x, w)), [w])
    text = ComputeDAG([x, w, gradient]).to_text()
    assert "gradient.sum: float32[2]" in text
    assert gradient.dtype == w.dtype


def test_stop_gradient() -> None:
    (x,), arrays = _inputs((5,))
    y = ac.compute(5, lambda i: x[i] * x[i], "y")
    stopped = ac.stop_gradient(y)
    z = ac.compute(5, lambda i: stopped[i] * x[i], "z")
    (gradient,) = ac.gradient(ac.ops.sum(z), [x])
    assert np.allclose(_evaluate([gradient], [x], *arrays)[0], arrays[0] ** 2)
    copy = ac.stop_gradient(x)
    z = ac.compute(5, lambda i: copy[i] * x[i], "z")
    (gradient,) = ac.gradient(ac.ops.sum(z), [x])
    assert np.allclose(_evaluate([gradient], [x], *arrays)[0], arrays[0])


def test_a_tensor_is_read_with_and_without_its_derivative() -> None:
    (x,), arrays = _inputs((5,))
    y = ac.compute(5, lambda i: x[i] * x[i], "y")
    stopped = ac.stop_gradient(y)
    z = ac.compute(5, lambda i: stopped[i] * y[i], "z")
    (gradient,) = ac.gradient(ac.ops.sum(z), [x])
    assert np.allclose(_evaluate([gradient], [x], *arrays)[0], 2 * arrays[0] ** 3)


def test_what_flows_back_to_a_product_is_stored() -> None:
    """Its two products would compute it anew for each of their terms."""
    a, b = ac.placeholder((8, 8), "a"), ac.placeholder((8, 8), "b")
    y = ac.ops.relu(ac.ops.matmul(a, b, name="c"))
    seed = ac.placeholder((8, 8), "g")
    lines = ComputeDAG([a, b, seed, *ac.gradient(y, [a, b], seed=seed)]).to_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("compute c.gradient:"))
    assert lines[place + 1] == '    hint never_compute_inline = "1"'


def test_results_of_the_forward_pass_are_read() -> None:
    x = ac.placeholder((8, 16), "x")
    (gradient,) = ac.gradient(ac.ops.softmax(x), [x], seed=ac.placeholder((8, 16), "g"))
    op = gradient.definition
    assert op is not None
    assert [load.buffer.name for load in op.loads][-1] == "softmax.exp"


def _machine_cases() -> dict[str, tuple[Tensor, list[Tensor]]]:
    x, w = ac.placeholder((1, 8, 7, 3), "x"), ac.placeholder((3, 3, 3, 5), "w")
    a, b = ac.placeholder((6, 20), "a"), ac.placeholder((20,), "b")
    return {
        "conv2d": (ac.ops.conv2d(x, w, stride=2, padding=1), [x, w]),
        "max_pool2d": (ac.ops.max_pool2d(x, 3, stride=2, padding=1), [x]),
        "rms_norm": (ac.ops.rms_norm(a, b), [a, b]),
    }


def _backward(name: str) -> ComputeDAG:
    loss, inputs = _machine_cases()[name]
    seed = ac.placeholder(loss.shape, "g")
    return ComputeDAG([*inputs, seed, *ac.gradient(loss, inputs, seed=seed)])


def _require_right(dag: ComputeDAG, module: Callable[..., object]) -> None:
    """Require the results of fresh random inputs to be those of the reference."""
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(-1, 1, buffer.shape).astype(np.float32) for buffer in dag.inputs]
    results = [np.full(buffer.shape, np.nan, np.float32) for buffer in dag.outputs]
    module(*arrays, *results)
    for result, expected in zip(results, evaluate(dag, arrays), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["conv2d", "max_pool2d", "rms_norm"])
def test_machine_code(name: str) -> None:
    dag = _backward(name)
    _require_right(dag, ac.build(ac.schedule(dag)))


@pytest.mark.parametrize("name", sampled(["conv2d", "max_pool2d", "rms_norm"], ["rms_norm"]))
def test_cuda_text(name: str) -> None:
    dag = _backward(name)
    _require_right(dag, ac.build(dag, "cuda-emulated -arch=sm_80"))


def _refused(words: str, call: Callable[[], object]) -> None:
    with pytest.raises(LanguageError, match=words):
        call()


def test_refusals() -> None:
    x, n = ac.placeholder(4, "x"), ac.placeholder(4, "n", "int32")
    y = ac.compute(4, lambda i: x[i] * n[i].astype("float32"), "y")
    z = ac.compute(4, lambda i: n[i] * 2, "z")
    g = ac.placeholder(5, "g")
    _refused("'n' is int32, and only floats have derivatives", lambda: ac.gradient(y, [n], y))
    _refused("'z' is int32, and only floats", lambda: ac.gradient(z, [x]))
    _refused("more than one element; give seed=", lambda: ac.gradient(y, [x]))
    _refused("the seed g: float32.5. is unlike y", lambda: ac.gradient(y, [x], seed=g))
    _refused("'y' does not depend on 'g'", lambda: ac.gradient(y, [g], seed=y))
    _refused("list of one tensor or more", lambda: ac.gradient(y, [], seed=y))
    mixed = ac.compute(
        (4, 4),
        lambda t, i: ac.scan(0.0, lambda s: s[(i + 1) % 4] * 0.5 + x[i], axis=t),
        "mixed",
    )
    _refused("states of other places than", lambda: ac.gradient(ac.ops.sum(mixed), [x]))
    k = ac.reduce_axis(300, "k")
    summed = ac.compute(
        (4, 4),
        lambda t, i: ac.scan(0.0, lambda s: x[i] + ac.sum(s * 0.001 * k.astype("float32"), k), t),
        "summed",
    )
    _refused("the scan 'summed' reduce states", lambda: ac.gradient(ac.ops.sum(summed), [x]))
    _refused("twice; list it once", lambda: ac.gradient(y, [x, x], seed=y))


def test_refused_stages() -> None:
    x, n = ac.placeholder(4, "x"), ac.placeholder(4, "n", "int64")
    most = ac.scatter(6, n, x, "max", name="most")
    _refused("'most' scatters by another operation than a sum", lambda: _gradient_of_sum(most, x))

    def of_row(i: ac.Scalar) -> ac.Reduction:
        k = ac.reduce_axis((n[i], n[i] + 1))
        return ac.sum(x[k], axis=k)

    rows = ac.compute(4, of_row, "rows")
    _refused("'rows' reduces over ranges that are data", lambda: _gradient_of_sum(rows, x))
    k = ac.reduce_axis(4, "k")
    larger = ac.reducer(lambda a, b: (ac.maximum(a[0], b[0]), a[1] + b[1]), (float("-inf"), 0))
    most, _ = ac.compute_tuple((), lambda: larger(x[k], x[k], axis=k), ["most", "total"])
    _refused("'most' is computed by a reducer of your own", lambda: ac.gradient(most, [x]))


def _gradient_of_sum(tensor: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return ac.gradient(ac.ops.sum(tensor), [x])


def _of_data() -> dict[str, tuple[Tensor, list[Tensor]]]:
    """Return computations at places that are data: the integers are below 4."""
    x, n = ac.placeholder((6, 4), "x", "float64"), ac.placeholder((5,), "n", "int64")
    v, m = ac.placeholder((5, 4), "v", "float64"), ac.placeholder((6,), "m", "int64")
    scattered = ac.scatter((6, 4), n, v)
    return {
        "rows": (ac.ops.take(x, n, 0), [x, n]),
        "columns": (ac.ops.take(x, n, 1), [x, n]),
        "scatter": (ac.ops.multiply(scattered, scattered), [v, n]),
        "cross_entropy": (ac.ops.cross_entropy(x, m), [x, m]),
        "under a guard": (
            ac.compute((5, 4), lambda i, j: ac.if_then_else(i < 3, x[n[i], j] * v[i, j], 1.0)),
            [x, n, v],
        ),
    }


@pytest.mark.parametrize("name", ["rows", "columns", "scatter", "cross_entropy", "under a guard"])
def test_places_that_are_data(name: str) -> None:
    loss, inputs = _of_data()[name]
    rng = np.random.default_rng(4)
    arrays = [
        rng.uniform(-1, 1, t.shape) if t.dtype.is_float else rng.integers(0, 4, t.shape)
        for t in inputs
    ]
    check_gradient(loss, inputs, arrays, [t for t in inputs if t.dtype.is_float], rng)


def _scans() -> dict[str, tuple[Tensor, list[Tensor]]]:
    x, w = ac.placeholder((3, 6), "x", "float64"), ac.placeholder((3,), "w", "float64")
    first, _ = ac.compute_tuple(
        (3, 6),
        lambda i, t: ac.scan(
            (w[i], 1.0),
            lambda a, b: (ac.sin(a) * b + x[i, t], a * 0.5 + b * x[i, t]),
            axis=t, reverse=True,
        ),
        ["first", "second"],
    )  # fmt: skip
    counted, _ = ac.compute_tuple(
        (3, 6),
        lambda i, t: ac.scan(
            (0.0, 0), lambda s, n: (s * 0.5 + x[i, t] * ac.cast(n, "float64"), n + 1), axis=t
        ),
        ["counted", "number"],
    )
    return {
        "sum": (ac.compute((3, 6), lambda i, t: ac.scan(0.0, lambda s: s + x[i, t], axis=t)), [x]),
        "product": (
            ac.compute((3, 6), lambda i, t: ac.scan(w[i], lambda s: s * x[i, t], axis=t)), [x, w]
        ),
        "filter": (
            ac.compute(
                (3, 6), lambda i, t: ac.scan(x[i, 0], lambda s: 0.9 * s + w[i] * x[i, t], axis=t)
            ),
            [x, w],
        ),
        "steps": (
            ac.compute((3, 6), lambda i, t: ac.scan(w[i], lambda s: ac.tanh(s * x[i, t]), axis=t)),
            [x, w],
        ),
        "back": (
            ac.compute(
                (3, 6),
                lambda i, t: ac.scan(
                    0.5, lambda s: s * s + x[i, t], axis=t, reverse=True, exclusive=True
                ),
            ),
            [x],
        ),
        "two states": (first, [x, w]),
        "with a counter": (counted, [x]),
    }  # fmt: skip


SCANS = ["sum", "product", "filter", "steps", "back", "two states", "with a counter"]


@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str) -> None:
    loss, inputs = _scans()[name]
    rng = np.random.default_rng(2)
    arrays = [rng.uniform(0.2, 0.9, tensor.shape) for tensor in inputs]
    check_gradient(loss, inputs, arrays, rng=rng)


def test_the_gradient_of_a_running_sum_is_one_from_the_end() -> None:
    x, seed = ac.placeholder((3, 6), "x"), ac.placeholder((3, 6), "g")
    y = ac.compute((3, 6), lambda i, t: ac.scan(0.0, lambda s: s + x[i, t], axis=t), "y")
    text = ComputeDAG([x, seed, *ac.gradient(y, [x], seed=seed)]).to_text()
    assert "scan back t from 0.0 = g[i, t] + y.gradient.steps[i, t + 1]" in text


@pytest.mark.parametrize("starts", [[0, 2, 2, 5, 9], [1, 4, 4, 4, 7]])
def test_a_compressed_matrix_times_a_matrix(starts: list[int]) -> None:
    """Rows may be empty, and terms in front of the first row and behind the last are in none."""
    p = ac.placeholder(5, "p", "int64", sorted=True, range=(0, 9))
    v, c = ac.placeholder(9, "v", "float64"), ac.placeholder(9, "c", "int64")
    x, w = ac.placeholder((7, 3), "x", "float64"), ac.placeholder(4, "w", "float64")

    def row(i: Scalar, j: Scalar) -> ac.Reduction:
        k = ac.reduce_axis((p[i], p[i + 1]), "k")
        return ac.sum(v[k] * x[c[k], j] * w[i], axis=k)

    y, rng = ac.compute((4, 3), row, "y"), np.random.default_rng(6)
    arrays = [
        np.array(starts), rng.uniform(-1, 1, 9), rng.integers(0, 7, 9),
        rng.uniform(-1, 1, (7, 3)), rng.uniform(-1, 1, 4),
    ]  # fmt: skip
    dag = check_gradient(y, [p, v, c, x, w], arrays, [v, x, w], rng)
    inputs = [*arrays, rng.uniform(-1, 1, (4, 3))]
    results = [np.full(buffer.shape, np.nan) for buffer in dag.outputs]
    ac.build(ac.schedule(dag))(*inputs, *results)
    for result, expected in zip(results, evaluate(dag, inputs), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
