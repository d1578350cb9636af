"""Complex tensors: in the reference, the interpreter, machine code and CUDA text, and refusals."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import ansorc as ac
from ansorc.errors import AnsorcError, CallError, LanguageError, OptionError
from ansorc.ir.aligned import Array
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from tests.lang.complex_cases import Drawn, expressions
from tests.support.nightly import examples

OPTIONS = settings(
    deadline=None, database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip
Function = Callable[[Any], Any] | Callable[[Any, Any], Any]
"""A function of one array or tensor, or of two."""


def _tolerance(dtype: str) -> float:
    return 2e-4 if dtype in ("complex64", "float32") else 1e-9


def _draw(*shape: int, dtype: str = "complex64") -> Any:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def _poisoned(like: Array) -> Array:
    """Return an array for a result whose every bit is set: NaN in both parts."""
    return np.full(like.nbytes, 0xFF, np.uint8).view(like.dtype).reshape(like.shape)


def _require_all_alike(
    dag: ac.ComputeDAG, inputs: list[Array], expected: Array, *, on_gpu: bool = True
) -> None:
    """Compare the reference, the interpreter, machine code and emulated CUDA text with NumPy."""
    interpreted: Any = dag.interpret(*inputs)
    tolerance = _tolerance(interpreted.dtype.name)
    np.testing.assert_allclose(dag.evaluate(*inputs), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(interpreted, expected, rtol=tolerance, atol=tolerance)
    for target in ("native", "cuda-emulated -arch=sm_80")[: 2 if on_gpu else 1]:
        result = _poisoned(interpreted)
        ac.build(dag, target)(*inputs, result)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@examples(8, nightly=400, options=OPTIONS)
@given(expressions())
def test_any_expression(drawn: Drawn) -> None:
    dag = drawn.dag()
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    _require_all_alike(dag, drawn.inputs(), drawn.expected(), on_gpu=False)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_on_a_gpu(dtype: str) -> None:
    x, y = (ac.placeholder((3, 40), name, dtype) for name in "xy")
    z = ac.compute((3, 40), lambda i, j: ac.exp(x[i, j]) / y[i, j] - x[i, j] * 1j, "z")
    a, b = _draw(3, 40, dtype=dtype), _draw(3, 40, dtype=dtype) + 2
    wide = a.astype(np.complex128)
    _require_all_alike(ac.ComputeDAG([x, y, z]), [a, b], np.exp(wide) / b - wide * 1j)


def _product(a: ac.Tensor, b: ac.Tensor) -> ac.Tensor:
    k = ac.reduce_axis(a.shape[1], "k")
    return ac.compute((a.shape[0], b.shape[1]), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), "c")


def _over_rows(reduce: Callable[..., Any]) -> Callable[[ac.Tensor], ac.Tensor]:
    def apply(a: ac.Tensor) -> ac.Tensor:
        k = ac.reduce_axis(a.shape[1], "k")
        return ac.compute(a.shape[0], lambda i: reduce(a[i, k], axis=k), "c")

    return apply


def _scaled(a: ac.Tensor) -> ac.Tensor:
    k = ac.reduce_axis(a.shape[1], "k")
    return ac.compute(a.shape, lambda i, j: a[i, j] / ac.sum(ac.abs(a[i, k]), axis=k), "c")


def _doubled(a: ac.Tensor) -> ac.Tensor:
    return ac.ops.add(a, a)


WHOLE: dict[str, tuple[list[tuple[int, ...]], Function, Function]] = {
    "written product": ([(4, 6), (6, 5)], _product, np.matmul),
    "sum": ([(4, 9)], _over_rows(ac.sum), lambda a: a.sum(1)),
    "prod": ([(4, 6)], _over_rows(ac.prod), lambda a: a.prod(1)),
    "sum inside": ([(4, 6)], _scaled, lambda a: a / abs(a).sum(1, keepdims=True)),
    "matmul": ([(7, 9), (9, 20)], ac.ops.matmul, np.matmul),
    "matmul of batches": ([(2, 1, 4, 6), (3, 6, 5)], ac.ops.matmul, np.matmul),
    "batch_matmul": ([(2, 4, 6), (2, 6, 5)], ac.ops.batch_matmul, np.matmul),
    "dense": ([(2, 4, 6), (5, 6)], ac.ops.dense, lambda a, b: a @ b.T),
    "product of computed": (
        [(4, 6), (6, 5)], lambda a, b: _doubled(ac.ops.matmul(_doubled(a), b)),
        lambda a, b: 4 * (a @ b),
    ),
    "where": (
        [(4, 6), (4, 6)],
        lambda a, b: ac.ops.where(
            ac.compute((4, 6), lambda i, j: a[i, j].real > b[i, j].real, "t"), a, b
        ),
        lambda a, b: cast("Any", np.where(a.real > b.real, a, b)),
    ),
    "divide": ([(4, 6), (6,)], ac.ops.divide, np.divide),
    "transpose": ([(4, 6)], lambda a: ac.ops.transpose(a, (1, 0)), np.transpose),
    "reshape": ([(4, 6)], lambda a: ac.ops.reshape(a, (3, 8)), lambda a: a.reshape(3, 8)),
    "concat": (
        [(4, 6), (4, 3)], lambda a, b: ac.ops.concat([a, b], 1), lambda a, b: np.hstack([a, b])
    ),
    "slice": ([(4, 6)], lambda a: ac.ops.slice(a, (1, 1), (3, 6)), lambda a: a[1:3, 1:6]),
    "pad": (
        [(4, 6)], lambda a: ac.ops.pad(a, (1, 0), (0, 2)), lambda a: np.pad(a, ((1, 0), (0, 2)))
    ),
    "sum over an axis": ([(4, 6)], lambda a: ac.ops.sum(a, 0), lambda a: a.sum(0)),
    "mean": ([(4, 6)], lambda a: ac.ops.mean(a, 1), lambda a: a.mean(1)),
    "fft": ([(3, 24)], ac.ops.fft, np.fft.fft),
    "ifft": ([(3, 12)], ac.ops.ifft, np.fft.ifft),
    "there and back": ([(2, 10)], lambda a: ac.ops.ifft(ac.ops.fft(a)), lambda a: a),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_tensors(name: str) -> None:
    shapes, define, reference = cast("tuple[list[tuple[int, ...]], Any, Any]", WHOLE[name])
    inputs = [_draw(*shape) for shape in shapes]
    tensors = [ac.placeholder(shape, f"a{n}", "complex64") for n, shape in enumerate(shapes)]
    dag = ac.ComputeDAG([*tensors, define(*tensors)])
    expected = reference(*(each.astype(np.complex128) for each in inputs))
    interpreted: Any = dag.interpret(*inputs)
    np.testing.assert_allclose(dag.evaluate(*inputs), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(interpreted, expected, rtol=1e-3, atol=1e-4)
    result = _poisoned(interpreted)
    ac.build(dag)(*inputs, result)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def test_real_results_and_real_operands() -> None:
    z, r = ac.placeholder((3, 8), "z", np.complex64), ac.placeholder((3, 8), "r")
    made = ac.compute((3, 8), lambda i, j: ac.complex(r[i, j], 2.0) * r[i, j] + 1j, "made")
    size = ac.compute((3, 8), lambda i, j: abs(made[i, j]) + ac.imag(z[i, j].conj()), "size")
    mixed = ac.compute((3, 8), lambda i, j: r[i, j].astype(np.complex64) / z[i, j], "mixed")
    a, b = _draw(3, 8), _draw(3, 8).real.copy()
    dag = ac.ComputeDAG([z, r, size, mixed])
    assert [kind.dtype.name for kind in dag.params] == ["float32"] * 4
    found: Any = ac.build(dag)(a, b)
    np.testing.assert_allclose(found[0], abs((b + 2j) * b + 1j) - a.imag, rtol=1e-5)
    np.testing.assert_allclose(found[1], b.astype(complex) / a, rtol=1e-5)


def test_large_and_small_quotients_and_sizes() -> None:
    z = ac.placeholder((4,), "z", "complex64")
    inverse = ac.compute(4, lambda i: 1.0 / z[i], "inverse")
    size = ac.compute(4, lambda i: abs(z[i]), "size")
    data = np.array([1e30 + 1e30j, 1e-30 - 1e-30j, 3e38 + 0j, -2e-38j], "complex64")
    found: Any = ac.build(ac.ComputeDAG([z, inverse, size]))(data)
    np.testing.assert_allclose(found[0], 1 / data.astype(complex), rtol=1e-6)
    np.testing.assert_allclose(found[1], abs(data.astype(complex)), rtol=1e-6)


def test_text_of_loop_programs() -> None:
    x = ac.placeholder((4, 8), "x", "complex64", constant=True)
    dag = ac.ComputeDAG([x, ac.ops.multiply(x, x)])
    function = ac.lower(ac.schedule(dag))
    assert "x: float32[4, 16] complex constant" in to_text(function)
    assert parse(to_text(function)) == function


def test_weights() -> None:
    """Constant complex tensors may be packed, as an array or before."""
    a = ac.placeholder((8, 12), "a", "complex64")
    w = ac.placeholder((12, 16), "w", "complex64", constant=True)
    module = ac.build(ac.ComputeDAG([a, w, ac.ops.matmul(a, w)]))
    x, weight = _draw(8, 12), _draw(12, 16)
    weight.flags.writeable = False
    for given_ in (weight, weight, module.pack("w", weight)):
        np.testing.assert_allclose(module(x, given_), x @ weight, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(module.bind(w=weight)(x), x @ weight, rtol=1e-4, atol=1e-4)


def test_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    x = ac.placeholder((4, 8), "x", "complex64")
    module = ac.build(ac.ComputeDAG([x, ac.ops.multiply(x, x)]))
    data = torch.from_numpy(_draw(4, 8))
    result = torch.empty_like(data)
    module(data, result)
    torch.testing.assert_close(result, data * data)


class _Foreign:
    """An array of another library: what PyTorch shows of a complex tensor."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries() -> None:
    x = ac.placeholder((4, 8), "x", "complex64")
    module = ac.build(ac.ComputeDAG([x, ac.ops.multiply(x, x)]))
    data, result = _draw(4, 8), np.empty((4, 8), np.complex64)
    module(_Foreign(data), _Foreign(result))
    np.testing.assert_allclose(result, data * data, rtol=1e-5, atol=1e-5)


