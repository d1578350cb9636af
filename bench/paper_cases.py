"""The workloads of the paper's evaluation: ten operators and two subgraphs, four shapes of each.

Shapes are printed in the paper's appendix; data is float32 and channels-last, weights are
[…kernel, ci, co]. Three things the appendix leaves open, and how they are read here:

* GRP 1 has 3 input channels in 4 groups, which cannot be. The input is given a fourth channel, so
  that each group sees one; all other numbers are as printed.
* GMM with batch b is b products of [n, k] and [k, m] matrices.
* TBS is softmax(Q K^T): both operands are transposed to [batch, heads, …] first.

The operations of a case are `case.dag().flops`: two for each multiply-add, none for zeros that a
transposed convolution would insert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ansorc.errors import LanguageError
from ansorc.lang import operators as ops
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.tensor import Tensor, placeholder

Shape = tuple[int, ...]
Weight = Callable[[Shape, str], Tensor]
"""What makes the placeholder of a weight."""

_C2D: list[Shape] = [
    (224, 224, 3, 64, 7, 2, 3),
    (56, 56, 64, 64, 1, 1, 0),
    (14, 14, 256, 256, 3, 1, 1),
    (7, 7, 512, 512, 3, 1, 1),
]

SHAPES: dict[str, list[Shape]] = {
    "C1D": [
        (256, 64, 128, 3, 2, 1),
        (128, 128, 256, 1, 2, 0),
        (64, 256, 256, 5, 1, 2),
        (32, 512, 512, 3, 1, 1),
    ],
    "C2D": _C2D,
    "C3D": [(16, *shape) for shape in _C2D],
    "GMM": [(128, 128, 128), (512, 32, 512), (512, 512, 512), (1024, 1024, 1024)],
    "GRP": [(*shape, 4) for shape in _C2D],
    "DIL": [(*shape, 2) for shape in _C2D],
    "DEP": [
        (112, 112, 32, 3, 1, 1),
        (112, 112, 64, 3, 2, 1),
        (14, 14, 512, 3, 2, 1),
        (7, 7, 1024, 3, 1, 1),
    ],
    "T2D": [
        (4, 4, 512, 256, 4, 2, 1),
        (8, 8, 256, 128, 4, 2, 1),
        (16, 16, 128, 64, 4, 2, 1),
        (32, 32, 64, 3, 4, 2, 1),
    ],
    "CAP": [
        (16, 16, 32, 32, 3, 2, 1, 4),
        (8, 8, 32, 32, 3, 1, 1, 4),
        (16, 16, 8, 16, 3, 2, 1, 4),
        (8, 8, 16, 16, 3, 1, 1, 4),
    ],
    "NRM": [(256, 256), (512, 512), (1024, 1024), (4096, 4096)],
    "ConvLayer": [
        (224, 224, 3, 64, 7, 2, 3),
        (56, 56, 64, 64, 3, 2, 1),
        (28, 28, 128, 256, 1, 2, 0),
        (7, 7, 512, 512, 3, 1, 1),
    ],
    "TBS": [(128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)],
}
"""The shapes by operator, as the appendix prints them.

