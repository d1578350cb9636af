"""A module as PyTorch exports it, in plain values; single operators that PyTorch computes.

The only module that knows `torch`, which is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array

_UNSET = ("empty", "new_empty")
"""How operators begin that return memory as it is, with whatever numbers are there."""
NARROW_FLOATS = (
    "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu",
)  # fmt: skip
"""Floats that a graph computes with in float32, as PyTorch calls them."""


@dataclass(frozen=True)
class TorchRef:
    """A result of a node, or a tensor that the program is given."""

    name: str
    place: int = 0


@dataclass(frozen=True)
class TorchTensor:
    """A tensor as PyTorch describes it; an extent that depends on data is text."""

    shape: tuple[int | str, ...]
    dtype: str
    """As NumPy calls it."""
    strides: tuple[int, ...] = ()
    """In elements; () where it is dense and row-major, or where they are not known."""
    is_number: bool = False
    """Whether it is a number of Python, which only a call has: PyTorch's SymInt or SymFloat."""


TorchArgument: TypeAlias = "object"
"""A `TorchRef`, a number, text (also for a dtype), None, or a list of those."""


@dataclass(frozen=True, eq=False)
class TorchNode:
    """A call of an operator of ATen: all arguments of its schema, by name."""

    operator: str
    """Like "aten.convolution.default"."""
    name: str
    arguments: Mapping[str, TorchArgument]
    results: tuple[TorchTensor | None, ...]
    used: frozenset[int]
    """Which results are read."""
    is_view: bool
    """Whether its result lies in the memory of its first argument, as PyTorch computes it."""
    is_assertion: bool
    """Whether it only raises an error, unless its first argument is true."""
    where: str
    """The line of the user's module that it comes from."""
    origin: Any

    def refs(self) -> Iterator[TorchRef]:
        """Yield the tensors that it reads."""
        for value in self.arguments.values():
            yield from _refs(value)

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'"


@dataclass(frozen=True, eq=False)
class TorchProgram:
    """A module for one shape of each input: nodes in order, weights as values."""

    inputs: Mapping[str, TorchTensor]
    places: Mapping[str, int]
    """Where the inputs are among all arguments."""
    numbers: frozenset[str]
    """The inputs that are numbers of Python, tensors of shape () here."""
    constants: Mapping[str, Array]
    nodes: tuple[TorchNode, ...]
    outputs: Mapping[str, TorchRef]
    others: Mapping[int, object]
    """The results besides tensors, by their positions among all results."""
    asserted: tuple[TorchArgument, ...]
    """Conditions without which the module raises an error: tensors, or known values."""
    written: Mapping[str, TorchRef]
    """The inputs that are written, with the values that they have afterwards."""

    def kind(self, ref: TorchRef) -> TorchTensor | None:
        """Return the type that PyTorch gives to a tensor; None for a weight."""
        if ref.name in self.inputs:
            return self.inputs[ref.name]
        node = self.producers.get(ref.name)
        return None if node is None else node.results[ref.place]

    @cached_property
    def producers(self) -> Mapping[str, TorchNode]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}

    def owner(self, ref: TorchRef) -> str:
        """Return the tensor in whose memory PyTorch has `ref`."""
        node = self.producers.get(ref.name)
        refs = [] if node is None or not node.is_view else list(node.refs())
        return self.owner(refs[0]) if refs else ref.name


def torch_library() -> Any:
    """Return the package `torch`; raise GraphError if it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise GraphError(
            f"PyTorch cannot be imported ({error}); it is no part of ansorc: install it with "
            "`pip install torch`, or export the module to ONNX elsewhere and use ac.from_onnx"
        ) from error


def compute_torch_node(node: TorchNode, known: Callable[[TorchRef], Array]) -> list[Array]:
    """Return the results of a node whose inputs are all known; raise GraphError if it fails."""
    torch = torch_library()

    def value(argument: TorchArgument, given: Any) -> object:
        if isinstance(argument, TorchRef):
            tensor = torch.from_numpy(np.require(known(argument), requirements="W"))
            kind = getattr(given.meta.get("val"), "dtype", None)
            return tensor.to(kind) if is_narrow(kind) else tensor
        if isinstance(argument, list):
            pairs = zip(cast("list[TorchArgument]", argument), given, strict=True)
            return [value(part, part_given) for part, part_given in pairs]
        return argument

    if node.operator.partition(".")[2].startswith(_UNSET) and not _is_filled(torch):
        return [_zeros(result) for result in node.results]
    origin = node.origin
    plain = {name for name, given in node.arguments.items() if not any(_refs(given))}
    try:
        given = {**dict(zip(node.arguments, origin.args, strict=False)), **origin.kwargs}
        arguments = {
            name: argument if name in plain else value(node.arguments[name], argument)
            for name, argument in given.items()
        }
        first = [arguments.pop(name) for name in list(node.arguments)[: len(origin.args)]]
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            computed = origin.target(*first, **arguments)
    except Exception as error:
        raise GraphError(f"{node} cannot be computed at import: {error}") from error
    results = cast("Sequence[Any]", computed) if isinstance(computed, (list, tuple)) else [computed]
    return [array_of(r) if hasattr(r, "dtype") else np.asarray(r or 0) for r in results]


def _refs(value: TorchArgument) -> Iterator[TorchRef]:
    if isinstance(value, TorchRef):
        yield value
    elif isinstance(value, list):
        for part in cast("list[TorchArgument]", value):
            yield from _refs(part)


def _is_filled(torch: Any) -> bool:
    """Return whether PyTorch writes numbers to new memory, in its deterministic mode."""
    is_on: bool = torch.are_deterministic_algorithms_enabled()
    return is_on and bool(torch.utils.deterministic.fill_uninitialized_memory)


def _zeros(kind: TorchTensor | None) -> Array:
    """Return zeros for memory that nobody has written: one of the values that it may have."""
    if kind is None or not all(isinstance(extent, int) for extent in kind.shape):
        raise GraphError("new memory whose shape depends on data cannot be had at import")
    dtype = "float32" if kind.dtype in NARROW_FLOATS else kind.dtype
    return np.zeros(cast("tuple[int, ...]", kind.shape), dtype)


def is_narrow(kind: object) -> bool:
    """Return whether tensors of a dtype of PyTorch are float32 in a graph."""
    return str(kind).removeprefix("torch.") in NARROW_FLOATS


def array_of(tensor: Any) -> Array:
    """Return the values of a tensor, narrow floats as float32, in its own memory if that fits."""
    torch = torch_library()
    plain = tensor.detach().resolve_conj().resolve_neg()
    if is_narrow(plain.dtype):
        plain = plain.to(torch.float32)
    try:
        return np.asarray(plain.cpu().numpy())
    except (RuntimeError, TypeError, ValueError) as error:
        raise GraphError(f"a tensor of {tensor.dtype} cannot be an array: {error}") from error
