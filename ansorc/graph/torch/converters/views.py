"""ATen's operators that only give elements another shape or order, or make known values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansorc.graph.importing.values import Value
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter


def _reshape(call: TorchCall) -> str:
    return call.reshape(call.input("self"), call.result.shape)


def _permute(call: TorchCall) -> str:
    rank = len(call.type("self").shape)
    order = [call.axis(axis, rank) for axis in call.get("dims")]
    if order == list(range(rank)):
        return call.input("self")
    return call.add("transpose", [call.input("self")], order=order)


def _transpose(call: TorchCall) -> str:
    rank = len(call.type("self").shape)
    order = list(range(rank))
    if rank > 1:
        a, b = (call.axis(call.get(name, d), rank) for d, name in enumerate(("dim0", "dim1")))
        order[a], order[b] = order[b], order[a]
    return call.add("transpose", [call.input("self")], order=order) if rank else call.input("self")


def _expand(call: TorchCall) -> str:
    shape = call.result.shape
    if shape == call.type("self").shape:
        return call.input("self")
    return call.add("broadcast_to", [call.input("self")], shape=list(shape))


def _as_strided(call: TorchCall) -> str:
    """Only what reads all elements in their order, once."""
    shape, inputs = call.result.shape, call.type("self").shape
    strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
    given = call.get("stride")
    is_dense = all(
        a == b or n == 1 for a, b, n in zip(strides, given, shape, strict=True)
    ) and not call.get("storage_offset", 0)
    is_single = sum(extent > 1 for extent in inputs) < 2
    if not is_dense or not is_single or call.result.elements != call.type("self").elements:
        call.refuse("it reads memory by strides; use slices, views and permutations")
    return call.reshape(call.input("self"), shape)


def _triangle(*, upper: bool) -> TorchConverter:
    def convert(call: TorchCall) -> str:
        diagonal = int(call.get("diagonal", 0))
        return call.add("triangle", [call.input("self")], diagonal=diagonal, upper=upper)

    return convert


def _pixel_shuffle(call: TorchCall) -> str:
    *batch, c, h, w = call.type("self").shape
    factor, count = int(call.get("upscale_factor")), len(batch)
    split = [*batch, c // factor**2, factor, factor, h, w]
    order = [*range(count), *(count + d for d in (0, 3, 1, 4, 2))]
    data = call.add("transpose", [call.reshape(call.input("self"), split)], order=order)
    return call.reshape(data, call.result.shape)


def _fill(value: float | None) -> TorchConverter:
    """Equal values, of a shape that is known; `value` None: the argument says which."""

    def convert(call: TorchCall) -> Value:
        kind, number = call.result, value
        if number is None:
            known = call.value("fill_value")
            if known is None:
                data = call.input("fill_value", kind.dtype)
                return call.add("broadcast_to", [data], shape=list(kind.shape))
            number = known.item()
        return np.full(kind.shape, number, kind.dtype.numpy)

    return convert


_SHAPES = (
    "_unsafe_view.default", "flatten.using_ints", "reshape.default", "squeeze.default",
    "squeeze.dim", "squeeze.dims", "unflatten.int", "unsqueeze.default", "view.default",
    "view_copy.default",
)  # fmt: skip
TORCH_VIEWS: Mapping[str, TorchConverter] = {
    **dict.fromkeys(_SHAPES, _reshape),
    "as_strided.default": _as_strided,
    "empty_like.default": _fill(0),
    "expand.default": _expand,
    "full_like.default": _fill(None),
    "new_empty.default": _fill(0),
    "new_full.default": _fill(None),
    "new_ones.default": _fill(1),
    "new_zeros.default": _fill(0),
    "ones_like.default": _fill(1),
    "permute.default": _permute,
    "pixel_shuffle.default": _pixel_shuffle,
    "t.default": _transpose,
    "transpose.int": _transpose,
    "tril.default": _triangle(upper=False),
    "triu.default": _triangle(upper=True),
    "zeros_like.default": _fill(0),
}
