"""Random ONNX networks with outputs in unusual places, and what they compute.

Any tensor may be an output: an intermediate one, one that is an output already under another name,
an input, a constant. Constants are anywhere, also where nodes have nothing else to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ansorc.ir.aligned import Array

OPSET = 17
_MOST_ELEMENTS = 2000


@dataclass
class Draft:
    """A network in the making: its tensors with the values that they have."""

    rng: np.random.Generator
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Of all float tensors that nodes may read."""

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def numbers(self, *shape: int) -> Array:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int) -> str:
        """A float tensor: mostly a constant, else an input."""
        if self.rng.random() < 0.85:
            return self.constant(self.numbers(*shape))
        return self.input(*shape)

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.numbers(*shape)
        return name

    def add(self, operator: str, inputs: Sequence[str], shape: Sequence[int], **given: Any) -> str:
        return self.add_many(operator, inputs, [shape], **given)[0]

    def add_many(
        self, operator: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], **given: Any
    ) -> list[str]:
        names = [f"t{len(self.nodes)}_{place}" for place in range(len(shapes))]
        self.nodes.append(helper.make_node(operator, inputs, names, **given))
        self.shapes.update(zip(names, map(tuple, shapes), strict=True))
        return names


def _unary(draft: Draft, x: str) -> None:
    kinds = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softplus", "HardSwish", "Identity", "Erf")
    draft.add(draft.one_of(*kinds), [x], draft.shapes[x])


def _same_values(draft: Draft, x: str) -> None:
    """Whatever exporters write that computes nothing."""
    shape = draft.shapes[x]
    rank = len(shape)
    match int(draft.rng.integers(8)):
        case 0:
            draft.add("Identity", [x], shape)
        case 1:
            draft.add("Dropout", [x], shape)
        case 2:
            draft.add("Reshape", [x, draft.ints(*shape)], shape)
        case 3:
            draft.add("Pad", [x, draft.ints(*[0] * (2 * rank))], shape)
        case 4:
            draft.add("Expand", [x, draft.ints(*[1] * rank)], shape)
        case 5:
            draft.add("Transpose", [x], shape, perm=list(range(rank)))
        case 6:
            axes = draft.ints(*range(rank))
            ends = draft.ints(*[99] * rank)
            draft.add("Slice", [x, draft.ints(*[0] * rank), ends, axes], shape)
        case _:
            draft.add("Concat", [x], shape, axis=0)


