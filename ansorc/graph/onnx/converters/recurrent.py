"""ONNX's recurrent layers, one node after another for the steps.

The products of all steps' inputs with the weights are one node; so each step multiplies the hidden
state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ansorc.graph.onnx.converters.microsoft_quantized import dynamic_product
from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.graph.operators.recurrent import ACTIVATIONS
from ansorc.ir.aligned import Array

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_NUMBERS = {
    "affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0), "thresholdedrelu": (1.0, 0.0),
}  # fmt: skip
"""The numbers alpha and beta of activations that have them."""
_MOST_AT_ONCE = 64
"""Steps whose inputs one kernel parts: one for a thousand results takes long to schedule."""
_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")


Multiplier: TypeAlias = "Callable[[str], str]"
"""Adds the product of a tensor and weights."""


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: what its steps have in common."""

    call: NodeCall
    place: int
    """Its number in the weights."""
    units: int
    lengths: str
    """The number of steps of each sequence; "" where all are full."""
    options: Mapping[str, object]
    """Attributes of each step."""

    def weight(self, index: int, first: int = 0, last: int | None = None) -> str:
        """Return rows of an input's part for this direction: [rows, …] of [directions, rows, …]."""
        call, shape = self.call, self.call.type(index).shape
        end = shape[1] if last is None else last
        if (value := call.value(index)) is not None:
            return call.constant(np.ascontiguousarray(value[self.place, first:end]))
        data = call.input(index)
        if shape[0] > 1 or (first, end) != (0, shape[1]):
            begins = [self.place, first, *[0] * (len(shape) - 2)]
            ends = [self.place + 1, end, *shape[2:]]
            data = call.add("slice", [data], begin=begins, end=ends)
        return call.add("reshape", [data], shape=[end - first, *shape[2:]])

    def multiplier(self, index: int, first: int = 0, last: int | None = None) -> Multiplier:
        """Return what adds the product of a tensor [..., k] and rows of a weight."""
        weight = self.weight(index, first, last)
        return lambda data: self.call.add("dense", [data, weight])

    def start(self, index: int, batch: int) -> str:
        """Return the first state [b, units], zeros where none is given."""
        call = self.call
        if not call.has(index):
            kind = call.type(0).dtype.numpy
            return call.constant(np.zeros((batch, self.units), kind))
        if not call.attribute("layout", 0):
            return self.weight(index)
        data, directions = call.input(index), call.type(index).shape[1]
        if directions > 1:
            begins, ends = [0, self.place, 0], [batch, self.place + 1, self.units]
            data = call.add("slice", [data], begin=begins, end=ends)
        return call.add("reshape", [data], shape=[batch, self.units])

    def project(self, data: str, gates: int, *, apart: bool) -> Sequence[str]:
        """Return what each step's inputs [b, …] add to its gates [b, gates * units]."""
        call, rows = self.call, gates * self.units
        product = self.multiplier(1)(data)
        if call.has(3):
            bias = self.weight(3, 0, rows)
            if not apart:
                bias = _sum(call, bias, self.weight(3, rows))
            product = call.add("bias_add", [product, bias])
        shape = call.builder.type(product).shape
        projections: list[str] = []
        for first in range(0, shape[0], _MOST_AT_ONCE):
            last, part = min(first + _MOST_AT_ONCE, shape[0]), product
            if last - first < shape[0]:
                begin, end = [first, *[0] * (len(shape) - 1)], [last, *shape[1:]]
                part = call.add("slice", [product], begin=begin, end=end)
            if last - first == 1:
                projections.append(call.add("reshape", [part], shape=shape[1:]))
            else:
                projections += call.builder.add_many("unstack", [part], [""] * (last - first))
        return projections

    def keep_state(self, step: int, new: str, *old: str) -> str:
        """Return a state where the sequence goes on at `step`, else what it was, or 0."""
        if not self.lengths:
            return new
        return self.call.add("within_length", [new, self.lengths, *old], step=step)


