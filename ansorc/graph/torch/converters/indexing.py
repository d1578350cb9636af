"""ATen's operators that read or write at places that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.slices import add_slice
from ansorc.graph.sorting import add_top_k
from ansorc.graph.torch.model import TorchRef
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import INT64, dtype


def _embedding(call: TorchCall) -> str:
    return _elements(call, "take", ("weight", "indices"), 0)


def _index_select(call: TorchCall) -> str:
    elements = _elements(call, "take", ("self", "index"), _axis(call))
    return call.reshape(elements, call.result.shape)


def _gather(call: TorchCall) -> str:
    elements = _elements(call, "gather", ("self", "index"), _axis(call))
    return call.reshape(elements, call.result.shape)


def _axis(call: TorchCall) -> int:
    return call.axis(call.get("dim"), len(call.type("self").shape))


def _elements(call: TorchCall, operator: str, names: tuple[str, str], axis: int) -> str:
    """Add the operator that reads elements of the first tensor at the indices in the second one.

    PyTorch takes a tensor of no dimensions for one of a single element.
    """
    shape = call.type(names[0]).shape
    data, indices = map(call.input, names)
    if not shape:
        data = call.reshape(data, [1])
        indices = call.reshape(indices, [call.type(names[1]).elements])
    mode = _mode(call, indices, call.builder.type(data).shape[axis], from_end=False)
    return call.add(operator, [data, indices], axis=axis, mode=mode)


def _mode(call: TorchCall, places: str, extent: int, *, from_end: bool) -> str:
    """Return the mode for indices outside of a dimension: an error, unless none can be outside.

    `from_end`: whether negative ones count from the end.
    """
    known, low = call.builder.value(places), -extent if from_end else 0
    is_inside = known is not None and bool(((known >= low) & (known < extent)).all())
    if from_end:
        return "wrap" if is_inside else "from_end"
    return "clip" if is_inside else "raise"


def _index(call: TorchCall) -> str:
    """Elements at places of some dimensions, which are one after another."""
    shape, given = call.type("self").shape, list(call.get("indices"))
    axes = [d for d, tensor in enumerate(given) if tensor is not None]
    if any(call.type_of(given[d]).dtype.is_bool for d in axes):
        call.refuse(
            "it chooses elements by a mask, so that how many there are depends on data; "
            "use torch.where"
        )
    if len(axes) == 1:
        data, places = call.input("self"), call.tensor(given[axes[0]])
        mode = _mode(call, places, shape[axes[0]], from_end=True)
        return call.add("take", [data, places], axis=axes[0], mode=mode)
    others = [d for d in range(len(shape)) if d not in axes]
    shapes = [call.type_of(given[d]).shape for d in axes]
    wanted = np.broadcast_shapes(*shapes)
    places = [_broadcast(call, given[d], wanted) for d in axes]
    data = call.input("self")
    if axes != list(range(len(axes))):
        data = call.add("transpose", [data], order=[*axes, *others])
    elements = call.add("gather_nd", [data, call.add("stack", places, axis=len(wanted))])
    if not axes[0] or axes != list(range(axes[0], axes[0] + len(axes))):
        return elements
    rank, first = len(wanted), axes[0]
    order = [*range(rank, rank + first), *range(rank), *range(rank + first, rank + len(others))]
    return call.add("transpose", [elements], order=order)


def _index_put(call: TorchCall) -> str:
    """`values` at places of some dimensions, or where a mask is true."""
    shape, given = call.type("self").shape, list(call.get("indices"))
    while given[-1] is None:
        given.pop()
    kind, axes = call.result.dtype, [d for d, tensor in enumerate(given) if tensor is not None]
    if any(call.type_of(given[d]).dtype.is_bool for d in axes):
        return _put_by_mask(call, given)
    wanted = np.broadcast_shapes(*(call.type_of(given[d]).shape for d in axes))
    others = [d for d in range(len(shape)) if d not in axes]
    outer = [shape[d] for d in others]
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    values = call.input("values", kind)
    full = [*outer[:first], *wanted, *outer[first:]]
    if list(call.builder.type(values).shape) != full:
        values = call.add("broadcast_to", [values], shape=full)
    rank, count = len(wanted), math.prod(wanted)
    if first:
        order = [*range(first, first + rank), *range(first), *range(first + rank, len(full))]
        values = call.add("transpose", [values], order=order)
    data, order = call.input("self", kind), [*axes, *others]
    data = call.add("transpose", [data], order=order)
    values, adds = call.reshape(values, [count, *outer]), bool(call.get("accumulate", False))
    known = [call.builder.value(call.tensor(given[d], INT64)) for d in axes]
    number = _numbers([shape[d] for d in axes], known, wanted)
    if number is not None and not (adds and (number >= 0).sum() < count):
        result = _put(call, data, values, number, adds=adds)
    else:
        places = [_broadcast(call, given[d], wanted) for d in axes]
        indices = call.reshape(call.add("stack", places, axis=rank), [count, len(axes)])
        combine = "add" if adds else "none"
        result = call.add("scatter_nd", [data, indices, values], combine=combine)
    return call.add("transpose", [result], order=[order.index(d) for d in range(len(shape))])


def _numbers(
    shape: Sequence[int], known: Sequence[Array | None], wanted: Sequence[int]
) -> Array | None:
    """Which of the updates is written at each place of `shape`, -1 for none, if that is known."""
    numbers = np.full(shape, -1, np.int64)
    if any(positions is None for positions in known):
        return None
    places = tuple(np.broadcast_to(np.asarray(positions), wanted) for positions in known)
    try:
        numbers[places] = np.arange(math.prod(wanted)).reshape(wanted)
    except IndexError:  # an error of the call, as it is in PyTorch
        return None
    return numbers


def _put(call: TorchCall, data: str, values: str, number: Array, *, adds: bool) -> str:
    """The rows `number` of `values` in the place of those of `data`, or added to them."""
    shape = call.builder.type(data).shape
    places = call.constant(np.maximum(number, 0))
    rows = call.add("take", [values, places], axis=0, mode="clip")
    if adds:
        rows = call.add("add", [data, rows])
    ones = [1] * (len(shape) - number.ndim)
    where = call.constant((number >= 0).reshape([*number.shape, *ones]))
    return call.add("where", [where, rows, data])


def _put_by_mask(call: TorchCall, given: Sequence[TorchRef | None]) -> str:
    """The same values wherever a mask of some dimensions is true."""
    shape, kind, axis = call.type("self").shape, call.result.dtype, len(given) - 1
    if any(tensor is not None for tensor in given[:-1]):
        call.refuse("it writes at places of one dimension and under a mask; use torch.where")
    mask, values = call.type_of(given[-1]).shape, call.input("values", kind)
    inner, own_shape = shape[axis + len(mask) :], call.builder.type(values).shape
    outer_rank = max(0, len(own_shape) - len(inner))
    outer, own_shape = own_shape[:outer_rank], own_shape[outer_rank:]
    if outer and outer[-1] != 1:
        call.refuse(
            "it writes elements one after another where a mask is true, so that where they come "
            "from depends on data; use torch.where"
        )
    values = call.reshape(values, [*outer[:-1], *[1] * len(mask if outer else ()), *own_shape])
    where = call.reshape(call.tensor(given[-1]), [*[1] * axis, *mask, *[1] * len(inner)])
    data = call.input("self", kind)
    if call.get("accumulate", False):
        values = call.add("add", [data, values])
    return call.add("where", [where, values, data])


def _masked_scatter(call: TorchCall) -> str:
    """The elements of `source` one after another where the mask is true; an error for too few."""
    shape, kind = call.result.shape, call.result.dtype
    mask = call.add("broadcast_to", [call.input("mask")], shape=list(shape))
    flat = call.convert(call.reshape(mask, [math.prod(shape)]), INT64)
    number = call.add("cumulative_sum", [flat], axis=0)
    positions = call.reshape(call.add("subtract", [number, call.scalar(1, number)]), shape)
    source = call.reshape(call.input("source", kind), [call.type("source").elements])
    return call.add("masked_scatter", [call.input("self", kind), mask, positions, source])


def _search(call: TorchCall) -> str:
    """How many of the sorted boundaries are less than each element, or (right) not greater.

    NaN is behind all boundaries that are numbers. PyTorch halves what is left and takes a NaN among
    the boundaries for one that is less: a search that meets one ends behind all of them.
    """
    name = "sorted_sequence" if call.has("sorted_sequence") else "boundaries"
    bounds, values = call.type(name), call.type("self")
    kind = dtype(np.promote_types(bounds.dtype.numpy, values.dtype.numpy).name)
    edges = call.reshape(call.input(name, kind), [*bounds.shape[:-1], 1, bounds.shape[-1]])
    data = call.reshape(call.input("self", kind), [*values.shape, 1])
    if call.has("sorter"):
        call.refuse("a sorter is not supported; sort the boundaries first")
    is_right = bool(call.get("right", False)) or call.get("side") == "right"
    below = call.add("less_equal" if is_right else "less", [edges, data])
    count_below = _count(call, below)
    if kind.is_float:
        known, count = call.value(name), bounds.shape[-1]
        is_behind = call.reshape(call.add("isnan", [data]), values.shape)
        if known is None or np.isnan(known).any():
            at = call.constant(_farthest_tries(count))
            farthest = call.add("take", [at, count_below], axis=0, mode="clip")
            numbers = _count(call, call.add("equal", [edges, edges]))
            meets_nan = call.add("greater_equal", [farthest, numbers])
            is_behind = call.add("logical_or", [is_behind, meets_nan])
        count_below = call.add("where", [is_behind, call.scalar(count, count_below), count_below])
    return call.reshape(call.convert(count_below, call.result.dtype), call.result.shape)


def _count(call: TorchCall, chosen: str) -> str:
    """How many elements are true along the last axis, which is left out (int64)."""
    return call.add("sum", [call.convert(chosen, INT64)], axis=[-1])


def _farthest_tries(count: int) -> Array:
    """The last of `count` boundaries that a search by halves looks at which ends at 0, 1 … count.

    -1 if it looks at none.
    """
    ends = np.arange(count + 1)
    start, end, farthest = np.zeros_like(ends), np.full_like(ends, count), np.full_like(ends, -1)
    while (start < end).any():
        middle, is_open = start + (end - start) // 2, start < end
        farthest = np.where(is_open, np.maximum(farthest, middle), farthest)
        start, end = (
            np.where(is_open & (middle < ends), middle + 1, start),
            np.where(is_open & (middle >= ends), middle, end),
        )
    return farthest


def _histogram(call: TorchCall) -> str:
    """How many elements lie in each of the parts of equal size between two bounds."""
    low, high, bins = (call.get(name, 0) for name in ("min", "max", "bins"))
    if not low < high:
        call.refuse("its bounds depend on data; give min and max")
    kind, data = call.result.dtype, call.reshape(call.input("self"), [-1])
    offset = call.add("subtract", [data, call.scalar(low, data)])
    part = call.add("multiply", [offset, call.scalar(bins, data)])
    part = call.add("divide", [part, call.scalar(high - low, data)])
    part = call.add("minimum", [call.add("floor", [part]), call.scalar(bins - 1, data)])
    ends = [call.add("less_equal", [call.scalar(low, data), data])]
    ends.append(call.add("less_equal", [data, call.scalar(high, data)]))
    inside = call.add("logical_and", ends)
    part = call.add("where", [inside, part, call.scalar(bins, data)])  # one part is for all others
    places = call.reshape(call.convert(part, INT64), [-1, 1])
    ones = call.constant(np.ones(call.builder.type(places).shape[0], kind.numpy))
    counts = [call.constant(np.zeros(bins + 1, kind.numpy)), places, ones]
    found = call.add("scatter_nd", counts, combine="add")
    return call.add("slice", [found], begin=[0], end=[bins])


def _kth(call: TorchCall) -> Sequence[str]:
    """The kth smallest elements along an axis."""
    shape, axis = _row(call)
    smallest = _smallest(call, shape, axis, int(call.get("k")))
    return [call.reshape(name, call.result.shape) for name in smallest]


def _median(call: TorchCall) -> Sequence[str]:
    """The lower medians along an axis or of all, and where they are; NaN where there is one."""
    shape, axis = _row(call)
    names = _smallest(call, shape, axis, (shape[axis] + 1) // 2)
    data = call.reshape(call.input("self"), shape)
    if call.type("self").dtype.is_float:
        largest = call.add("max", [data], axis=[axis], keepdims=True)
        is_nan = call.add("not_equal", [largest, largest])
        first = call.add("argmax", [data], axis=axis, keepdims=True)
        pairs = zip((largest, first), names, strict=True)
        names = [call.add("where", [is_nan, name, other]) for name, other in pairs]
    return [call.reshape(name, call.result.shape) for name in names]


def _nan_median(call: TorchCall) -> Sequence[str]:
    """The lower medians of what is a number, and where they are; NaN if nothing is."""
    shape, axis = _row(call)
    data = call.reshape(call.input("self"), shape)
    inputs = add_top_k(call.builder, data, shape[axis], axis, largest=False)  # NaN comes last
    numbers = call.convert(call.add("equal", [data, data]), INT64)
    count = call.add("sum", [numbers], axis=[axis], keepdims=True)
    last = call.add(
        "subtract", [call.add("maximum", [count, call.scalar(1, count)]), call.scalar(1, count)]
    )
    half = call.add("floor_divide", [last, call.scalar(2, last)])
    medians = [call.add("gather", [name, half], axis=axis, mode="clip") for name in inputs]
    return [call.reshape(name, call.result.shape) for name in medians]


def _row(call: TorchCall) -> tuple[tuple[int, ...], int]:
    """The shape in which elements are compared along an axis, and that axis."""
    shape = call.type("self").shape
    if not (call.has("dim") and shape):
        return (call.type("self").elements,), 0
    return shape, call.axis(call.get("dim"), len(shape))


def _smallest(call: TorchCall, shape: Sequence[int], axis: int, k: int) -> list[str]:
    """The kth smallest elements of `self` in a shape, along `axis`, and where they are."""
    data = call.reshape(call.input("self"), shape)
    names = add_top_k(call.builder, data, k, axis, largest=False)
    ranges = [range(n) for n in shape]
    ranges[axis] = range(k - 1, k)
    return [str(add_slice(call.builder, name, ranges)) for name in names]


def _embedding_bag(call: TorchCall) -> Sequence[str]:
    """Sums, means or maxima of rows, in bags of equal size."""
    offsets = call.value("offsets")
    ends = [] if offsets is None else [int(end) for end in offsets]
    if not call.get("include_last_offset", False):
        ends.append(call.type("indices").elements)
    sizes = {behind - first for first, behind in pairwise(ends)}
    if len(sizes) != 1 or int(call.get("padding_idx", -1)) >= 0:
        call.refuse("bags of different sizes are not supported; embed, multiply by a mask, and sum")
    shape = [len(ends) - 1, sizes.pop()]
    rows = _elements(call, "take", ("weight", "indices"), 0)
    rows = call.reshape(rows, [*shape, call.type("weight").shape[1]])
    if call.has("per_sample_weights"):
        weights = call.reshape(call.input("per_sample_weights"), [*shape, 1])
        rows = call.add("multiply", [rows, weights])
    combine = ("sum", "mean", "max")[int(call.get("mode", 0))]
    return [call.add(combine, [rows], axis=[1])]


def _broadcast(call: TorchCall, given: TorchRef, shape: Sequence[int]) -> str:
    name = call.tensor(given, INT64)
    if call.builder.type(name).shape == tuple(shape):
        return name
    return call.add("broadcast_to", [name], shape=[int(extent) for extent in shape])


def _one_hot(call: TorchCall) -> str:
    """Add a dimension whose element at the class is 1; a class that does not exist is an error."""
    count = int(call.get("num_classes", -1))
    if count < 0:
        call.refuse("how many classes there are depends on data; give num_classes")
    classes = call.constant(np.arange(count, dtype=np.int64))
    given = call.input("self")
    checked = call.add(
        "take", [classes, given], axis=0, mode=_mode(call, given, count, from_end=False)
    )
    shape = call.type("self").shape
    is_class = call.add("equal", [call.reshape(checked, [*shape, 1]), classes])
    return call.convert(is_class, call.result.dtype)


def _scatter(combine: str) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        axis, kind = call.axis(call.get("dim"), len(call.type("self").shape)), call.result.dtype
        index = call.input("index")
        if call.has("src"):
            updates = call.input("src", kind)
            extents = call.type("index").shape
            if call.type("src").shape != extents:
                begin, end = [0] * len(extents), list(extents)
                updates = call.add("slice", [updates], begin=begin, end=end)
        else:
            updates = call.input("value", kind)
            extents = list(call.type("index").shape)
            updates = call.add("broadcast_to", [updates], shape=extents)
        inputs = [call.input("self", kind), index, updates]
        return call.add("scatter_elements", inputs, axis=axis, combine=combine, from_end=False)

    return convert


def _scatter_reduce(call: TorchCall) -> Value | Sequence[Value]:
    combine = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(call.get("reduce"))
    if combine is None or not call.get("include_self", True):
        call.refuse(
            "it takes means, or leaves out what was there; use sum, prod, amax or amin with "
            "include_self=True"
        )
    return _scatter(combine)(call)


def _top_k(call: TorchCall) -> Sequence[str]:
    return _first_of_row(call, int(call.get("k")), largest=bool(call.get("largest", True)))


def _sort(call: TorchCall) -> Sequence[str]:
    return _first_of_row(call, None, largest=bool(call.get("descending", False)))


def _first_of_row(call: TorchCall, k: int | None, *, largest: bool) -> Sequence[str]:
    """The first elements in order along an axis, all without a `k`, and their places."""
    shape = call.type("self").shape
    axis, data = call.axis(call.get("dim", -1), len(shape)), call.input("self")
    if not shape:
        data = call.reshape(data, [1])
    count = call.builder.type(data).shape[axis] if k is None else k
    first = add_top_k(call.builder, data, count, axis, largest=largest)
    return [call.reshape(name, []) for name in first] if not shape else first


TORCH_INDEXING: Mapping[str, TorchConverter] = {
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_forward_only.default": _embedding_bag,
    "bucketize.Tensor": _search,
    "embedding.default": _embedding,
    "gather.default": _gather,
    "histc.default": _histogram,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_select.default": _index_select,
    "kthvalue.default": _kth,
    "masked_scatter.default": _masked_scatter,
    "median.default": lambda call: _median(call)[0],
    "median.dim": _median,
    "nanmedian.default": lambda call: _nan_median(call)[0],
    "nanmedian.dim": _nan_median,
    "one_hot.default": _one_hot,
    "scatter.src": _scatter("none"),
    "scatter.value": _scatter("none"),
    "scatter_add.default": _scatter("add"),
    "scatter_reduce.two": _scatter_reduce,
    "searchsorted.Tensor": _search,
    "sort.default": _sort,
    "sort.stable": _sort,
    "topk.default": _top_k,
}
