"""The space of templates written by hand, for comparison (Figure 7 of the paper).

Such a template has one structure for an operator: no local copies, no reductions in shares, no
packed operands, and each stage in one place.
"""

from __future__ import annotations

from ansorc.search.sketch.inline import AlwaysInline
from ansorc.search.sketch.multi_level_tiling import MultiLevelTiling
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.simplify_const_indices import SimplifyConstIndices
from ansorc.search.sketch.skip import Skip
from ansorc.search.sketch.tiling import Tiling
from ansorc.search.sketch.tiling_with_fusion import MultiLevelTilingWithFusion


def limited_rules(tiling: Tiling) -> tuple[SketchRule, ...]:
    """Return the rules for a CPU less those that change the computation, with one place to fuse."""
    return (
        AlwaysInline(),
        SimplifyConstIndices(),
        MultiLevelTilingWithFusion(tiling, levels=(1,)),
        MultiLevelTiling(tiling),
        Skip(),
    )
