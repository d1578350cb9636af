"""The search space of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.extent import BoolArray
from ansorc.search.cost_model import Float64Array
from ansorc.search.features import FeatureSet
from ansorc.search.gpu.default import UntunedOnGpu
from ansorc.search.gpu.estimated_programs import seconds_of
from ansorc.search.gpu.features import GPU_FEATURES
from ansorc.search.gpu.limits import are_launchable
from ansorc.search.gpu.rules import complete_in_all_ways, gpu_rules, require_gpu_options
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.gpu.thread_tiles import table_on_gpu
from ansorc.search.options import SearchOptions
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Sketch, TileVariable
from ansorc.search.space import Genes, SearchSpace
from ansorc.search.space.protocol import DefaultWishes, UntunedSearch
from ansorc.search.tiles import TileTable
from ansorc.target import Target


class GpuSpace:
    """Kernels of blocks of threads, whoever made the GPU."""

    features: FeatureSet = GPU_FEATURES

    def require_options(self, options: SearchOptions) -> None:
        """Refuse the options that are of the loops of CPUs."""
        require_gpu_options(options)

    def rules(self, options: SearchOptions) -> tuple[SketchRule, ...]:
        """Return the rules, the same for all options."""
        return gpu_rules()

    def complete(
        self, derived: Sequence[Sketch], options: SearchOptions
    ) -> Iterator[tuple[Sketch, Iterable[Sketch]]]:
        """Yield the sketches with all stages bound to threads, in each way."""
        return ((sketch, _complete(sketch)) for sketch in derived)

    def table(self, variable: TileVariable) -> TileTable:
        """Return short and round lengths."""
        return table_on_gpu(variable)

    def legal(self, sketch: Sketch, genes: Genes, options: SearchOptions) -> BoolArray:
        """Return whether the kernels keep within the limits of the GPU."""
        return are_launchable(sketch, genes)

    def sample(
        self, sketch: Sketch, rows: int, rng: np.random.Generator, options: SearchOptions
    ) -> Genes:
        """Return random programs whose kernels can be launched."""
        return sample_on_gpu(sketch, rows, rng)

    def estimate(self, sketch: Sketch, genes: Genes) -> Float64Array:
        """Return the seconds by the model of the GPU."""
        return seconds_of(sketch, genes)

    def untuned(self, dag: ComputeDAG, target: Target, wishes: DefaultWishes) -> UntunedSearch:
        """Return a search by kernels; nothing is laid out or defined otherwise."""
        return UntunedOnGpu(dag, target)


SPACE: SearchSpace = GpuSpace()


def _complete(sketch: Sketch) -> Iterator[Sketch]:
    yield from complete_in_all_ways(sketch)
