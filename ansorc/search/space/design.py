"""Space: every sketch of a computation, ready to draw programs from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.lang.dag import ComputeDAG
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.complete import completed
from ansorc.search.sketch.dot_product import dot_sketches
from ansorc.search.sketch.generate import RuleFailure, cpu_rules, generate
from ansorc.search.sketch.layout_rewrite import laid_out
from ansorc.search.sketch.limited import limited_rules
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
    """Return the space of `dag` for `target`, derived by `rules` (default: those for a CPU).

    Each derived sketch appears once for each way to place the stages that are not tiled, at most
    `options.max_locations` in all unless there are more derived sketches than that; and so do
    their variants with an operand packed in the kernel. Constant operands of tiles are laid out
    in the tiles' order, unless the options say otherwise. The usual rules also bring the sketches
    of a dot-product instruction where one fits. The limited space has none of these but the layout.
    """
    failures: list[RuleFailure] = []
    is_limited = options.space == "limited"
    usual = limited_rules if is_limited else cpu_rules
    chosen = usual(tiling_of(options)) if rules is None else rules
    derived = generate(dag, target, chosen, failures)
    share = max(1, options.max_locations // max(1, len(derived)))
    if options.rewrite_layout:
        derived = tuple(laid_out(sketch) for sketch in derived)
    if not is_limited:
        derived = tuple(s for sketch in derived for s in (sketch, *packed(sketch)))
    dots = dot_sketches(dag, target) if rules is None and not is_limited else ()
    sketches = tuple(
        s for d in (*dots, *derived) for s in completed(d, share, options.unroll_limits)
    )
    return Space(dag, target, sketches, tuple(failures))


def tiling_of(options: SearchOptions) -> Tiling:
    """Return the multi-level tiling that `options` ask for."""
    is_wide = options.is_simd_aware and options.space == "full"
    return Tiling(
        options.structure, options.max_innermost_factor, options.max_innermost_reduce,
        innermost_vectors=32 if is_wide else 0, has_ragged_tiles=is_wide,
    )  # fmt: skip