def test_calls() -> None:
    x = ac.placeholder((4, 8), "x", "complex64")
    module = ac.build(ac.ComputeDAG([x, ac.ops.multiply(x, x)]))
    data = _draw(4, 8)
    assert repr(module).startswith("<kernel kernel(x: complex64[4, 8], multiply: complex64[4, 8])")
    bound = np.empty_like(data)
    module.bind(data, bound)()
    np.testing.assert_array_equal(bound, module(data))
    parts = module(data.view(np.float32))  # the parts themselves are what the kernel gets
    np.testing.assert_array_equal(parts, bound)
    with pytest.raises(CallError, match=r"has dtype complex128, but the kernel wants complex64"):
        module(data.astype(complex))
    with pytest.raises(CallError, match=r"has shape \(8, 4\), but the kernel wants \(4, 8\)"):
        module(data.reshape(8, 4))
    with pytest.raises(CallError, match="is not contiguous"):
        module(np.asfortranarray(data))


def test_gradients_through_complex_numbers() -> None:
    """Those of real tensors, by the real and the imaginary parts of what is computed from them."""
    r = ac.placeholder((4, 4), "r", "float64")
    z = ac.compute((4, 4), lambda i, j: ac.complex(r[i, j], 0.5) * r[i, j], "z")
    product = ac.ops.matmul(z, z)
    axes = [ac.reduce_axis(4, name) for name in "ij"]
    loss = ac.compute(1, lambda _: ac.sum(abs(product[tuple(axes)]), axis=axes), "loss")
    data = _draw(4, 4).real.astype(float)
    (slope,) = ac.gradient(loss, [r])
    found: Any = ac.ComputeDAG([r, slope]).evaluate(data)

    def size(values: Any) -> float:
        complex_ = (values + 0.5j) * values
        return float(abs(complex_ @ complex_).sum())

    for place in ((0, 0), (1, 2), (3, 1)):
        step = np.zeros((4, 4))
        step[place] = 1e-6
        expected = (size(data + step) - size(data - step)) / 2e-6
        np.testing.assert_allclose(found[place], expected, rtol=1e-5)


