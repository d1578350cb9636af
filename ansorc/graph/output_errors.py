"""How far the outputs of a network are from float64, and where the error of its precision grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ansorc.graph.graph import Graph
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.precision import source_names, with_precision
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import BFLOAT16, FLOAT16

_TOLERANCE = 1e-4
"""The tolerance, as a share of the largest element: float32 rounding in a deep network."""
_OF_EMULATION = 3.0
"""A kernel adds in another order than the emulation; where a sum lies half-way between two numbers
of 16 bits, it is rounded to the other one. No more than that is as large as all roundings."""

_QUANTIZE = ("quantize", "quantize_by_factor", "quantize_by_range")
_STEP = 1 / 255
"""A step of integers of 8 bits. A float half-way between two of them becomes another one in float32
than in float64, and in a deep network that changes everything behind it."""


@dataclass(frozen=True)
class OutputError:
    """The error of one output, as a share of its largest element; of integers: of their number."""

    error: float
    allowed: float
    in_float32: float | None
    """The error of the same network in float32; None where it is in float32 itself."""
    of_quantizing: float | None = None
    """How far it is from the network that was quantised; None where ansorc did not quantise it."""

    @property
    def is_right(self) -> bool:
        """Whether rounding explains the error; it does not explain NaN."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class ErrorGrowth:
    """A kernel whose result errs more than what it reads: root mean squares, as shares."""

    kernel: str
    nodes: tuple[str, ...]
    """The file's nodes in it, as `keep` names them; without names, its result."""
    before: float
    after: float


class OutputErrors:
    """A network's results for some inputs, held against those of float64."""

    def __init__(self, network: Network, inputs: Mapping[str, Array]) -> None:
        self._network, self._inputs = network, inputs
        self._exact = run_reference(network.source, inputs)

    @cached_property
    def is_narrow(self) -> bool:
        """Whether the network keeps anything in 16 bits."""
        types = self._network.graph.types.values()
        return any(kind.dtype in (FLOAT16, BFLOAT16) for kind in types)

    @cached_property
    def _quantizes(self) -> bool:
        """Whether floats become integers of 8 bits inside the network."""
        return any(node.builtin in _QUANTIZE for node in self._network.source.nodes)

    def of(self, results: Mapping[str, Array]) -> dict[str, OutputError]:
        """Return the errors of `results` by the names of the outputs."""
        original = self._network.source.unquantized
        floats = None if original is None else run_reference(original, self._inputs)
        return {
            name: OutputError(
                _error(results[name], exact),
                *self._allowed(name, exact),
                None if floats is None else _error(results[name], floats[name]),
            )
            for name, exact in self._exact.items()
        }

    def _allowed(self, name: str, exact: Array) -> tuple[float, float | None]:
        """Return the error that is allowed for an output, and that of float32."""
        is_float = np.issubdtype(exact.dtype, np.floating)
        if not self.is_narrow and not self._quantizes:
            return _TOLERANCE if is_float else 0.0, None
        emulated = _error(self._emulated[name], exact)
        if not self.is_narrow:
            least = _TOLERANCE + _STEP if is_float else 0.0
            return least + _OF_EMULATION * emulated, None
        in_float32 = _error(self._in_float32[name], exact)
        kind = self._network.source.types[name].dtype
        rounding = kind.epsilon if is_float else 0.0
        if not is_float:  # other elements may be the largest ones
            return 1.0, in_float32
        return _TOLERANCE + rounding + _OF_EMULATION * emulated, in_float32

    @cached_property
    def _emulated(self) -> Mapping[str, Array]:
        """The outputs with every rounding of the kernels, by NumPy."""
        found = run_reference(self._network.graph, self._inputs, None)
        return dict(zip(self._exact, found.values(), strict=True))

    @cached_property
    def _in_float32(self) -> Mapping[str, Array]:
        return run_reference(with_precision(self._network.source, "f32"), self._inputs, None)

    def growth(self, most: int = 3) -> list[ErrorGrowth]:
        """Return the kernels in which the error grows most, the worst first.

        Every result is compared with that of float64, which is computed from what has not been
        rounded. An error that the next kernel averages out counts as well.
        """
        graph, source = self._network.graph, self._network.source
        wide = Network.of(with_precision(source, "f32"), self._network.target)
        names = {
            name: group
            for group in self._network.partition.groups
            for name in group.outputs
            if name in wide.graph.types and graph.types[name].dtype.is_float
        }
        exact = run_reference(_returning(wide.graph, names), self._inputs)
        found = run_reference(_returning(graph, names), self._inputs, None)
        errors = {name: _relative(found[name], exact[name]) for name in names}
        root = self._network.partition.root
        grown: list[ErrorGrowth] = []
        for name, group in names.items():
            before = max((errors.get(root(read), 0.0) for read in group.inputs), default=0.0)
            nodes = tuple(dict.fromkeys(n for node in group.nodes for n in source_names(node)))
            grown.append(ErrorGrowth(group.title, nodes or (name,), before, errors[name]))
        worst = sorted(grown, key=lambda each: each.before - each.after)
        return [each for each in worst[:most] if each.after > each.before]


def _returning(graph: Graph, names: Mapping[str, object]) -> Graph:
    return replace(graph, outputs=tuple(names))


def _error(found: Array, exact: Array) -> float:
    """Return the largest difference, as a share of the largest element; of integers: how many."""
    if not np.issubdtype(exact.dtype, np.floating):
        return int(np.count_nonzero(found != exact)) / exact.size
    found = found.astype(np.float64)
    largest = float(np.max(np.abs(exact[np.isfinite(exact)]), initial=1e-30))
    same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(found - exact))
    return float(np.max(difference)) / largest


def _relative(found: Array, exact: Array) -> float:
    """Return the root mean square of the difference, as a share of that of the elements."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.linalg.norm(found.astype(np.float64).ravel() - exact.ravel())
        size = float(np.linalg.norm(exact.ravel()))
    return float(difference) / size if size else 0.0
