"""Make digits.onnx, a small convolutional classifier of handwritten digits, and images to try.

    python digits.py DIRECTORY

Filters of the convolutions are drawn, the last layer is fitted to scikit-learn's own 8x8 images.
Those that it has not seen go to digits.bin: for each 64 numbers and the digit, as float32.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from sklearn.datasets import load_digits

SIZE, CLASSES, TRAINED = 8, 10, 1500
Array = np.ndarray[Any, Any]


def model(classes: Array, bias: Array) -> onnx.ModelProto:
    """Return image [n, 1, 8, 8] -> probabilities [n, 10], with `classes` [10, 512] and `bias`."""
    rng = np.random.default_rng(0)
    weights = {
        "filters1": rng.standard_normal((16, 1, 3, 3)) / 3,
        "filters2": rng.standard_normal((32, 16, 3, 3)) / 12,
        "classes": classes,
        "bias": bias,
    }
    nodes = [
        helper.make_node("Conv", ["image", "filters1"], ["edges"], pads=[1] * 4),
        helper.make_node("Relu", ["edges"], ["edges_relu"]),
        helper.make_node("Conv", ["edges_relu", "filters2"], ["strokes"], pads=[1] * 4),
        helper.make_node("Relu", ["strokes"], ["strokes_relu"]),
        helper.make_node("MaxPool", ["strokes_relu"], ["pooled"], kernel_shape=[2, 2],
                         strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "classes", "bias"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, SIZE, SIZE])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def features(images: Array) -> Array:
    """Return what the last layer reads of `images` [n, 1, 8, 8]."""
    evaluator: Any = ReferenceEvaluator(model(np.zeros((CLASSES, 512)), np.zeros(CLASSES)))
    (found,) = evaluator.run(["features"], {"image": images})
    return found


def fitted(inputs: Array, labels: Array) -> tuple[Array, Array]:
    """Return the weights [10, 512] and the bias [10] of a linear classifier, by least squares."""
    wanted = np.where(labels[:, None] == np.arange(CLASSES), 8.0, 0.0)  # logits
    rows = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    found = np.linalg.solve(rows.T @ rows + 0.1 * np.eye(rows.shape[1]), rows.T @ wanted)
    return found[:-1].T, found[-1]


def main(directory: Path) -> None:
    """Write digits.onnx and digits.bin to `directory`."""
    found: Any = load_digits()
    images = (found.images / 16).astype(np.float32).reshape(-1, 1, SIZE, SIZE)
    labels = found.target
    made = model(*fitted(features(images[:TRAINED]), labels[:TRAINED]))
    onnx.checker.check_model(made)
    onnx.save(made, directory / "digits.onnx")
    rows = np.concatenate([images.reshape(-1, SIZE * SIZE), labels[:, None]], axis=1)
    rows[TRAINED:].astype(np.float32).tofile(directory / "digits.bin")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
