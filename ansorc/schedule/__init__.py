"""How a tensor program is computed: States, the steps that change them, and their lowering.

In: a ComputeDAG and steps. Out: a State, its bounds for one program or a population, and the loop
program (`ir.Function`) that `lower` makes of it.
"""

from ansorc.schedule.extent import Extent, Hole, IntArray, Tiles
from ansorc.schedule.genes import fill_holes, steps_from_json, steps_to_json
from ansorc.schedule.layout import packings
from ansorc.schedule.lower import lower
from ansorc.schedule.names import Names
from ansorc.schedule.schedule import Schedule, replay, schedule
from ansorc.schedule.state import State, Step

__all__ = [
    "Extent", "Hole", "IntArray", "Names", "Schedule", "State", "Step", "Tiles", "fill_holes",
    "lower", "packings", "replay", "schedule", "steps_from_json", "steps_to_json",
]  # fmt: skip