def test_powers_of_powers_are_defined_in_time() -> None:
    """Written out, the power has four times as many nodes for each of its twelve squares."""
    z = ac.placeholder((4,), "z", "complex64")
    y = ac.compute(4, lambda i: ((z[i] ** 8) ** 8) ** 64, "y")
    data = np.exp(1j * np.arange(4)).astype(np.complex64)
    expected = data.astype(complex) ** 4096
    np.testing.assert_allclose(ac.ComputeDAG([z, y]).evaluate(data), expected, rtol=1e-9)


def _refused(words: str, error: type[AnsorcError] = LanguageError) -> pytest.RaisesExc[AnsorcError]:
    return pytest.raises(error, match=words)


def test_refusals_of_elements() -> None:
    z, w = ac.placeholder((4,), "z", "complex64"), ac.placeholder((4,), "w", "complex128")
    n, d = ac.placeholder((4,), "n", "int32"), ac.placeholder((4,), "d", "float64")
    k = ac.reduce_axis(4, "k")
    refusals: list[tuple[str, Callable[[Any], Any]]] = [
        ("'<' of complex numbers, which have no order; compare abs", lambda i: z[i] < 1.0),
        ("'max' of complex numbers: they have no order", lambda i: ac.maximum(z[i], z[i])),
        ("'%' of complex numbers", lambda i: z[i] % 2.0),
        ("is where a real number is needed", lambda i: ac.tanh(z[i])),
        ("is where a real number is needed", lambda i: z[i] & 1),
        ("complex64 as float32 would lose the imaginary part", lambda i: z[i].astype("float32")),
        ("complex128 meets complex64", lambda i: z[i] + w[i]),
        ("complex128 meets complex64", lambda i: z[i] + d[i]),
        ("is float32 or float64, not int32; cast it", lambda i: z[i] + n[i]),
        ("the parts of a complex number are float64 and float32",
         lambda i: ac.complex(d[i], z[i].real)),
        ("a power of complex numbers is a product", lambda i: z[i] ** 0.5),
        ("a power of complex numbers is a product", lambda i: z[i] ** z[i]),
        ("max of complex numbers, which have only sum and prod; take the max of abs",
         lambda i: ac.max(z[k], axis=k)),
        ("argmax of complex numbers: it combines real ones", lambda i: ac.argmax(z[k], axis=k)),
        ("is where a real number is needed|'>' of complex", lambda i: ac.sign(z[i])),
        ("the product of complex numbers must be all", lambda i: ac.prod(z[k], axis=k) * 2.0),
        ("has no truth value", lambda i: bool(z[i])),
        ("has a complex state; states are real: use compute_tuple",
         lambda i: ac.scan(z[0], lambda s: s * s, axis=i)),
        ("has a complex state", lambda i: ac.scan(0.0, lambda s: s + z[i], axis=i)),
        ("has a complex state", lambda i: ac.scan(w[0].real, lambda s: s + w[i], axis=i)),
    ]  # fmt: skip
    for words, define in refusals:
        with _refused(words):
            ac.compute(4, define, "y")


