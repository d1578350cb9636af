"""Halide with its Adams2019 autoscheduler: a beam search by its pre-trained cost model, no trials.

The model was not trained for AVX-512 (the paper says so too), so both vector widths are tried. The
beam is Halide's own but for convolutions, whose padding gives the search many more choices: a beam
of 2 takes 16 times the processor time of a greedy search (C2D-3), so there the search is greedy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import halide as hl
import numpy as np

from bench.peers.halide_schedulers import load_autoscheduler, set_bounds
from bench.peers.problem import Array, Convolution, Norm, Problem, Product, Scores
from bench.peers.program import Make, Program, Request

_AVX512 = ("AVX512", "AVX512_KNL", "AVX512_Skylake", "AVX512_Cannonlake", "AVX512_SapphireRapids",
           "AVX512_Zen4", "AVX512_Zen5", "AVX10_1")  # fmt: skip
_BEAM, _GREEDY = 32, 1
Definition = tuple[Any, list[Any], list[Array], tuple[int, ...]]
"""The result, its inputs, their arrays, and the result's shape."""


def versions() -> dict[str, str]:
    """Return the version of Halide."""
    return {"halide": metadata.version("halide")}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield what the autoscheduler makes of the problem, with all vectors and without AVX-512."""
    beam = _GREEDY if isinstance(request.problem, Convolution) else _BEAM
    host = hl.get_host_target()
    yield "all vectors", lambda: _scheduled(request, host, beam, "as the host is")
    narrow = hl.Target(str(host))
    for name in _AVX512:
        if hasattr(hl.TargetFeature, name):
            narrow = narrow.without_feature(getattr(hl.TargetFeature, name))
    if narrow != host:
        yield "AVX2", lambda: _scheduled(request, narrow, beam, "without AVX-512")


def _scheduled(request: Request, target: Any, beam: int, name: str) -> Program:
    load_autoscheduler("Adams2019")
    begin = time.perf_counter()
    result, params, arrays, shape = _definition(request.problem)
    for param, array in zip(params, arrays, strict=True):
        set_bounds(param, array.shape)
        param.set_estimates([(0, size) for size in array.shape[::-1]])
    result.set_estimates([(0, size) for size in shape[::-1]])
    pipeline = hl.Pipeline(result)
    options = {"parallelism": str(request.threads), "beam_size": str(beam)}
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Adams2019", options))
    function = pipeline.compile_to_callable([hl.Argument(param) for param in params], target)
    output = np.full(shape, np.nan, np.float32)
    buffers = [hl.Buffer(array) for array in (*arrays, output)]
    spent = time.perf_counter() - begin
    return Program(name, lambda: function(*buffers), lambda: output, tuned_s=spent)


def _definition(problem: Problem) -> Definition:
    """Return the computation; Halide's dimensions are NumPy's from last to first."""
    match problem:
        case Convolution():
            return _convolution(problem)
        case Product(a, b):
            return _product(a, b)
        case Norm(x):
            return _norm(x)
        case Scores(query, key):
            return _scores(query, key)


def _product(a: Array, b: Array) -> Definition:
    left, right = _param("a", a), _param("b", b)
    n, i, j = hl.Var("n"), hl.Var("i"), hl.Var("j")
    k = hl.RDom([(0, a.shape[2])], "k")
    c = hl.Func("c")
    c[j, i, n] = 0.0
    c[j, i, n] += left[k.x, i, n] * right[j, k.x, n]
    return c, [left, right], [a, b], (*a.shape[:2], b.shape[2])


def _norm(x: Array) -> Definition:
    """Sums of rows, then their sum: one sum over all could not be shared among threads."""
    data = _param("x", x)
    n, i = hl.Var("n"), hl.Var("i")
    columns, rows = hl.RDom([(0, x.shape[2])], "r"), hl.RDom([(0, x.shape[1])], "s")
    row, square, root = hl.Func("row"), hl.Func("square"), hl.Func("root")
    row[i, n] = 0.0
    row[i, n] += data[columns.x, i, n] * data[columns.x, i, n]
    square[n] = 0.0
    square[n] += row[rows.x, n]
    root[n] = hl.sqrt(square[n])
    return root, [data], [x], (len(x),)


def _scores(query: Array, key: Array) -> Definition:
    batch, length, heads, hidden = query.shape
    q, k = _param("query", query), _param("key", key)
    n, h, i, j = hl.Var("n"), hl.Var("h"), hl.Var("i"), hl.Var("j")
    d, r = hl.RDom([(0, hidden)], "d"), hl.RDom([(0, length)], "r")
    product, highest, raised = hl.Func("product"), hl.Func("highest"), hl.Func("raised")
    total, softmax = hl.Func("total"), hl.Func("softmax")
    product[j, i, h, n] = 0.0
    product[j, i, h, n] += q[d.x, h, i, n] * k[d.x, h, j, n]
    highest[i, h, n] = np.float32(-math.inf).item()
    highest[i, h, n] = hl.max(highest[i, h, n], product[r.x, i, h, n])
    raised[j, i, h, n] = hl.exp(product[j, i, h, n] - highest[i, h, n])
    total[i, h, n] = 0.0
    total[i, h, n] += raised[r.x, i, h, n]
    softmax[j, i, h, n] = raised[j, i, h, n] / total[i, h, n]
    return softmax, [q, k], [query, key], (batch, heads, length, length)


def _convolution(conv: Convolution) -> Definition:
    """A transposed convolution is one of the dilated input, its weights turned round before."""
    rank = conv.rank
    folded, bias = conv.folded()
    if conv.is_transposed:
        folded = np.ascontiguousarray(np.flip(folded, tuple(range(rank))))
    kernel, depth = folded.shape[:rank], folded.shape[rank]
    x, w = _param("x", conv.x), _param("w", folded)
    source = _padded(conv, x, kernel)
    stride = (1,) * rank if conv.is_transposed else conv.stride
    n, c, *places = (hl.Var(name) for name in ("n", "c", *"uvw"[:rank]))
    domain = hl.RDom([(0, depth), *((0, extent) for extent in kernel[::-1])], "r")
    channel, *taps = (domain[axis] for axis in range(rank + 1))
    spots = [
        p * s + t * d
        for p, s, t, d in zip(places, stride[::-1], taps, conv.dilation[::-1], strict=True)
    ]
    first = 0 if conv.groups == 1 else c // (folded.shape[-1] // conv.groups) * depth
    y = hl.Func("conv")
    at = (c, *places, n)
    y[at] = 0.0
    y[at] += source[(channel + first, *spots, n)] * w[(c, channel, *taps)]
    if bias is None:
        return y, [x, w], [conv.x, folded], conv.out_shape
    b, relu = _param("bias", bias), hl.Func("relu")
    relu[at] = hl.max(y[at] + b[c], 0.0)
    return relu, [x, w, b], [conv.x, folded, bias], conv.out_shape


def _padded(conv: Convolution, x: Any, kernel: tuple[int, ...]) -> Any:
    """Return the input with its zeros around it and, where it is dilated, between its elements."""
    if conv.is_transposed:
        margins = [k - 1 - p for k, p in zip(kernel, conv.padding, strict=True)]
        spread = conv.stride
    else:
        margins, spread = list(conv.padding), (1,) * conv.rank
    if not any(margins) and not conv.is_transposed:
        return x
    n, c, *places = (hl.Var(name) for name in ("n", "c", *"uvw"[: conv.rank]))
    inside: Any = None
    spots: list[Any] = []
    steps = zip(places, margins[::-1], spread[::-1], conv.x.shape[-2:0:-1], strict=True)
    for place, margin, step, extent in steps:
        spot = place - margin
        tests = [spot >= 0, spot < (extent - 1) * step + 1] if margin else []
        tests += [spot % step == 0] if step > 1 else []
        for test in tests:
            inside = test if inside is None else inside & test
        spots.append(hl.clamp(spot // step, 0, extent - 1) if tests else spot)
    padded = hl.Func("padded")
    # Where it is computed for one group, Halide cannot tell that the channels end.
    channel = c if conv.groups == 1 else hl.clamp(c, 0, conv.x.shape[-1] - 1)
    padded[(c, *places, n)] = hl.select(inside, x[(channel, *spots, n)], 0.0)
    return padded


def _param(name: str, array: Array) -> Any:
    return hl.ImageParam(hl.Float(32), array.ndim, name)
