"""MobileNet-V2 (Sandler et al., 2018) as an ONNX model with drawn weights.

python -m tests.e2e.cuda.mobilenet FILE [SIZE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Factor of the inner channels, channels, how often, stride of the first."""


class _Model:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        values = self.rng.standard_normal(shape) * float(np.prod(shape[1:])) ** -0.5
        self.weights.append(
            numpy_helper.from_array(values.astype(np.float32), f"w{len(self.weights)}")
        )
        return self.weights[-1].name

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, x: str, channels: tuple[int, int], size: int, stride: int, groups: int) -> str:
        inside, out = channels
        weights = [self.weight(out, inside // groups, size, size), self.weight(out)]
        return self.add("Conv", [x, *weights], pads=[size // 2] * 4, strides=[stride] * 2,
                        group=groups)  # fmt: skip

    def relu6(self, x: str) -> str:
        return self.add("Clip", [x, "zero", "six"])


def mobilenet_v2(size: int = 224) -> onnx.ModelProto:
    """Return x [1, 3, size, size] -> y [1, 1000], its batch norms folded into the convolutions."""
    made = _Model()
    for name, value in (("zero", 0.0), ("six", 6.0)):
        made.weights.append(numpy_helper.from_array(np.array(value, np.float32), name))
    x, channels = made.relu6(made.conv("x", (3, 32), 3, 2, 1)), 32
    for factor, out, count, first in LAYERS:
        for number in range(count):
            stride, wide, y = first if number == 0 else 1, channels * factor, x
            if factor > 1:
                y = made.relu6(made.conv(y, (channels, wide), 1, 1, 1))
            y = made.relu6(made.conv(y, (wide, wide), 3, stride, wide))
            y = made.conv(y, (wide, out), 1, 1, 1)
            x = made.add("Add", [x, y]) if stride == 1 and channels == out else y
            channels = out
    x = made.relu6(made.conv(x, (channels, 1280), 1, 1, 1))
    x = made.add("Flatten", [made.add("GlobalAveragePool", [x])])
    x = made.add("Gemm", [x, made.weight(1000, 1280), made.weight(1000)], transB=1)
    made.nodes[-1].output[0] = "y"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        made.nodes, "mobilenet_v2", [info("x", TensorProto.FLOAT, (1, 3, size, size))],
        [info("y", TensorProto.FLOAT, (1, 1000))], made.weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


if __name__ == "__main__":
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 224
    Path(sys.argv[1]).write_bytes(mobilenet_v2(size).SerializeToString())
