"""One step of recurrent layers; their products with weights are nodes of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.errors import LanguageError
from ansorc.lang import scalar
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import require
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor

Activation = tuple[str, float, float]
"""The name of a function, and its numbers alpha and beta."""

_ACTIVATIONS: Mapping[str, Callable[[Scalar, float, float], Scalar]] = {
    "affine": lambda x, a, b: x * a + b,
    "elu": lambda x, a, _: scalar.if_then_else(x < 0.0, scalar.expm1(x) * a, x),
    "hardsigmoid": lambda x, a, b: scalar.minimum(scalar.maximum(x * a + b, 0.0), 1.0),
    "leakyrelu": lambda x, a, _: scalar.if_then_else(x < 0.0, x * a, x),
    "relu": lambda x, _, __: scalar.maximum(x, 0.0),
    "scaledtanh": lambda x, a, b: scalar.tanh(x * b) * a,
    "sigmoid": lambda x, _, __: scalar.sigmoid(x),
    "softplus": lambda x, _, __: scalar.maximum(x, 0.0) + scalar.log1p(
        scalar.exp(0.0 - scalar.abs(x))
    ),
    "softsign": lambda x, _, __: x / (scalar.abs(x) + 1.0),
    "tanh": lambda x, _, __: scalar.tanh(x),
    "thresholdedrelu": lambda x, a, _: scalar.if_then_else(x > a, x, 0.0),
}  # fmt: skip

ACTIVATIONS = tuple(_ACTIVATIONS)
"""The functions that a recurrent layer may have."""


def rnn_cell(
    inputs: Tensor, hidden: Tensor, activations: Sequence[Activation], clip: float = 0.0
) -> Tensor:
    """Return f(inputs + hidden), both [b, units]: products with weights, and the bias.

    `clip`, if it is not 0, bounds what an activation takes. Raise LanguageError on other shapes or
    unknown activations.
    """
    require(inputs.shape == hidden.shape, "rnn_cell", inputs, hidden, need="they must be equal")
    (f,) = _functions(activations, clip)
    return compute(inputs.shape, lambda *i: f(inputs[i] + hidden[i]), AutoName("rnn_cell"))


def lstm_cell(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    *peepholes: Tensor,
    activations: Sequence[Activation],
    clip: float = 0.0,
    coupled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the hidden state and the cell [b, units] after one step.

    `inputs` and `hidden`, [b, 4 units], are products with weights, in the order of the gates
    input, output, forget, cell; the bias is in one of them. peepholes: [3 units], for input, output
    and forget. `activations` are three: of the gates, the cell and the result; `coupled` forgets
    what is not taken in. See `rnn_cell` for `clip`. Raise LanguageError on other shapes.
    """
    batch, units = cell.shape
    fits = inputs.shape == hidden.shape == (batch, 4 * units)
    require(fits, "lstm_cell", inputs, hidden, cell, need="they must be [b, 4 units], [b, units]")
    f, g, h = _functions(activations, clip)

    def gate(number: int, b: Scalar, u: Scalar, state: Scalar | None) -> Scalar:
        column = u + number * units
        value = inputs[b, column] + hidden[b, column]
        return value if state is None or not peepholes else value + peepholes[0][column] * state

    def new_cell(b: Scalar, u: Scalar) -> Scalar:
        old = cell[b, u] + 0.0
        taken = f(gate(0, b, u, old))
        kept = 1.0 - taken if coupled else f(gate(2, b, u, old))
        return kept * old + taken * g(gate(3, b, u, None))

    state = compute(cell.shape, new_cell, AutoName("lstm_cell.cell"))
    result = compute(
        cell.shape,
        lambda b, u: f(gate(1, b, u, state[b, u] + 0.0)) * h(state[b, u] + 0.0),
        AutoName("lstm_cell"),
    )
    return result, state


