"""RewriteLayout: keep a constant input in the order in which its reader walks over it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.schedule.bounds import unfit_layout
from ansorc.schedule.state import Renaming, State, Step


@dataclass(frozen=True)
class RewriteLayout(Step):
    """Let the kernel take a constant input in the order in which `stage` reads it.

        for j.0: for k: for j.1:             for j.0: for k: for j.1:
            C[j.0 * 16 + j.1] +=       ->        C[j.0 * 16 + j.1] +=
                B[k, j.0 * 16 + j.1]                 B[j.0, k, j.1]

    The layout follows the loops of the finished program, whichever steps make them. The tensor is
    packed (`Packing`) once, before the first call, and not by the program.
    """

    keeps_arrays = False

    tensor: str

    def rename(self, names: Renaming) -> RewriteLayout:
        """Return the step with its stage and tensor renamed as in `names.target`."""
        return replace(super().rename(names), tensor=names.tensor(self.tensor))

    def apply(self, state: State) -> State:
        """Return the state in which the layout of the tensor follows the stage."""
        stage = self.stage_of(state)
        source = next((b for b in state.dag.inputs if b.name == self.tensor), None)
        if source is None:
            names = ", ".join(f"'{buffer.name}'" for buffer in state.dag.inputs)
            self.refuse(
                state, f"'{self.tensor}' is not an input; the inputs are {names} (cache_read packs "
                "what is computed)",
            )  # fmt: skip
        self.require(
            state, f"'{self.tensor}' is not constant, so it cannot be packed once for all calls; "
            "declare it with placeholder(..., constant=True), or use cache_read to pack it in "
            "each call",
            condition=source.constant,
        )  # fmt: skip
        self.require(
            state, f"the layout of '{self.tensor}' is rewritten already",
            condition=self.tensor not in state.rewritten,
        )  # fmt: skip
        self.require(
            state, f"'{stage.name}' does not read '{self.tensor}'",
            condition=stage in state.readers(self.tensor),
        )  # fmt: skip
        complaint = unfit_layout(state, self.tensor)
        self.require(state, complaint, condition=not complaint)
        return replace(state, rewritten=(*state.rewritten, self.tensor))
