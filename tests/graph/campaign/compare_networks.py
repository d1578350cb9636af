"""Builds one network and holds it against ONNX Runtime; against float64 where that has no answer.

Where numbers are ill-conditioned (a comparison or a rounding that the last bit decides) the peer
itself answers otherwise when its inputs, and scales of a quantised network, change a little: what
those answers span is allowed. Where that leaves a few of many elements, nothing is told.
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
from ansorc.errors import AnsorcError, InternalError, IRError
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array

Run: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]
NOISE, NOISE_16_BITS = 1e-5, 1e-3
"""Of an input's size: of float32, and where values of float16 are rounded."""
NEAR_MODELS = 4
"""Networks with other scales and weights, where numbers are rounded."""
FEW_DRAWS, MANY_DRAWS, EXPLAINED = 4, 48, 0.3
"""Inputs near the given ones, of which there are more where a network seems wrong, and the share of
elements that seemed wrong beside few and may seem so beside many: these are only unsteady."""
CHAOTIC = 10
"""How many times what is allowed the peer's own answers span where they say nothing."""
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


def compare(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    *,
    is_quantised: bool,
    build: Callable[[ac.Graph], ac.NetworkModule] = ac.build,
) -> Outcome:
    """Import, build and run `model`, and return whether ONNX Runtime, or float64, says the same."""
    began = time.monotonic()
    try:
        graph = ac.from_onnx(model)
        results = build(graph).run(dict(inputs))
    except (InternalError, IRError) as error:
        return Outcome("bare", time.monotonic() - began, f"our fault: {error}"[:600])
    except AnsorcError as error:
        return Outcome(
            "refused", time.monotonic() - began, f"{type(error).__name__}: {error}"[:300]
        )
    except Exception:  # noqa: BLE001, whatever escapes is what is looked for
        return Outcome("bare", time.monotonic() - began, traceback.format_exc()[-900:])
    seconds = time.monotonic() - began
    is_short = _has_16_bits(model)
    relative, noise = (RELATIVE_16_BITS, NOISE_16_BITS) if is_short else (RELATIVE, NOISE)
    near = NEAR_MODELS if is_short or is_quantised else 0
    near_models = [_with_near_weights(model, noise, n) for n in range(near)]
    peer = _peer(model, graph, inputs, noise, near_models)
    few = peer.answers(inputs, FEW_DRAWS)
    for name, wanted in few[0].items():
        first = _difference(results[name], few, name, relative, is_quantised=is_quantised)
        if first is None:
            continue
        many = peer.answers(inputs, MANY_DRAWS)
        left = _difference(results[name], many, name, relative, is_quantised=is_quantised)
        if left is None:
            continue
        exact = {name: run_reference(graph, inputs)[name]}
        others = _difference(wanted, [exact, *many[1:]], name, relative, is_quantised=is_quantised)
        if others or left.count <= EXPLAINED * first.count:
            return Outcome("unanswered", seconds, f"{name}: {peer.name} is not exact either")
        return Outcome("wrong", seconds, f"{name}: {left.words} ({peer.name})")
    return Outcome("right", seconds, peer.name)


@dataclass(frozen=True)
class _Peer:
    """What a network is held against."""

    name: str
    runs: list[Run]
    """Of the network, and of networks that are nearly it."""
    noise: float

    def answers(self, inputs: Mapping[str, Array], draws: int) -> list[Mapping[str, Array]]:
        """Return what it says: first of `inputs`, then of `draws` inputs near them."""
        rng = np.random.default_rng(7)
        near = [
            {name: _perturb(array, rng, self.noise) for name, array in inputs.items()}
            for _ in range(draws)
        ]
        with np.errstate(all="ignore"):
            return [run(given) for run in self.runs for given in (inputs, *near)]


def _peer(
    model: onnx.ModelProto,
    graph: ac.Graph,
    inputs: Mapping[str, Array],
    noise: float,
    near: list[onnx.ModelProto],
) -> _Peer:
    """Return ONNX Runtime, or float64 where that does not run the network."""
    try:
        peer = _Peer("ONNX Runtime", [*map(_onnx_runtime, [model, *near])], noise)
        peer.answers(inputs, 0)
    except Exception:  # noqa: BLE001, its exceptions have no common class
        return _Peer("float64", [lambda given: run_reference(graph, given)], noise)
    return peer


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


def _with_near_weights(model: onnx.ModelProto, noise: float, seed: int) -> onnx.ModelProto:
    """Return `model` with scales and weights that differ a little: what lies between two steps
    is rounded the other way."""
    near, rng = onnx.ModelProto(), np.random.default_rng(seed)
    near.CopyFrom(model)
    for known in near.graph.initializer:
        changed = _perturb(onnx.numpy_helper.to_array(known), rng, noise)
        known.CopyFrom(onnx.numpy_helper.from_array(changed, known.name))
    return near


def _perturb(array: Array, rng: np.random.Generator, noise: float) -> Array:
    if array.dtype.kind != "f":
        return array
    return np.asarray(array * (1 + noise * rng.uniform(-1, 1, array.shape)), array.dtype)


def _has_16_bits(model: onnx.ModelProto) -> bool:
    typed = onnx.shape_inference.infer_shapes(model)
    types = {info.type.tensor_type.elem_type for info in typed.graph.value_info}
    types |= {info.type.tensor_type.elem_type for info in (*typed.graph.input, *typed.graph.output)}
    return onnx.TensorProto.FLOAT16 in types


@dataclass(frozen=True)
class _Difference:
    """Elements that differ: how many, and in words."""

    count: int
    words: str


def _difference(
    result: Any,
    answers: list[Mapping[str, Array]],
    name: str,
    relative: float,
    *,
    is_quantised: bool,
) -> _Difference | None:
    """Return how `result` differs from the first answer, beside the others; None if it does not."""
    wanted, near = answers[0][name], answers[1:]
    spread = [each[name] for each in near]
    result, wanted = np.asarray(result), np.asarray(wanted)
    if result.shape != wanted.shape or result.dtype.kind != wanted.dtype.kind:
        words = f"{result.dtype}{result.shape} for {wanted.dtype}{wanted.shape}"
        return _Difference(result.size, words)
    with np.errstate(all="ignore"):
        mine, theirs = result.astype(np.float64), wanted.astype(np.float64)
        others = np.array([other.astype(np.float64) for other in spread])
        finite = np.isfinite(theirs)
        size = float(np.abs(theirs[finite]).max(initial=0))
        tolerance = relative * max(size, 1e-3) if wanted.dtype.kind == "f" else 0.0
        span = np.abs(others - theirs).max(axis=0, initial=0)
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        close = (np.abs(mine - theirs) <= tolerance + 20 * span) | (span > CHAOTIC * tolerance)
        steady = (np.isfinite(others) == finite).all(axis=0)  # else the last bit decides
        bad = ~(same | close) & steady
        is_near = np.abs(mine - theirs)[bad].max(initial=0) <= NEAR * size
    if not bad.any() or (is_quantised and bad.mean() <= (SOME if is_near else FEW)):
        return None
    at = tuple(int(place[0]) for place in np.nonzero(bad))
    words = f"{bad.sum()} of {bad.size} differ, at {at} {result[at]} for {wanted[at]}"
    return _Difference(int(bad.sum()), words)
