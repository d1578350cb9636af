"""Blocks of networks for images: convolutions with residuals, pools, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graph.campaign.elementwise_blocks import ACTIVATIONS, composed_activation, is_float
from tests.graph.campaign.network_writer import Block, NetworkWriter, Value


def is_image(x: Value) -> bool:
    return is_float(x) and len(x.shape) == 4


def convolution(net: NetworkWriter, x: Value) -> Value | None:
    """A convolution with bias or batch norm, an activation, and sometimes a residual."""
    if not is_image(x):
        return None
    channels = x.shape[1]
    kernel = int(net.rng.choice([1, 1, 3, 3, 5]))
    is_depthwise = net.rng.random() < 0.25
    outputs = channels if is_depthwise or net.rng.random() < 0.4 else int(net.rng.choice([1, 3, 8]))
    group = channels if is_depthwise else 1
    stride, dilation = int(net.rng.choice([1, 1, 2])), int(net.rng.choice([1, 1, 1, 2]))
    pad = dilation * (kernel // 2)
    if min(x.shape[2:]) + 2 * pad < dilation * (kernel - 1) + 1:
        return None
    inputs = [x, net.weights(outputs, channels // group, kernel, kernel)]
    has_norm = net.rng.random() < 0.5
    if not has_norm and net.rng.random() < 0.7:
        inputs.append(net.weights(outputs, scale=0.5))
    y = net.add(
        "Conv", inputs, group=group, strides=[stride, stride], dilations=[dilation, dilation],
        pads=[pad] * 4, kernel_shape=[kernel, kernel],
    )  # fmt: skip
    if has_norm:
        mean, scale, shift = (net.weights(outputs, scale=0.5) for _ in range(3))
        variance = net.constant(net.rng.uniform(0.5, 2, outputs).astype(np.float32))
        y = net.add("BatchNormalization", [y, scale, shift, mean, variance])
    return _finish(net, x, y)


def _finish(net: NetworkWriter, x: Value, y: Value) -> Value | None:
    """Add an activation before or after a residual from `x`, where the shapes allow one."""
    if net.rng.random() < 0.5:
        y = net.add(str(net.rng.choice(ACTIVATIONS)), [y])
    if x.shape == y.shape and net.rng.random() < 0.7:
        y = net.add("Add", [y, x])
    return composed_activation(net, y) if net.rng.random() < 0.3 else y


def squeeze_and_excite(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x):
        return None
    channels, inner = x.shape[1], max(1, x.shape[1] // 2)
    y = net.add("GlobalAveragePool", [x])
    y = net.add("Relu", [net.add("Conv", [y, net.weights(inner, channels, 1, 1)])])
    y = net.add("Conv", [y, net.weights(channels, inner, 1, 1), net.weights(channels, scale=0.3)])
    gate = str(net.rng.choice(["Sigmoid", "HardSigmoid"]))
    return net.add("Mul", [x, net.add(gate, [y])])


def transposed_convolution(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x) or max(x.shape[2:]) > 12:
        return None
    kernel, stride = int(net.rng.choice([2, 3, 4])), int(net.rng.choice([1, 2]))
    weights = net.weights(x.shape[1], int(net.rng.choice([1, 2, 4])), kernel, kernel, scale=0.3)
    pad = int(net.rng.integers(0, 2))
    if stride * (min(x.shape[2:]) - 1) + kernel - 2 * pad < 1:
        return None
    return net.add("ConvTranspose", [x, weights], strides=[stride] * 2, pads=[pad] * 4)


def pool(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x):
        return None
    if net.rng.random() < 0.2:
        return net.add(str(net.rng.choice(["GlobalAveragePool", "GlobalMaxPool"])), [x])
    kernel, stride = int(net.rng.choice([2, 3])), int(net.rng.choice([1, 2]))
    if min(x.shape[2:]) < kernel:
        return None
    operator = str(net.rng.choice(["MaxPool", "AveragePool"]))
    more: dict[str, Any] = (
        {"count_include_pad": int(net.rng.random() < 0.5)} if operator == "AveragePool" else {}
    )
    pads = [int(net.rng.integers(0, 2))] * 4
    ceil = int(net.rng.random() < 0.3)
    if ceil and operator == "AveragePool":
        pads, more = (
            [0] * 4,
            {},
        )  # what lies beyond the pads is counted in as many ways as there are tools
    return net.add(
        operator, [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, ceil_mode=ceil,
        **more,
    )  # fmt: skip


def resize(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x):
        return None
    mode = str(net.rng.choice(["nearest", "linear", "cubic"]))
    transform = str(
        net.rng.choice(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
    )
    options: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        options["nearest_mode"] = str(net.rng.choice(["floor", "round_prefer_floor"]))
    if net.rng.random() < 0.5:
        scales = [1.0, 1.0, *net.rng.choice([0.5, 0.6, 1.0, 1.5, 2.0, 3.0], 2)]
        if any(int(extent * scale) < 1 for extent, scale in zip(x.shape, scales, strict=True)):
            return None
        return net.add("Resize", [x, None, net.constant(np.array(scales, np.float32))], **options)
    sizes = [*x.shape[:2], *map(int, net.rng.integers(1, 20, 2))]
    return net.add("Resize", [x, None, None, net.integers(*sizes)], **options)


def sample_grid(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x) or net.opset < 16:
        return None
    rows, columns = (int(one) for one in net.rng.integers(1, 6, 2))
    grid = net.rng.uniform(-1.2, 1.2, (x.shape[0], rows, columns, 2)).astype(np.float32)
    names = {"linear": "bilinear", "nearest": "nearest"}
    mode = str(net.rng.choice(list(names)))
    return net.add(
        "GridSample", [x, net.constant(grid)], mode=mode if net.opset >= 20 else names[mode],
        padding_mode=str(net.rng.choice(["zeros", "border", "reflection"])),
        align_corners=int(net.rng.random() < 0.5),
    )  # fmt: skip


def shuffle(net: NetworkWriter, x: Value) -> Value | None:
    """Channels to places and back, channels in groups."""
    if not is_image(x):
        return None
    channels, height, width = x.shape[1:]
    if channels % 4 == 0 and net.rng.random() < 0.5:
        return net.add("DepthToSpace", [x], blocksize=2, mode=str(net.rng.choice(["DCR", "CRD"])))
    if height % 2 == 0 and width % 2 == 0 and net.rng.random() < 0.5:
        return net.add("SpaceToDepth", [x], blocksize=2)
    if channels % 2:
        return None
    y = net.add("Reshape", [x, net.integers(x.shape[0], 2, channels // 2, height, width)])
    y = net.add("Transpose", [y], perm=[0, 2, 1, 3, 4])
    return net.add("Reshape", [y, net.integers(*x.shape)])


def head(net: NetworkWriter, x: Value) -> Value | None:
    """A classifier: pooled or flattened, then a dense layer."""
    if not is_image(x):
        return None
    y = net.add("GlobalAveragePool", [x]) if net.rng.random() < 0.6 else x
    y = net.add("Flatten", [y])
    classes = int(net.rng.choice([1, 3, 10]))
    weights = net.weights(y.shape[1], classes, scale=y.shape[1] ** -0.5)
    return net.add("Gemm", [y, weights, net.weights(classes, scale=0.5)])


def image_norm(net: NetworkWriter, x: Value) -> Value | None:
    if not is_image(x):
        return None
    channels = x.shape[1]
    if net.rng.random() < 0.5 and np.prod(x.shape[2:]) > 1:
        pair = [net.weights(channels, scale=1), net.weights(channels, scale=1)]
        return net.add("InstanceNormalization", [x, *pair], epsilon=1e-2)
    return net.add("LRN", [x], size=int(net.rng.choice([1, 3, 5])), alpha=0.1)


IMAGES: tuple[Block, ...] = (
    convolution, convolution, convolution, squeeze_and_excite, transposed_convolution, pool,
    resize, sample_grid, shuffle, head, image_norm,
)  # fmt: skip
