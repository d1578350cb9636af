"""Builds one network and holds it against ONNX Runtime; against float64 where that has no answer.

Where numbers are ill-conditioned (a comparison or a rounding that the last bit decides) the peer
itself answers otherwise when its inputs, and scales of a quantised network, change by 1e-5 of their
size: what those answers span is allowed.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import onnx

import ansorc as ac
from ansorc.errors import AnsorcError, IRError
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array

Run: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]
NOISE, DRAWS = 1e-5, 4
RELATIVE, RELATIVE_16_BITS = 2e-4, 8e-3
"""Of the largest number of an output: sums of float32 in any order; values of float16."""
FEW, SOME, NEAR = 0.02, 0.25, 0.1
"""Of a quantised network few elements may differ, and some by this share of the largest: sums of
float32 that lie between two steps are rounded either way, and all later layers see it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a network.

    It is right, wrong, refused (by an error of ansorc's), unanswered (the peer is as far from exact
    arithmetic) or bare: another exception than ansorc's, or a fault that ansorc calls its own.
    """

    kind: str
    seconds: float = 0.0
    detail: str = ""


def compare(model: onnx.ModelProto, inputs: Mapping[str, Array], *, is_quantised: bool) -> Outcome:
    """Import, build and run `model`, and return whether ONNX Runtime, or float64, says the same."""
    began = time.monotonic()
    try:
        graph = ac.from_onnx(model)
        results = ac.build(graph).run(dict(inputs))
    except IRError as error:
        return Outcome("bare", time.monotonic() - began, f"IRError: {error}"[:600])
    except AnsorcError as error:
        return Outcome(
            "refused", time.monotonic() - began, f"{type(error).__name__}: {error}"[:300]
        )
    except Exception:  # noqa: BLE001, whatever escapes is what is looked for
        return Outcome("bare", time.monotonic() - began, traceback.format_exc()[-900:])
    seconds = time.monotonic() - began
    try:
        runs = [_onnx_runtime(model)]
        if is_quantised:
            runs.append(_onnx_runtime(_with_near_scales(model)))
        answers, peer = [each for run in runs for each in _answers(run, inputs)], "ONNX Runtime"
    except Exception:  # noqa: BLE001, its exceptions have no common class
        answers, peer = _answers(lambda given: run_reference(graph, given), inputs), "float64"
    relative = RELATIVE_16_BITS if _has_16_bits(model) else RELATIVE
    for name, wanted in answers[0].items():
        spread = [other[name] for other in answers[1:]]
        if complaint := _difference(
            results[name], wanted, spread, relative, is_quantised=is_quantised
        ):
            exact = _answers(lambda given: run_reference(graph, given), inputs)[0][name]
            if _difference(wanted, exact, spread, relative, is_quantised=is_quantised):
                return Outcome("unanswered", seconds, f"{name}: {peer} is not exact either")
            return Outcome("wrong", seconds, f"{name}: {complaint} ({peer})")
    return Outcome("right", seconds, peer)


def _onnx_runtime(model: onnx.ModelProto) -> Run:
    """Return how ONNX Runtime runs `model` without optimisation."""
    runtime: Any = import_module("onnxruntime")  # a peer that the default tests do without
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options)
    names = [info.name for info in session.get_outputs()]
    return lambda given: dict(zip(names, session.run(names, dict(given)), strict=True))


def _answers(run: Run, inputs: Mapping[str, Array]) -> list[Mapping[str, Array]]:
    """Return what `run` gives: first of `inputs`, then of inputs near them."""
    rng = np.random.default_rng(7)
    near = [{name: _perturb(array, rng) for name, array in inputs.items()} for _ in range(DRAWS)]
    with np.errstate(all="ignore"):
        return [run(given) for given in (inputs, *near)]


def _with_near_scales(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with scales and weights that differ a little: what lies between two steps
    is rounded the other way."""
    near, rng = onnx.ModelProto(), np.random.default_rng(11)
    near.CopyFrom(model)
    for known in near.graph.initializer:
        changed = _perturb(onnx.numpy_helper.to_array(known), rng)
        known.CopyFrom(onnx.numpy_helper.from_array(changed, known.name))
    return near


def _perturb(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    noise = 1 + NOISE * rng.uniform(-1, 1, array.shape)
    return np.asarray(array * noise, array.dtype)


def _has_16_bits(model: onnx.ModelProto) -> bool:
    typed = onnx.shape_inference.infer_shapes(model)
    types = {info.type.tensor_type.elem_type for info in typed.graph.value_info}
    types |= {info.type.tensor_type.elem_type for info in (*typed.graph.input, *typed.graph.output)}
    return onnx.TensorProto.FLOAT16 in types


def _difference(
    result: Any, wanted: Array, spread: list[Array], relative: float, *, is_quantised: bool
) -> str | None:
    """Return how `result` differs from `wanted`, None if it does not."""
    result, wanted = np.asarray(result), np.asarray(wanted)
    if result.shape != wanted.shape or result.dtype.kind != wanted.dtype.kind:
        return f"{result.dtype}{result.shape} for {wanted.dtype}{wanted.shape}"
    with np.errstate(all="ignore"):
        mine, theirs = result.astype(np.float64), wanted.astype(np.float64)
        others = np.array([other.astype(np.float64) for other in spread])
        finite = np.isfinite(theirs)
        size = float(np.abs(theirs[finite]).max(initial=0))
        tolerance = relative * max(size, 1e-3) if wanted.dtype.kind == "f" else 0.0
        span = np.abs(others - theirs).max(axis=0, initial=0)
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        close = np.abs(mine - theirs) <= tolerance + 20 * span
        steady = (np.isfinite(others) == finite).all(axis=0)  # else the last bit decides
        bad = ~(same | close) & steady
        is_near = np.abs(mine - theirs)[bad].max(initial=0) <= NEAR * size
    if not bad.any() or (is_quantised and bad.mean() <= (SOME if is_near else FEW)):
        return None
    at = tuple(int(place[0]) for place in np.nonzero(bad))
    return f"{bad.sum()} of {bad.size} differ, at {at} {result[at]} for {wanted[at]}"
