"""Regions of autocast: what PyTorch's decompositions would forget of them.

An exported program has a region as a node. PyTorch takes it apart outside of autocast: what it
rounded by casts of its own stays rounded, but operators that consist of products, such as `einsum`,
would be computed in float32.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

_PRODUCTS = (
    "aten::einsum", "aten::tensordot", "aten::inner", "aten::linalg_multi_dot",
    "aten::chain_matmul", "aten::rnn_tanh_cell", "aten::rnn_relu_cell",
)  # fmt: skip
"""Operators whose products autocast rounds the factors of, and which it does not know itself."""


@contextmanager
def factors_rounded(torch: Any, exported: Any) -> Generator[None]:
    """Round the factors of such operators by casts in the program, as long as this is open."""
    casts: list[tuple[Any, Any]] = []
    for part in list(exported.graph_module.modules()):
        for region, kind in _regions(torch, part):
            for node in list(region.graph.nodes):
                if _rounds_factors(torch, node, kind):
                    casts.extend((region, cast) for cast in _round_factors(torch, node, kind))
    try:
        yield
    finally:
        for region, cast in casts:
            cast.replace_all_uses_with(cast.args[0])
            region.graph.erase_node(cast)
            region.recompile()


def _regions(torch: Any, module: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the modules of the regions for the CPU in a module's graph, and their dtypes."""
    graph: Any = getattr(module, "graph", None)
    nodes: list[Any] = [] if graph is None else list(graph.nodes)
    for node in nodes:
        if node.target is not torch.ops.higher_order.wrap_with_autocast:
            continue
        device, kind, is_enabled, _, region = node.args[:5]
        if device == "cpu" and is_enabled:
            yield getattr(module, region.target), kind or torch.get_autocast_dtype("cpu")


def _rounds_factors(torch: Any, node: Any, kind: Any) -> bool:
    """Return whether autocast rounds within an operator, whose result is narrow then.

    PyTorch computes it, of zeros: the types that a program has are wrong where it was exported
    after another one was taken apart, and an outer product, for one, is not rounded.
    """
    if not hasattr(node.target, "_schema") or node.target.name() not in _PRODUCTS:
        return False

    def zeros(given: Any) -> Any:
        value = given.meta["val"]
        return torch.zeros(tuple(map(int, value.shape)), dtype=value.dtype)

    arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), zeros)
    with torch.no_grad(), torch.autocast("cpu", dtype=kind):
        return bool(node.target(*arguments, **keywords).dtype is kind)


def _round_factors(torch: Any, node: Any, kind: Any) -> Iterator[Any]:
    for given in list(node.all_input_nodes):
        if _type_of(given) is torch.float32:
            with node.graph.inserting_before(node):
                cast = node.graph.call_function(
                    torch.ops.aten._to_copy.default, (given,), {"dtype": kind}
                )
            cast.meta.update(given.meta, val=given.meta["val"].to(kind))
            node.replace_input_with(given, cast)
            yield cast


def _type_of(node: Any) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)
