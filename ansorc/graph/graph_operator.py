"""What a node of a graph computes: a definition of the DSL, under a name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

from ansorc.errors import GraphError
from ansorc.graph.node_kind import NodeKind, dag_kind
from ansorc.graph.tensor_type import TensorType
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.tensor import Tensor, placeholder

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
        found = self.define(*arguments, **keywords)
        return (found,) if isinstance(found, Tensor) else tuple(found)

    def types(
        self, inputs: tuple[TensorType, ...], attributes: Attributes
    ) -> tuple[TensorType, ...]:
        """Return what the outputs are; raise LanguageError where the inputs do not fit."""
        return tuple(map(TensorType.of, _applied(self, inputs, attributes)[1]))

    def dag(self, inputs: tuple[TensorType, ...], attributes: Attributes) -> ComputeDAG:
        """Return the computation of a node alone."""
        return _dag(self, inputs, attributes)

    def kind(self, inputs: tuple[TensorType, ...], attributes: Attributes) -> NodeKind:
        """Return how the outputs depend on the inputs."""
        return _kind(self, inputs, attributes)

    def __str__(self) -> str:
        return self.name


@lru_cache(maxsize=4096)
def _applied(
    operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: Attributes
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The placeholders of the inputs, and the outputs."""
    given = tuple(placeholder(t.shape, f"in{n}", t.dtype) for n, t in enumerate(inputs))
    return given, operator.apply(given, attributes)


@lru_cache(maxsize=4096)
def _dag(
    operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: Attributes
) -> ComputeDAG:
    given, results = _applied(operator, inputs, attributes)
    return ComputeDAG([*given, *results])


@lru_cache(maxsize=4096)
def _kind(
    operator: GraphOperator, inputs: tuple[TensorType, ...], attributes: Attributes
) -> NodeKind:
    return dag_kind(_dag(operator, inputs, attributes))


def attributes_of(values: Mapping[str, object]) -> Attributes:
    """Return `values` as attributes, lists as tuples; raise GraphError for other things."""
    return tuple(sorted((name, _frozen(name, value)) for name, value in values.items()))


def _frozen(name: str, value: object) -> AttributeValue:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(name, one) for one in cast("Sequence[object]", value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise GraphError(f"the attribute '{name}' is {value!r}; use numbers, text, or lists of them")


def attributes_text(attributes: Attributes) -> str:
    """Return attributes as JSON, which `attributes_of` reads back from `json.loads`."""
    return json.dumps(dict(attributes)) if attributes else ""
