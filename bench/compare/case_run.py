"""One case: make inputs and reference, let each side prepare, check all, time them in turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import ansorc as ac
from ansorc.compare.serving import JsonFields
from ansorc.compare.side import Gap, Side
from ansorc.compare.turns import Medians, Turns, take_turns
from ansorc.lang.dag import ComputeDAG
from ansorc.search.measure.check import expectations
from ansorc.search.measure.data import draw_with_rounding
from bench.compare.result import CaseResult, SideResult
from bench.paper_cases import Case

_SEED = 2024
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much is tuned and how long is timed."""

    threads: int
    trials: int
    directory: Path
    turns: int = 15
    min_turns: int = 5
    turn_s: float = 0.03
    """What one side is timed for in a turn, about."""
    enough_s: float = 60.0
    """After so long, no more than `min_turns` turns are begun."""
    trial_s: float = 20.0
    """A side that tunes is given so long for each trial…"""
    prepare_s: float = 900.0
    """… and this for everything else."""

    @property
    def patience_s(self) -> float:
        """How long a side may prepare a case."""
        return self.prepare_s + self.trials * self.trial_s


@dataclass
class _Entry:
    """A side that takes part in the case, and what is known of it."""

    side: Side
    result: SideResult
    times: Medians = field(default_factory=dict[str, list[float]])


def run_case(case: Case, sides: Sequence[Side], limit: Side, plan: Plan, say: Say) -> CaseResult:
    """Return what the sides reached on `case`; a side that fails is a gap of the result."""
    dag = case.dag(constant=True)
    with _emptied(plan.directory / "arrays") as arrays:
        arena = _Arena(case, dag, arrays, plan)
        entries = [_Entry(side, arena.prepare(side, say)) for side in sides]
        bound = _Entry(limit, arena.prepare(limit, say, is_limit=True))
        say(f"{case.name}: timing in turns")
        _take_turns([*entries, bound], plan)
    return CaseResult(
        case.name,
        case.operator,
        plan.threads,
        plan.trials,
        dag.flops,
        sum(buffer.bytes for buffer in dag.params),
        bound.result.program,
        tuple(bound.times.get("seconds", ())),
        {entry.side.info.name: _finished(entry) for entry in entries},
    )


@contextmanager
def _emptied(directory: Path) -> Iterator[Path]:
    """Make the directory, without what a run that was killed left there, and remove it after."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    try:
        yield directory.absolute()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Arena:
    """The inputs of a case as files, and its reference."""

    def __init__(self, case: Case, dag: ComputeDAG, directory: Path, plan: Plan) -> None:
        self._case, self._directory, self._plan = case, directory, plan
        task = ac.Task(dag, "native", "case")
        inputs, references, roundings = draw_with_rounding(task, np.random.default_rng(_SEED))
        self._inputs: list[str] = []
        for index, array in enumerate(inputs):
            self._inputs.append(str(directory / f"input_{index}.npy"))
            np.save(self._inputs[-1], array)
        self._shape = references[0].shape
        self._expectation = expectations(dag, references, roundings)[0]

    def prepare(self, side: Side, say: Say, *, is_limit: bool = False) -> SideResult:
        """Let a side prepare the case and check its numbers."""
        say(f"{self._case.name}: {side.info.label} prepares")
        output = self._directory / "output.npy"
        message = {
            "do": "prepare",
            "case": self._case.name,
            "operator": self._case.operator,
            "shape": self._case.shape,
            "inputs": self._inputs,
            "output": str(output),
            "threads": self._plan.threads,
            "trials": self._plan.trials,
            "directory": str(self._plan.directory.absolute()),
        }
        try:
            answer = side.ask(message, self._plan.patience_s)
            error = 0.0
            if not is_limit:
                answer, error = self._right(side, answer, output)
        except Gap as gap:
            return SideResult(gap=str(gap), gap_kind=gap.kind)
        finally:
            output.unlink(missing_ok=True)
        return SideResult(
            answer["program"],
            error=error,
            dispatch_s=side.dispatch_s,
            tuned_s=answer["tuned_s"],
            trials=answer["trials"],
        )

    def _right(self, side: Side, answer: JsonFields, output: Path) -> tuple[JsonFields, float]:
        """Return the answer of the fastest way of a side whose numbers are right, and its error."""
        try:
            return answer, self._error(output)
        except Gap as gap:
            wrong = gap
        while True:
            try:
                answer = side.ask({"do": "other"}, self._plan.prepare_s)
            except Gap:
                raise wrong from None
            try:
                return answer, self._error(output)
            except Gap:
                continue

    def _error(self, output: Path) -> float:
        found = np.load(output)
        if found.size != np.prod(self._shape):
            raise Gap("failed", f"its result has {found.size} elements, not {self._shape}")
        verdict = self._expectation.compare(np.ascontiguousarray(found).reshape(self._shape))
        if verdict.complaint:
            raise Gap("failed", verdict.complaint.replace("candidate rejected", "wrong numbers"))
        return verdict.max_error


def _take_turns(entries: Sequence[_Entry], plan: Plan) -> None:
    """Time all entries that have no gap."""
    entries = [entry for entry in entries if not entry.result.gap]
    turns = Turns(plan.turns, plan.min_turns, plan.turn_s, plan.enough_s, plan.prepare_s)
    for entry, found in zip(
        entries, take_turns([entry.side for entry in entries], turns), strict=True
    ):
        if isinstance(found, Gap):
            entry.result = replace(entry.result, gap=str(found), gap_kind=found.kind)
        else:
            entry.times = found


def _finished(entry: _Entry) -> SideResult:
    if entry.result.gap:
        return entry.result
    return replace(entry.result, **{way: tuple(times) for way, times in entry.times.items()})
