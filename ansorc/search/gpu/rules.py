"""The sketch rules for GPUs, and the whole programs that their sketches make (paper, §4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.errors import OptionError
from ansorc.ir.node import walk
from ansorc.schedule.inlining import is_short_inlined
from ansorc.schedule.steps import ComputeInline
from ansorc.search.gpu.binding import bind_untiled_stages
from ansorc.search.gpu.kernels import is_by_matrix_units
from ansorc.search.gpu.matrix_units import TilingForMatrixUnits
from ansorc.search.gpu.parts import SplitK
from ansorc.search.gpu.scattered import AtomicUpdates
from ansorc.search.gpu.thread_reduction import (
    in_parts,
    is_divisible,
    long_reductions,
    reduce_together,
    row_reader,
    terms_of,
    with_rows,
)
from ansorc.search.gpu.tiling import TilingForThreads, results_of
from ansorc.search.gpu.transposition import transpose_via_shared
from ansorc.search.memo import memoize
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.predicates import is_tiled_first
from ansorc.search.sketch.private_copies import KeepRanges
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict
from ansorc.search.sketch.rules import Skip
from ansorc.search.sketch.scan_blocks import ScanInBlocks
from ansorc.search.sketch.sketch import Choice, Sketch, UnrollLimit

UNROLL_LIMITS = (0, 16, 64, 512, 1024)
THREADS = (32, 128, 256, 512, 1024)
"""Numbers of threads that reduce together."""
PARTS = (16, 64, 512)
"""Parts of a long reduction that blocks make."""
MAX_RESULTS = 1024
"""Results up to which a stage with data reuse may be left to threads that reduce together."""
MANY_ROWS = 4096
"""Rows of a scan from which on a thread computes each from end to end, and not in blocks."""
MAX_INLINED_NODES = 400
"""A stage with more expressions than these is not inlined."""


CPU_OPTIONS = (
    "space", "structure", "is_simd_aware", "max_innermost_factor", "max_innermost_reduce",
    "max_register_ratio", "unroll_limits", "parallel_ratios", "serial_share", "max_locations",
)  # fmt: skip
"""The search options that say something about the loops of a CPU alone."""


def require_gpu_options(options: SearchOptions) -> None:
    """Raise OptionError for options that the programs of a GPU do not have.

    Nothing is laid out otherwise on a GPU, and scans alone are defined otherwise:
    `rewrite_layout` and `redefine` hold for both of their values.
    """
    changed = [name for name in CPU_OPTIONS if getattr(options, name) != getattr(DEFAULTS, name)]
    if changed:
        given = ", ".join(f"{name}={getattr(options, name)!r}" for name in changed)
        raise OptionError(
            f"the search for a GPU has no {given}: these are of the loops of CPUs, and the tiles "
            "of a GPU follow its blocks and threads; leave them out, or tune for a CPU"
        )


def gpu_rules() -> tuple[SketchRule, ...]:
    """Return the rules for a GPU, in the order in which they are asked."""
    return (
        InlineOnGpu(), KeepRanges(), ScanInBlocks(MANY_ROWS, is_placed=False), AtomicUpdates(),
        LeaveToThreads(), SplitK(), TilingForMatrixUnits(), TilingForThreads(), Skip(),
    )  # fmt: skip


@dataclass(frozen=True)
class InlineOnGpu:
    """Inline every stage that is no reduction, no scan and no output: memory is dearer than work.

    What pads an input is then computed as the input is copied to shared memory.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` can be computed where it is read."""
        candidate = partial.stage(stage)
        is_plain = not candidate.op.reduce_axes and candidate.op.scan is None
        is_free = candidate.is_untouched and not candidate.is_output and is_plain
        if not is_free or not partial.state.readers(stage):
            return Verdict.SKIP
        most = 2 * MAX_INLINED_NODES if candidate.op.temporaries else MAX_INLINED_NODES
        size = sum(1 for part in candidate.op.parts for _ in walk(part))
        readers = partial.state.readers(stage)
        is_short = all(is_short_inlined(reader.op, candidate.op) for reader in readers)
        return Verdict.APPLY_AND_STOP if is_short and size <= most else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage inlined."""
        yield partial.then(ComputeInline(stage)).with_trace(f"inline {stage}")


@dataclass(frozen=True)
class LeaveToThreads:
    """Do not tile a stage with few results of many terms: the threads of a block reduce together.

    Paper, §4.1; the sketch with tiles is made as well.
    """

    def verdict(self, partial: PartialSketch, stage: str) -> Verdict:
        """Return whether `stage` would be tiled though it has fewer results than terms."""
        candidate = partial.stage(stage)
        is_short = results_of(candidate.op) <= min(MAX_RESULTS, terms_of(candidate))
        return Verdict.APPLY if is_short and is_tiled_first(partial, stage) else Verdict.SKIP

    def expand(self, partial: PartialSketch, stage: str) -> Iterator[PartialSketch]:
        """Yield the sketch with the stage as it is."""
        yield partial.with_trace(f"reduce {stage} by threads")


@dataclass(frozen=True)
class ReductionWay:
    """How the long reductions of a sketch that no rule has tiled are divided among threads."""

    threads: int = 0
    """Threads that make one result together; 0: one thread makes it."""
    with_rows: bool = False
    """Whether they compute the rows of the reader as well."""
    parts: int = 0
    """Parts of a reduction that blocks make first; 0: none."""
    is_transposed: bool = False
    """Whether tiles are turned round in shared memory, where something is transposed."""


@memoize
def ways_on_gpu(sketch: Sketch) -> tuple[ReductionWay, ...]:
    """Return the ways in which `sketch` may be completed.

    Two of them may come to the same, and one to nothing.
    """
    partial = PartialSketch.of(sketch)
    ways = [ReductionWay()]
    reductions = long_reductions(partial)
    terms = [terms_of(stage) for stage in reductions]
    together = [threads for threads in THREADS if threads < 2 * max(terms, default=0)]
    has_rows = row_reader(partial, reductions) is not None
    for threads in together:
        is_by_rows = has_rows and threads < 2 * min(terms)
        ways += [ReductionWay(threads, rows) for rows in (False, True)[: 1 + is_by_rows]]
    for parts in PARTS if together else ():
        if any(is_divisible(stage, parts) for stage in reductions):
            ways += [ReductionWay(threads, parts=parts) for threads in (0, *THREADS[:3])]
    if transpose_via_shared(partial) is not None:
        ways.append(ReductionWay(is_transposed=True))
    return tuple(ways)


def complete_on_gpu(sketch: Sketch, way: ReductionWay) -> Sketch | None:
    """Return `sketch` with all stages bound to blocks and threads in `way`, and its choices.

    None if the way is none for it.
    """
    partial: PartialSketch | None = PartialSketch.of(sketch)
    if way.parts:
        partial = in_parts(partial, way.parts)
    if way.is_transposed and partial is not None:
        partial = transpose_via_shared(partial)
    if way.threads and partial is not None:
        make = with_rows if way.with_rows else reduce_together
        partial = make(partial, way.threads)
    return None if partial is None else _with_choices(bind_untiled_stages(partial))


def complete_in_all_ways(sketch: Sketch) -> tuple[Sketch, ...]:
    """Return `sketch` completed in all ways, those that come to the same once."""
    completions = (complete_on_gpu(sketch, way) for way in ways_on_gpu(sketch))
    return tuple({whole.steps: whole for whole in completions if whole is not None}.values())


def _with_choices(partial: PartialSketch) -> Sketch:
    """Return the sketch with limits of unrolling to choose for its reductions."""
    choices: list[Choice] = [
        UnrollLimit(stage.name, UNROLL_LIMITS)
        for stage in partial.state.stages
        if not stage.is_inlined and stage.op.reduce_axes and not is_by_matrix_units(stage)
    ]
    return partial.sketch(tuple(choices))
