"""Nodes and operators of very many tensors, which are joined in halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pytest

import ansorc as ac
from ansorc.ir.aligned import Array
from ansorc.lang.reference import evaluate
from ansorc.lang.tensor import Tensor
from tests.graph.onnx.onnx_models import assert_as_onnx, model_of, node
from tests.support.nightly import sampled

COUNT = 300


def arrays(count: int) -> list[Array]:
    """Return small integers, which are added without rounding."""
    drawn = np.random.default_rng(count).integers(-9, 9, (count, 2, 3))
    return list(drawn.astype(np.float32))


JOINED: list[tuple[Callable[[Sequence[Tensor], int], Tensor], Callable[..., Array]]] = [
    (ac.ops.concat, np.concatenate),
    (ac.ops.stack, np.stack),
]


@pytest.mark.parametrize(("join", "wanted"), JOINED)
def test_many_tensors_are_joined(
    join: Callable[[Sequence[Tensor], int], Tensor], wanted: Callable[..., Array]
) -> None:
    tensors = [ac.placeholder((2, 3), f"x{n}") for n in range(COUNT)]
    kernel = ac.build(ac.ComputeDAG([*tensors, join(tensors, 0)]))
    given = arrays(COUNT)
    np.testing.assert_array_equal(kernel(*given), wanted(given, 0))


@pytest.mark.parametrize("count", [2, 16, 17, 33, 50])
def test_every_part_is_in_its_place(count: int) -> None:
    lengths = [1 + n % 3 for n in range(count)]
    tensors = [ac.placeholder((n,), f"x{place}") for place, n in enumerate(lengths)]
    ends = np.cumsum(lengths)
    given = np.split(np.arange(ends[-1], dtype=np.float32), ends[:-1])
    (found,) = evaluate(ac.ComputeDAG([*tensors, ac.ops.concat(tensors)]), given, None)
    np.testing.assert_array_equal(found, np.concatenate(given))


ONNX: dict[str, Callable[[list[Array]], Array]] = {
    "Concat": np.concatenate,
    "Sum": lambda given: reduce(np.add, given),
    "Max": lambda given: reduce(np.maximum, given),
    "Min": lambda given: reduce(np.minimum, given),
    "Mean": lambda given: reduce(np.add, given) * np.float32(1 / len(given)),
}


@pytest.mark.parametrize("kind", sampled(ONNX, ["Concat", "Mean"]))
def test_nodes_of_many_inputs(kind: str) -> None:
    names = [f"x{n}" for n in range(COUNT)]
    made = node(kind, names, ["y"], axis=0) if kind == "Concat" else node(kind, names, ["y"])
    network = ac.build(ac.from_onnx(model_of([made], dict.fromkeys(names, (2, 3)), ["y"])))
    given = arrays(COUNT)
    np.testing.assert_allclose(network(*given), ONNX[kind](given), 1e-6)


def test_a_layer_of_many_steps() -> None:
    rng = np.random.default_rng(0)
    weights = {name: rng.uniform(-1, 1, (1, 8, 2)).astype(np.float32) for name in ("w", "r")}
    proto = model_of(
        [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)], {"x": (70, 1, 2)}, ["y"],
        weights=weights,
    )  # fmt: skip
    assert_as_onnx(ac.from_onnx(proto), proto)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_thousand_steps_and_inputs() -> None:
    tensors = [ac.placeholder((2, 3), f"x{n}") for n in range(1000)]
    kernel = ac.build(ac.ComputeDAG([*tensors, ac.ops.concat(tensors, 1)]))
    given = arrays(1000)
    np.testing.assert_array_equal(kernel(*given), np.concatenate(given, 1))
