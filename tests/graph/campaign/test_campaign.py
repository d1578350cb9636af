"""Random networks beside ONNX Runtime: none wrong, none slow, no exception but ansorc's.

`make nightly` runs 3,000 of our own, 100 of them tuned, too, and 1,500 of the public fuzzer
NNSmith, the default suite a few.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = 100
"""Networks that one process compares."""
OWN, NNSMITH, TUNED = 3000, 1500, 100
SLOW = 30.0
"""Seconds to import, build and run."""
UNSTEADY = 5
"""Networks of a block for which the peer's own rounding may decide, so that nothing is compared."""


def run_worker(source: str, first: int, last: int) -> list[dict[str, object]]:
    """Return what became of each network; a process that ended goes on behind the network that
    ended it."""
    outcomes: list[dict[str, object]] = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    while first < last:
        command = [
            sys.executable,
            "-m",
            "tests.graph.campaign.worker",
            source,
            str(first),
            str(last),
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        ended = [line for line in lines if line["kind"] != "started"]
        outcomes.extend(ended)
        first = (ended[-1]["seed"] if ended else first - 1) + 1
        if first < last:
            crash = f"the process ended with {done.returncode}: {done.stderr[-500:]}"
            outcomes.append({"seed": first, "kind": "crash", "seconds": 0.0, "detail": crash})
            first += 1
    return outcomes


def complaints(outcomes: list[dict[str, object]], seconds: float = SLOW) -> list[dict[str, object]]:
    """Return the networks that are wrong, that crash, or that take more than `seconds`."""
    faults = {"wrong", "bare", "crash"}
    return [
        outcome
        for outcome in outcomes
        if outcome["kind"] in faults or float(str(outcome["seconds"])) > seconds
    ]


def require_right(outcomes: list[dict[str, object]]) -> None:
    assert not complaints(outcomes)
    assert sum(one["kind"] == "unanswered" for one in outcomes) <= UNSTEADY


def test_a_few_networks_are_right() -> None:
    outcomes = run_worker("own", 0, 6)
    assert not complaints(outcomes)
    assert sum(one["kind"] == "right" for one in outcomes) >= 4


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, OWN, BLOCK))
def test_networks_of_our_own_are_right(first: int) -> None:
    require_right(run_worker("own", first, first + BLOCK))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_tuned_networks_are_right() -> None:
    outcomes = run_worker("tuned", 0, TUNED)
    assert not complaints(outcomes, seconds=10 * SLOW)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, NNSMITH, BLOCK))
def test_networks_of_a_public_fuzzer_are_right(first: int) -> None:
    if find_spec("nnsmith") is None or find_spec("torch") is None:
        pytest.skip("needs nnsmith and torch")
    require_right(run_worker("nnsmith", first, first + BLOCK))
