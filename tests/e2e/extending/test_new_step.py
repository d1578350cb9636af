"""A step of one's own: one class is gene, checks, meaning and record, for one program or many."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from ansorc.errors import ScheduleError
from ansorc.schedule import Hole, replay, schedule, steps_from_json, steps_to_json
from ansorc.schedule.state import State, Step
from ansorc.schedule.steps import STEPS, Split
from tests.schedule.meaning import keeps_the_meaning
from tests.search.small_dags import matmul


@dataclass(frozen=True)
class Interchange(Step):
    """Swap two loops of a stage.

    for i in 0..4:                for j in 0..8:
        for j in 0..8:    ->          for i in 0..4:
            body                          body
    """

    one: str
    other: str

    def apply(self, state: State) -> State:
        """Return the state with the loops swapped, each where the other was."""
        stage = self.stage_of(state)
        first, second = (self.position_of(state, stage, name) for name in (self.one, self.other))
        self.require(
            state, f"'{self.one}' cannot change places with itself", (stage.name, self.one),
            condition=first != second,
        )  # fmt: skip
        loops = list(stage.iterators)
        loops[first], loops[second] = loops[second], loops[first]
        return state.with_stage(replace(stage, iterators=tuple(loops)))


DAG = matmul(6, 10, 8)
STAGE = DAG.ops[0].name
ROW, COLUMN = (axis.name for axis in DAG.ops[0].axes)
SWAP = Interchange(STAGE, ROW, COLUMN)


def test_it_changes_the_loops_and_keeps_what_they_compute() -> None:
    state = schedule(DAG).then(SWAP)
    assert [loop.name for loop in state.stage(STAGE).iterators][:2] == [COLUMN, ROW]
    keeps_the_meaning(state)


def test_it_refuses_with_the_program_shown() -> None:
    with pytest.raises(ScheduleError, match="cannot change places with itself") as caught:
        schedule(DAG).then(Interchange(STAGE, ROW, ROW))
    assert f"for {COLUMN} in 0..10" in str(caught.value)


def test_records_hold_it_once_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "Interchange", Interchange)
    assert steps_from_json(steps_to_json([SWAP])) == (SWAP,)


def test_one_replay_serves_many_programs() -> None:
    split = Split(STAGE, ROW, (Hole("rows", (1,)),))
    swap = Interchange(STAGE, f"{ROW}.1", COLUMN)
    lengths = np.array([1, 2, 3])
    tiles = {"rows": np.stack([6 // lengths, lengths], axis=1)}
    many = replay(DAG, [split, swap], tiles).stage(STAGE).iterators
    for row, length in enumerate(lengths.tolist()):
        alone = replay(DAG, [replace(split, lengths=(length,)), swap]).stage(STAGE).iterators
        assert [loop.name for loop in alone] == [loop.name for loop in many]
        extents = [np.broadcast_to(np.asarray(loop.extent), 3)[row] for loop in many]
        assert extents == [loop.extent for loop in alone]
