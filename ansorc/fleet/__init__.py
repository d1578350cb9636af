"""Measuring on many machines, by Dask distributed: a `Fleet` is `Machines` for the search.

The tuner stays on its machine: `Fleet` (tuner) -> `Dispatcher` (assigns jobs) -> `engine` (the only
user of Dask) -> signed bytes -> `FleetDevice` (on each machine), which measures in the same worker
processes as without a fleet. `docs/fleet.md` is the guide.
"""

from ansorc.fleet.board import Board
from ansorc.fleet.fleet import Fleet

__all__ = ["Board", "Fleet"]