class _DynamicDirection(_Direction):
    """One of DynamicQuantizeLSTM: weights [directions, k, rows] are integers, data is quantised."""

    def multiplier(self, index: int, first: int = 0, last: int | None = None) -> Multiplier:
        """Return what adds the product of a tensor [..., k], quantised by its range."""
        call, scales = self.call, 6 + 2 * index
        weight, zero = (self._own(number) for number in (index, scales + 1))
        scale = self._own(scales)
        name = scale if isinstance(scale, str) else call.constant(scale)
        return lambda data: dynamic_product(call, data, weight, name, zero)

    def _own(self, index: int) -> Array | str:
        """The part of an input for this direction."""
        value = self.call.value(index)
        if value is not None:
            return np.ascontiguousarray(value[self.place])
        shape = self.call.type(index).shape
        begin, end = [self.place, *[0] * (len(shape) - 1)], [self.place + 1, *shape[1:]]
        data = self.call.add("slice", [self.call.input(index)], begin=begin, end=end)
        return self.call.add("reshape", [data], shape=list(shape[1:]))


def _sum(call: NodeCall, left: str, right: str) -> str:
    a, b = call.builder.value(left), call.builder.value(right)
    if a is not None and b is not None:
        return call.constant(a + b)
    return call.add("add", [left, right])


def _layer(kind: str, make: type[_Direction] = _Direction) -> Converter:
    def convert(call: NodeCall) -> Sequence[str]:
        is_batch_first = bool(call.attribute("layout", 0))
        data, units = call.input(0), call.type(2).shape[2 if make is _Direction else 1]
        if call.attribute("hidden_size", units) != units:
            call.refuse(f"its hidden_size is not {units}, as its weights say")
        if is_batch_first:
            data = call.add("transpose", [data], order=[1, 0, 2])
        name = str(call.attribute("direction", "forward"))
        if name not in ("forward", "reverse", "bidirectional"):
            call.refuse(f"there is no direction '{name}'")
        count = 2 if name == "bidirectional" else 1
        if call.type(1).shape[0] != count:
            call.refuse(f"its weights are of {call.type(1).shape[0]} directions, but it is {name}")
        results: list[tuple[Sequence[str], Sequence[str]]] = []
        for number in range(count):
            options = _options(call, kind, number, count)
            direction = make(call, number, units, _lengths(call, data), options)
            is_backward = name == "reverse" or number == 1
            results.append(_STEPS[kind](direction, data, is_backward=is_backward))
        return _join_outputs(call, results)

    return convert


