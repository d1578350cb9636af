"""Attributes of ONNX for windows that move over images: their steps and margins."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.onnx.node_call import NodeCall


def spatial_rank(call: NodeCall) -> int:
    """Return the number of spatial dimensions, 1 to 3; refuse others."""
    rank = call.rank(0) - 2
    if rank not in LAYOUTS:
        call.refuse(f"its input has {rank} spatial dimensions; ansorc takes 1 to 3 of them")
    return rank


def each(call: NodeCall, name: str, rank: int) -> list[int]:
    """Return an attribute that has a number for each spatial dimension, by default 1."""
    return _of_rank(call, name, list(call.attribute(name) or [1] * rank), rank)


def padding(
    call: NodeCall,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    extents: Sequence[int] = (),
) -> list[int]:
    """Return the margins before, then those after, of each spatial dimension.

    `extents` are those of the data where they do not come last.
    """
    rank, automatic = len(kernel), call.attribute("auto_pad", "NOTSET")
    if automatic in ("NOTSET", ""):
        return _of_rank(call, "pads", list(call.attribute("pads") or [0] * 2 * rank), 2 * rank)
    if automatic == "VALID":
        return [0] * 2 * rank
    totals: list[int] = []
    if automatic not in ("SAME_UPPER", "SAME_LOWER"):
        call.refuse(f"there is no auto_pad '{automatic}'")
    for d, extent in enumerate(extents or call.type(0).shape[2:]):
        reach = (kernel[d] - 1) * dilation[d] + 1
        totals.append(max(0, (-(-extent // stride[d]) - 1) * stride[d] + reach - extent))
    return split_margins(totals, larger_last=automatic == "SAME_UPPER")


def kernel_of(call: NodeCall, weight: int = 1) -> list[int]:
    """Return the extents of the windows of the weights, an input; refuse another kernel_shape."""
    kernel = list(call.type(weight).shape[2:])
    given = call.attribute("kernel_shape")
    if given is not None and list(given) != kernel:
        call.refuse(f"its kernel_shape is {list(given)}, its weights have {kernel}")
    return kernel


def crop(call: NodeCall, margins: Sequence[int]) -> tuple[str, list[int]]:
    """Return the first input without what negative margins cut, and the other margins."""
    rank, shape = len(margins) // 2, call.type(0).shape
    cut = [max(0, -margin) for margin in margins]
    if not any(cut):
        return call.input(0), list(margins)
    inner = [
        range(low, extent - high)
        for low, high, extent in zip(cut[:rank], cut[rank:], shape[2:], strict=True)
    ]
    ranges = [*map(range, shape[:2]), *inner]
    if not all(len(margin) for margin in ranges):
        call.refuse(f"its pads {list(margins)} cut away all of {list(shape)}")
    data = call.add(
        "slice", [call.input(0)], begin=[margin.start for margin in ranges],
        end=[margin.stop for margin in ranges],
    )  # fmt: skip
    return data, [max(0, margin) for margin in margins]


def with_last_windows(
    margins: Sequence[int], reach: Sequence[int], stride: Sequence[int], extents: Sequence[int]
) -> list[int]:
    """Return margins with room for windows of extents `reach` that end outside."""
    rank, extended = len(reach), list(margins)
    for d, extent in enumerate(extents):
        before = margins[d]
        steps = -(-(extent + before + margins[rank + d] - reach[d]) // stride[d])
        if steps * stride[d] >= extent + before:
            steps -= 1  # the last window would begin in the padding
        wanted = steps * stride[d] + reach[d] - extent - before
        extended[rank + d] = max(margins[rank + d], wanted)
    return extended


def split_margins(totals: Sequence[int], *, larger_last: bool) -> list[int]:
    """Return the margins before, then those after, that make `totals` together."""
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return small + large if larger_last else large + small


def _of_rank(call: NodeCall, name: str, values: list[int], count: int) -> list[int]:
    if len(values) != count:
        call.refuse(f"{name} is {values}; its input needs {count} numbers")
    return values
