"""The operator of a node of a graph: a definition of the DSL, under a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

from ansorc.errors import GraphError, LanguageError
from ansorc.graph.node_kind import NodeKind, dag_kind
from ansorc.graph.tensor_type import TensorType
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.tensor import ComplexTensor, Tensor, placeholder

AttributeValue: TypeAlias = "bool | int | float | str | tuple[AttributeValue, ...] | None"
Attributes: TypeAlias = tuple[tuple[str, AttributeValue], ...]
"""Keyword arguments of a definition, in the order of their names."""


@dataclass(frozen=True)
class GraphOperator:
    """A definition of the DSL that nodes call by name."""

    name: str
    define: Callable[..., Tensor | Sequence[Tensor]]
    """Takes the inputs, then the attributes as keywords; returns one tensor or several."""
    takes_list: bool = False
    """Its first argument is the list of all inputs."""

    def apply(self, inputs: Sequence[Tensor], attributes: Attributes) -> tuple[Tensor, ...]:
        """Return the outputs for `inputs`; raise LanguageError where that has no meaning."""
        keywords: dict[str, Any] = dict(attributes)
        arguments = [list(inputs)] if self.takes_list else inputs
        defined = self.define(*arguments, **keywords)
        results = (defined,) if isinstance(defined, Tensor) else tuple(defined)
        for result in results:
            if isinstance(result, ComplexTensor):
                raise LanguageError(
                    f"'{self.name}' returns {result!r}, and the tensors of networks are real: "
                    "return the real and the imaginary parts as two tensors"
                )
        return _copy_repeated(inputs, results)

    def types(
        self, inputs: tuple[TensorType, ...], attributes: Attributes
    ) -> tuple[TensorType, ...]:
        """Return the types of the outputs; raise LanguageError where the inputs do not fit."""
        return tuple(map(TensorType.of, _apply(self, inputs, _Exact(attributes))[1]))

    def dag(self, inputs: tuple[TensorType, ...], attributes: Attributes) -> ComputeDAG:
        """Return the computation of a node alone."""
        return _dag(self, inputs, _Exact(attributes))

    def kind(self, inputs: tuple[TensorType, ...], attributes: Attributes) -> NodeKind:
        """Return how the outputs depend on the inputs."""
        return _kind(self, inputs, _Exact(attributes))

    def __str__(self) -> str:
        return self.name


def exact_key(attributes: Attributes) -> str:
    """Return text that two lists of attributes share if they mean the same.

    As values they may be equal and differ: 0.0 and -0.0, 1 and True.
    """
    return repr(attributes)


class _Exact:
    """Attributes as a key of what was computed for them."""

    __slots__ = ("_key", "given")

    def __init__(self, given: Attributes) -> None:
        self.given, self._key = given, exact_key(given)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exact) and self._key == other._key


def _copy_repeated(inputs: Sequence[Tensor], results: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the results; one that is an input, or an earlier result, is copied."""
    known, computed = list(inputs), list[Tensor]()
    for result in results:
        is_known = any(result is tensor for tensor in known)
        computed.append(_copy(result) if is_known else result)
        known.append(computed[-1])
    return tuple(computed)


def _copy(data: Tensor) -> Tensor:
    return compute(data.shape, lambda *i: data[i], AutoName("copy"))


@lru_cache(maxsize=4096)
def _apply(
    operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: _Exact
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the placeholders of the inputs, and the outputs."""
    given = tuple(placeholder(t.shape, f"in{n}", t.dtype) for n, t in enumerate(inputs))
    return given, operator.apply(given, attributes.given)


@lru_cache(maxsize=4096)
def _dag(operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: _Exact) -> ComputeDAG:
    given, results = _apply(operator, inputs, attributes)
    return ComputeDAG([*given, *results])


@lru_cache(maxsize=4096)
def _kind(operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: _Exact) -> NodeKind:
    return dag_kind(_dag(operator, inputs, attributes))


def attributes_of(values: Mapping[str, object]) -> Attributes:
    """Return `values` as attributes, lists as tuples; raise GraphError for other things."""
    return tuple(sorted((name, _freeze(name, value)) for name, value in values.items()))


def _freeze(name: str, value: object) -> AttributeValue:
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(name, element) for element in cast("Sequence[object]", value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise GraphError(f"the attribute '{name}' is {value!r}; use numbers, text, or lists of them")


def attributes_text(attributes: Attributes) -> str:
    """Return attributes as JSON, which `attributes_of` reads back from `json.loads`."""
    return json.dumps(dict(attributes)) if attributes else ""
