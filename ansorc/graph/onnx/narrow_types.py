"""`NarrowTypes`: which tensors of an ONNX file are float16 or bfloat16, while it is imported.

The graph computes float32. A tensor that the file has in 16 bits is kept so between kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansorc.graph.builder import GraphBuilder
from ansorc.graph.importing.values import HALF_FLOATS, widen
from ansorc.graph.onnx.model import OnnxNode, numpy_name
from ansorc.graph.onnx.node_call import OnnxItem
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import FLOAT32

_WITH_STATISTICS = (
    "BatchNormalization", "LayerNormalization", "SimplifiedLayerNormalization",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
)  # fmt: skip
"""Operators whose results after the first may be float32, whatever their inputs are."""


class NarrowTypes:
    """The narrow types of tensors of the graph and of known values, which are float32 there."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._known: dict[int, tuple[Array, str]] = {}
        """Known values with their types, by their identity."""

    def widen(self, value: Array) -> Array:
        """Return known values as the graph computes with them, and note their type."""
        wide, name = widen(value), value.dtype.name
        if name in HALF_FLOATS:
            self._known[id(wide)] = wide, name
        return wide

    def of(self, item: OnnxItem | None) -> str:
        """Return the narrow type that the file has for a tensor, or ""."""
        if isinstance(item, str):
            return self._builder.storage(item)
        if isinstance(item, np.ndarray):
            return self._known.get(id(item), (item, ""))[1]
        return ""

    def note(
        self, node: OnnxNode, inputs: Sequence[OnnxItem | None], results: Sequence[OnnxItem]
    ) -> list[OnnxItem]:
        """Return the results of a node, of which the graph says how they are kept.

        A float32 result that is a narrow input as it is becomes a tensor of its own.
        """
        kind = self._result_type(node, inputs)
        has_statistics = node.operator in _WITH_STATISTICS
        return [
            self._kept_as(result, "" if position and has_statistics else kind)
            for position, result in enumerate(results)
        ]

    def _kept_as(self, result: OnnxItem, kind: str) -> OnnxItem:
        """Return a result that is kept in a narrow type, or in none."""
        if not isinstance(result, str) or self._builder.type(result).dtype != FLOAT32:
            return result
        if self.of(result) and not kind:
            return self._builder.add("copy", [result])
        self._builder.keep_as(result, kind)
        return result

    def _result_type(self, node: OnnxNode, inputs: Sequence[OnnxItem | None]) -> str:
        """Return the narrow type of the floats that a node computes: that of its first float."""
        if node.operator == "Cast":
            name = numpy_name(node.attributes["to"])
            return name if name in HALF_FLOATS else ""
        if node.operator == "CastLike":
            return self.of(inputs[1])
        for item in inputs:
            if isinstance(item, str):
                is_float = self._builder.type(item).dtype.is_float
            else:
                is_float = isinstance(item, np.ndarray) and item.dtype.kind == "f"
            if is_float:
                return self.of(item)
        return ""
