"""Random nodes of layers: convolutions, pools, norms, products, recurrent and quantised ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ansorc.ir.aligned import Array
from tests.graph.onnx.node_case import CaseMaker, Draw, NodeCase

LOOSE = 1e-4


def _window(draw: Draw, space: Sequence[int], *, dilates: bool = True) -> dict[str, Any]:
    """Attributes of a window that fits into `space`."""
    rank = len(space)
    kernel = [draw.int(1, min(3, extent)) for extent in space]
    given: dict[str, Any] = {"kernel_shape": kernel}
    if draw.chance():
        given["strides"] = [draw.int(1, 3) for _ in space]
    if dilates and draw.chance(0.3):
        given["dilations"] = [
            draw.int(1, 2) if k == 1 or (k - 1) * 2 < extent else 1
            for k, extent in zip(kernel, space, strict=True)
        ]
    way = draw.int(0, 3)
    if way == 0 and max(given.get("strides", [1])) == 1:
        given["auto_pad"] = draw.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    elif way > 1:
        given["pads"] = [draw.int(0, k - 1) for k in (*kernel, *kernel)]
    return given if rank else {}


def _has_peer(given: Mapping[str, Any]) -> bool:
    """ONNX Runtime forgets the dilations of pools where the padding is automatic."""
    return not {"auto_pad", "dilations"} <= set(given)


def _space(draw: Draw) -> list[int]:
    return [draw.int(3, 6) for _ in range(draw.int(1, 3))]


def _conv(draw: Draw) -> NodeCase:
    space, groups = _space(draw), draw.one_of(1, 1, 2, 3)
    inner, outer = draw.int(1, 2), draw.int(1, 2)
    given = {**_window(draw, space), "group": groups}
    kernel = given["kernel_shape"] if draw.chance() else given.pop("kernel_shape")
    data = draw.floats(draw.int(1, 2), inner * groups, *space)
    return _convolved(draw, [data, draw.floats(outer * groups, inner, *kernel)], outer, given)


def _convolved(draw: Draw, inputs: list[Array], outer: int, given: dict[str, Any]) -> NodeCase:
    """A convolution of data by a weight, sometimes with a bias for each of `outer` * group."""
    if draw.chance():
        inputs.append(draw.floats(outer * given["group"]))
    return NodeCase(inputs, given, tolerance=LOOSE)


def _conv_transpose(draw: Draw) -> NodeCase:
    space, groups = [draw.int(2, 4) for _ in range(draw.int(1, 2))], draw.one_of(1, 1, 2)
    inner, outer, rank = draw.int(1, 2), draw.int(1, 2), len(space)
    kernel, stride = [draw.int(1, 3) for _ in space], [draw.int(1, 2) for _ in space]
    given: dict[str, Any] = {"group": groups, "strides": stride, "kernel_shape": kernel}
    match draw.int(0, 3):
        case 0 if all(k >= s for k, s in zip(kernel, stride, strict=True)):
            given["auto_pad"] = draw.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
        case 1:
            given["pads"] = [draw.int(0, (k - 1) // 2) for k in (*kernel, *kernel)]
        case 2:
            given["dilations"] = [draw.int(1, 2)] * rank
        case _:
            given["output_padding"] = [draw.int(0, s - 1) for s in stride]
    data = draw.floats(draw.int(1, 2), inner * groups, *space)
    return _convolved(draw, [data, draw.floats(inner * groups, outer, *kernel)], outer, given)


def _max_pool(draw: Draw) -> NodeCase:
    space = _space(draw)
    given = _window(draw, space, dilates=draw.opset >= 10)
    if draw.opset >= 10 and draw.chance(0.3):
        given["ceil_mode"] = 1
    x = draw.rng.permutation(int(np.prod([2, 2, *space]))).reshape(2, 2, *space).astype(np.float32)
    count = 2 if draw.opset >= 8 and draw.chance(0.3) else 1
    if count == 2 and draw.chance(0.3):
        given["storage_order"] = 1
    return NodeCase([x - 20], given, outputs=count, has_peer=_has_peer(given))


def _average_pool(draw: Draw) -> NodeCase:
    space = _space(draw)
    given = _window(draw, space, dilates=draw.opset >= 19)
    if draw.opset >= 10 and draw.chance(0.3):
        given["ceil_mode"] = 1
    if draw.chance():
        given["count_include_pad"] = draw.int(0, 1)
    return NodeCase([draw.floats(2, 2, *space)], given, has_peer=_has_peer(given))


def _lp_pool(draw: Draw) -> NodeCase:
    space = _space(draw)
    given = _window(draw, space, dilates=draw.opset >= 18)
    if draw.chance():
        given["p"] = draw.int(1, 3)
    has_peer = not {"auto_pad", "dilations"} <= set(given)  # which ONNX Runtime forgets
    return NodeCase([draw.floats(1, 2, *space)], given, tolerance=LOOSE, has_peer=has_peer)


def _max_unpool(draw: Draw) -> NodeCase:
    h, w = draw.int(1, 3), draw.int(1, 3)
    places = np.array(
        [
            [2 * r * 2 * w + draw.int(0, 1) * 2 * w + 2 * c + draw.int(0, 1) for c in range(w)]
            for r in range(h)
        ]
    )
    given = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return NodeCase([draw.floats(1, 1, h, w), places.reshape(1, 1, h, w).astype(np.int64)], given)


def _whole(draw: Draw) -> NodeCase:
    return NodeCase([draw.floats(draw.int(1, 2), draw.int(1, 3), *_space(draw))])


def _global_lp(draw: Draw) -> NodeCase:
    given = {"p": draw.int(1, 3)} if draw.chance() else {}
    return NodeCase(_whole(draw).inputs, given, tolerance=LOOSE)


def _batch_norm(draw: Draw) -> NodeCase:
    shape = draw.shape(2, 4)
    c = shape[1]
    given: dict[str, Any] = {"epsilon": 1e-3} if draw.chance() else {}
    vectors = [draw.floats(c), draw.floats(c), draw.floats(c), draw.positive(c)]
    outputs = 1
    if draw.opset >= 14 and draw.chance(0.3):
        given |= {"training_mode": 1, "momentum": 0.7}
        outputs = 3
    return NodeCase([draw.floats(*shape), *vectors], given, outputs=outputs, tolerance=1e-3)


def _instance_norm(draw: Draw) -> NodeCase:
    n, c = draw.int(1, 2), draw.int(1, 3)
    given = {"epsilon": 1e-2}
    return NodeCase(
        [draw.floats(n, c, *_space(draw)), draw.floats(c), draw.floats(c)], given, tolerance=LOOSE
    )


def _group_norm(draw: Draw) -> NodeCase:
    groups, each = draw.int(1, 3), draw.int(1, 3)
    c = groups * each
    size = c if draw.opset >= 21 else groups
    inputs = [draw.floats(2, c, *_space(draw)), draw.floats(size), draw.floats(size)]
    return NodeCase(inputs, {"num_groups": groups, "epsilon": 1e-2}, tolerance=LOOSE)


def _layer_norm(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    axis = draw.axis(len(shape))
    size = shape[axis % len(shape) :]
    inputs = [
        draw.floats(*shape),
        draw.floats(*size),
        *([draw.floats(*size)] if draw.chance() else []),
    ]
    return NodeCase(
        inputs, {"axis": axis, "epsilon": 1e-2}, outputs=draw.one_of(1, 3), tolerance=LOOSE
    )


def _rms_norm(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    axis = draw.axis(len(shape))
    return NodeCase(
        [draw.floats(*shape), draw.floats(*shape[axis % len(shape) :])],
        {"axis": axis, "epsilon": 1e-2},
        tolerance=LOOSE,
    )


def _lrn(draw: Draw) -> NodeCase:
    space = _space(draw)
    x, size = draw.floats(1, draw.int(1, 6), *space), draw.int(1, 5)
    given = {"size": size, "alpha": 0.3}
    more = {"bias": 2.0, "beta": 0.5} if draw.chance() else {}
    has_peer = len(space) == 2 and size % 2 == 1
    return NodeCase([x], {**given, **more}, tolerance=LOOSE, has_peer=has_peer)


def _lp_norm(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    x = draw.positive(*shape) * np.where(draw.bools(*shape), -1, 1).astype("float32")
    given = {"axis": draw.axis(len(shape))}
    return NodeCase(
        [x], {**given, **({"p": draw.int(1, 2)} if draw.chance() else {})}, tolerance=LOOSE
    )


def _mvn(draw: Draw) -> NodeCase:
    shape = (draw.int(2, 3), draw.int(2, 4), draw.int(2, 4), draw.int(2, 4))
    given = {"axes": draw.one_of([0, 2, 3], [0], [1, 2], [2, 3])} if draw.chance() else {}
    return NodeCase([draw.floats(*shape)], given, tolerance=LOOSE)


def _softmax(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    low = -len(shape) if draw.opset >= 11 else 0
    given = {"axis": draw.int(low, len(shape) - 1)}
    if draw.opset >= 13 or len(shape) > 1:
        given = given if draw.chance(0.7) else {}
    return NodeCase([draw.floats(*shape, scale=draw.one_of(3.0, 60.0))], given, tolerance=LOOSE)


def _hardmax(draw: Draw) -> NodeCase:
    made = _softmax(draw)
    return NodeCase(
        [draw.ints(-3, 3, *np.asarray(made.inputs[0]).shape, kind="float32")], made.attributes
    )


def _matmul(draw: Draw) -> NodeCase:
    m, k, n = draw.int(1, 4), draw.int(1, 5), draw.int(1, 4)
    batch = draw.shape(0, 2, 3)
    kind = draw.one_of("float32", "float64", *(("int32", "int64") if draw.opset >= 9 else ()))
    left = draw.one_of((k,), (m, k), (*batch, m, k), (*draw.part_of(batch), m, k))
    right = draw.one_of((k,), (k, n), (*batch, k, n))
    return NodeCase([draw.numbers(*one, kinds=(kind,)) for one in (left, right)], tolerance=LOOSE)


def _gemm(draw: Draw) -> NodeCase:
    m, k, n = draw.int(1, 4), draw.int(1, 5), draw.int(1, 4)
    given: dict[str, Any] = {x: draw.int(0, 1) for x in ("transA", "transB") if draw.chance()}
    a = (k, m) if given.get("transA") else (m, k)
    b = (n, k) if given.get("transB") else (k, n)
    inputs = [draw.floats(*a), draw.floats(*b)]
    if draw.opset < 11 or draw.chance():
        inputs.append(draw.floats(*draw.one_of((m, n), (n,), (1, n), (m, 1), ())))
    if draw.chance():
        given |= {"alpha": draw.rng.uniform(0.1, 2), "beta": draw.rng.uniform(0.1, 2)}
    return NodeCase(inputs, given, tolerance=LOOSE)


def _recurrent(gates: int, states: int) -> CaseMaker:
    def make(draw: Draw) -> NodeCase:
        steps, batch, size, units = draw.int(1, 4), draw.int(1, 3), draw.int(1, 3), draw.int(1, 3)
        direction = draw.one_of("forward", "reverse", "bidirectional")
        count = 2 if direction == "bidirectional" else 1
        given: dict[str, Any] = {"hidden_size": units, "direction": direction}
        inputs: list[Any] = [
            draw.floats(steps, batch, size),
            draw.floats(count, gates * units, size, scale=1.0),
            draw.floats(count, gates * units, units, scale=1.0),
            draw.floats(count, 2 * gates * units) if draw.chance(0.7) else None,
            draw.ints(1, steps, batch, kind="int32") if draw.chance(0.4) else None,
        ]
        if draw.chance():
            inputs += [draw.floats(count, batch, units) for _ in range(states)]
        if gates == 3 and draw.chance():
            given["linear_before_reset"] = 1
        if gates == 4 and draw.chance(0.3):
            inputs += [None] * (7 - len(inputs)) + [draw.floats(count, 3 * units)]
        if draw.chance(0.2):
            given["clip"] = 1.5
        while inputs[-1] is None:
            inputs.pop()
        return NodeCase(inputs, given, outputs=1 + states, tolerance=LOOSE)

    return make


def _attention(draw: Draw) -> NodeCase:
    batch, n, m, width = draw.int(1, 2), draw.int(1, 4), draw.int(1, 4), draw.int(1, 4)
    shared = draw.int(1, 2)
    heads = shared * draw.int(1, 2)
    given: dict[str, Any] = {}
    if draw.chance(0.3):
        given["is_causal"] = 1
    if draw.chance(0.3):
        given["scale"] = 0.4
    if draw.chance(0.3):
        given["softcap"] = 2.0
    inputs: list[Any] = [
        draw.floats(batch, heads, n, width), draw.floats(batch, shared, m, width),
        draw.floats(batch, shared, m, draw.int(1, 4)),
    ]  # fmt: skip
    if draw.chance(0.4):
        mask = draw.bools(n, m)
        mask[:, 0] = True
        inputs.append(mask if draw.chance() else draw.floats(n, m))
    return NodeCase(inputs, given, tolerance=LOOSE)


def _rotary(draw: Draw) -> NodeCase:
    batch, heads, n, half = draw.int(1, 2), draw.int(1, 3), draw.int(1, 4), draw.int(1, 3)
    given = {"interleaved": draw.int(0, 1)} if draw.chance() else {}
    caches = [draw.floats(8, half) for _ in range(2)]
    places = draw.ints(0, 7, batch, n)
    return NodeCase([draw.floats(batch, heads, n, 2 * half), *caches, places], given)


def _quantize(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    kind = draw.one_of("int8", "uint8")
    axis = draw.axis(len(shape))
    is_along = draw.opset >= 13 and draw.chance()
    size = (shape[axis],) if is_along else ()
    scale = np.asarray(2.0 ** draw.ints(-4, 1, *size), "float32")
    zero = draw.ints(-9 if kind == "int8" else 0, 9, *size, kind=kind)
    x = draw.floats(*shape, scale=draw.one_of(3.0, 200.0))
    given = {"axis": axis} if is_along else {}
    return NodeCase([x, scale, zero], given, steps=1)


def _dequantize(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    kind = draw.one_of("int8", "uint8", "int32")
    axis = draw.axis(len(shape))
    is_along = draw.opset >= 13 and draw.chance()
    size = (shape[axis],) if is_along else ()
    inputs: list[Any] = [draw.ints(0, 99, *shape, kind=kind), draw.positive(*size)]
    if kind != "int32" and draw.chance(0.7):
        inputs.append(draw.ints(0, 9, *size, kind=kind))
    return NodeCase(inputs, {"axis": axis} if is_along else {})


def _dynamic_quantize(draw: Draw) -> NodeCase:
    return NodeCase([draw.floats(*draw.shape(1, 3))], outputs=3, steps=1)


def _matmul_integer(draw: Draw) -> NodeCase:
    m, k, n = draw.int(1, 4), draw.int(1, 6), draw.int(1, 4)
    a, b = draw.one_of("int8", "uint8"), draw.one_of("int8", "uint8")
    inputs: list[Any] = [draw.any_ints(a, m, k), draw.any_ints(b, k, n)]
    if draw.chance():
        inputs += [draw.ints(0, 9, kind=a), draw.ints(0, 9, kind=b)]
    return NodeCase(inputs)


def _conv_integer(draw: Draw) -> NodeCase:
    space = [draw.int(3, 5) for _ in range(2)]
    given = _window(draw, space)
    a, b = "uint8", draw.one_of("uint8", "int8")
    inputs: list[Any] = [
        draw.any_ints(a, 1, 2, *space),
        draw.any_ints(b, 3, 2, *given["kernel_shape"]),
    ]
    if draw.chance():
        inputs += [draw.ints(0, 9, kind=a), *([draw.ints(0, 9, kind=b)] if draw.chance() else [])]
    return NodeCase(inputs, given)


def _pair(draw: Draw, kind: str, *size: int) -> list[Any]:
    """A scale and a zero point."""
    return [_small(draw, *size), draw.ints(0, 9, *size, kind=kind)]


def _small(draw: Draw, *size: int) -> Any:
    return np.asarray(draw.positive(*size) * 0.1, "float32")


def _qlinear_matmul(draw: Draw) -> NodeCase:
    m, k, n, kind = draw.int(1, 4), draw.int(1, 6), draw.int(1, 4), draw.one_of("int8", "uint8")
    a, b = draw.any_ints(kind, m, k), draw.any_ints(kind, k, n)
    return NodeCase([a, *_pair(draw, kind), b, *_pair(draw, kind), *_pair(draw, kind)], steps=1)


def _qlinear_conv(draw: Draw) -> NodeCase:
    space = [draw.int(3, 5) for _ in range(2)]
    given = _window(draw, space)
    x, w = (
        draw.any_ints("uint8", 1, 2, *space),
        draw.ints(-60, 60, 3, 2, *given["kernel_shape"], kind="int8"),
    )
    scale = _small(draw, *((3,) if draw.chance() else ()))
    zero = np.zeros(np.shape(scale), np.int8)
    inputs: list[Any] = [x, *_pair(draw, "uint8"), w, scale, zero, *_pair(draw, "uint8")]
    if draw.chance():
        inputs.append(draw.ints(-99, 99, 3, kind="int32"))
    return NodeCase(inputs, given, steps=1)


def _grid_sample(draw: Draw) -> NodeCase:
    n, c, h, w = draw.int(1, 2), draw.int(1, 2), draw.int(2, 4), draw.int(2, 4)
    modes = (
        ("linear", "nearest", "cubic") if draw.opset >= 20 else ("bilinear", "nearest", "bicubic")
    )
    given: dict[str, Any] = {"mode": draw.one_of(*modes)}
    if draw.chance(0.7):
        given["padding_mode"] = draw.one_of("zeros", "border", "reflection")
    if draw.chance():
        given["align_corners"] = draw.int(0, 1)
    grid = draw.floats(n, draw.int(1, 4), draw.int(1, 4), 2, scale=1.2)
    return NodeCase([draw.floats(n, c, h, w), grid], given, tolerance=LOOSE, has_peer=False)


def _affine_grid(draw: Draw) -> NodeCase:
    rank = draw.int(2, 3)
    size = draw.known_ints(draw.int(1, 2), 1, *(draw.int(2, 4) for _ in range(rank)))
    given = {"align_corners": draw.int(0, 1)} if draw.chance() else {}
    return NodeCase(
        [draw.floats(int(size[0]), rank, rank + 1), size], given, known=[1], tolerance=LOOSE
    )


def _roi_align(draw: Draw) -> NodeCase:
    count = draw.int(1, 3)
    corners = np.sort(draw.rng.uniform(0, 5, (count, 2, 2)), 1).reshape(count, 4).astype("float32")
    given: dict[str, Any] = {"output_height": draw.int(1, 3), "output_width": draw.int(1, 3)}
    given |= {"sampling_ratio": draw.int(1, 2), "mode": draw.one_of("avg", "max")}
    batch = draw.ints(0, 1, count)
    return NodeCase(
        [draw.floats(2, 2, 5, 5), corners, batch], given, tolerance=LOOSE, has_peer=False
    )


def _max_roi_pool(draw: Draw) -> NodeCase:
    count = draw.int(1, 3)
    corners = np.sort(draw.rng.integers(0, 5, (count, 2, 2)), 1).reshape(count, 4)
    rois = np.concatenate([draw.ints(0, 1, count, 1), corners], 1).astype("float32")
    size = [draw.int(1, 3), draw.int(1, 3)]
    return NodeCase([draw.floats(2, 2, 5, 5), rois], {"pooled_shape": size})


def _det(draw: Draw) -> NodeCase:
    n = draw.int(1, 4)
    return NodeCase([draw.floats(*draw.shape(0, 2, 3), n, n)], tolerance=1e-3)


def _dropout(draw: Draw) -> NodeCase:
    given = {"ratio": 0.3} if draw.opset < 12 and draw.chance() else {}
    inputs: list[Any] = [draw.floats(*draw.shape())]
    if draw.opset >= 12 and draw.chance():
        inputs += [np.array(0.3, np.float32), *([np.array(False)] if draw.chance() else [])]
    return NodeCase(
        inputs, given, known=[1, 2], outputs=2 if draw.opset >= 12 and draw.chance(0.3) else 1
    )


def _loss(draw: Draw, *, is_logits: bool) -> NodeCase:
    n, c, more = draw.int(1, 3), draw.int(1, 4), draw.shape(0, 2, 3)
    given: dict[str, Any] = {"reduction": draw.one_of("mean", "sum", "none")}
    if draw.chance(0.3) and c > 1:
        given["ignore_index"] = 0
    x = draw.floats(n, c, *more)
    labels = draw.ints(1 if c > 1 else 0, c - 1, n, *more)
    if "ignore_index" in given and labels.size > 1:
        labels.flat[0] = 0
    return NodeCase(
        [x, labels, *([draw.positive(c)] if draw.chance() else [])], given, tolerance=LOOSE
    )


def _col2im(draw: Draw) -> NodeCase:
    kernel, image = [draw.int(1, 2) for _ in range(2)], [draw.int(2, 4) for _ in range(2)]
    count = int(np.prod([i - k + 1 for i, k in zip(image, kernel, strict=True)]))
    x = draw.floats(draw.int(1, 2), draw.int(1, 2) * int(np.prod(kernel)), count)
    return NodeCase([x, draw.known_ints(*image), draw.known_ints(*kernel)], known=[1, 2])


def _dft(draw: Draw) -> NodeCase:
    n = draw.int(1, 6)
    is_real = draw.chance()
    given: dict[str, Any] = {"onesided": draw.int(0, 1)} if is_real and draw.chance() else {}
    x = draw.floats(2, n, 3, 1 if is_real else 2)
    if draw.opset < 20:
        return NodeCase([x], {**given, "axis": 1}, tolerance=LOOSE)
    return NodeCase([x, None, np.array(1)], given, known=[1, 2], tolerance=LOOSE)


def _stft(draw: Draw) -> NodeCase:
    size, step = draw.int(2, 6), draw.int(1, 3)
    x = draw.floats(1, size + step * draw.int(0, 3), 1)
    return NodeCase(
        [x, np.array(step), draw.floats(size)],
        {"onesided": draw.int(0, 1)},
        known=[1, 2],
        tolerance=LOOSE,
    )


def _deform(draw: Draw) -> NodeCase:
    h, w = draw.int(2, 4), draw.int(2, 4)
    x, weight = draw.floats(1, 2, h, w), draw.floats(2, 2, 2, 2)
    offset = draw.floats(1, 8, h - 1, w - 1, scale=0.7)
    return NodeCase([x, weight, offset], {"kernel_shape": [2, 2]}, tolerance=LOOSE)


NETWORK: Mapping[str, CaseMaker] = {
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Col2Im": _col2im,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DFT": _dft,
    "DeformConv": _deform,
    "DequantizeLinear": _dequantize,
    "Det": _det,
    "Dropout": _dropout,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "GRU": _recurrent(3, 1),
    "Gemm": _gemm,
    "GlobalAveragePool": _whole,
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": _whole,
    "GridSample": _grid_sample,
    "GroupNormalization": _group_norm,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "LSTM": _recurrent(4, 2),
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax,
    "LpNormalization": _lp_norm,
    "LpPool": _lp_pool,
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "MaxPool": _max_pool,
    "MaxRoiPool": _max_roi_pool,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": _mvn,
    "NegativeLogLikelihoodLoss": lambda draw: _loss(draw, is_logits=False),
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
    "RMSNormalization": _rms_norm,
    "RNN": _recurrent(1, 1),
    "RoiAlign": _roi_align,
    "RotaryEmbedding": _rotary,
    "STFT": _stft,
    "Softmax": _softmax,
    "SoftmaxCrossEntropyLoss": lambda draw: _loss(draw, is_logits=True),
}
"""What makes a random node, by its operator."""