def test_refusals_of_tensors() -> None:
    z = ac.placeholder((4, 4), "z", "complex64")
    with _refused("'c' is complex64, which has no order; leave out range= and sorted=True"):
        ac.placeholder((4,), "c", "complex64", sorted=True)
    with _refused("'c' is complex and has no dimensions; give it the shape"):
        ac.placeholder((), "c", "complex64")
    with _refused("'sum' is complex and has no dimensions"):
        ac.ops.sum(z)
    for operator in (
        ac.ops.relu,
        ac.ops.softmax,
        ac.ops.sort,
        ac.ops.cumsum,
        ac.ops.max,
        ac.ops.rfft,
    ):
        with _refused("complex|real number"):
            operator(z)
    with _refused("a complex number in a tuple, whose tensors are real: return z.real"):
        ac.compute_tuple((4, 4), lambda i, j: (z[i, j], z[i, j].real))
    loss = ac.compute(1, lambda i: abs(z[i, 0]), "loss")
    with _refused("ac.gradient: 'z' is complex64; take derivatives by real tensors"):
        ac.gradient(loss, [z])
    with _refused("'u' updates 'z', which is complex64: inputs of real numbers are updated"):
        ac.update(z, ac.ops.add(z, z), name="u")
    r = ac.placeholder((4,), "r")
    dag = ac.ComputeDAG([r, ac.compute(4, lambda i: r[i] * 2.0, "y")])
    with _refused("'r' is float32, and the array complex; pass array.real"):
        dag.evaluate(_draw(4))
    with _refused("inputs: 'r' is complex64", OptionError):
        ac.tune(ac.Task(dag), trials=1, inputs={"r": _draw(4)})