def _binary(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    same = [name for name, other in draft.shapes.items() if other == shape]
    other = draft.one_of(*same, *[None] * 3)
    if other is None:
        part = [extent if draft.rng.random() < 0.6 else 1 for extent in shape]
        first = int(draft.rng.integers(len(shape) + 1)) if draft.rng.random() < 0.5 else 0
        other = draft.weight(*part[first:])
    operator = draft.one_of("Add", "Mul", "Sub", "Div", "Max", "Min")
    if operator == "Div":  # by nothing near 0
        absolute = draft.add("Abs", [other], draft.shapes.get(other, ()))
        draft.shapes.pop(absolute) if other not in draft.shapes else None
        half = draft.constant(np.array(0.5, np.float32))
        other = draft.add("Add", [absolute, half], shape)
        draft.shapes.pop(other)
    pair = [x, other]
    draft.add(
        operator, pair if draft.rng.random() < 0.7 or operator == "Div" else pair[::-1], shape
    )


def _transpose(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    order = [int(place) for place in draft.rng.permutation(len(shape))]
    draft.add("Transpose", [x], [shape[place] for place in order], perm=order)


def _reshape(draft: Draft, x: str) -> None:
    shape = list(draft.shapes[x])
    rank = len(shape)
    place = int(draft.rng.integers(rank))
    match int(draft.rng.integers(5)):
        case 0 if rank > 1 and place:
            joined = [*shape[: place - 1], shape[place - 1] * shape[place], *shape[place + 1 :]]
            draft.add("Reshape", [x, draft.ints(*joined)], joined)
        case 1 if rank < 4:
            wider = [*shape[:place], 1, *shape[place:]]
            draft.add("Unsqueeze", [x, draft.ints(place)], wider)
        case 2 if 1 in shape and rank > 1:
            one = shape.index(1)
            draft.add("Squeeze", [x, draft.ints(one)], [*shape[:one], *shape[one + 1 :]])
        case 3:
            front, back = int(np.prod(shape[:place])), int(np.prod(shape[place:]))
            draft.add("Flatten", [x], (front, back), axis=place)
        case _:
            draft.add("Reshape", [x, draft.ints(-1)], [int(np.prod(shape))])


def _cut(draft: Draft, x: str) -> None:
    shape = list(draft.shapes[x])
    place = int(draft.rng.integers(len(shape)))
    extent = shape[place]
    match int(draft.rng.integers(4)):
        case 0:
            begin = int(draft.rng.integers(extent))
            shape[place] = extent - begin
            ends = [draft.ints(begin), draft.ints(extent), draft.ints(place)]
            draft.add("Slice", [x, *ends], shape)
        case 1 if extent > 1:
            sizes = [extent // 2, extent - extent // 2]
            shapes = [[*shape[:place], size, *shape[place + 1 :]] for size in sizes]
            draft.add_many("Split", [x, draft.ints(*sizes)], shapes, axis=place)
        case 2:
            places = draft.rng.integers(0, extent, 2)
            draft.add("Gather", [x, draft.constant(places)], _with(shape, place, 2), axis=place)
        case _:
            before = [int(one) for one in draft.rng.integers(0, 2, len(shape))]
            after = [int(one) for one in draft.rng.integers(0, 2, len(shape))]
            sums = [a + b + c for a, b, c in zip(before, shape, after, strict=True)]
            draft.add("Pad", [x, draft.ints(*before, *after)], sums)


def _concat(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    place = int(draft.rng.integers(len(shape)))
    fits = [
        name
        for name, other in draft.shapes.items()
        if len(other) == len(shape) and _with(other, place, 1) == _with(shape, place, 1)
    ]
    others = [draft.one_of(*fits), draft.one_of(*fits)]
    total = shape[place] + sum(draft.shapes[name][place] for name in others)
    draft.add("Concat", [x, *others], _with(shape, place, total), axis=place)


def _reduce(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    count = int(draft.rng.integers(1, len(shape) + 1))
    axes = sorted(int(one) for one in draft.rng.choice(len(shape), count, replace=False))
    keeps = bool(draft.rng.random() < 0.5)
    kept = [1 if d in axes else e for d, e in enumerate(shape) if keeps or d not in axes]
    given = [axis - len(shape) if draft.rng.random() < 0.3 else axis for axis in axes]
    operator = draft.one_of("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2")
    if operator == "ReduceSum":
        draft.add(operator, [x, draft.ints(*given)], kept, keepdims=int(keeps))
    else:
        draft.add(operator, [x], kept, axes=given, keepdims=int(keeps))


def _along(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    axis = int(draft.rng.integers(-len(shape), len(shape)))
    operator = draft.one_of("Softmax", "LogSoftmax", "LayerNormalization")
    if operator == "LayerNormalization":
        draft.add(operator, [x, draft.weight(shape[-1]), draft.weight(shape[-1])], shape)
    else:
        draft.add(operator, [x], shape, axis=axis)


def _product(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    if len(shape) == 1 and draft.rng.random() < 0.5:
        draft.add("MatMul", [x, draft.weight(shape[0])], ())
        return
    columns = int(draft.rng.integers(1, 6))
    y = draft.add("MatMul", [x, draft.weight(shape[-1], columns)], [*shape[:-1], columns])
    if draft.rng.random() < 0.5:
        draft.add("Add", [y, draft.weight(columns)], draft.shapes[y])


def _gemm(draft: Draft, x: str) -> None:
    shape = draft.shapes[x]
    if len(shape) != 2:
        return
    columns = int(draft.rng.integers(1, 6))
    inputs = [x, draft.weight(columns, shape[1]), draft.weight(columns)]
    draft.add("Gemm", inputs, (shape[0], columns), transB=1, alpha=0.5)


def _image(draft: Draft, x: str) -> None:
    """A convolution, a pool or a norm of channels."""
    shape = draft.shapes[x]
    if not 3 <= len(shape) <= 4 or min(shape[2:]) < 2:
        return
    rank, channels, space = len(shape) - 2, shape[1], list(shape[2:])
    match int(draft.rng.integers(5)):
        case 0 | 1:
            groups = draft.one_of(1, 1, channels)
            out = groups * int(draft.rng.integers(1, 4))
            kernel, pad = int(draft.rng.integers(1, 3)), int(draft.rng.integers(0, 2))
            weight = draft.weight(out, channels // groups, *[kernel] * rank)
            bias = [draft.weight(out)] if draft.rng.random() < 0.5 else []
            size = [extent + 2 * pad - kernel + 1 for extent in space]
            draft.add(
                "Conv", [x, weight, *bias], (shape[0], out, *size),
                group=groups, pads=[pad] * (2 * rank),
            )  # fmt: skip
        case 2:
            vectors = [draft.constant(draft.numbers(channels)) for _ in range(3)]
            variance = draft.constant(np.abs(draft.numbers(channels)) + np.float32(0.1))
            draft.add("BatchNormalization", [x, *vectors, variance], shape)
        case 3:
            size = [extent - 1 for extent in space]
            operator = draft.one_of("MaxPool", "AveragePool")
            draft.add(operator, [x], (*shape[:2], *size), kernel_shape=[2] * rank)
        case _:
            draft.add("GlobalAveragePool", [x], (*shape[:2], *[1] * rank))


def _scaled(draft: Draft, x: str) -> None:
    """A number before a product, which may go behind it."""
    number = draft.constant(np.array(draft.one_of(0.0, 0.125, -3.0, 1e-3), np.float32))
    y = draft.add("Mul", [x, number], draft.shapes[x])
    _product(draft, y)


def _with(shape: Sequence[int], place: int, extent: int) -> tuple[int, ...]:
    return (*shape[:place], extent, *shape[place + 1 :])


_STEPS: Sequence[Callable[[Draft, str], None]] = (
    _unary, _unary, _same_values, _same_values, _binary, _binary, _transpose, _transpose, _reshape,
    _cut, _concat, _reduce, _along, _product, _gemm, _image, _image, _image, _scaled,
)  # fmt: skip


def random_network(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a network of 3 to 10 nodes and more, and its inputs."""
    draft = Draft(np.random.default_rng(seed))
    shape = draft.one_of((2, 3, 5, 4), (1, 4, 6, 6), (1, 6, 7), (3, 8), (2, 1, 4, 3), (5,))
    draft.shapes[draft.input(*shape)] = shape
    if draft.rng.random() < 0.5:  # what is computed of it is known
        draft.shapes[draft.constant(draft.numbers(*shape))] = shape
    for _ in range(int(draft.rng.integers(3, 10))):
        names = [name for name, one in draft.shapes.items() if one]
        recent = names[-3:]
        name = draft.one_of(*recent, *recent, *names)
        if np.prod(draft.shapes[name]) <= _MOST_ELEMENTS:
            draft.one_of(*_STEPS)(draft, name)
    return _model(draft), draft.inputs


def _model(draft: Draft) -> onnx.ModelProto:
    computed = [name for name in draft.shapes if name not in {*draft.inputs, *draft.constants}]
    last = [name for name in computed if name.startswith(f"t{len(draft.nodes) - 1}_")]
    some = [name for name in computed if draft.rng.random() < 0.3]
    outputs = list(dict.fromkeys([*some, *last])) or computed[:1]
    for name in (*outputs, *draft.inputs, *draft.constants):
        if draft.rng.random() < (0.25 if name in outputs else 0.06):  # the same once more
            again = f"again_{name}"
            draft.nodes.append(helper.make_node("Identity", [name], [again]))
            outputs.append(again)
    outputs += [name for name in (*draft.inputs, *draft.constants) if draft.rng.random() < 0.05]
    if not outputs:
        draft.nodes.append(helper.make_node("Identity", ["x0"], ["again_x0"]))
        outputs = ["again_x0"]
    outputs = [outputs[int(place)] for place in draft.rng.permutation(len(outputs))]
    read = {str(name) for node in draft.nodes for name in node.input} | set(outputs)
    inputs = {name: array for name, array in draft.inputs.items() if name in read}
    draft.inputs = inputs
    kind = {name: helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in inputs.items()}
    graph = helper.make_graph(
        draft.nodes,
        "net",
        [helper.make_tensor_value_info(n, kind[n], one.shape) for n, one in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(one, name) for name, one in draft.constants.items()],
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)
