"""The conversions of headers, compiled as C and as C++, against NumPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ansorc.codegen.package.narrow_floats import NARROW_FLOATS
from ansorc.ir.aligned import Array

LOOPS = """
EXTERN void from_f16(const uint16_t *x, float *y, int64_t n)
{ for (int64_t i = 0; i < n; ++i) y[i] = ansorc_float_of_f16(x[i]); }
EXTERN void from_bf16(const uint16_t *x, float *y, int64_t n)
{ for (int64_t i = 0; i < n; ++i) y[i] = ansorc_float_of_bf16(x[i]); }
EXTERN void to_f16(const float *x, uint16_t *y, int64_t n)
{ for (int64_t i = 0; i < n; ++i) y[i] = ansorc_f16_of_float(x[i]); }
EXTERN void to_bf16(const float *x, uint16_t *y, int64_t n)
{ for (int64_t i = 0; i < n; ++i) y[i] = ansorc_bf16_of_float(x[i]); }
"""
STRICT = ("-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-shared", "-fPIC")


@pytest.fixture(scope="module", params=["c99", "c++17"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc" if request.param == "c99" else "g++")
    if compiler is None:
        pytest.skip("there is no compiler of C")
    folder = tmp_path_factory.mktemp("narrow")
    source = folder / ("code.c" if request.param == "c99" else "code.cc")
    extern = "" if request.param == "c99" else 'extern "C"'
    includes = f"#include <stdint.h>\n{NARROW_FLOATS}\n{NARROW_FLOATS}\n"
    source.write_text(f"{includes}\n{LOOPS.replace('EXTERN', extern)}")
    made = folder / "code.so"
    command = [compiler, f"-std={request.param}", *STRICT, str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


def convert(library: Path, name: str, values: Array, kind: str) -> Array:
    found = np.zeros(values.size, np.dtype(kind))
    function: Callable[..., None] = getattr(ctypes.CDLL(str(library)), name)
    function(values.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_int64(values.size))  # fmt: skip
    return found


def floats(seed: int = 0) -> Array:
    """All exponents; numbers half-way between two narrow ones, and beside those."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, 100_000, np.int64)
    ties = [(bits >> s << s) + (1 << s - 1) + d for s in (12, 13, 14, 16) for d in (-1, 0, 1)]
    special = np.array([0, 2**-24, 2**-25, 2**-14, 65504, 65519.99, 65520, np.inf], np.float32)
    signed = np.concatenate([special, -special, np.array([np.nan], np.float32)])
    every = (np.concatenate([bits, *ties]) % 2**32).astype(np.uint32).view(np.float32)
    return np.concatenate([every, signed])


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_narrow_number_is_widened(library: Path, name: str) -> None:
    narrow = np.arange(65536).astype(np.uint16)
    kind = np.float16 if name == "f16" else ml_dtypes.bfloat16
    found = convert(library, f"from_{name}", narrow, "float32")
    np.testing.assert_array_equal(found, narrow.view(kind).astype(np.float32))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_floats_are_rounded_to_nearest_even(library: Path, name: str) -> None:
    values, kind = floats(), np.float16 if name == "f16" else ml_dtypes.bfloat16
    found = convert(library, f"to_{name}", values, "uint16")
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values.astype(kind)
    is_nan = np.isnan(values)
    np.testing.assert_array_equal(np.isnan(found.view(kind).astype(np.float32)), is_nan)
    np.testing.assert_array_equal(found[~is_nan], wanted.view(np.uint16)[~is_nan])
