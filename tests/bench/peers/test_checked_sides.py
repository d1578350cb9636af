"""Sides of the comparisons of operators and networks: whether they are right, and their turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansorc.compare.side import Gap, PeerInfo, Side
from bench.peers.checked_sides import refuse_wrong, time_in_turns


class MadeSide(Side):
    """A side whose times are made up; it dies when it has no more."""

    def __init__(self, log: Path, seconds: list[float]) -> None:
        super().__init__(PeerInfo("made", "made", "made"), 1, log, "none")
        self.left = seconds

    def ask(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert (message, timeout_s) == ({"do": "time", "seconds": 0.5}, 60.0)
        if not self.left:
            raise Gap("failed", "it died")
        second = self.left.pop(0)
        return {"seconds": [second / 2, second, 100.0]}


def test_sides_are_timed_in_turns(tmp_path: Path) -> None:
    sides = {
        "steady": MadeSide(tmp_path / "log", [1.0, 2.0, 3.0]),
        "dying": MadeSide(tmp_path / "log", [1.0]),
    }
    seconds, gaps = time_in_turns(sides, 3, 0.5, 60.0)
    assert seconds == {"steady": [1.0, 2.0, 3.0]}
    assert gaps == {"dying": "it died"}


@pytest.mark.parametrize("error", [2e-4, float("nan"), float("inf")])
def test_a_wrong_result_is_a_gap(error: float) -> None:
    refuse_wrong(5e-5)
    refuse_wrong(1.5e-4, tolerance=1e-3)
    with pytest.raises(Gap, match="its largest error is"):
        refuse_wrong(error)
