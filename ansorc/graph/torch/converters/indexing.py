"""ATen's operators that read or write at places that a tensor holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansorc.graph.torch.model import TorchRef
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter
from ansorc.ir.dtype import INT64


def _embedding(call: TorchCall) -> str:
    return call.add("take", [call.input("weight"), call.input("indices")], axis=0)


def _index_select(call: TorchCall) -> str:
    axis = call.axis(call.get("dim"), len(call.type("self").shape))
    return call.add("take", [call.input("self"), call.input("index")], axis=axis)


def _gather(call: TorchCall) -> str:
    axis = call.axis(call.get("dim"), len(call.type("self").shape))
    return call.add("gather", [call.input("self"), call.input("index")], axis=axis)


def _index(call: TorchCall) -> str:
    """Elements at places of some dimensions, which are one after another."""
    shape, given = call.type("self").shape, list(call.get("indices"))
    axes = [d for d, one in enumerate(given) if one is not None]
    if any(call.type_of(given[d]).dtype.is_bool for d in axes):
        call.refuse(
            "it chooses elements by a mask, so that how many there are depends on data; "
            "use torch.where"
        )
    if len(axes) == 1:
        inputs = [call.input("self"), call.tensor(given[axes[0]])]
        return call.add("take", inputs, axis=axes[0], mode="wrap")
    others = [d for d in range(len(shape)) if d not in axes]
    shapes = [call.type_of(given[d]).shape for d in axes]
    wanted = np.broadcast_shapes(*shapes)
    places = [_broadcast(call, given[d], wanted) for d in axes]
    data = call.input("self")
    if axes != list(range(len(axes))):
        data = call.add("transpose", [data], order=[*axes, *others])
    found = call.add("gather_nd", [data, call.add("stack", places, axis=len(wanted))])
    if not axes[0] or axes != list(range(axes[0], axes[0] + len(axes))):
        return found
    rank, first = len(wanted), axes[0]
    order = [*range(rank, rank + first), *range(rank), *range(rank + first, rank + len(others))]
    return call.add("transpose", [found], order=order)


def _broadcast(call: TorchCall, given: TorchRef, shape: Sequence[int]) -> str:
    name = call.tensor(given, INT64)
    if call.builder.type(name).shape == tuple(shape):
        return name
    return call.add("broadcast_to", [name], shape=[int(extent) for extent in shape])


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
        return call.add("scatter_elements", inputs, axis=axis, combine=combine)

    return convert


def _top_k(call: TorchCall) -> Sequence[str]:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", -1), len(shape))
    return call.builder.add_many(
        "top_k", [call.input("self")], ("", ""), k=int(call.get("k")), axis=axis,
        largest=bool(call.get("largest", True)),
    )  # fmt: skip


def _sort(call: TorchCall) -> Sequence[str]:
    shape = call.type("self").shape
    axis = call.axis(call.get("dim", -1), len(shape))
    return call.builder.add_many(
        "top_k", [call.input("self")], ("", ""), k=shape[axis], axis=axis,
        largest=bool(call.get("descending", False)),
    )  # fmt: skip


TORCH_INDEXING: Mapping[str, TorchConverter] = {
    "embedding.default": _embedding,
    "gather.default": _gather,
    "index.Tensor": _index,
    "index_select.default": _index_select,
    "scatter.src": _scatter("none"),
    "scatter.value": _scatter("none"),
    "scatter_add.default": _scatter("add"),
    "sort.default": _sort,
    "sort.stable": _sort,
    "topk.default": _top_k,
}
