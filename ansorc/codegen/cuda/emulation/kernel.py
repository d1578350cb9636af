"""A kernel or a network in this process, emulated: what a call launches, on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.codegen.program.launch_plan import LaunchPlan
from ansorc.ir.aligned import Array


class EmulatedKernel:
    """A program in this process; see `base.LoadedKernel`."""

    def __init__(self, code: CompiledProgram) -> None:
        self._plan = code.device_program.plan
        self._program = EmulatedProgram(code.image)

    def bind(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> BoundEmulatedProgram:
        """Return the program on arrays; `threads` means nothing: one runs all blocks."""
        return BoundEmulatedProgram(self._program, arrays, workspace, self._plan)

    def close(self) -> None:
        """Free the code."""
        self._program.close()


class EmulatedNetwork:
    """A network in this process, emulated; see `base.LoadedNetwork`."""

    def __init__(self, code: CompiledProgram, weights: Array) -> None:
        self._plan = code.device_program.plan
        self._program = EmulatedProgram(code.image)
        self._weights = weights

    def bind(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> BoundEmulatedProgram:
        """Return the network on arrays; `threads` means nothing: one runs all blocks."""
        return BoundEmulatedProgram(
            self._program, self._with_weights(arrays), workspace, self._plan
        )

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return its status and the seconds of each of its calls here."""
        launches = np.zeros(max(1, len(self._plan.launches)))
        status = self._program.run(self._with_weights(arrays), workspace, seconds=launches)
        status = status or read_status(self._plan, workspace)
        ends = np.cumsum(self._plan.calls)
        parts = np.split(launches[: len(self._plan.launches)], ends[:-1])
        return status, [float(part.sum()) for part in parts]

    def close(self) -> None:
        """Free the code."""
        self._program.close()

    def _with_weights(self, arrays: Sequence[Array]) -> list[Array]:
        return [*arrays, self._weights] if self._weights.nbytes else list(arrays)


def read_status(plan: LaunchPlan, workspace: int | None) -> int:
    """Return the status of the check that failed, by the workspace of a call that is over."""
    if not plan.fault_statuses or workspace is None:
        return 0
    number = ctypes.c_int64.from_address(workspace + plan.fault_place).value
    return plan.fault_statuses[number - 1] if number else 0


class BoundEmulatedProgram:
    """A program on arrays; see `base.BoundKernel`."""

    def __init__(
        self,
        program: EmulatedProgram,
        arrays: Sequence[Array],
        workspace: int | None,
        plan: LaunchPlan,
    ) -> None:
        self._program, self._arrays, self._workspace = program, arrays, workspace
        self._plan = plan

    def run(self, calls: int) -> int:
        """Run it so many times; raise CallError in words if the program is wrong."""
        status = self._program.run(self._arrays, self._workspace, calls)
        return status or read_status(self._plan, self._workspace)

    def fetch(self) -> None:
        """The results are in the arrays already."""