def gru_reset(
    inputs: Tensor,
    hidden: Tensor,
    state: Tensor,
    activations: Sequence[Activation],
    clip: float = 0.0,
) -> Tensor:
    """Return the hidden state [b, units] times the reset gate.

    inputs [b, 3 units] and hidden [b, 2 units] are products with weights, in the order of the gates
    update, reset, hidden. Raise LanguageError on other shapes.
    """
    units = _gru_units("gru_reset", inputs, hidden, state, 2)
    f, _ = _functions(activations, clip)

    def body(b: Scalar, u: Scalar) -> Scalar:
        return f(inputs[b, u + units] + hidden[b, u + units]) * state[b, u]

    return compute(state.shape, body, AutoName("gru_reset"))


def gru_cell(
    inputs: Tensor,
    hidden: Tensor,
    state: Tensor,
    *candidates: Tensor,
    activations: Sequence[Activation],
    clip: float = 0.0,
) -> Tensor:
    """Return the hidden state [b, units] after one step.

    As `gru_reset`; candidates [b, units] are the products of what that returns. Without them the
    reset comes behind the product: hidden is [b, 3 units].
    """
    units = _gru_units("gru_cell", inputs, hidden, state, 2 if candidates else 3)
    f, g = _functions(activations, clip)

    def body(b: Scalar, u: Scalar) -> Scalar:
        update = f(inputs[b, u] + hidden[b, u])
        input_part = inputs[b, u + 2 * units]
        if candidates:
            candidate = g(input_part + candidates[0][b, u])
        else:
            reset = f(inputs[b, u + units] + hidden[b, u + units])
            candidate = g(input_part + reset * hidden[b, u + 2 * units])
        return (1.0 - update) * candidate + update * state[b, u]

    return compute(state.shape, body, AutoName("gru_cell"))


def unstack(data: Tensor) -> Sequence[Tensor]:
    """Return the slices of `data` along its first axis, without that axis."""
    return [
        compute(data.shape[1:], lambda *i, n=n: data[(n, *i)], AutoName("unstack"))
        for n in range(data.shape[0])
    ]


def within_length(new: Tensor, lengths: Tensor, *old: Tensor, step: int) -> Tensor:
    """Return new [b, units] where `step` is less than lengths [b], else `old`, or 0."""
    fits = new.shape[:1] == lengths.shape and all(each.shape == new.shape for each in old)
    require(fits, "within_length", new, lengths, *old, need="they must be [b, units] and [b]")

    def body(b: Scalar, u: Scalar) -> Scalar:
        rest = old[0][b, u] if old else scalar.const(0, new.dtype)
        return scalar.if_then_else(lengths[b] > step, new[b, u], rest)

    return compute(new.shape, body, AutoName("within_length"))


def _gru_units(operator: str, inputs: Tensor, hidden: Tensor, state: Tensor, gates: int) -> int:
    batch, units = state.shape
    fits = inputs.shape == (batch, 3 * units) and hidden.shape == (batch, gates * units)
    need = f"they must be [b, 3 units], [b, {gates} units], [b, units]"
    require(fits, operator, inputs, hidden, state, need=need)
    return units


def _functions(activations: Sequence[Activation], clip: float) -> list[Callable[[Scalar], Scalar]]:
    for name, _, _ in activations:
        if name not in _ACTIVATIONS:
            raise LanguageError(f"there is no activation '{name}'; use {', '.join(ACTIVATIONS)}")

    def function(name: str, alpha: float, beta: float) -> Callable[[Scalar], Scalar]:
        def apply(x: Scalar) -> Scalar:
            bounded = scalar.minimum(scalar.maximum(x, -clip), clip) if clip else x
            return _ACTIVATIONS[name](bounded, alpha, beta)

        return apply

    return [function(*activation) for activation in activations]


RECURRENT: Mapping[str, Callable[..., Tensor | Sequence[Tensor]]] = {
    "gru_cell": gru_cell,
    "gru_reset": gru_reset,
    "lstm_cell": lstm_cell,
    "rnn_cell": rnn_cell,
    "unstack": unstack,
    "within_length": within_length,
}
"""Definitions by the name of their operator."""
