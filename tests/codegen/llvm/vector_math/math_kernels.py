"""Kernels that compute one math function by vectors or by scalars."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module
from ansorc.ir.dtype import FLOAT32, FLOAT64
from ansorc.ir.expr import Load, Var
from ansorc.ir.math_call import call
from ansorc.ir.operator import MATH_FUNCTIONS
from ansorc.ir.stmt import Function, Store
from ansorc.target import Target, detect
from tests.codegen.llvm.llvm_harness import Array, buffer, lanes, loop

UNARY = (
    "exp", "exp2", "expm1", "sigmoid", "tanh", "log", "log2", "log1p", "erf", "sin", "cos",
)  # fmt: skip
REMAINDERS = ("fmod", "mod", "floor_divide")
WRITTEN = (*UNARY, "pow", *REMAINDERS)
"""The functions that are not instructions."""
DTYPES = ("float32", "float64")
_X86 = "x86_64-linux-gnu -mcpu="


def _runnable() -> dict[str, Target]:
    """Return this machine; on x86 also AVX2, and no FMA at all, as far as it has them."""
    own = detect()
    texts = ["native", f"{_X86}x86-64-v3", f"{_X86}x86-64-v2"] if own.is_x86 else ["native"]
    found = {text.removeprefix(_X86): Target.parse(text) for text in texts}
    return {name: t for name, t in found.items() if set(t.real.features) <= set(own.features)}


TARGETS = _runnable()


@lru_cache(maxsize=64)
def _kernel(name: str, dtype: str, width: int, target: Target, count: int) -> Module:
    kind = FLOAT32 if dtype == "float32" else FLOAT64
    operands = [buffer(f"x{n}", count, dtype=kind) for n in range(MATH_FUNCTIONS[name])]
    out = buffer("out", count, dtype=kind)

    def element(i: Var) -> Store:
        index = i if width == 1 else lanes(i * width, width)
        return Store(out, (index,), call(name, *(Load(x, (index,)) for x in operands)))

    function = Function("f", (*operands, out), loop("i", count // width, element))
    return compile_module(function, target, "f")


def evaluate(name: str, *operands: Array, target: Target, width: int = 0) -> Array:
    """Run the function on all elements, by vectors of `width` lanes (0: the machine's)."""
    dtype = operands[0].dtype
    width = width or target.vector_bytes // dtype.itemsize
    count = -(-operands[0].size // width) * width
    out = np.full(count, 12345, dtype)
    padded = [np.resize(x, count) for x in operands]
    _kernel(name, dtype.name, width, target, count)(*padded, out)
    return out[: operands[0].size]
