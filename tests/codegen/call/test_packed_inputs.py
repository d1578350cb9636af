"""Kernels whose weights are packed once: from Python, from C, and after loading."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ansorc as ac
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.module import Module
from ansorc.errors import CallError, PackingWarning
from ansorc.ir.packing import Packing
from ansorc.lang.reference import evaluate

Floats = NDArray[np.float32]
N, M, K = 6, 21, 5


def product(name: str = "product", panel: int = 8) -> Module:
    """C = A · B + b, B read in panels of some columns (the last one is not full)."""
    a, weight = ac.placeholder((N, K), "A"), ac.placeholder((K, M), "B", constant=True)
    bias = ac.placeholder((M,), "b.ias", constant=True)
    k = ac.reduce_axis(K, "k")
    c = ac.compute((N, M), lambda i, j: ac.sum(a[i, k] * weight[k, j], axis=k), "P")
    out = ac.compute((N, M), lambda i, j: c[i, j] + bias[j], "C")
    state = ac.schedule(ac.ComputeDAG([a, weight, bias, out])).split("P", "j", [panel])
    state = state.reorder("P", ["j.0", "i", "k", "j.1"]).vectorize("P", "j.1")
    return ac.build(state.rewrite_layout("P", "B"), name=name)


def arrays() -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(0)
    shapes = ((N, K), (K, M), (M,))
    a, weight, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
    return a, weight, bias, np.full((N, M), np.nan, np.float32)


def check(out: Floats) -> None:
    a, weight, bias, _ = arrays()
    np.testing.assert_allclose(out, a.astype(np.float64) @ weight + bias, 1e-5, 1e-5)


def test_a_call_takes_the_packed_weight_or_the_original() -> None:
    module = product()
    a, weight, bias, out = arrays()
    packed = module.pack("B", weight)
    assert packed.array.shape == (3, K, 8)
    assert repr(packed) == "<B: float32[5, 21], packed>"
    assert repr(module).startswith("<kernel product(A: float32[6, 5], B: float32[5, 21], b.ias:")
    module(a, packed, bias, out)
    check(out)
    out.fill(np.nan)
    with pytest.warns(PackingWarning, match="'B' is a constant input that each call packs again"):
        module(a, weight, module.pack("b.ias", bias), out)
    check(out)
    out.fill(np.nan)
    module.time(a, weight, bias, out, min_time_s=0.001)
    check(out)


def test_a_weight_that_is_packed_does_not_follow_the_original() -> None:
    module = product()
    a, weight, bias, out = arrays()
    packed = module.pack("B", weight)
    weight.fill(0)
    module(a, packed, bias, out)
    check(out)


def test_refusals() -> None:
    module, other = product(), product(panel=7)
    a, weight, bias, out = arrays()
    with pytest.raises(CallError, match=r"argument 2 'B' is <B: .*> for another kernel or tensor"):
        module(a, other.pack("B", weight), bias, out)
    with pytest.raises(CallError, match=r"argument 1 'A' is <B: .*, packed> for another kernel"):
        module(module.pack("B", weight), weight, bias, out)
    with pytest.raises(CallError, match=r"no weight 'A' to pack; its constant inputs: 'B', 'b."):
        module.pack("A", a)
    with pytest.raises(CallError, match=r"'B' has shape \(21, 5\), but the kernel wants \(5, 21\)"):
        module.pack("B", weight.T.copy())
    with pytest.raises(CallError, match=r"'B' has shape \(3, 5, 8\), but the kernel wants"):
        module(a, module.pack("B", weight).array, bias, out)


def test_a_loaded_library_packs_too(tmp_path: Path) -> None:
    module = product()
    module.save(tmp_path / "product.so")
    loaded = load_kernel(tmp_path / "product.so")
    assert loaded.signature == module.signature
    a, weight, bias, out = arrays()
    loaded(a, loaded.pack("B", weight), bias, out)
    check(out)
    out.fill(np.nan)
    loaded(a, module.pack("B", weight), bias, out)  # the same build
    check(out)


def test_the_c_functions_do_what_python_does(tmp_path: Path) -> None:
    module = product()
    library = ctypes.CDLL(str(module.save(tmp_path / "product.so").library))
    for param, name, array in zip(module.signature.params[1:3], ("B", "b_ias"), arrays()[1:3],
                                  strict=True):  # fmt: skip
        assert isinstance(param.packing, Packing)
        packed = np.full(param.shape, np.nan, np.float32)
        pack = library[f"product_pack_{name}"]
        assert (
            pack(array.ctypes.data_as(ctypes.c_void_p), packed.ctypes.data_as(ctypes.c_void_p)) == 0
        )
        np.testing.assert_array_equal(packed, module.pack(param.name, array).array)


def test_transformed_weights_are_packed_by_c_too(tmp_path: Path) -> None:
    x, w = ac.placeholder((1, 6, 6, 4), "x"), ac.placeholder((3, 3, 4, 8), "w", constant=True)
    state = ac.schedule(ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, name="y")]))
    state = state.redefine("y", "winograd").rewrite_layout("y.product", "w")
    module = ac.build(state, name="winograd")
    library = ctypes.CDLL(str(module.save(tmp_path / "winograd.so").library))
    rng = np.random.default_rng(0)
    weight = rng.uniform(-1, 1, (3, 3, 4, 8)).astype(np.float32)
    packed = np.full((4, 4, 8, 4), np.nan, np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (weight, packed)]
    assert library["winograd_pack_w"](*pointers) == 0
    by_python = np.asarray(module.pack("w", weight).array, np.float32)
    np.testing.assert_allclose(packed, by_python, 1e-6, 1e-6)
    data = rng.uniform(-1, 1, (1, 6, 6, 4)).astype(np.float32)
    out = np.full((1, 4, 4, 8), np.nan, np.float32)
    weight.flags.writeable = False
    load_kernel(tmp_path / "winograd.so")(data, weight, out)
    (wanted,) = evaluate(state.dag, [data, weight])
    np.testing.assert_allclose(out, wanted, 1e-5, 1e-5)


def test_the_header_tells_of_packed_weights(tmp_path: Path) -> None:
    text = product().save(tmp_path / "product.o").header.read_text()
    assert " * B: float32[5][21], input, a weight, packed\n" in text
    assert "it differs from the source's for B." in text
    assert "#define PRODUCT_B_DIM1 21\n" in text
    assert "#define PRODUCT_B_ELEMENTS 105\n" in text
    assert "#define PRODUCT_B_PACKED_ELEMENTS 120\n" in text
    assert "#define PRODUCT_B_IAS_PACKED_ELEMENTS 21\n" in text
    assert "int32_t product_pack_B(const float *source, float *packed);" in text


C_PROGRAM = r"""
#include <stdio.h>
#include "product.h"
static float a[PRODUCT_A_ELEMENTS], b[PRODUCT_B_ELEMENTS], bias[PRODUCT_B_IAS_ELEMENTS];
static float packed[PRODUCT_B_PACKED_ELEMENTS], packed_bias[PRODUCT_B_IAS_PACKED_ELEMENTS];
static float c[PRODUCT_C_ELEMENTS];
int main(void) {
  for (int i = 0; i < PRODUCT_A_ELEMENTS; ++i) a[i] = (float)(i % 7) - 3.0F;
  for (int i = 0; i < PRODUCT_B_ELEMENTS; ++i) b[i] = (float)(i % 5) - 2.0F;
  for (int i = 0; i < PRODUCT_B_IAS_ELEMENTS; ++i) bias[i] = (float)i;
  if (product_pack_B(b, packed) != ANSORC_OK) return 2;
  if (product_pack_b_ias(bias, packed_bias) != ANSORC_OK) return 3;
  if (product(a, packed, packed_bias, c, NULL, 0) != ANSORC_OK) return 4;
  for (int i = 0; i < PRODUCT_C_DIM0; ++i) {
    for (int j = 0; j < PRODUCT_C_DIM1; ++j) {
      float sum = bias[j];
      for (int k = 0; k < PRODUCT_B_DIM0; ++k) {
        sum += a[i * PRODUCT_A_DIM1 + k] * b[k * PRODUCT_B_DIM1 + j];
      }
      if (c[i * PRODUCT_C_DIM1 + j] != sum) return 5;
    }
  }
  puts("right");
  return 0;
}
"""


def test_a_c_program_packs_once_and_calls(tmp_path: Path) -> None:
    product().save(tmp_path / "product.a")
    (tmp_path / "main.c").write_text(C_PROGRAM)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    program = tmp_path / "main"
    files = [tmp_path / "main.c", tmp_path / "product.a"]
    subprocess.run(["cc", *flags, *files, "-pthread", "-lm", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "right\n"
