"""Recurrent layers of ONNX mean what ONNX says, and sequences end where they end."""

from typing import Any

import numpy as np
import pytest

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array
from tests.support.onnx_oracle import assert_as_onnx, node_model, random, run_node

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, UNITS = 3, 2, 4, 5


def tensors(kind: str, directions: int = 1) -> list[Array]:
    rows = GATES[kind] * UNITS
    shapes: list[tuple[int, ...]] = [
        (STEPS, BATCH, INPUTS),
        (directions, rows, INPUTS),
        (directions, rows, UNITS),
    ]
    shapes.append((directions, 2 * rows))
    return [random(*shape, seed=n) for n, shape in enumerate(shapes)]


def states(kind: str, directions: int = 1) -> list[Array]:
    count = 2 if kind == "LSTM" else 1
    return [random(directions, BATCH, UNITS, seed=7 + n) for n in range(count)]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_layers(kind: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    given = [*tensors(kind, count), None, *states(kind, count)]
    options: dict[str, Any] = {"direction": direction, "hidden_size": UNITS}
    assert_as_onnx(kind, given, known=(1, 2, 3), outputs=2 + (kind == "LSTM"), **options)


@pytest.mark.parametrize("options", [{"linear_before_reset": 1}, {"linear_before_reset": 0}])
def test_where_a_gru_resets(options: dict[str, Any]) -> None:
    assert_as_onnx("GRU", tensors("GRU"), hidden_size=UNITS, **options)


def test_peepholes() -> None:
    given = [*tensors("LSTM"), None, *states("LSTM"), random(1, 3 * UNITS, seed=9)]
    assert_as_onnx("LSTM", given, hidden_size=UNITS, outputs=3)


@pytest.mark.parametrize("kind", GATES)
def test_the_batch_may_come_first(kind: str) -> None:
    data, *weights = tensors(kind, 2)
    rest = [*weights, None, *(state.swapaxes(0, 1) for state in states(kind, 2))]
    options: dict[str, Any] = {"direction": "bidirectional", "hidden_size": UNITS, "layout": 1}
    assert_as_onnx(kind, [data.swapaxes(0, 1), *rest], outputs=2, **options)


@pytest.mark.parametrize("kind", GATES)
def test_a_short_sequence_is_computed_as_if_alone(kind: str) -> None:
    options: dict[str, Any] = {"direction": "bidirectional", "hidden_size": UNITS, "outputs": 2}
    data, *weights = tensors(kind, 2)
    lengths = np.array([2, 3], np.int32)
    _, (all_steps, last) = run_node(*node_model(kind, [data, *weights, lengths], **options))
    for b, length in enumerate(lengths):
        alone = [data[:length, b : b + 1], *weights]
        _, (steps, state) = run_node(*node_model(kind, alone, **options))
        np.testing.assert_allclose(all_steps[:length, :, b], steps[:, :, 0])
        np.testing.assert_allclose(all_steps[length:, :, b], 0)
        np.testing.assert_allclose(last[:, b], state[:, 0])


def test_activations_take_their_numbers_in_order() -> None:
    data, weight, recurrent, _ = tensors("RNN")
    options: dict[str, Any] = {"activations": ["Affine"], "activation_alpha": [2.0]}
    options |= {"activation_beta": [0.5], "clip": 0.3, "hidden_size": UNITS}
    _, (found,) = run_node(*node_model("RNN", [data, weight, recurrent], **options))
    hidden = np.zeros((BATCH, UNITS))
    for step in range(STEPS):
        total = data[step].astype(np.float64) @ weight[0].T + hidden @ recurrent[0].T
        hidden = np.clip(total, -np.float32(0.3), np.float32(0.3)) * 2 + 0.5
        np.testing.assert_allclose(found[step, 0], hidden, rtol=1e-5)


def test_an_unknown_activation_is_refused() -> None:
    model = node_model("RNN", tensors("RNN")[:3], activations=["Cosine"], hidden_size=UNITS)
    with pytest.raises(GraphError, match="no activation 'Cosine'"):
        run_node(*model)