PROGRAM = """
#include <complex>
#include <cstdio>
#include "square.h"
int main() {
    std::complex<float> x[32], y[32];
    for (int i = 0; i < 32; ++i) x[i] = {static_cast<float>(i), 1.0f};
    int status = square(reinterpret_cast<float *>(x), reinterpret_cast<float *>(y), nullptr, 1);
    for (int i = 0; i < 32; ++i)
        if (y[i] != x[i] * x[i]) status = 100;
    return status + (SQUARE_X_DIM1 == 8 ? 0 : 50) + (SQUARE_X_ELEMENTS == 64 ? 0 : 60);
}
"""


def test_library(tmp_path: Path) -> None:
    x = ac.placeholder((4, 8), "x", "complex64")
    y = ac.ops.multiply(x, x, "y")
    ac.build(ac.ComputeDAG([x, y]), name="square").save(tmp_path / "libsquare.so")
    header = (tmp_path / "libsquare.h").read_text()
    words = "x: complex64[4][8], input, float pairs: real, imaginary (float _Complex"
    assert words in header
    (tmp_path / "square.h").write_text(header)
    (tmp_path / "main.cc").write_text(PROGRAM)
    program = tmp_path / "main"
    library = str(tmp_path / "libsquare.so")
    compiler = ["c++", "-std=c++17", "-Wall", f"-Wl,-rpath,{tmp_path}", "-I", str(tmp_path)]
    subprocess.run([*compiler, str(tmp_path / "main.cc"), library, "-o", str(program)], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0
    data = _draw(4, 8)
    np.testing.assert_allclose(ac.load_library(library)(data), data * data, rtol=1e-5, atol=1e-5)


def test_tuning_with_given_data(tmp_path: Path) -> None:
    x = ac.placeholder((4, 8), "x", "complex64")
    task = ac.Task(ac.ComputeDAG([x, ac.ops.divide(x, x)]))
    records = str(tmp_path / "tune.db")
    result = ac.tune(task, trials=2, records=records, inputs={"x": _draw(4, 8)})
    assert result.best is not None
    np.testing.assert_allclose(ac.build(task, records=records)(_draw(4, 8)), 1, rtol=1e-5)
