"""DecomposeReduction: where a reduction stores what its results begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.schedule.state import State, Step
from ansorc.schedule.thread_places import require_initial_fits


@dataclass(frozen=True)
class DecomposeReduction(Step):
    """Store what a reduction begins with in a nest of its own, directly before one of its loops.

        for i:                              for i: C[i] = 0
            C[i] = 0                  ->    for i:
            for k: C[i] += A[i, k]              for k: C[i] += A[i, k]

    with the iterator "i". Inside of a loop over terms it happens in that loop's first iteration
    alone. Parts of the iterator, and what it is fused to from the left, take its place. Without the
    step the loop is chosen, so that a tile of results stays in registers.
    """

    iterator: str

    def apply(self, state: State) -> State:
        """Return the state with the place of the identities set, replacing an earlier one."""
        stage = self.stage_of(state)
        self.position_of(state, stage, self.iterator)
        self.require(
            state, f"'{self.stage}' is not a reduction, so it begins with nothing",
            condition=stage.op.combiner is not None,
        )  # fmt: skip
        self.require(
            state, f"the terms of '{self.stage}' go to places, so all its results are stored "
            "before the first of its loops over terms", condition=not stage.op.places,
        )  # fmt: skip
        after = state.with_stage(replace(stage, initial=self.iterator))
        require_initial_fits(self, state, after)
        return after
