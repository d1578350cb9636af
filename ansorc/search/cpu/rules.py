"""The sketch rules for a CPU, and the whole programs that their sketches make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ansorc.search.options import DEFAULTS, SearchOptions, SpaceName
from ansorc.search.paper.space import PAPER_PLACEMENT, paper_rules, rules_of_limited_space
from ansorc.search.sketch.complete import BEST_PLACES, Placement, place_stages
from ansorc.search.sketch.digits import TermsOfDigits
from ansorc.search.sketch.dot_product import TensorizeDotProduct, is_tensorized
from ansorc.search.sketch.extreme_blocks import ExtremesInBlocks
from ansorc.search.sketch.matrix_product import TileMatrixProduct
from ansorc.search.sketch.operand_layout import pack_operand, rewrite_layouts
from ansorc.search.sketch.private_copies import KeepRanges, PrivateCopies
from ansorc.search.sketch.redefined import Redefined, definitions_of, is_redefined
from ansorc.search.sketch.rfactor import AddRfactor, TuplesInLanes, with_lengths
from ansorc.search.sketch.rows_in_ranges import RowsInRanges
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.rules import (
    AddCacheWrite,
    AlwaysInline,
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    Skip,
)
from ansorc.search.sketch.scan_blocks import ScanInBlocks
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.sketch.tiling import SSRSRS, Tiling
from ansorc.search.sketch.tiling_variants import (
    FuseInterleavedConsumer,
    FuseProductChain,
    FuseRowReductions,
    LaneReductionTiling,
)
from ansorc.search.sketch.user_rules import user_rule_of
from ansorc.search.sketch.widened import WidenFactors


def cpu_rules(tiling: Tiling = SSRSRS) -> tuple[SketchRule, ...]:
    """Return the rules for a CPU, in the order in which they are asked."""
    return (
        AlwaysInline(),
        RowsInRanges(),
        KeepRanges(),
        PrivateCopies(),
        SimplifyConstIndices(),
        TileMatrixProduct(),
        TensorizeDotProduct(),
        WidenFactors(),
        Redefined(),
        ScanInBlocks(),
        TermsOfDigits(),
        ExtremesInBlocks(),
        AddRfactor(),
        TuplesInLanes(),
        LaneReductionTiling(tiling),
        FuseRowReductions(tiling),
        FuseProductChain(tiling),
        FuseInterleavedConsumer(tiling),
        AddCacheWrite(),
        MultiLevelTilingWithFusion(tiling),
        MultiLevelTiling(tiling),
        Skip(),
    )


RULES = cpu_rules()

_SPACES: Mapping[SpaceName, tuple[Callable[[Tiling], tuple[SketchRule, ...]], Placement]] = (
    MappingProxyType({
        "full": (cpu_rules, BEST_PLACES),
        "paper": (paper_rules, PAPER_PLACEMENT),
        "limited": (rules_of_limited_space, BEST_PLACES),
    })
)  # fmt: skip
"""The rules of each space, and the places of its stages."""


def rules_of(options: SearchOptions = DEFAULTS) -> tuple[SketchRule, ...]:
    """Return the rules that a search with `options` asks, in their order."""
    make, _ = _SPACES[options.space]
    rules = make(tiling_of(options))
    if not options.redefine:
        rules = tuple(
            r
            for r in rules
            if not isinstance(
                r, Redefined | ScanInBlocks | TermsOfDigits | ExtremesInBlocks | WidenFactors
            )
        )
    if not options.rewrite_layout:
        rules = tuple(
            replace(r, lays_out=False)
            if isinstance(r, TileMatrixProduct | TensorizeDotProduct)
            else r
            for r in rules
        )
    return rules


def tiling_of(options: SearchOptions) -> Tiling:
    """Return the multi-level tiling that `options` ask for."""
    is_wide = options.is_simd_aware and options.space == "full"
    return Tiling(
        options.structure, options.max_innermost_factor, options.max_innermost_reduce,
        innermost_vectors=32 if is_wide else 0, has_ragged_tiles=is_wide,
        joins_short_rows=is_wide,
    )  # fmt: skip


def complete_on_cpu(
    derived: Sequence[Sketch], options: SearchOptions
) -> Iterator[tuple[Sketch, Iterator[Sketch]]]:
    """Yield each derived sketch with its whole ones.

    There is one for each way to place the stages that are not tiled, at most
    `options.max_locations` in all unless there are more derived sketches than that (and half as
    many again of each other definition); and so for the variants with an operand packed in the
    kernel. Constant operands of tiles are laid out in the tiles' order, unless the options say
    otherwise. Those of a dot-product instruction have neither: their rule decides what is packed.
    The limited space has none of these but the layout.
    """
    if options.space == "paper":
        limit, most = options.max_innermost_reduce, options.max_locations // max(1, len(derived))
        derived = tuple(s for d in derived for s in with_lengths(d, limit, max(1, most)))
    share = max(1, options.max_locations // max(1, sum(map(_is_usual, derived))))
    others = Counter(map(definitions_of, derived))
    for sketch in derived:
        made = definitions_of(sketch)
        few = max(1, options.max_locations // (2 * others[made]))
        yield sketch, _programs(sketch, few if made else share, options)


def _is_usual(sketch: Sketch) -> bool:
    """Return whether `sketch` keeps the definition and is made by built-in rules."""
    is_special = is_redefined(sketch) or is_tensorized(sketch)
    return not is_special and user_rule_of(sketch) is None


def _programs(sketch: Sketch, share: int, options: SearchOptions) -> Iterator[Sketch]:
    """Yield the whole sketches that complete the structure `sketch`."""
    _, placement = _SPACES[options.space]
    laid = (
        rewrite_layouts(sketch) if options.rewrite_layout and not is_tensorized(sketch) else sketch
    )
    is_packed = options.space != "full" or is_tensorized(sketch)
    for variant in (laid, *(() if is_packed else pack_operand(laid))):
        yield from place_stages(variant, share, options.unroll_limits, placement)
