"""Space: every sketch of a computation, ready to draw programs from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.lang.dag import ComputeDAG
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.add_open_rfactor import with_lengths
from ansorc.search.sketch.complete import completed
from ansorc.search.sketch.dot_product import dot_sketches
from ansorc.search.sketch.generate import RuleFailure, cpu_rules, generate, paper_rules
from ansorc.search.sketch.layout_rewrite import laid_out
from ansorc.search.sketch.packing import packed
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.tiling import Tiling
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class Space:
    """The programs of `dag` that the search may propose, as sketches with holes."""

    dag: ComputeDAG
    target: Target
    sketches: tuple[Sketch, ...]
    failures: tuple[RuleFailure, ...] = ()
    """The rules that raised an error, each having cost its own sketches only."""


def design_space(
    dag: ComputeDAG,
    target: Target,
    options: SearchOptions = DEFAULTS,
    rules: Sequence[SketchRule] | None = None,
) -> Space:
    """Return the space of `dag` for `target`, derived by `rules` (default: `sketch_rules`).

    Each derived sketch appears once for each way to place the stages that are not tiled, at most
    `options.max_locations` in all unless there are more derived sketches than that; and so do
    their variants with an operand packed in the kernel. Constant operands of tiles are laid out
    in the tiles' order, unless the options say otherwise. The usual rules also bring the sketches
    of a dot-product instruction where one fits.
    """
    failures: list[RuleFailure] = []
    derived = generate(dag, target, sketch_rules(options) if rules is None else rules, failures)
    if not options.has_extensions:
        limit = options.max_innermost_reduce
        derived = tuple(s for sketch in derived for s in with_lengths(sketch, limit))
    share = max(1, options.max_locations // max(1, len(derived)))
    if options.rewrite_layout:
        derived = tuple(laid_out(sketch) for sketch in derived)
    if options.has_extensions:
        derived = tuple(s for sketch in derived for s in (sketch, *packed(sketch)))
        derived = (*(dot_sketches(dag, target) if rules is None else ()), *derived)
    sketches = tuple(
        whole
        for sketch in derived
        for whole in completed(
            sketch, share, options.unroll_limits, has_extensions=options.has_extensions
        )
    )
    return Space(dag, target, sketches, tuple(failures))


def sketch_rules(options: SearchOptions = DEFAULTS) -> tuple[SketchRule, ...]:
    """Return the rules that a search with `options` asks, in their order."""
    rules = cpu_rules if options.has_extensions else paper_rules
    return rules(tiling_of(options))


def tiling_of(options: SearchOptions) -> Tiling:
    """Return the multi-level tiling that `options` ask for."""
    return Tiling(
        options.structure, options.max_innermost_factor, options.max_innermost_reduce,
        innermost_vectors=32 if options.is_simd_aware else 0,
        has_ragged_tiles=options.is_simd_aware,
    )  # fmt: skip
