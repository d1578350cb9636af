"""The speed of each math function, one core, 32768 elements: `python bench/vector_math.py`.

Nanoseconds an element of our vectors, of NumPy, and of a loop that calls the C library for each
element; the shortest of many turns, all three in one run.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.codegen.llvm.binding import compile_object, load_object_code
from ansorc.target import Target, detect

COUNT, CALLS, TURNS = 32768, 1, 60
RANGES = {"log": (0.1, 4.0), "log2": (0.1, 4.0), "log1p": (-0.9, 4.0), "pow": (0.1, 4.0)}
"""From where operands are drawn; elsewhere -4 to 4."""
NUMPY: dict[str, Callable[..., Any] | None] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log1p": np.log1p, "tanh": np.tanh, "erf": None, "sigmoid": None, "sqrt": np.sqrt,
    "rsqrt": None, "sin": np.sin, "cos": np.cos, "pow": np.power,
}  # fmt: skip
"""None where NumPy has no such function."""
LANGUAGE = {"pow": ac.power}
NOT_IN_LIBM = ("sigmoid", "rsqrt", "sqrt")


def own(name: str, dtype: str, target: Target) -> Callable[..., float]:
    """Return what tells the seconds of one call of the kernel out = name(x, …)."""
    function = LANGUAGE.get(name) or getattr(ac, name)
    operands = [ac.placeholder((COUNT,), name=f"x{n}", dtype=dtype) for n in range(arity(name))]
    out = ac.compute((COUNT,), lambda i: function(*(x[i] for x in operands)), name="out")
    state = ac.schedule(ac.ComputeDAG([*operands, out]))
    module = ac.build(state.vectorize("out", "i"), target, name=f"{name}_kernel")
    return lambda *a: module.time(*a, threads=1, min_time_s=0.005).fastest_s


def arity(name: str) -> int:
    return 2 if name == "pow" else 1


def libm(name: str, dtype: str) -> Callable[..., None]:
    """Return a loop that calls the C library's function."""
    kind, symbol = ("float", f"{name}f") if dtype == "float32" else ("double", name)
    places = range(arity(name))
    lines = [
        f'target triple = "{detect().triple}"',
        f"declare {kind} @{symbol}({', '.join([kind] * len(places))})",
        f"define void @run({', '.join(f'ptr %p{n}' for n in places)}, ptr %out) {{",
        "entry:", "  br label %loop", "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %a{n} = getelementptr {kind}, ptr %p{n}, i64 %i" for n in places),
        *(f"  %x{n} = load {kind}, ptr %a{n}" for n in places),
        f"  %y = call {kind} @{symbol}({', '.join(f'{kind} %x{n}' for n in places)})",
        f"  %o = getelementptr {kind}, ptr %out, i64 %i", f"  store {kind} %y, ptr %o",
        "  %next = add i64 %i, 1", f"  %more = icmp ult i64 %next, {COUNT}",
        "  br i1 %more, label %loop, label %done", "done:", "  ret void", "}",
    ]  # fmt: skip
    code = load_object_code(compile_object("\n".join(lines), detect()), {})
    pointers = [ctypes.c_void_p] * (len(places) + 1)
    function = ctypes.CFUNCTYPE(None, *pointers)(code.address("run"))

    def run(*arrays: Any) -> None:
        function(*(array.ctypes.data for array in arrays))
        assert code is not None  # the code lives as long as this function

    return run


def timed(run: Callable[..., None]) -> Callable[..., float]:
    """Return what tells the seconds of one call in a batch."""

    def seconds(*arrays: Any) -> float:
        begin = time.perf_counter()
        for _ in range(CALLS):
            run(*arrays)
        return (time.perf_counter() - begin) / CALLS

    return seconds


def nanoseconds(clocks: dict[str, Callable[..., float]], arrays: list[Any]) -> dict[str, float]:
    """Return the shortest time of each, an element, timed in turns."""
    best = dict.fromkeys(clocks, float("inf"))
    for _ in range(TURNS):
        for name, clock in clocks.items():
            best[name] = min(best[name], clock(*arrays))
    return {name: seconds / COUNT * 1e9 for name, seconds in best.items()}


def main() -> None:
    target, rng = detect(), np.random.default_rng(0)
    print(f"{target.text}\n{'':17} {'ours':>7} {'numpy':>7} {'libm':>7}  ns an element")
    for name, numpy in NUMPY.items():
        for dtype in ("float32", "float64"):
            low, high = RANGES.get(name, (-4.0, 4.0))
            low = max(low, 0.1) if "sqrt" in name else low
            data = [rng.uniform(low, high, COUNT).astype(dtype) for _ in range(arity(name))]
            clocks = {"ours": own(name, dtype, target)}
            if numpy is not None:
                clocks["numpy"] = timed(lambda *a, f=numpy: f(*a[:-1], out=a[-1]))
            if name not in NOT_IN_LIBM:
                clocks["libm"] = timed(libm(name, dtype))
            found = nanoseconds(clocks, [*data, np.empty(COUNT, dtype)])
            cells = [
                f"{found[k]:7.2f}" if k in found else 7 * " " for k in ("ours", "numpy", "libm")
            ]
            print(f"{name:8} {dtype:8} {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