C1D (l, ci, co, k, stride, padding), C2D (h, w, ci, co, k, stride, padding), C3D (d, then as C2D),
GMM (n, m, k), GRP (C2D, groups), DIL (C2D, dilation), DEP (h, w, c, k, stride, padding), T2D as
C2D, CAP (C2D, capsule size), NRM (n, m), ConvLayer as C2D, TBS (length, heads, hidden).
"""

BATCHES = (1, 16)


@dataclass(frozen=True)
class Case:
    """One workload: shape `number` (1 … 4) of an operator, for a batch."""

    operator: str
    number: int
    batch: int

    @property
    def name(self) -> str:
        """The name: C2D-3-b16."""
        return f"{self.operator}-{self.number}-b{self.batch}"

    @property
    def shape(self) -> Shape:
        """The numbers that the appendix prints."""
        return SHAPES[self.operator][self.number - 1]

    def dag(self, *, constant: bool = False) -> ComputeDAG:
        """Return the computation; with `constant` its weights may be re-laid-out."""
        return dag_of(self.operator, self.batch, self.shape, constant=constant)


CASES = [
    Case(operator, number, batch)
    for batch in BATCHES
    for operator, shapes in SHAPES.items()
    for number in range(1, len(shapes) + 1)
]
"""All workloads, those of batch 1 first."""


def dag_of(operator: str, batch: int, shape: Shape, *, constant: bool = False) -> ComputeDAG:
    """Return the computation of an operator on any shape, written as in the appendix."""

    def weight(shape: Shape, name: str) -> Tensor:
        return placeholder(shape, name, constant=constant)

    return ComputeDAG(_BUILDERS[operator](batch, shape, weight))


def case(name: str) -> Case:
    """Return the case called `name`, like "T2D-1-b16"; raise LanguageError if there is none."""
    found = next((one for one in CASES if one.name == name), None)
    if found is None:
        known = ", ".join(SHAPES)
        raise LanguageError(
            f"there is no case '{name}'; write operator-number-bBATCH, like C2D-3-b16, with one of "
            f"{known}, a number from 1 to 4 and batch 1 or 16"
        )
    return found


def _conv(rank: int, batch: int, shape: Shape, weight: Weight, **options: int) -> list[Tensor]:
    *spatial, ci, co, k, stride, padding = shape
    groups = options.get("groups", 1)
    ci += -ci % groups
    build = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}[rank]
    x = placeholder((batch, *spatial, ci), "x")
    w = weight((*[k] * rank, ci // groups, co), "w")
    dilation = options.get("dilation", 1)
    y = build(x, w, stride=stride, padding=padding, groups=groups, dilation=dilation, name="conv")
    return [x, w, y]


def _depthwise(batch: int, shape: Shape, weight: Weight) -> list[Tensor]:
    h, w, c, k, stride, padding = shape
    x, kernel = placeholder((batch, h, w, c), "x"), weight((k, k, c), "w")
    y = ops.depthwise_conv2d(x, kernel, stride=stride, padding=padding, name="conv")
    return [x, kernel, y]


def _transposed(batch: int, shape: Shape, weight: Weight) -> list[Tensor]:
    h, w, ci, co, k, stride, padding = shape
    x = placeholder((batch, h, w, ci), "x")
    kernel = weight((k, k, ci, co), "w")
    y = ops.conv2d_transpose(x, kernel, stride=stride, padding=padding, name="conv")
    return [x, kernel, y]


def _capsule(batch: int, shape: Shape, weight: Weight) -> list[Tensor]:
    h, w, ci, co, k, stride, padding, size = shape
    x = placeholder((batch, h, w, size, size, ci), "x")
    kernel = weight((k, k, size, size, ci, co), "w")
    y = ops.capsule_conv2d(x, kernel, stride=stride, padding=padding, name="conv")
    return [x, kernel, y]


def _product(batch: int, shape: Shape, weight: Weight) -> list[Tensor]:
    n, m, k = shape
    a = placeholder((batch, n, k), "a")
    b = weight((batch, k, m), "b")
    return [a, b, ops.batch_matmul(a, b, name="c")]


def _norm(batch: int, shape: Shape, _: Weight) -> list[Tensor]:
    x = placeholder((batch, *shape), "x")
    return [x, ops.norm2(x, name="norm")]


def _conv_layer(batch: int, shape: Shape, weight: Weight) -> list[Tensor]:
    x, w, conv = _conv(2, batch, shape, weight)
    scale, shift = placeholder(shape[3], "scale"), placeholder(shape[3], "shift")
    y = ops.relu(ops.batch_norm(conv, scale, shift, name="norm"), name="relu")
    return [x, w, scale, shift, y]


def _scores(batch: int, shape: Shape, _: Weight) -> list[Tensor]:
    length, heads, hidden = shape
    query, key = (placeholder((batch, length, heads, hidden), name) for name in ("query", "key"))
    return [query, key, ops.attention_scores(query, key, name="scores")]


_BUILDERS: dict[str, Callable[[int, Shape, Weight], list[Tensor]]] = {
    "C1D": lambda batch, shape, weight: _conv(1, batch, shape, weight),
    "C2D": lambda batch, shape, weight: _conv(2, batch, shape, weight),
    "C3D": lambda batch, shape, weight: _conv(3, batch, shape, weight),
    "GMM": _product,
    "GRP": lambda batch, shape, weight: _conv(2, batch, shape[:-1], weight, groups=shape[-1]),
    "DIL": lambda batch, shape, weight: _conv(2, batch, shape[:-1], weight, dilation=shape[-1]),
    "DEP": _depthwise,
    "T2D": _transposed,
    "CAP": _capsule,
    "NRM": _norm,
    "ConvLayer": _conv_layer,
    "TBS": _scores,
}
