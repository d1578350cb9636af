"""ONNX operators that are products with matrices of sines and cosines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.graph.onnx.node_call import Converter, NodeCall
from ansorc.ir.aligned import Array

_AXIS_IS_INPUT_SINCE = 20


def _dft(call: NodeCall) -> str:
    """The dimension goes to the end, beside the real and the imaginary parts."""
    shape = call.type(0).shape
    rank, parts = len(shape), shape[-1]
    if call.opset < _AXIS_IS_INPUT_SINCE:
        axis = call.attribute("axis", 1)
    else:
        axis = call.ints(2, "the axis")[0] if call.has(2) else -2
    axis = call.axis(axis, rank)
    is_inverse, is_half = bool(call.attribute("inverse", 0)), bool(call.attribute("onesided", 0))
    is_real = is_inverse and is_half
    whole = 2 * (shape[axis] - 1) if is_real else shape[axis]
    length = call.ints(1, "the length")[0] if call.has(1) else whole
    if is_real:
        matrix = _inverse_of_half(shape[axis], length)
    else:
        matrix = _matrix(shape[axis], parts, length, is_inverse=is_inverse, is_half=is_half)
    order = [d for d in range(rank - 1) if d != axis] + [axis, rank - 1]
    moved = call.add("transpose", [call.input(0)], order=order)
    outer = [shape[d] for d in order[:-2]]
    made = 1 if is_real else 2
    count = matrix.shape[1] // made
    rows = call.add("reshape", [moved], shape=[-1, shape[axis] * parts])
    known = call.constant(matrix.astype(call.type(0).dtype.numpy))
    transformed = call.add(
        "reshape", [call.add("matmul", [rows, known])], shape=[*outer, count, made]
    )
    back = [order.index(d) for d in range(rank)]
    return call.add("transpose", [transformed], order=back)


def _stft(call: NodeCall) -> str:
    """Frames of the signal, each times the window, are transformed like rows."""
    batch, samples, *parts = call.type(0).shape
    if parts not in ([], [1]):
        call.refuse("its signal is complex; ansorc transforms real ones")
    step = call.ints(1, "the step")[0]
    length = call.ints(3, "the length of a frame")[0] if call.has(3) else call.type(2).shape[0]
    starts = np.arange(0, samples - length + 1, step)
    places = starts[:, None] + np.arange(length)
    signal = call.add("reshape", [call.input(0)], shape=[batch, samples])
    frames = call.add("take", [signal, call.constant(places)], axis=1, mode="clip")
    if call.has(2):
        frames = call.add("multiply", [frames, call.input(2)])
    is_half = bool(call.attribute("onesided", 1))
    matrix = _matrix(length, 1, length, is_inverse=False, is_half=is_half)
    known = call.constant(matrix.astype(call.type(0).dtype.numpy))
    transformed = call.add("matmul", [frames, known])
    return call.add("reshape", [transformed], shape=[batch, len(starts), matrix.shape[1] // 2, 2])


def _matrix(rows: int, parts: int, length: int, *, is_inverse: bool, is_half: bool) -> Array:
    """Return the transform of `rows` numbers of `parts` (real, imaginary), of which `length` count.

    Its columns are the real and the imaginary part of each result in turn.
    """
    columns = length // 2 + 1 if is_half else length
    angles = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % length) / length
    power = np.exp((1j if is_inverse else -1j) * angles) / (length if is_inverse else 1)
    power[length:] = 0
    matrix = np.zeros((rows, parts, columns, 2))
    for part in range(parts):
        turned = power * (1j**part)
        matrix[:, part, :, 0], matrix[:, part, :, 1] = turned.real, turned.imag
    return matrix.reshape(rows * parts, columns * 2)


def _inverse_of_half(rows: int, length: int) -> Array:
    """Return the transform of the first `rows` of a spectrum to its `length` real numbers."""
    numbers = np.arange(rows)
    angles = 2 * np.pi * (np.outer(numbers, np.arange(length)) % length) / length
    both = np.where((numbers == 0) | (2 * numbers == length), 1.0, 2.0) * (2 * numbers <= length)
    pair = np.stack([np.cos(angles), -np.sin(angles)], axis=1) * both[:, None, None] / length
    return pair.reshape(rows * 2, length)


FOURIER: Mapping[str, Converter] = {"DFT": _dft, "STFT": _stft}
