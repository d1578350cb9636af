"""`python -m bench.quantized_convolutions DIRECTORY`: ONNX files of convolutions of bytes.

Each is one layer of a network, quantised (QLinearConv) or between DequantizeLinear and
QuantizeLinear, for `ansorc bench FILE.onnx`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Layer = tuple[int, int, int, int, int, int]
"""Side of the image, channels before and after, side of the window, step, groups."""

LAYERS: Mapping[str, Layer] = {
    "depthwise-112x112x32": (112, 32, 32, 3, 1, 32),
    "depthwise-112x112x96-s2": (112, 96, 96, 3, 2, 96),
    "depthwise-14x14x384": (14, 384, 384, 3, 1, 384),
    "depthwise-7x7x960": (7, 960, 960, 3, 1, 960),
    "depthwise-28x28x240-5x5": (28, 240, 240, 5, 1, 240),
    "depthwise-56x56x96-7x7": (56, 96, 96, 7, 1, 96),
    "pointwise-14x14x256": (14, 256, 256, 1, 1, 1),
    "pointwise-14x14x384x64": (14, 384, 64, 1, 1, 1),
    "pointwise-28x28x144x32": (28, 144, 32, 1, 1, 1),
    "pointwise-56x56x24x144": (56, 24, 144, 1, 1, 1),
    "conv-14x14x256": (14, 256, 256, 3, 1, 1),
    "conv-56x56x64": (56, 64, 64, 3, 1, 1),
    "first-224x224x3x32": (224, 3, 32, 3, 2, 1),
}
"""Of MobileNet-V2, EfficientNet-B0, ConvNeXt-T and ResNet."""
_OPSET, _IR_VERSION = 19, 9


def model(layer: Layer, *, is_joined: bool) -> onnx.ModelProto:
    """Return one layer with uint8 data, int8 weights and scales of channels; QDQ or joined."""
    side, before, after, window, step, groups = layer
    rng, margin, terms = np.random.default_rng(0), window // 2, window**2 * before // groups
    scales = (rng.random(after) * 0.01 + 0.001).astype(np.float32)
    known: dict[str, Any] = {
        "x_scale": np.float32(0.02), "x_zero": np.uint8(131),
        "w": rng.integers(-127, 128, (after, before // groups, window, window)).astype(np.int8),
        "w_scale": scales, "w_zero": np.zeros(after, np.int8),
        "b": rng.integers(-2000, 2000, after).astype(np.int32),
        "b_scale": np.float32(0.02) * scales, "b_zero": np.zeros(after, np.int32),
        "y_scale": np.float32(0.0137 * terms**0.5), "y_zero": np.uint8(100),
    }  # fmt: skip
    options: dict[str, Any] = {"pads": [margin] * 4, "strides": [step] * 2, "group": groups}
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"]
    nodes = [helper.make_node("QLinearConv", names, ["y"], **options)]
    if not is_joined:
        nodes = [_dequantized(name) for name in "xwb"]
        nodes.append(helper.make_node("Conv", [f"{n}_float" for n in "xwb"], ["sum"], **options))
        nodes.append(helper.make_node("QuantizeLinear", ["sum", "y_scale", "y_zero"], ["y"]))
    used = {name for node in nodes for name in node.input}
    out = (side + 2 * margin - window) // step + 1
    graph = helper.make_graph(
        nodes, "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, before, side, side))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (1, after, out, out))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in known.items() if n in used],
    )  # fmt: skip
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)


def _dequantized(name: str) -> onnx.NodeProto:
    axis: dict[str, Any] = {} if name == "x" else {"axis": 0}
    inputs = [name, f"{name}_scale", f"{name}_zero"]
    return helper.make_node("DequantizeLinear", inputs, [f"{name}_float"], **axis)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def main(directory: Path) -> None:
    """Write the files NAME.onnx and NAME-qdq.onnx."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, layer in LAYERS.items():
        for ending, is_joined in (("", True), ("-qdq", False)):
            made = model(layer, is_joined=is_joined)
            (directory / f"{name}{ending}.onnx").write_bytes(made.SerializeToString())


if __name__ == "__main__":
    main()
