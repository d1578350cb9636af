"""Derivation of program structures, after Table 1 of the paper.

In: a ComputeDAG and a target. Out: sketches, programs whose tile lengths and choices are open.
"""

from ansorc.search.sketch.complete import completed
from ansorc.search.sketch.generate import (
    RULES,
    RuleFailure,
    cpu_rules,
    generate,
    register_sketch_rule,
    unregister_sketch_rule,
    user_rule_of,
    with_user_rules,
)
from ansorc.search.sketch.rule import PartialSketch, SketchRule, Verdict, rule_name
from ansorc.search.sketch.sketch import (
    Application,
    Choice,
    ParallelLoops,
    RegisterTile,
    Sketch,
    TileVariable,
    UnrollLimit,
)
from ansorc.search.sketch.tiling import Tiling

__all__ = [
    "RULES", "Application", "Choice", "ParallelLoops", "PartialSketch", "RegisterTile",
    "RuleFailure", "Sketch", "SketchRule", "TileVariable", "Tiling", "UnrollLimit", "Verdict",
    "completed", "cpu_rules", "generate", "register_sketch_rule", "rule_name",
    "unregister_sketch_rule", "user_rule_of", "with_user_rules",
]  # fmt: skip
