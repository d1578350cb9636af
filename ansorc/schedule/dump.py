"""Write a schedule to the files of `ANSORC_DUMP`: the computation, the steps, the loops."""

from __future__ import annotations

from ansorc.ir.dump import DumpFolder
from ansorc.schedule.state import State


def write_schedule(dump: DumpFolder, state: State) -> None:
    """Write the computation, the steps of `state` one a line, and its nested loops."""
    dump.write("dag", state.dag.to_text())
    dump.write("steps", "\n".join(map(str, state.steps)) or "none")
    dump.write("schedule", str(state))
