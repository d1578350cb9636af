"""What ONNX says of windows that move over images: their steps and margins."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.graph.onnx.node_call import NodeCall

LAYOUTS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}
"""By the number of spatial dimensions."""


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
    call: NodeCall, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return the margins before, then those after, of each spatial dimension."""
    rank, automatic = len(kernel), call.attribute("auto_pad", "NOTSET")
    if automatic in ("NOTSET", ""):
        return _of_rank(call, "pads", list(call.attribute("pads") or [0] * 2 * rank), 2 * rank)
    if automatic == "VALID":
        return [0] * 2 * rank
    totals: list[int] = []
    for d, extent in enumerate(call.type(0).shape[2:]):
        reach = (kernel[d] - 1) * dilation[d] + 1
        totals.append(max(0, (-(-extent // stride[d]) - 1) * stride[d] + reach - extent))
    return shared(totals, larger_last=automatic == "SAME_UPPER")


def shared(totals: Sequence[int], *, larger_last: bool) -> list[int]:
    """Return the margins before, then those after, that make `totals` together."""
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return small + large if larger_last else large + small


def _of_rank(call: NodeCall, name: str, values: list[int], count: int) -> list[int]:
    if len(values) != count:
        call.refuse(f"{name} is {values}; its input needs {count} numbers")
    return values
