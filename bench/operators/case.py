"""A case of the comparison: one operator of a network, as each side says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.lang.dag import ComputeDAG

Array = np.ndarray[Any, Any]
_SEED = 2024


@dataclass(frozen=True)
class OperatorCase:
    """One operator with its shapes."""

    name: str
    kind: str
    source: str
    """The network, and where in it the operator stands."""
    data: Mapping[str, tuple[int, ...]]
    """Shapes of what changes from call to call; names that begin with "i" are int64 places."""
    define: Callable[..., ac.Tensor]
    """The definition of the placeholders of `data` and `weights`."""
    torch: Callable[..., Any]
    """PyTorch's function of the same tensors, which is given the module `torch` first."""
    weights: Mapping[str, tuple[int, ...]]
    """Shapes of what stays the same, packed before."""
    onnx: str = ""
    """The nodes that compute Y, in ONNX's text, of inputs by their names; none if empty."""
    places: int = 1
    """Places are below this."""
    is_image: bool = False
    """The first of `data` and the result are channels last, [n, h, w, c], and the first weight is
    [kh, kw, ci, co]; peers get [n, c, h, w] and [co, ci, kh, kw]."""

    def dag(self) -> ComputeDAG:
        """Return ansorc's definition; weights are constants."""
        tensors = [
            ac.placeholder(shape, name, "int64" if name.startswith("i") else "float32")
            for name, shape in self.data.items()
        ]
        tensors += [
            ac.placeholder(shape, name=name, constant=True) for name, shape in self.weights.items()
        ]
        return ComputeDAG([*tensors, self.define(*tensors)])

    def arrays(self) -> dict[str, Array]:
        """Return random arrays by name, in ansorc's order; always the same."""
        rng = np.random.default_rng(_SEED)
        found: dict[str, Array] = {}
        for name, shape in (*self.data.items(), *self.weights.items()):
            array: Array = ac.aligned_empty(shape, "int64" if name.startswith("i") else "float32")
            if name.startswith("i"):
                array[...] = rng.integers(0, self.places, shape)
            elif name.startswith("p"):
                array[...] = rng.uniform(0.1, 2.0, shape)
            else:
                array[...] = rng.standard_normal(shape)
            found[name] = array
        return found

    def peer_arrays(self) -> dict[str, Array]:
        """Return the same in the order of other libraries."""
        found = self.arrays()
        if self.is_image:
            image, filters = next(iter(self.data)), next(iter(self.weights), "")
            found[image] = np.ascontiguousarray(found[image].transpose(0, 3, 1, 2))
            if filters and found[filters].ndim == 4:
                found[filters] = np.ascontiguousarray(found[filters].transpose(3, 2, 0, 1))
            elif filters and found[filters].ndim == 3:
                found[filters] = np.ascontiguousarray(found[filters].transpose(2, 0, 1)[:, None])
        return found

    def restored(self, result: Array) -> Array:
        """Return a peer's result in ansorc's order."""
        return result.transpose(0, 2, 3, 1) if self.is_image and result.ndim == 4 else result
