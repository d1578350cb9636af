"""Tensors that are made of others, as torchao's quantised ones: taken apart, and put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ansorc.errors import GraphError
from ansorc.graph.torch.model import torch_library


def has_parts(tensor: object) -> bool:
    """Return whether PyTorch traces a tensor's class by the tensors that it is made of."""
    is_made: bool = torch_library().utils._python_dispatch.is_traceable_wrapper_subclass(tensor)
    return is_made


def parts_of(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments, in the place of each tensor that has parts its plain parts."""
    return [part for argument in arguments for part in _parts(argument)]


def _parts(value: Any) -> Iterator[Any]:
    if not has_parts(value):
        yield value
        return
    for name in value.__tensor_flatten__()[0]:
        yield from _parts(getattr(value, name))


def module_of_parts(module: Any, arguments: Sequence[Any]) -> Any:
    """Return a module that is called with what `parts_of` returns, and computes what `module` does.

    It raises GraphError where `module` returns a tensor that has parts.
    """
    torch = torch_library()
    rebuild = [_rebuilder(argument) for argument in arguments]

    base: Any = torch.nn.Module

    class OfParts(base):
        def __init__(self) -> None:
            base.__init__(self)
            self.inner = module

        def forward(self, *parts: Any) -> Any:
            rest = iter(parts)
            results = self.inner(*(make(rest) for make in rebuild))
            if any(has_parts(leaf) for leaf in torch.utils._pytree.tree_leaves(results)):
                raise GraphError("the graph returns a tensor of a class of its own")
            return results

    return OfParts()


def _rebuilder(value: Any) -> Callable[[Iterator[Any]], Any]:
    """Return a function that takes the parts of a tensor like `value` and puts them together."""
    if not has_parts(value):
        return next
    names, context = value.__tensor_flatten__()
    inner = [(name, _rebuilder(getattr(value, name))) for name in names]
    kind = cast(Any, type(value))
    shape, strides = value.shape, value.stride()

    def make(rest: Iterator[Any]) -> Any:
        parts = {name: rebuild(rest) for name, rebuild in inner}
        return kind.__tensor_unflatten__(parts, context, shape, strides)

    return make
