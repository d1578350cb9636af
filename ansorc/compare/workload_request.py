"""The request to a side of `ansorc bench`, and the program that the side makes for it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.compare.program import SideProgram, Unsupported
from ansorc.ir.aligned import Array
from ansorc.lang.dag import ComputeDAG
from ansorc.search.programs import ProgramChoice
from ansorc.search.task import Task


@dataclass(frozen=True)
class WorkloadRequest:
    """The workload that a side is to prepare."""

    path: Path
    """The Python file of an operator, or the ONNX file of a network."""
    name: str
    """The name of the operator; empty for a network."""
    task: str
    """The operator as `Task.to_json` wrote it; empty for a network."""
    inputs: Mapping[str, Array]
    """By name, in call order; of a network without those that are constants."""
    constants: Mapping[str, Array]
    """Inputs of a network that always have the same values."""
    choice: ProgramChoice
    """Which of ansorc's programs is meant, and with how many threads every side computes."""

    @property
    def dag(self) -> ComputeDAG:
        """The definition of the operator."""
        return Task.from_json(self.task).dag

    def beside(self, suffix: str, wanted: str) -> Any:
        """Return what stands beside the operator in its file; raise Unsupported if nothing does."""
        if not self.name:
            raise Unsupported(f"it reads no {self.path.suffix} files")
        held = runpy.run_path(str(self.path), run_name="ansorc_workload")
        value = held.get(f"{self.name}_{suffix}")
        if value is None:
            raise Unsupported(
                f"{self.path.name} has no '{self.name}_{suffix}'; write {wanted} there"
            )
        return value


@dataclass(frozen=True)
class WorkloadProgram:
    """A program, and all of its results in their order."""

    program: SideProgram
    outputs: Callable[[], Sequence[Array]]


Make: TypeAlias = Callable[[], WorkloadProgram]


def wrap_call(name: str, call: Callable[[], Any]) -> WorkloadProgram:
    """Return a program that calls a function whose result is an array or tensor, or several."""
    held: list[Any] = []

    def run() -> None:
        held[:] = [call()]

    def outputs() -> list[Array]:
        result: Any = held[0]
        several = cast("Sequence[Any]", result if isinstance(result, (tuple, list)) else (result,))
        return [np.asarray(output) for output in several]

    return WorkloadProgram(SideProgram(name, run, lambda: outputs()[0]), outputs)
