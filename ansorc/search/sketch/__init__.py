"""Derivation of program structures, after Table 1 of the paper.

In: a ComputeDAG and a target. Out: sketches, programs whose tile lengths and choices are open.
"""

from ansorc.search.sketch.complete import place_stages
from ansorc.search.sketch.generate import RuleFailure, generate
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
from ansorc.search.sketch.user_rules import user_rule_of, with_user_rules

__all__ = [
    "Application",
    "Choice",
    "ParallelLoops",
    "PartialSketch",
    "RegisterTile",
    "RuleFailure",
    "Sketch",
    "SketchRule",
    "TileVariable",
    "Tiling",
    "UnrollLimit",
    "Verdict",
    "generate",
    "place_stages",
    "rule_name",
    "user_rule_of",
    "with_user_rules",
]  # fmt: skip
