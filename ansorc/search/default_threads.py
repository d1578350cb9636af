"""Which loops of the untuned default run in parallel, by what starting and handing over cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import Extent, as_array
from ansorc.schedule.state import State
from ansorc.target import Target
from ansorc.target.costs import CORE

Cycles: TypeAlias = npt.NDArray[np.float64]
LoopCounts: TypeAlias = npt.NDArray[np.int64]
Way: TypeAlias = dict[str, tuple[LoopCounts, Cycles]]
"""For each root stage how many of its loops run in parallel, and its cycles then."""


@dataclass(frozen=True, eq=False)
class RootLoops:
    """The outermost loops of a root stage, and its cycles on one core [rows]."""

    extents: Sequence[Extent]
    serial: Cycles

    def fastest(self, cores: int) -> tuple[LoopCounts, Cycles]:
        """Return how many outer loops are best fused and run in parallel, and the cycles then.

        An uneven last round of chunks and the start of the threads are counted. 0 loops where there
        are not two iterations.
        """
        best, count = np.full(len(self.serial), np.inf), np.zeros(len(self.serial), dtype=np.int64)
        chunks = np.ones(len(self.serial), dtype=np.int64)
        for place, extent in enumerate(self.extents, start=1):
            chunks = chunks * as_array(extent)
            cycles = self.serial * -(-chunks // cores) / chunks + CORE.fork
            better = (chunks > 1) & (cycles < 0.98 * best)
            best = np.where(better, cycles, best)
            count = np.where(better, place, count)
        return count, np.where(count > 0, best, self.serial)


def parallel_loops(
    state: State, roots: Mapping[str, RootLoops], target: Target
) -> tuple[dict[str, LoopCounts], Cycles]:
    """Return how many loops of each root stage to run in parallel, and the cycles of all [rows].

    What several threads have made lies in the caches of their cores, so one stage on one core costs
    the next one what is handed over. Three ways are compared: as is best for each stage by itself,
    all in parallel that can be, and none.
    """
    shared = {name: loops.fastest(target.cores) for name, loops in roots.items()}
    each: Way = {}
    for name, (count, cycles) in shared.items():
        pays = cycles < 0.98 * roots[name].serial
        each[name] = np.where(pays, count, 0), np.where(pays, cycles, roots[name].serial)
    none = {name: (np.zeros_like(count), roots[name].serial) for name, (count, _) in shared.items()}
    handed = _handed_over(state, roots, target)
    counts, best = {name: count for name, (count, _) in each.items()}, _cycles(each, handed, target)
    for way in (shared, none):
        cycles = _cycles(way, handed, target)
        better = cycles < best
        counts = {name: np.where(better, way[name][0], counts[name]) for name in roots}
        best = np.where(better, cycles, best)
    return counts, best


def _cycles(way: Way, handed: Mapping[tuple[str, str], int], target: Target) -> Cycles:
    """The cycles of all stages, and of handing over what one thread has to all, or all to one."""
    total = np.sum([cycles for _, cycles in way.values()], axis=0)
    for (source, reader), size in handed.items():
        part = size / target.cores / CORE.handed_bytes
        is_made, is_read = way[source][0] > 0, way[reader][0] > 0
        total = (
            total + part * (~is_made & is_read) + (target.cores - 1) * part * (is_made & ~is_read)
        )
    return total


def _handed_over(
    state: State, roots: Mapping[str, RootLoops], target: Target
) -> dict[tuple[str, str], int]:
    """The bytes that `roots` have of each other, as far as the second caches hold them."""
    held = target.cores * target.cache_bytes[1]
    found: dict[tuple[str, str], int] = {}
    for stage in state.stages:
        reader = root_of(state, stage.name)
        for source in (each for each in state.stages if reader in roots and each.name in roots):
            if source.name != reader and not stage.is_inlined:
                size = sum(buffer.bytes for buffer in source.op.buffers if buffer in stage.op.reads)
                if size:
                    found[source.name, reader] = min(size, held)
    return found


def root_of(state: State, name: str) -> str:
    """Return the root stage in whose loops the stage `name` is computed, maybe itself."""
    chain = state.chain(state.stage(name))
    return chain[0][0].name if chain else name