def _join_outputs(
    call: NodeCall, results: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[str]:
    """The outputs: all hidden states, and the last states, of one direction or two."""
    is_batch_first = bool(call.attribute("layout", 0))
    wanted = call.node.outputs
    outputs: list[str] = []
    if wanted[0]:
        axis = 1 if is_batch_first else 0
        whole = [call.add("stack", list(steps), axis=axis) for steps, _ in results]
        outputs.append(_stack(call, whole, 2 if is_batch_first else 1))
    else:
        outputs.append("")
    for number, name in enumerate(wanted[1:]):
        last = [states[number] for _, states in results]
        outputs.append(_stack(call, last, 1 if is_batch_first else 0) if name else "")
    return outputs


def _stack(call: NodeCall, tensors: Sequence[str], axis: int) -> str:
    if len(tensors) > 1:
        return call.add("stack", tensors, axis=axis)
    return call.add("expand_dims", tensors, axis=axis)


def _rnn(direction: _Direction, data: str, *, is_backward: bool) -> tuple[list[str], list[str]]:
    call, times = direction.call, direction.multiplier(2)
    inputs = direction.project(data, 1, apart=False)
    hidden = direction.start(5, call.builder.type(data).shape[1])
    steps = [""] * len(inputs)
    for step in _order(inputs, is_backward=is_backward):
        product = times(hidden)
        new = call.add("rnn_cell", [inputs[step], product], **direction.options)
        steps[step], hidden = (
            direction.keep_state(step, new),
            direction.keep_state(step, new, hidden),
        )
    return steps, [hidden]


def _lstm(direction: _Direction, data: str, *, is_backward: bool) -> tuple[list[str], list[str]]:
    call, times = direction.call, direction.multiplier(2)
    inputs, batch = direction.project(data, 4, apart=False), call.builder.type(data).shape[1]
    hidden, cell = direction.start(5, batch), direction.start(6, batch)
    peepholes = [direction.weight(7)] if call.has(7) else []
    steps = [""] * len(inputs)
    for step in _order(inputs, is_backward=is_backward):
        product = times(hidden)
        tensors = [inputs[step], product, cell, *peepholes]
        new, state = call.builder.add_many("lstm_cell", tensors, ("", ""), **direction.options)
        steps[step], hidden = (
            direction.keep_state(step, new),
            direction.keep_state(step, new, hidden),
        )
        cell = direction.keep_state(step, state, cell)
    return steps, [hidden, cell]


def _gru(direction: _Direction, data: str, *, is_backward: bool) -> tuple[list[str], list[str]]:
    call, options, units = direction.call, direction.options, direction.units
    is_linear = bool(call.attribute("linear_before_reset", 0))
    inputs = direction.project(data, 3, apart=is_linear)
    weight = direction.weight(2, 0, (3 if is_linear else 2) * units)
    candidate = "" if is_linear else direction.weight(2, 2 * units)
    bias = direction.weight(3, 3 * units) if is_linear and call.has(3) else ""
    hidden = direction.start(5, call.builder.type(data).shape[1])
    steps = [""] * len(inputs)
    for step in _order(inputs, is_backward=is_backward):
        product = call.add("dense", [hidden, weight])
        if bias:
            product = call.add("bias_add", [product, bias])
        tensors = [inputs[step], product, hidden]
        if candidate:
            reset = call.add("gru_reset", tensors, **options)
            tensors.append(call.add("dense", [reset, candidate]))
        new = call.add("gru_cell", tensors, **options)
        steps[step], hidden = (
            direction.keep_state(step, new),
            direction.keep_state(step, new, hidden),
        )
    return steps, [hidden]


_STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _order(steps: Sequence[str], *, is_backward: bool) -> Sequence[int]:
    return range(len(steps))[::-1] if is_backward else range(len(steps))


def _lengths(call: NodeCall, data: str) -> str:
    """The lengths of the sequences; "" where all have all steps."""
    if not call.has(4):
        return ""
    value, steps = call.value(4), call.builder.type(data).shape[0]
    if value is not None and (value >= steps).all():
        return ""
    return call.input(4)


def _options(call: NodeCall, kind: str, number: int, count: int) -> dict[str, object]:
    """The attributes of each step of direction `number`."""
    names = [str(name) for name in call.attribute("activations") or _DEFAULTS[kind] * count]
    each = len(_DEFAULTS[kind])
    if len(names) != each * count:
        call.refuse(f"it has {len(names)} activations; {each * count} are needed")
    alphas = list(call.attribute("activation_alpha") or ())
    betas = list(call.attribute("activation_beta") or ())
    activations: list[tuple[str, float, float]] = []
    for name in names:  # numbers go to the functions that take some, in their order
        lower = name.lower()
        if lower not in ACTIVATIONS:
            call.refuse(f"there is no activation '{name}'")
        alpha, beta = _NUMBERS.get(lower, (0.0, 0.0))
        if lower in _NUMBERS and alphas:
            alpha = alphas.pop(0)
        if lower in _WITH_BETA and betas:
            beta = betas.pop(0)
        activations.append((lower, float(alpha), float(beta)))
    chosen = activations[number * each : (number + 1) * each]
    options: dict[str, object] = {"activations": chosen, "clip": float(call.attribute("clip", 0.0))}
    if kind == "LSTM":
        options["coupled"] = bool(call.attribute("input_forget", 0))
    return options


RECURRENT: Mapping[str, Converter] = {
    **{kind: _layer(kind) for kind in _STEPS},
    "com.microsoft::DynamicQuantizeLSTM": _layer("LSTM", _DynamicDirection),
}
