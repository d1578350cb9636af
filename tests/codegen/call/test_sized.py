"""Kernels whose caller gives sizes: calls from Python and C, what is refused, what is saved."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError, CallError, OptionError, RecordError


def _scaled_rows() -> ac.ComputeDAG:
    n = ac.dim("n", 2, 300)
    x = ac.placeholder((n, 40), name="x")
    w = ac.placeholder((40, 24), name="w", constant=True)
    k = ac.reduce_axis(40, name="k")
    y = ac.compute((n, 24), lambda i, j: ac.sum(x[i, k] * w[k, j], axis=k), name="y")
    return ac.ComputeDAG([x, w, y])


@pytest.fixture(scope="module")
def module() -> ac.Module:
    return ac.build(_scaled_rows(), name="rows")


def _arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.random((n, 40), np.float32), rng.random((40, 24), np.float32)


def test_one_kernel_serves_every_size(module: ac.Module) -> None:
    x, w = _arrays(300)
    bound = module.bind(w=w)
    for n in (2, 3, 17, 128, 299, 300, 2):
        result = bound(x[:n])
        assert result.shape == (n, 24)
        np.testing.assert_allclose(result, x[:n] @ w, rtol=1e-5)
        given = np.full((n, 24), np.nan, np.float32)
        bound(x[:n], given, threads=2)
        np.testing.assert_array_equal(given, result)


def test_a_weight_is_packed_once_for_all_sizes(module: ac.Module) -> None:
    x, w = _arrays(9)
    packed = module.pack("w", w)
    for n in (4, 9):
        np.testing.assert_allclose(module(x[:n], packed), x[:n] @ w, rtol=1e-5)
        module.bind(x[:n], packed, np.empty((n, 24), np.float32))()
    assert module.time(x, w, np.empty((9, 24), np.float32), min_time_s=0.001).median_s > 0


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, 40), "was built for n: 2..300, but dimension 0 of 'x' is 1"),
        ((301, 40), "was built for n: 2..300, but dimension 0 of 'x' is 301"),
        ((5, 41), r"takes 'x' of shape \[n, 40\], that is \[5, 40\] for n = 5, not \[5, 41\]"),
        ((5,), r"takes 'x' of 2 dimensions \[n, 40\], not of 1"),
    ],
)
def test_other_arrays_are_refused(module: ac.Module, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(CallError, match=words):
        module(np.zeros(shape, np.float32), np.zeros((40, 24), np.float32))


def test_arrays_of_different_sizes_and_too_few_are_refused(module: ac.Module) -> None:
    x, w = _arrays(5)
    with pytest.raises(CallError, match=r"takes 'y' of shape \[n, 24\]"):
        module(x, w, np.empty((6, 24), np.float32))
    with pytest.raises(CallError, match="takes 2 arrays"):
        module(x)
    with pytest.raises(CallError, match="'x' is a list, but it must be a NumPy array"):
        module([[1.0]], w)


def test_hostile_sizes_are_a_status(module: ac.Module, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(module.save(tmp_path / "rows.so").library))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    library.rows.argtypes = [pointer, pointer, pointer, size, pointer, ctypes.c_int32]
    x, w = _arrays(7)
    packed = module.pack("w", w).array
    y = np.full((7, 24), np.nan, np.float32)
    places = [array.ctypes.data for array in (x, packed, y)]
    for n in (0, 1, -1, 301, 1 << 62, -(1 << 63)):
        assert library.rows(*places, n, None, 1) == 6
    assert np.isnan(y).all()
    assert library.rows(*places, 7, None, 1) == 0
    np.testing.assert_allclose(y, x @ w, rtol=1e-5)


def test_header_and_manifest_tell_the_sizes(module: ac.Module, tmp_path: Path) -> None:
    artifact = module.save(tmp_path / "rows.so")
    header = artifact.header.read_text()
    for line in (
        " * x: float32[n][40], input", " * n: 2 to 300", "int64_t n", "#define ROWS_N_MOST 300",
        "#define ROWS_X_DIM1 40",
    ):  # fmt: skip
        assert line in header
    assert "ROWS_X_DIM0" not in header
    fields = json.loads(artifact.manifest.read_text())
    assert Signature.from_json(fields.get("signature", fields)).dims == module.signature.dims
    loaded = ac.load_library(tmp_path / "rows.so")
    x, w = _arrays(11)
    assert isinstance(loaded, ac.Module)
    np.testing.assert_allclose(loaded(x, w), x @ w, rtol=1e-5)


def test_sizes_have_names_of_their_own_in_c(tmp_path: Path) -> None:
    double, threads = ac.dim("double", 1, 9), ac.dim("threads", 1, 9)
    x = ac.placeholder((double, threads), name="double")
    y = ac.compute(x.shape, lambda i, j: x[i, j] + double, name="y")
    module = ac.build(ac.ComputeDAG([x, y]), name="k")
    header = module.save(tmp_path / "k.so").header.read_text()
    declared = header[header.index("int32_t k(") :].partition(";")[0]
    for argument in ("*double_,", "int64_t double__2,", "int64_t threads_2,", "int32_t threads)"):
        assert argument in declared
    given = np.ones((3, 5), np.float32)
    np.testing.assert_array_equal(module(given), given + 3)


class _OnlyDLPack:
    """An array of a library that tells its shape through DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **wishes: Any) -> object:
        return self._array.__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_without_a_shape_are_called_at_their_own_size(module: ac.Module) -> None:
    x, w = _arrays(9)
    for n in (5, 9, 5):
        np.testing.assert_allclose(module(_OnlyDLPack(x[:n]), w), x[:n] @ w, rtol=1e-5)


def test_multiples_are_promised_and_checked(tmp_path: Path) -> None:
    m = ac.dim("m", 8, 64, 8)
    x = ac.placeholder((m,), name="x")
    module = ac.build(ac.ComputeDAG([x, ac.compute((m,), lambda i: x[i] * m, name="y")]))
    for size in (8, 24, 64):
        given = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(module(given), given * size)
    with pytest.raises(CallError, match="dimension 0 of 'x' is 12"):
        module(np.zeros(12, np.float32))


def test_what_is_for_known_extents_says_so() -> None:
    dag = _scaled_rows()
    with pytest.raises(BuildError, match="sizes that the caller gives are for CPUs"):
        ac.build(dag, target="cuda -arch=sm_80")
    with pytest.raises(OptionError, match=r"sizes that matter, Task\(dag.at\({'n': …}\)\)"):
        ac.tune(ac.Task(dag), trials=1)
    with pytest.raises(RecordError, match=r"there is no record file nowhere\.db"):
        ac.build(dag, records="nowhere.db")


def test_records_of_sizes_make_a_family(tmp_path: Path) -> None:
    dag, records = _scaled_rows(), tmp_path / "tune.db"
    tasks = [ac.Task(dag.at({"n": n}), name="rows") for n in (2, 100)]
    ac.tune(tasks, trials=4, records=records, seed=0)
    module = ac.build(dag, name="rows", records=records)
    assert 1 <= len(module.signature.records) <= 2
    for n in (2, 50, 300):
        x, w = _arrays(n)
        np.testing.assert_allclose(module(x, w), x @ w, rtol=1e-5)
    other = ac.placeholder((ac.dim("n", 1, 9),), name="x")
    doubled = ac.ComputeDAG([other, ac.compute(other.shape, lambda i: other[i] * 2.0, name="y")])
    with pytest.raises(RecordError, match="holds no measured program of 'kernel' at any size"):
        ac.build(doubled, records=records)
