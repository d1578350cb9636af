"""Compare gradients with differences of the float64 reference along random directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from ansorc.errors import LanguageError
from ansorc.ir.expr import Load
from ansorc.ir.node import Node, rewrite
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.lang.tensor import Tensor

Array = NDArray[np.float64] | NDArray[np.int64]
STEP = 1e-6


def tensors_of(dag: ComputeDAG) -> dict[str, Tensor]:
    """Return the tensors of `dag`, by name, as a user would have defined them."""
    tensors = {buffer.name: Tensor(buffer) for buffer in dag.inputs}

    def rule(node: Node) -> Node | None:
        if isinstance(node, Load) and node.buffer.name in tensors:
            return tensors[node.buffer.name][node.indices].expr
        return None

    for op in dag.ops:
        owned = op.with_bodies(lambda body: rewrite(body, rule))
        for number, buffer in enumerate(op.buffers):
            tensors[buffer.name] = Tensor(buffer, owned, output=number)
    return tensors


def check_gradient(
    loss: Tensor,
    inputs: Sequence[Tensor],
    arrays: Sequence[Array],
    wanted: Sequence[Tensor] | None = None,
    rng: np.random.Generator | None = None,
) -> ComputeDAG:
    """Require gradients of `loss` by `wanted` inputs to be those of finite differences.

    Return the DAG of the gradients: its inputs are `inputs` and the seed.
    """
    rng = rng or np.random.default_rng(0)
    chosen = [t for t in inputs if t.dtype.is_float] if wanted is None else list(wanted)
    seed = ac.placeholder(loss.shape, "seed_of_loss", loss.dtype)
    gradients = ac.gradient(loss, chosen, seed=seed)
    for tensor, gradient in zip(chosen, gradients, strict=True):
        assert (gradient.shape, gradient.dtype) == (tensor.shape, tensor.dtype)
    flow = rng.uniform(-1, 1, loss.shape)
    dag = ComputeDAG([*inputs, seed, *gradients])
    found = evaluate(dag, [*arrays, flow])
    forward = ComputeDAG([*inputs, loss])
    for tensor, gradient in zip(chosen, found, strict=True):
        place = next(n for n, each in enumerate(inputs) if each is tensor)
        direction = rng.uniform(-1, 1, tensor.shape)
        ends = [
            evaluate(
                forward, [a + end * direction if n == place else a for n, a in enumerate(arrays)]
            )
            for end in (STEP, -STEP)
        ]
        expected = float(np.sum((ends[0][0] - ends[1][0]) * flow)) / (2 * STEP)
        scale = float(np.sum(np.abs(gradient * direction))) + abs(expected) + 1
        assert abs(float(np.sum(gradient * direction)) - expected) < 1e-5 * scale, (
            tensor.name, float(np.sum(gradient * direction)), expected, str(dag)
        )  # fmt: skip
    return dag


def refusal_of(loss: Tensor, inputs: Sequence[Tensor]) -> str:
    """Return why gradients of `loss` by the floats among `inputs` are refused; "" if not."""
    seed = ac.placeholder(loss.shape, "seed_of_loss", loss.dtype)
    try:
        ac.gradient(loss, [tensor for tensor in inputs if tensor.dtype.is_float], seed=seed)
    except LanguageError as refusal:
        return str(refusal)
    return ""
