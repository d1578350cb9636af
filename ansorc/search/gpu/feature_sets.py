"""The features of programs: the feature set of their target.

In: a sketch and rows of genes, or a State. Out: a float32 array [rows, statements, features].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ansorc.schedule.extent import Extent
from ansorc.schedule.state import State
from ansorc.search.features.columns import FloatArray
from ansorc.search.features.extract import CYCLES_PLACE, MACHINE_FEATURES, Features, FeatureSet
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.gpu.features import GPU_COLUMNS, describe_on_gpu, estimate_on_gpu
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes
from ansorc.target import Target

ColumnLike = TypeVar("ColumnLike")


def extract(sketch: Sketch, genes: Genes, target: Target) -> Features:
    """Return the features of the programs `genes` [rows, columns] of `sketch`.

    There is one statement for each stage that is not inlined, producers first.
    """
    return _features_for(target).extract(sketch, genes, target)


def extract_state(
    state: State, target: Target, choices: Mapping[str, Extent] | None = None, rows: int = 1
) -> Features:
    """Return the features of the `rows` programs that `state` stands for.

    `choices` are the numbers that the state does not hold yet, as in `LoopNests`.
    """
    return _features_for(target).extract_state(state, target, choices, rows)


def _gpu_columns(columns: Sequence[ColumnLike], estimate: ColumnLike) -> tuple[ColumnLike, ...]:
    """The columns of GPUs with the estimate where CPUs have it, so that nobody needs to know."""
    return (*columns[:CYCLES_PLACE], estimate, *columns[CYCLES_PLACE:])


def _on_gpu(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    others = tuple(describe_on_gpu(nests, nest, target))
    return iter(_gpu_columns(others, estimate_on_gpu(nests, nest, target)))


GPU_FEATURES = FeatureSet("gpu", 6, _gpu_columns(GPU_COLUMNS[:-1], GPU_COLUMNS[-1]), _on_gpu)


def _features_for(target: Target) -> FeatureSet:
    return GPU_FEATURES if target.kind == "cuda" else MACHINE_FEATURES
