"""Windows move over images with channels last; transposes stand where those enter and leave."""

from __future__ import annotations

from typing import cast

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.rewriter import Rewriter

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_TRANSPOSED = ("conv1d_transpose", "conv2d_transpose", "conv3d_transpose")
_POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_WHOLE = ("global_avg_pool", "global_max_pool")
_SPATIAL = {1: "L", 2: "HW", 3: "DHW"}


def channels_last(graph: Graph) -> Graph:
    """Let convolutions and pools with channels first read and write images with channels last.

    Their kernels load vectors of channels; a convolution of each channel alone becomes
    `depthwise_conv2d`.
    """
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if not _is_channels_first(graph, node):
            rewriter.copy(node)
            continue
        rewriter.source(node)
        rank = len(graph.types[node.inputs[0]].shape)
        data = rewriter.add("transpose", [rewriter.new(node.inputs[0])], order=to_last(rank))
        result = _move(rewriter, node, data)
        if node.builtin in _WHOLE:  # [n, c] as before
            rewriter.replace(node.name, result)
        else:
            back = rewriter.add("transpose", [result], node.name, order=to_first(rank))
            rewriter.replace(node.name, back)
    return rewriter.graph()


def to_last(rank: int) -> list[int]:
    """Return the order of dimensions that moves the channels, the second, to the end."""
    return [0, *range(2, rank), 1]


def to_first(rank: int) -> list[int]:
    """Return the order of dimensions that undoes `to_last`."""
    return [0, rank - 1, *range(1, rank - 1)]


def _is_channels_first(graph: Graph, node: GraphNode) -> bool:
    name = node.builtin
    if name not in (*_CONVOLUTIONS, *_TRANSPOSED, *_POOLS, *_WHOLE):
        return False
    rank = len(graph.types[node.inputs[0]].shape) - 2
    return dict(node.attributes).get("layout") == f"NC{_SPATIAL[rank]}"


def _move(rewriter: Rewriter, node: GraphNode, data: str) -> str:
    """Add `node` for `data` with channels last."""
    name, given = node.builtin, dict(node.attributes)
    rank = len(rewriter.type(data).shape) - 2
    attributes: dict[str, object] = {**given, "layout": f"N{_SPATIAL[rank]}C"}
    if name in _POOLS or name in _WHOLE:
        return rewriter.add(name, [data], "", **attributes)
    weight = rewriter.new(node.inputs[1])
    groups, channels = cast(int, given.get("groups", 1)), rewriter.type(data).shape[-1]
    kernel = list(range(2, rank + 2))
    if name == "conv2d" and groups == channels == rewriter.type(weight).shape[0] > 1:
        del attributes["groups"]
        weight = rewriter.add("transpose", [weight], order=[*kernel, 0, 1])
        shape = rewriter.type(weight).shape[:-1]
        weight = rewriter.add("reshape", [weight], shape=shape)
        return rewriter.add("depthwise_conv2d", [data, weight], "", **attributes)
    order = [*kernel, 0, 1] if name in _TRANSPOSED else [*kernel, 1, 0]
    weight = rewriter.add("transpose", [weight], order=order)
    return rewriter.add(name, [data, weight], "", **attributes)
