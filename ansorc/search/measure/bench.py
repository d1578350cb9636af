"""A task's arrays in the run worker, and what its outputs must be."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ansorc.ir.packing import Packing
from ansorc.search.measure.check import Expectation, Reference, tolerance
from ansorc.search.measure.guarded import GuardedArray, guarded_copy
from ansorc.search.measure.packed import PackedConstants
from ansorc.search.task import Task
from ansorc.target import Target


@dataclass(frozen=True)
class Output:
    """An output array and what it must hold."""

    memory: GuardedArray
    reference: Reference
    expectation: Expectation


@dataclass(frozen=True)
class Bench:
    """All arrays of a task in guarded memory; the inputs cannot be written."""

    target: Target
    names: tuple[str, ...]
    """Those of `params`."""
    params: tuple[GuardedArray, ...]
    outputs: tuple[Output, ...]
    packed: PackedConstants = field(default_factory=PackedConstants)

    def arrays(self, packings: Sequence[Packing] = ()) -> tuple[GuardedArray, ...]:
        """Return the arrays in call order, with those constants packed that `packings` name."""
        layouts = {packing.source.name: packing for packing in packings}
        return tuple(
            self.packed.get(layouts[name], guarded.array) if name in layouts else guarded
            for name, guarded in zip(self.names, self.params, strict=True)
        )

    @property
    def nbytes(self) -> int:
        """The memory that all of it takes."""
        own = sum(guarded.nbytes for guarded in self.params) + self.packed.nbytes
        return own + sum(2 * output.reference.nbytes for output in self.outputs)

    def poison(self) -> None:
        """Overwrite all outputs."""
        for output in self.outputs:
            output.memory.poison()

    def check(self) -> tuple[float, str]:
        """Compare what the outputs hold; return (largest error, complaint or an empty string)."""
        worst = 0.0
        for output in self.outputs:
            if not output.memory.is_intact():
                return worst, "candidate rejected: it wrote outside its output"
            verdict = output.expectation.compare(output.memory.array)
            worst = max(worst, verdict.max_error)
            if verdict.complaint:
                return worst, verdict.complaint
        return worst, ""


class Benches:
    """The arrays of the tasks that took the last turns, by directory, in `kept_bytes` or one."""

    def __init__(self, kept_bytes: int = 256 << 20) -> None:
        self._kept_bytes = kept_bytes
        self._known: OrderedDict[str, Bench] = OrderedDict()

    def get(self, directory: str) -> Bench:
        """Return what `TaskData` wrote to `directory`, loaded unless it is known."""
        if directory not in self._known:
            self._drop(self._kept_bytes // 2)  # room for the new one
            self._known[directory] = load_bench(Path(directory))
        self._known.move_to_end(directory)
        self._drop(self._kept_bytes, least=1)
        return self._known[directory]

    def _drop(self, most_bytes: int, least: int = 0) -> None:
        while len(self._known) > least and self._bytes() > most_bytes:
            self._known.popitem(last=False)

    def _bytes(self) -> int:
        return sum(bench.nbytes for bench in self._known.values())


def load_bench(directory: Path) -> Bench:
    """Load what `TaskData` wrote to `directory`."""
    task = Task.from_json((directory / "task.json").read_text())
    arrays: dict[str, GuardedArray] = {}
    for index, buffer in enumerate(task.dag.inputs):
        stored = np.load(directory / f"input_{index}.npy", mmap_mode="r")
        # a file does not tell the types that NumPy lacks
        arrays[buffer.name] = guarded_copy(stored.view(buffer.dtype.numpy))
    outputs: list[Output] = []
    for index, buffer in enumerate(task.dag.outputs):
        memory = arrays[buffer.name] = GuardedArray(buffer.shape, buffer.dtype.numpy)
        reference = np.load(directory / f"reference_{index}.npy").astype(np.float64, copy=False)
        allowed = tolerance(task.dag, buffer.name, reference)
        expectation = Expectation(reference, allowed)
        outputs.append(Output(memory, reference, expectation))
    names = tuple(buffer.name for buffer in task.dag.params)
    return Bench(task.target, names, tuple(arrays[name] for name in names), tuple(outputs))
