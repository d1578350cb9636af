"""Random definitions over one or two dimensions whose size the caller gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ansorc as ac
from ansorc.ir.dim import Dim, Size

Extent = Any
"""An int or a size: shapes take both."""


@dataclass
class SizedChain:
    """The definition that is being drawn: each stage reads the last tensor."""

    rng: random.Random
    sizes: Sequence[Size]
    inputs: list[ac.Tensor] = field(default_factory=list[ac.Tensor])
    stages: list[ac.Tensor] = field(default_factory=list[ac.Tensor])

    @property
    def last(self) -> ac.Tensor:
        return self.stages[-1] if self.stages else self.inputs[0]

    @property
    def shape(self) -> tuple[Extent, ...]:
        return tuple(self.last.shape)

    @property
    def name(self) -> str:
        return f"T{len(self.stages)}"

    def extent(self) -> Extent:
        """Return a dimension, what follows from one, or a number."""
        n = self.rng.choice(self.sizes)
        return self.rng.choice([n, n, n, n + 1, 2 * n, (n + 3) // 4, 1, 3, 8, 13])

    def input(self, shape: Sequence[Extent], *, constant: bool = False) -> ac.Tensor:
        tensor = ac.placeholder(shape, f"I{len(self.inputs)}", constant=constant)
        self.inputs.append(tensor)
        return tensor


def draw_sized_dag(rng: random.Random, most: int = 70) -> ac.ComputeDAG:
    """Return a random definition of one to four stages, of up to 3 dimensions."""
    multiple = rng.choice([1, 1, 1, 4, 8])
    sizes = [ac.dim("n", rng.choice([1, 1, 2, 8]), most)]
    if rng.random() < 0.4:
        sizes.append(ac.dim("m", multiple, most // multiple * multiple, multiple))
    chain = SizedChain(rng, sizes)
    rank = rng.choice([1, 2, 2, 3])
    shape = [chain.extent() for _ in range(rank)]
    shape[rng.randrange(rank)] = sizes[0]
    chain.input(shape)
    for size in sizes[1:]:
        chain.input((size,))
    for _ in range(rng.randint(1, 4)):
        fitting = [make for make, least in _MAKERS if len(chain.shape) >= least]
        chain.stages.append(rng.choice(fitting)(chain))
    outputs = [chain.last]
    if len(chain.stages) > 1 and rng.random() < 0.4:
        outputs.append(rng.choice(chain.stages[:-1]))
    return ac.ComputeDAG([*chain.inputs, *outputs])


def draw_sizes(dims: Sequence[Dim], rng: random.Random, number: int) -> dict[str, int]:
    """Return the ends of all ranges first, then random sizes."""
    if number < 2:
        return {dim.name: (dim.low, dim.high)[number] for dim in dims}
    return {dim.name: rng.randrange(dim.low, dim.high + 1, dim.multiple) for dim in dims}


def draw_inputs(dag: ac.ComputeDAG, seed: int) -> list[NDArray[np.float32]]:
    """Return inputs in [-1, 1)."""
    generator = np.random.default_rng(seed)
    return [generator.uniform(-1, 1, b.shape).astype(np.float32) for b in dag.inputs]


def _elementwise(chain: SizedChain) -> ac.Tensor:
    data, n = chain.last, chain.rng.choice(chain.sizes)
    functions: list[Callable[[Any], Any]] = [
        lambda x: ac.maximum(x, 0), lambda x: x * 2 + 1, ac.tanh, lambda x: x / n, lambda x: x - n,
    ]  # fmt: skip
    function = chain.rng.choice(functions)
    return ac.compute(data.shape, lambda *i: function(data[i]), chain.name)


def _broadcast(chain: SizedChain) -> ac.Tensor:
    data, place = chain.last, chain.rng.randrange(len(chain.shape))
    vector = chain.input((chain.shape[place],))
    return ac.compute(data.shape, lambda *i: data[i] * vector[i[place]], chain.name)


def _transpose(chain: SizedChain) -> ac.Tensor:
    data, order = chain.last, list(range(len(chain.shape)))
    chain.rng.shuffle(order)
    shape = [chain.shape[place] for place in order]
    return ac.compute(
        shape, lambda *i: data[tuple(i[order.index(d)] for d in range(len(order)))], chain.name
    )


def _reverse(chain: SizedChain) -> ac.Tensor:
    data, last = chain.last, chain.shape[-1] - 1
    return ac.compute(data.shape, lambda *i: data[(*i[:-1], last - i[-1])], chain.name)


def _reduction(chain: SizedChain) -> ac.Tensor:
    data, place = chain.last, chain.rng.randrange(len(chain.shape))
    k = ac.reduce_axis(chain.shape[place], "k")
    reduce = chain.rng.choice([ac.sum, ac.sum, ac.max, ac.min])
    shape = [e for d, e in enumerate(chain.shape) if d != place]

    def body(*i: Any) -> Any:
        return reduce(data[(*i[:place], k, *i[place:])], axis=k)

    return ac.compute(shape, body, chain.name)


def _product(chain: SizedChain) -> ac.Tensor:
    data, depth, columns = chain.last, chain.shape[-1], chain.extent()
    is_known = isinstance(depth, int) and isinstance(columns, int)
    weight = chain.input((depth, columns), constant=is_known)
    k = ac.reduce_axis(depth, "k")
    return ac.compute(
        (*chain.shape[:-1], columns),
        lambda *i: ac.sum(data[(*i[:-1], k)] * weight[k, i[-1]], axis=k),
        chain.name,
    )


def _with_itself(chain: SizedChain) -> ac.Tensor:
    data, k = chain.last, ac.reduce_axis(chain.shape[-1], "k")
    return ac.compute(
        (*chain.shape[:-1], chain.shape[-2]),
        lambda *i: ac.sum(data[(*i[:-1], k)] * data[(*i[:-2], i[-1], k)], axis=k),
        chain.name,
    )


def _window(chain: SizedChain) -> ac.Tensor:
    """Move a window over a padded copy along the last dimension."""
    data, extent, width = chain.last, chain.shape[-1], chain.rng.choice([2, 3])
    before = chain.rng.randint(0, 1)

    def padded(*i: Any) -> Any:
        inside = ac.all_of(i[-1] >= before, i[-1] < extent + before)
        place = ac.maximum(ac.minimum(i[-1] - before, extent - 1), 0)
        return ac.if_then_else(inside, data[(*i[:-1], place)], 0.0)

    wide = ac.compute((*chain.shape[:-1], extent + width - 1), padded, f"{chain.name}.pad")
    chain.stages.append(wide)
    weight, r = chain.input((width,)), ac.reduce_axis(width, "r")
    return ac.compute(
        (*wide.shape[:-1], extent),
        lambda *i: ac.sum(wide[(*i[:-1], i[-1] + r)] * weight[r], axis=r),
        chain.name,
    )


def _causal(chain: SizedChain) -> ac.Tensor:
    """Keep what is at or before the diagonal."""
    data = chain.last
    return ac.compute(
        data.shape, lambda *i: ac.if_then_else(i[-1] <= i[-2], data[i], 0.0), chain.name
    )


def _every_other(chain: SizedChain) -> ac.Tensor:
    data = chain.last
    shape = ((chain.shape[0] + 1) // 2, *chain.shape[1:])
    return ac.compute(shape, lambda *i: data[(i[0] * 2, *i[1:])], chain.name)


_MAKERS: Sequence[tuple[Callable[[SizedChain], ac.Tensor], int]] = (
    (_elementwise, 0), (_elementwise, 0), (_broadcast, 1), (_transpose, 2), (_reverse, 1),
    (_reduction, 1), (_reduction, 2), (_product, 1), (_product, 2), (_with_itself, 2), (_window, 1),
    (_causal, 2), (_every_other, 1),
)  # fmt: skip
"""Ways to make a stage, and the dimensions that the last tensor needs for it."""
