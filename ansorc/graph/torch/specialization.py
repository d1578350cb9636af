"""A graph of TorchDynamo for one shape of each input: its network, and how results are returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from ansorc.codegen.call.network_module import NetworkModule
from ansorc.errors import GraphError
from ansorc.graph.torch.exported import load_torch
from ansorc.graph.torch.model import TorchProgram, TorchRef, torch_library
from ansorc.graph.torch.returned import Result, Results, Storage, results_of, write_parts
from ansorc.graph.torch.torch_state import keep_state
from ansorc.ir.aligned import Array, aligned_empty


class EagerNeededError(Exception):
    """PyTorch has to run the graph this time; nothing was written. The text says why, if any."""


@dataclass(frozen=True, eq=False)
class TracedGraph:
    """A graph as it was exported for one shape of each input."""

    program: TorchProgram
    """Its outputs are those that are computed, then what is written, then what is asserted."""
    results: Results
    others: Mapping[int, object]
    """The results that are no tensors, by their positions."""
    written: tuple[int, ...]
    """The places of the arguments that are written, as their values come."""
    asserted: int
    """The number of outputs, the last ones, that must be true."""


def trace_graph(module: Any, arguments: Sequence[Any], free: Sequence[int]) -> TracedGraph:
    """Return the graph for the shapes of `arguments`; those at `free` are ints of any value.

    Raise GraphError for what ansorc does not compute as PyTorch does.
    """
    with keep_state():
        results = results_of(module, arguments)
        program = load_torch(module, [_like(argument) for argument in arguments], {}, free)
    count = len(results.results)
    names = list(program.outputs)
    tensors = [position for position in range(count) if position not in program.others]
    if len(names) + len(program.others) != count or set(program.places.values()) - set(
        range(len(arguments))
    ):
        raise GraphError("PyTorch exports the graph with other inputs or results than it has")
    by_place = dict(zip(tensors, names, strict=True))
    if free and any(node.is_view and _reads_number(program, node.refs()) for node in program.nodes):
        raise GraphError("a view of a tensor depends on a number of the call")
    outputs = {
        by_place[position]: program.outputs[by_place[position]] for position in results.computed
    }
    for name, ref in outputs.items():
        if program.owner(ref) in program.constants:
            raise GraphError(f"the graph returns a constant of its own, or a view of one: '{name}'")
    for name, ref in program.written.items():
        outputs[_free_name(f"{name}_written", outputs, program)] = ref
    conditions = [condition for condition in program.asserted if condition is not True]
    for number, condition in enumerate(conditions):
        if not isinstance(condition, TorchRef):
            raise GraphError("the graph asserts what is false")
        outputs[_free_name(f"asserted{number}", outputs, program)] = condition
    written = tuple(program.places[name] for name in program.written)
    return TracedGraph(
        replace(program, outputs=outputs), results, program.others, written, len(conditions)
    )


def _like(given: Any) -> Any:
    """Return an argument as PyTorch traces it: a tensor like it, in memory that nobody touches.

    Tensors that share memory cannot be exported together, and PyTorch holds weak references to what
    it has exported, which keeps `torch.utils.swap_tensors` from taking it.
    """
    torch = torch_library()
    if not isinstance(given, torch.Tensor):
        return given
    return torch.empty_strided(tuple(given.shape), given.stride(), dtype=given.dtype)


def _reads_number(program: TorchProgram, refs: Any) -> bool:
    kinds = (program.kind(ref) for ref in refs)
    return any(kind is not None and kind.is_number for kind in kinds)


def _free_name(stem: str, outputs: Mapping[str, TorchRef], program: TorchProgram) -> str:
    while stem in outputs or stem in program.inputs or stem in program.constants:
        stem += "_"
    return stem


class BoundGraph:
    """A traced graph and its network, with the values of its constants: what runs a call."""

    def __init__(
        self, graph: TracedGraph, network: NetworkModule | None, inputs: Sequence[str], threads: int
    ) -> None:
        self._torch = torch_library()
        self._graph, self._network, self._threads = graph, network, threads
        program = graph.program
        self._feeds = [(program.places[name], name in program.numbers) for name in inputs]
        computed, count = graph.results.computed, len(graph.results.results)
        self._places = {position: number for number, position in enumerate(computed)}
        self._outputs = len(computed)
        self._storage = {p: storage for storage in graph.results.storages for p in storage.places}
        plain = [self._is_plain(n, result) for n, result in enumerate(graph.results.results)]
        self._is_plain_call = all(plain) and not (graph.written or graph.asserted or graph.others)
        self._is_plain_call &= count > 0 and computed == tuple(range(count))

    def _is_plain(self, position: int, result: Result | None) -> bool:
        """Return whether a result is a new array as the network returns it."""
        if result is None or result.argument is not None or result.same_as is not None:
            return False
        storage = self._storage[position]
        return storage.whole == position and len(storage.places) == 1

    def run(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of a call; raise EagerNeededError if PyTorch has to compute them."""
        arrays = self._compute(arguments)
        if self._is_plain_call:
            return tuple(map(self._tensor, arrays))
        graph = self._graph
        if graph.written:
            self._require_apart(arguments)
        if graph.asserted and not all(map(bool, arrays[len(arrays) - graph.asserted :])):
            raise EagerNeededError  # whose error is PyTorch's own
        for position, array in zip(graph.written, arrays[self._outputs :], strict=False):
            arguments[position].copy_(self._tensor(array))
        returned: list[Any] = []
        bases: dict[int, Any] = {}
        for position, result in enumerate(graph.results.results):
            if result is None:
                returned.append(graph.others.get(position))
            elif result.same_as is not None:
                returned.append(returned[result.same_as])
            elif result.is_argument and result.argument is not None:
                returned.append(arguments[result.argument])
            elif result.argument is not None:
                returned.append(_view(arguments[result.argument], result, is_relative=True))
            else:
                storage = self._storage[position]
                if storage.places[0] not in bases:
                    bases[storage.places[0]] = self._base(storage, arrays)
                base = bases[storage.places[0]]
                if storage.whole == position:
                    returned.append(base)
                elif len(storage.places) == 1:
                    returned.append(self._owner(base, result))
                else:
                    returned.append(_view(base, result, is_relative=False))
        return tuple(returned)

    def _compute(self, arguments: Sequence[Any]) -> Sequence[Array]:
        if self._network is None:
            return ()
        feeds = [
            np.asarray(arguments[position]) if is_number else self._feed(arguments[position])
            for position, is_number in self._feeds
        ]
        made = self._network(*feeds, threads=self._threads)
        return (made,) if len(self._network.outputs) == 1 else made

    def _feed(self, tensor: Any) -> Any:
        """Return a tensor, or an array in its memory, that the network reads."""
        if tensor.dtype is self._torch.bfloat16:
            plain = tensor.detach().contiguous()
            return np.asarray(plain.view(self._torch.int16).numpy()).view(ml_dtypes.bfloat16)
        if tensor.is_contiguous() and not tensor.requires_grad and not tensor.is_neg():
            return tensor
        return np.asarray(tensor.detach().resolve_neg().contiguous().numpy())

    def _tensor(self, array: Array) -> Any:
        """Return a tensor in the memory of an array."""
        if array.dtype == ml_dtypes.bfloat16:
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(array)

    def _base(self, storage: Storage, arrays: Sequence[Array]) -> Any:
        """Return memory for results that share it: that of the whole one, or new memory for all."""
        if storage.whole is not None:
            return self._tensor(arrays[self._places[storage.whole]])
        parts: list[tuple[Any, Array]] = []
        for position in storage.places:
            result = self._graph.results.results[position]
            assert result is not None
            parts.append((result.layout, arrays[self._places[position]]))
        new = aligned_empty(storage.size, parts[0][1].dtype)
        write_parts(storage.size, parts, new)
        return self._tensor(new)

    def _owner(self, base: Any, result: Result) -> Any:
        """Return a tensor that has the memory of `base` to itself, and is no view of it."""
        layout = result.layout
        empty = self._torch.empty(0, dtype=base.dtype)
        return empty.set_(base.untyped_storage(), layout.offset, layout.shape, layout.strides)

    def _require_apart(self, arguments: Sequence[Any]) -> None:
        """Raise EagerNeededError if what is written shares memory with another argument."""
        owners = [
            argument.untyped_storage().data_ptr()
            if isinstance(argument, self._torch.Tensor)
            else None
            for argument in arguments
        ]
        for position in self._graph.written:
            if owners.count(owners[position]) > 1:
                raise EagerNeededError("an input that is written shares memory with another one")


def _view(tensor: Any, result: Result, *, is_relative: bool) -> Any:
    layout = result.layout
    offset = layout.offset + (tensor.storage_offset() if is_relative else 0)
    return tensor.as_strided(layout.shape, layout.strides, offset)
