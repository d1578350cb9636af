"""How a graph's results lie in memory: which share a storage, with each other or with an input.

PyTorch computes views, so that writing one tensor changes others. What shares what is found by
running the graph on tensors without memory, which know their storage, strides and offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ansorc.errors import GraphError
from ansorc.graph.torch.model import torch_library
from ansorc.ir.aligned import Array


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor lie in a storage, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def of(tensor: Any) -> Layout:
        """Return the layout of a tensor; raise GraphError if it depends on data."""
        numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        if not all(isinstance(number, int) for number in numbers):
            raise GraphError("the graph returns a tensor whose shape depends on data")
        return Layout(tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()))

    @property
    def end(self) -> int:
        """The element after the last one in the storage."""
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return self.offset + last + 1

    @property
    def is_dense(self) -> bool:
        """Return whether the elements lie one after the other, the last index first."""
        steps = [prod(self.shape[n + 1 :]) for n in range(len(self.shape))]
        pairs = zip(self.shape, self.strides, steps, strict=True)
        return all(extent == 1 or stride == step for extent, stride, step in pairs)


@dataclass(frozen=True)
class Result:
    """One result of a graph, as PyTorch returns it."""

    layout: Layout
    """In its storage; in an argument's storage, relative to where the argument begins."""
    argument: int | None = None
    """The argument in whose storage it lies."""
    storage: int = 0
    """Which of the new storages it lies in, if it lies in no argument's."""
    is_argument: bool = False
    """Whether it is the argument itself."""
    same_as: int | None = None
    """The result before that is the same object."""


@dataclass(frozen=True)
class Storage:
    """New memory for results that share it."""

    places: tuple[int, ...]
    """The positions of its results among those of the graph."""
    size: int
    """In elements."""
    whole: int | None
    """The result that is all of it, one element after the other; None: they are put together."""

    @property
    def computed(self) -> tuple[int, ...]:
        """The places of the results whose values are needed."""
        return self.places if self.whole is None else (self.whole,)


@dataclass(frozen=True)
class Results:
    """All results of a graph: `None` stands for one that is no tensor."""

    results: tuple[Result | None, ...]
    storages: tuple[Storage, ...]

    @property
    def computed(self) -> tuple[int, ...]:
        """The places of the results that have to be computed, in order."""
        return tuple(sorted(number for storage in self.storages for number in storage.computed))


def results_of(module: Any, arguments: Sequence[Any]) -> Results:
    """Return how the results of `module` lie in memory, by a run on tensors without memory.

    Raise GraphError if the run fails, if it changes the shape, the strides or the storage of an
    argument, or returns what has no plain memory.
    """
    torch = torch_library()
    from_types = torch._subclasses.fake_tensor
    shapes = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    mode = from_types.FakeTensorMode(
        allow_non_fake_inputs=True, shape_env=shapes, static_shapes=True
    )
    try:
        with torch.no_grad(), mode:
            fakes = [_without_memory(torch, argument) for argument in arguments]
            before = [_identity(fake) for fake in fakes]
            returned = module(*fakes)
            after = [_identity(fake) for fake in fakes]
    except GraphError:
        raise
    except Exception as error:
        words = str(error).strip().partition("\n")[0]
        raise GraphError(
            f"PyTorch cannot run the graph without data ({type(error).__name__}: {words})"
        ) from error
    if before != after:
        raise GraphError("the graph changes the shape, the strides or the memory of an input")
    return _describe(torch, list(torch.utils._pytree.tree_leaves(returned)), fakes)


def _without_memory(torch: Any, given: Any) -> Any:
    """Return a tensor like `given`, in a storage of its own that begins with it."""
    if not isinstance(given, torch.Tensor):
        return given
    return torch.empty_strided(tuple(given.shape), given.stride(), dtype=given.dtype)


def _identity(tensor: Any) -> object:
    if not hasattr(tensor, "untyped_storage"):
        return None
    return tensor.untyped_storage()._cdata, Layout.of(tensor), tensor.dtype


def _describe(torch: Any, returned: Sequence[Any], fakes: Sequence[Any]) -> Results:
    """Return how the tensors that were `returned` lie in memory, beside the arguments `fakes`."""
    storages = {
        fake.untyped_storage()._cdata: number
        for number, fake in enumerate(fakes)
        if isinstance(fake, torch.Tensor)
    }
    results: list[Result | None] = []
    new: dict[int, list[int]] = {}
    for position, tensor in enumerate(returned):
        if not isinstance(tensor, torch.Tensor):
            results.append(None)
            continue
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            raise GraphError("the graph returns a tensor that has no plain memory")
        own_storage, layout = tensor.untyped_storage()._cdata, Layout.of(tensor)
        same = next((n for n in range(position) if returned[n] is tensor), None)
        argument = storages.get(own_storage)
        if argument is None:
            results.append(Result(layout, storage=own_storage, same_as=same))
            new.setdefault(own_storage, []).append(position)
            continue
        if fakes[argument].dtype != tensor.dtype:
            raise GraphError("the graph returns an input's memory as another dtype")
        is_same = fakes[argument] is tensor
        results.append(Result(layout, argument, is_argument=is_same, same_as=same))
    return Results(
        tuple(results), tuple(_storage(returned, results, places) for places in new.values())
    )


def _storage(
    returned: Sequence[Any], results: Sequence[Result | None], places: list[int]
) -> Storage:
    kinds = {returned[position].dtype for position in places}
    if len(kinds) > 1:
        raise GraphError("the graph returns the same memory as different dtypes")
    first = returned[places[0]]
    size = first.untyped_storage().nbytes() // first.element_size()
    whole = None
    for position in places:
        result = results[position]
        assert result is not None
        layout = result.layout
        if layout.is_dense and not layout.offset and prod(layout.shape) == size:
            whole = position
            break
    return Storage(tuple(places), int(size), whole)


def write_parts(size: int, parts: Sequence[tuple[Layout, Array]], new: Array) -> None:
    """Write the elements of `parts` to where they lie in the storage `new` of so many elements."""
    for layout, values in parts:
        repeated = [n for n, step in enumerate(layout.strides) if step == 0]
        once = tuple(0 if n in repeated else slice(None) for n in range(len(layout.shape)))
        shape = [n for at, n in enumerate(layout.shape) if at not in repeated]
        strides = [n * new.itemsize for at, n in enumerate(layout.strides) if at not in repeated]
        assert 0 <= layout.offset < layout.end <= size, "a view leaves its storage"
        as_strided(new[layout.offset :], shape, strides)[...] = np.asarray(values)[once]
