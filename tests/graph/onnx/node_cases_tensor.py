"""Random nodes of operators that move, cut, join, look up and sort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.graph.onnx.node_case import CaseMaker, Draw, NodeCase

KINDS = ("float32", "int64", "uint8", "bool", "float64", "int32")


def _moved(draw: Draw, low: int = 0, high: int = 4) -> Any:
    return draw.numbers(*draw.shape(low, high), kinds=KINDS)


def _concat(draw: Draw) -> NodeCase:
    shape, kind = list(draw.shape(1, 4)), draw.one_of(*KINDS)
    axis = draw.axis(len(shape)) if draw.opset >= 11 else draw.int(0, len(shape) - 1)
    parts: list[Any] = []
    for _ in range(draw.int(1, 3)):
        shape[axis] = draw.int(1, 4)
        parts.append(draw.numbers(*shape, kinds=(kind,)))
    return NodeCase(parts, {"axis": axis})


def _split(draw: Draw) -> NodeCase:
    shape = list(draw.shape(1, 4))
    axis = draw.axis(len(shape)) if draw.opset >= 11 else draw.int(0, len(shape) - 1)
    lengths = [draw.int(1, 3) for _ in range(draw.int(1, 3))]
    if draw.chance(0.3) and len(lengths) > 1:
        lengths = [lengths[0]] * len(lengths)
    shape[axis] = sum(lengths)
    x = draw.numbers(*shape, kinds=KINDS)
    given: dict[str, Any] = {"axis": axis}
    is_even = len(set(lengths)) == 1
    if is_even and draw.chance():
        if draw.opset >= 18:
            given["num_outputs"] = len(lengths)
        return NodeCase([x], given, outputs=len(lengths))
    if draw.opset < 13:
        return NodeCase([x], {**given, "split": lengths}, outputs=len(lengths))
    return NodeCase([x, draw.known_ints(*lengths)], given, known=[1], outputs=len(lengths))


def _slice(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    x = draw.numbers(*shape, kinds=KINDS)
    axes = sorted(
        int(a) for a in draw.rng.choice(len(shape), draw.int(1, len(shape)), replace=False)
    )
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in axes:
        extent = shape[axis]
        first, last = sorted((draw.int(0, extent - 1), draw.int(0, extent - 1)))
        is_back = draw.opset >= 10 and draw.chance(0.3)
        steps.append(draw.one_of(1, 1, 2, 3) if draw.opset >= 10 else 1)
        if is_back:
            steps[-1] *= -1
            starts.append(
                last if draw.chance() else extent + draw.int(0, 9) if last == extent - 1 else last
            )
            ends.append(first - 1 - (extent if first == 0 else 0) - (9 if first == 0 else 0))
        else:
            starts.append(draw.one_of(first, first - extent))
            ends.append(
                draw.one_of(
                    last + 1, draw.one_of(99, 2**31 - 1) if last == extent - 1 else last + 1
                )
            )
    named = [axis - len(shape) if draw.opset >= 11 and draw.chance(0.3) else axis for axis in axes]
    is_all = axes == list(range(len(axes))) and draw.chance(0.3)
    if draw.opset < 10:
        given = {"starts": starts, "ends": ends, **({} if is_all else {"axes": named})}
        return NodeCase([x], given)
    kind = draw.one_of("int32", "int64")
    more = [np.array(one, kind) for one in (starts, ends)]
    is_plain = set(steps) == {1}
    tail: list[Any] = [None if is_all else np.array(named, kind)]
    tail += [] if is_plain and draw.chance() else [np.array(steps, kind)]
    while tail and tail[-1] is None:
        tail.pop()
    return NodeCase([x, *more, *tail], known=[1, 2, 3, 4])


def _pad(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    rank = len(shape)
    modes = ["constant", "constant", "edge", "reflect"] + (["wrap"] if draw.opset >= 19 else [])
    mode = draw.one_of(*modes)
    most = [extent - 1 if mode in ("reflect", "wrap") else 3 for extent in shape]
    pads = [min(draw.int(0, 2), limit) for limit in (*most, *most)]
    if mode == "constant" and draw.chance(0.2):  # cut
        pads = [
            -1 if shape[d % rank] > 2 and draw.chance(0.3) else one for d, one in enumerate(pads)
        ]
    if draw.opset < 11:
        given: dict[str, Any] = {"pads": pads, "mode": mode}
        if draw.chance():
            given["value"] = 1.5
        return NodeCase([draw.floats(*shape)], given)
    kind = draw.one_of("float32", "float64", "int64", "int32")
    inputs: list[Any] = [draw.numbers(*shape, kinds=(kind,)), draw.known_ints(*pads)]
    if mode == "constant" and draw.chance(0.6):
        inputs.append(np.asarray(draw.int(-3, 3), kind))
    if draw.opset >= 18 and draw.chance(0.3):
        axes = draw.some_axes(rank)
        places = [axis % rank for axis in axes]
        inputs[1] = draw.known_ints(*(pads[p] for p in places), *(pads[p + rank] for p in places))
        inputs += [None] * (3 - len(inputs)) + [draw.known_ints(*axes)]
    return NodeCase(inputs, {"mode": mode}, known=[1, 2, 3])


def _tile(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4, 4)
    repeats = draw.known_ints(*(draw.int(1, 3) for _ in shape))
    return NodeCase([draw.numbers(*shape, kinds=KINDS), repeats], known=[1])


def _expand(draw: Draw) -> NodeCase:
    wanted = draw.shape(1, 4)
    x = draw.numbers(*draw.part_of(wanted), kinds=KINDS)
    return NodeCase([x, draw.known_ints(*draw.one_of(wanted, draw.part_of(wanted)))], known=[1])


def _reshape(draw: Draw) -> NodeCase:
    shape = list(draw.shape(1, 4))
    x = draw.numbers(*shape, kinds=KINDS)
    new = [int(e) for e in draw.rng.permutation(shape)]
    if draw.chance() and len(new) > 1:
        new[:2] = [new[0] * new[1]]
    wanted = list(new)
    if draw.chance(0.4):
        wanted[draw.int(0, len(wanted) - 1)] = -1
    for place, extent in enumerate(new[: len(shape)]):
        if extent == shape[place] and wanted[place] > 0 and draw.chance(0.3):
            wanted[place] = 0
    return NodeCase([x, draw.known_ints(*wanted)], known=[1])


def _squeeze(draw: Draw) -> NodeCase:
    shape = list(draw.shape(1, 4))
    ones = [d for d, extent in enumerate(shape) if extent == 1]
    axes = (
        None if not ones or draw.chance(0.3) else [d for d in ones if draw.chance(0.7)] or ones[:1]
    )
    if axes is not None and draw.opset >= 11:
        axes = [axis - len(shape) if draw.chance(0.3) else axis for axis in axes]
    given, more = draw.axes_or_input(axes, 13)
    return NodeCase([draw.numbers(*shape, kinds=KINDS), *more], given, known=[1])


def _unsqueeze(draw: Draw) -> NodeCase:
    shape = draw.shape(0, 3)
    count = draw.int(1, 2)
    rank = len(shape) + count
    axes = sorted(int(a) for a in draw.rng.choice(rank, count, replace=False))
    if draw.opset >= 11:
        axes = [axis - rank if draw.chance(0.3) else axis for axis in axes]
    given, more = draw.axes_or_input(axes, 13)
    return NodeCase([draw.numbers(*shape, kinds=KINDS), *more], given, known=[1])


def _transpose(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    order = [int(place) for place in draw.rng.permutation(len(shape))]
    return NodeCase(
        [draw.numbers(*shape, kinds=KINDS)], {"perm": order} if draw.chance(0.8) else {}
    )


def _flatten(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    axis = draw.int(-len(shape) if draw.opset >= 11 else 0, len(shape))
    kinds = KINDS if draw.opset >= 9 else ("float32",)
    return NodeCase([draw.numbers(*shape, kinds=kinds)], {"axis": axis} if draw.chance(0.8) else {})


def _blocks(*, to_space: bool) -> CaseMaker:
    def make(draw: Draw) -> NodeCase:
        size, channels = draw.int(1, 3), draw.int(1, 3)
        n, h, w = draw.int(1, 2), draw.int(1, 3), draw.int(1, 3)
        if to_space:
            given = {"blocksize": size}
            if draw.opset >= 11 and draw.chance():
                given["mode"] = draw.one_of("DCR", "CRD")
            return NodeCase([draw.floats(n, channels * size * size, h, w)], given)
        return NodeCase([draw.floats(n, channels, h * size, w * size)], {"blocksize": size})

    return make


def _shape(draw: Draw) -> NodeCase:
    given = {}
    if draw.opset >= 15 and draw.chance():
        given = {"start": 0, "end": draw.int(1, 2)}
    return NodeCase([_moved(draw, 1)], given)


def _gather(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    extent = shape[axis]
    places = draw.ints(-extent if draw.opset >= 11 else 0, extent - 1, *draw.shape(0, 2, 3))
    if draw.chance(0.3):
        places = places.astype("int32")
    return NodeCase([draw.numbers(*shape, kinds=KINDS), places], {"axis": axis} if axis else {})


def _gather_elements(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    wanted = [draw.int(1, extent) for extent in shape]
    wanted[axis] = draw.int(1, 4)
    places = draw.ints(-shape[axis], shape[axis] - 1, *wanted)
    return NodeCase([draw.numbers(*shape, kinds=KINDS), places], {"axis": axis})


def _gather_nd(draw: Draw) -> NodeCase:
    shape = draw.shape(2, 4, 3)
    batch = draw.int(0, 1) if draw.opset >= 12 else 0
    depth = draw.int(1, len(shape) - batch)
    front = (*shape[:batch], *draw.shape(0 if batch else 1, 2, 3))
    columns = [draw.ints(-shape[batch + d], shape[batch + d] - 1, *front) for d in range(depth)]
    given = {"batch_dims": batch} if batch else {}
    return NodeCase([draw.numbers(*shape, kinds=KINDS), np.stack(columns, -1)], given)


def _scatter_elements(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3)
    axis = draw.axis(len(shape))
    wanted = [draw.int(1, extent) for extent in shape]
    order = np.argsort(draw.rng.random(shape), axis)  # each place once along the axis
    places = order[tuple(slice(extent) for extent in wanted)].astype(np.int64)
    given: dict[str, Any] = {"axis": axis}
    kind = "float32"
    if draw.opset >= 16 and draw.chance(0.6):
        choices = ["none", "add", "mul"] + (["max", "min"] if draw.opset >= 18 else [])
        given["reduction"] = draw.one_of(*choices)
        kind = draw.one_of("float32", "int32")
        if given["reduction"] != "none":  # places may meet
            places = draw.ints(-shape[axis] if draw.opset >= 11 else 0, shape[axis] - 1, *wanted)
    if draw.opset >= 11:
        places = np.where(
            draw.rng.random(places.shape) < 0.2,
            places - np.where(places >= 0, shape[axis], 0),
            places,
        )
    data, updates = (draw.numbers(*one, kinds=(kind,)) for one in (shape, wanted))
    return NodeCase([data, places, updates], given)


def _scatter_nd(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3, 4)
    depth = draw.int(1, len(shape))
    total = int(np.prod(shape[:depth]))
    rows = draw.rng.permutation(total)[: draw.int(1, total)]
    given: dict[str, Any] = {}
    if draw.opset >= 16 and draw.chance():
        choices = ["none", "add", "mul"] + (["max", "min"] if draw.opset >= 18 else [])
        given = {"reduction": draw.one_of(*choices)}
        if given["reduction"] != "none":
            rows = draw.rng.integers(0, total, len(rows))
    places = np.stack(np.unravel_index(rows, shape[:depth]), -1).astype(np.int64)
    kind = draw.one_of("float32", "int32")
    updates = draw.numbers(len(rows), *shape[depth:], kinds=(kind,))
    return NodeCase([draw.numbers(*shape, kinds=(kind,)), places, updates], given)


def _one_hot(draw: Draw) -> NodeCase:
    depth, shape = draw.int(1, 5), draw.shape(1, 3, 3)
    kind = draw.one_of("float32", "int64", "int32")
    places = draw.ints(-depth if draw.opset >= 11 else 0, depth - 1, *shape, kind="int64")
    values = draw.numbers(2, kinds=(kind,))
    given = {"axis": draw.axis(len(shape) + 1)} if draw.chance() else {}
    depths = draw.one_of(np.array(depth), np.array([depth]))
    return NodeCase([places, depths, values], given, known=[1])


def _top_k(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3, 6)
    axis = draw.axis(len(shape)) if draw.opset >= 11 else draw.int(0, len(shape) - 1)
    k = draw.int(1, shape[axis])
    kinds = ("float32", "int64") if draw.opset >= 11 else ("float32",)
    x = draw.ints(-9, 9, *shape, kind=draw.one_of(*kinds))
    if draw.opset < 10:
        return NodeCase([x], {"axis": axis, "k": k}, outputs=2)
    given: dict[str, Any] = {"axis": axis}
    if draw.opset >= 11:
        given |= {n: draw.int(0, 1) for n in ("largest",) if draw.chance()}
    return NodeCase([x, draw.known_ints(k)], given, known=[1], outputs=2)


def _compress(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 3)
    axis: int | None = draw.one_of(None, draw.axis(len(shape)) if draw.opset >= 11 else 0)
    extent = int(np.prod(shape)) if axis is None else int(shape[axis])
    condition = draw.bools(draw.int(1, extent))
    condition[draw.int(0, len(condition) - 1)] = True
    given = {} if axis is None else {"axis": axis}
    return NodeCase([draw.numbers(*shape, kinds=KINDS), condition], given, known=[1])


def _reverse_sequence(draw: Draw) -> NodeCase:
    shape = draw.shape(2, 4)
    time = draw.int(0, 1)
    lengths = draw.ints(1, shape[time], shape[1 - time])
    given = {"time_axis": time, "batch_axis": 1 - time}
    return NodeCase([draw.numbers(*shape, kinds=KINDS), lengths], given)


def _trilu(draw: Draw) -> NodeCase:
    x = draw.numbers(*draw.shape(2, 4), kinds=("float32", "int64"))
    given = {"upper": draw.int(0, 1)} if draw.chance() else {}
    return NodeCase([x, *([np.array(draw.int(-4, 4))] if draw.chance() else [])], given, known=[1])


def _crop(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 4)
    axes = sorted(
        int(a) for a in draw.rng.choice(len(shape), draw.int(1, len(shape)), replace=False)
    )
    is_all = draw.chance(0.3)
    count = len(shape) if is_all else len(axes)
    wanted = draw.known_ints(*(draw.int(1, 7) for _ in range(count)))
    given = {} if is_all else {"axes": [a - len(shape) if draw.chance(0.3) else a for a in axes]}
    return NodeCase([draw.numbers(*shape, kinds=("float32", "int32")), wanted], given, known=[1])


def _einsum(draw: Draw) -> NodeCase:
    equation = draw.one_of(
        "ij,jk->ik", "ij->ji", "bij,bjk->bik", "ii->i", "ij->", "i,j->ij", "...ij,...jk->...ik",
        "ij,ij->i", "bij,bj->bi", "ij,jk",
    )  # fmt: skip
    sizes = {letter: draw.int(1, 4) for letter in "bijk"}
    left = equation.split("->")[0]
    shapes = [
        [*([2, 3] if "..." in one else []), *(sizes[c] for c in one if c.isalpha())]
        for one in left.split(",")
    ]
    return NodeCase([draw.floats(*shape) for shape in shapes], {"equation": equation})


def _constant_of_shape(draw: Draw) -> NodeCase:
    return NodeCase([draw.known_ints(*draw.shape(1, 3))], known=[0])


def _range(draw: Draw) -> NodeCase:
    kind = draw.one_of("int32", "int64", "float32")
    start, step = draw.int(-5, 5), draw.one_of(1, 2, -1, 3)
    limit = start + step * draw.int(1, 6)
    if kind == "float32" and draw.chance():
        start, step = draw.rng.uniform(-2, 2), draw.rng.uniform(0.1, 1)
        limit = start + step * draw.rng.uniform(1, 9)
    return NodeCase([np.asarray(one, kind) for one in (start, limit, step)], known=[0, 1, 2])


def _eye(draw: Draw) -> NodeCase:
    given = {"k": draw.int(-2, 2)} if draw.chance() else {}
    return NodeCase(
        [draw.numbers(draw.int(1, 5), draw.int(1, 5), kinds=("float32", "int64"))], given
    )


def _non_zero(draw: Draw) -> NodeCase:
    x = draw.ints(-1, 1, *draw.shape(1, 3))
    x.flat[0] = 1
    return NodeCase([x], known=[0])


def _unique(draw: Draw) -> NodeCase:
    shape = draw.shape(1, 2)
    given: dict[str, Any] = {"sorted": draw.int(0, 1)}
    if draw.chance():
        given["axis"] = draw.int(0, len(shape) - 1)
    return NodeCase([draw.ints(0, 2, *shape)], given, known=[0], outputs=4)


def _window(draw: Draw) -> NodeCase:
    given = {"periodic": draw.int(0, 1)} if draw.chance() else {}
    return NodeCase([np.array(draw.int(2, 9))], given, known=[0], tolerance=1e-4)


def _tensor_scatter(draw: Draw) -> NodeCase:
    b, n, width = draw.int(1, 3), draw.int(2, 6), draw.int(1, 4)
    count = draw.int(1, n)
    circular = draw.chance()
    starts = draw.ints(0, n - 1 if circular else n - count, b)
    given = {"mode": "circular"} if circular else {}
    return NodeCase([draw.floats(b, n, width), draw.floats(b, count, width), starts], given)


def _upsample(draw: Draw) -> NodeCase:
    shape = draw.shape(4, 4, 4)
    scales = np.array([1, 1, draw.int(1, 3), draw.int(1, 3)], np.float32)
    given: dict[str, Any] = {"mode": draw.one_of("nearest", "linear")}
    if draw.opset < 9:
        return NodeCase([draw.floats(*shape)], {**given, "scales": scales.tolist()})
    return NodeCase([draw.floats(*shape), scales], given, known=[1])


def _resize(draw: Draw) -> NodeCase:
    shape = draw.shape(3, 4, 5)
    rank = len(shape)
    mode = draw.one_of("nearest", "linear", "cubic" if draw.opset >= 11 and rank == 4 else "linear")
    scales = np.array([1, 1, *(draw.one_of(1, 2, 0.5, 1.5) for _ in range(rank - 2))], np.float32)
    sizes = draw.known_ints(*(max(1, int(e * s)) for e, s in zip(shape, scales, strict=True)))
    scales = np.where(np.floor(np.array(shape) * scales) < 1, 1, scales).astype(np.float32)
    given: dict[str, Any] = {"mode": mode}
    if draw.opset < 11:
        return NodeCase([draw.floats(*shape), scales], given, known=[1], has_peer=False)
    way = draw.one_of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    given["coordinate_transformation_mode"] = way
    empty = np.zeros(0, np.float32)
    if draw.chance():
        return NodeCase([draw.floats(*shape), empty, scales], given, known=[1, 2], has_peer=False)
    inputs = [draw.floats(*shape), empty, empty if draw.opset < 13 else None, sizes]
    return NodeCase(inputs, given, known=[1, 2, 3], has_peer=False)  # other tests do that


TENSOR: Mapping[str, CaseMaker] = {
    "BlackmanWindow": _window,
    "CenterCropPad": _crop,
    "Compress": _compress,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _blocks(to_space=True),
    "Einsum": _einsum,
    "Expand": _expand,
    "EyeLike": _eye,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "HammingWindow": _window,
    "HannWindow": _window,
    "Identity": lambda draw: NodeCase([_moved(draw)]),
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Size": lambda draw: NodeCase([_moved(draw)]),
    "Slice": _slice,
    "SpaceToDepth": _blocks(to_space=False),
    "Split": _split,
    "Squeeze": _squeeze,
    "TensorScatter": _tensor_scatter,
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unique": _unique,
    "Unsqueeze": _unsqueeze,
    "Upsample": _upsample,
}
"""What makes a random node, by its operator."""
