"""Find the pass that makes a program wrong: run the interpreter, and compare with float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ansorc.codegen.build import prepare
from ansorc.errors import FaultError, IRError
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.ir.packing import Packing
from ansorc.ir.stmt import For, Function, Stmt, substatements
from ansorc.lang.dag import ComputeDAG
from ansorc.search.measure.check import Expectation, expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.task import Task

_MOST_SHOWN = 5
_STATEMENT_S = 5e-7
"""The interpreter's seconds for one statement, about."""


@dataclass(frozen=True)
class PassStage:
    """A program on its way through the passes."""

    name: str
    """The name of the pass that made it; "lowering" for the first one."""
    function: Function


@dataclass(frozen=True)
class Finding:
    """The result of the search for the wrong pass."""

    stages: tuple[PassStage, ...]
    """The program as lowered, and after each pass that changed it."""
    wrong: int | None
    """The first stage whose results differ; None if the last one's are right."""
    complaint: str = ""
    """The fault: the elements that are wrong, or why it cannot be run."""


def bisect_passes(
    task: Task,
    lowered: Function,
    layouts: Sequence[Packing] = (),
    on_run: Callable[[PassStage, str], None] = lambda _, __: None,
    seed: int = 0,
) -> Finding:
    """Return the first pass after which `lowered`, a program of `task`, computes something else.

    Its constants are packed as `layouts` say. A pass keeps what a program computes, so the last
    program is run first; if it is wrong, the stages before it are bisected. `on_run` is told of
    each stage that was run, and what is wrong with it. Inputs are drawn by `seed`. Raise
    InternalError for a pass that fails.
    """
    stages = _stages(lowered, task)
    experiment = _Experiment(task, layouts, seed)

    def complaint(number: int) -> str:
        words = experiment.complaint(stages[number].function)
        on_run(stages[number], words)
        return words

    last = len(stages) - 1
    words = complaint(last)
    if not words:
        return Finding(stages, None)
    low, high = -1, last  # all up to `low` are right, `high` is wrong
    while high - low > 1:
        middle = 0 if low < 0 else (low + high) // 2  # lowering first: then no pass is at fault
        fault = complaint(middle)
        if fault:
            high, words = middle, fault
        else:
            low = middle
    return Finding(stages, high, words)


def interpreter_seconds(function: Function) -> float:
    """Return about how long the interpreter takes for `function`."""
    return _statements(function.body) * _STATEMENT_S


def _statements(stmt: Stmt) -> int:
    inner = sum(map(_statements, substatements(stmt))) or 1
    return stmt.extent * inner if isinstance(stmt, For) else inner


def _stages(lowered: Function, task: Task) -> tuple[PassStage, ...]:
    stages = [PassStage("lowering", lowered)]

    def note(name: str, function: Function) -> None:
        if function != stages[-1].function:
            stages.append(PassStage(name, function))

    prepare(lowered, task.target, note)
    return tuple(stages)


class _Experiment:
    """Inputs of a task, and what its outputs must be."""

    def __init__(self, task: Task, layouts: Sequence[Packing], seed: int) -> None:
        self._dag: ComputeDAG = task.dag
        drawn = draw_with_rounding(task, np.random.default_rng(seed))
        inputs, self._references, self._roundings = drawn
        packed = {packing.source.name: packing for packing in layouts}
        self._inputs: dict[str, Array] = {
            buffer.name: packed[buffer.name].apply(array) if buffer.name in packed else array
            for buffer, array in zip(task.dag.inputs, inputs, strict=True)
        }

    @cached_property
    def _expected(self) -> dict[str, Expectation]:
        names = [buffer.name for buffer in self._dag.outputs]
        expected = expectations(self._dag, self._references, self._roundings)
        return dict(zip(names, expected, strict=True))

    def complaint(self, function: Function) -> str:
        """Return what is wrong with the results of `function`, "" if nothing is."""
        arrays = [
            self._inputs[buffer.name].copy()
            if buffer.name in self._inputs
            else np.zeros(buffer.shape, buffer.dtype.numpy)
            for buffer in self._dag.arguments
        ]
        try:
            interpret(function, arrays, fresh_outputs=True)
        except (IRError, FaultError) as error:
            return str(error)
        pairs = zip(self._dag.arguments, arrays, strict=True)
        named = {buffer.name: array for buffer, array in pairs}
        named |= {new: named[old] for new, old in self._dag.updates.items()}
        words = (
            _wrong(name, expectation, named[name]) for name, expectation in self._expected.items()
        )
        return "\n".join(filter(None, words))


def _wrong(name: str, expected: Expectation, actual: Array) -> str:
    """Return which elements of an output differ from the reference, in words."""
    if not expected.compare(actual).complaint:
        return ""
    places: NDArray[np.int64] = expected.wrong_places(actual)
    reference = expected.reference
    lines = [
        f"{len(places)} of {actual.size} elements of {name} differ from the float64 reference:"
    ]
    for offset in places[:_MOST_SHOWN]:
        index = ", ".join(
            str(int(coordinate)) for coordinate in np.unravel_index(int(offset), actual.shape)
        )
        got, wanted = actual.reshape(-1)[offset], reference.reshape(-1)[offset]
        lines.append(f"  {name}[{index}] is {got}, not {wanted:.9g}")
    more = len(places) - _MOST_SHOWN
    return "\n".join((*lines, *([f"  and {more} more"] if more > 0 else [])))
