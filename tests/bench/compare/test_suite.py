"""The runner with sides that are made for it: gaps, deaths, resuming, wrong numbers."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorc.compare.side import Gap, Side
from bench.compare import suite as suite_module
from bench.compare.case_run import Plan
from bench.compare.result import CaseResult, Results
from bench.compare.suite import Suite, chosen_cases, chosen_peers
from bench.paper_cases import case
from bench.peers import ROOT, PeerInfo

HERE = Path(__file__).parent
SMALL = [case("NRM-1-b1"), case("NRM-2-b1")]
MACHINE = {"cpu": "a test", "cores": 2, "target": "none"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(versions: dict[str, Any]) -> dict[str, Any]:
        return {**MACHINE, "versions": versions}

    monkeypatch.setattr(suite_module, "describe", describe)
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def info(name: str, label: str = "") -> PeerInfo:
    return PeerInfo(label or name, f"sides.{name}", label or name, "install it so")


def say(_: str) -> None: ...


def plan(directory: Path, trials: int = 3) -> Plan:
    return Plan(1, trials, directory, turns=4, min_turns=2, turn_s=0.002, prepare_s=20.0)


def compare(
    directory: Path, peers: Sequence[str], cases: Sequence[str] = ("NRM-1-b1",), trials: int = 3
) -> list[CaseResult]:
    found: list[CaseResult] = []
    chosen = Suite([info(name) for name in peers], plan(directory, trials), say,
                   info("tuner", "ansorc"), info("limit"))  # fmt: skip
    chosen.run([case(name) for name in cases], found.append)
    return found


def test_sides_are_timed_and_compared(tmp_path: Path) -> None:
    (found,) = compare(tmp_path, ["right", "slow"])
    assert found.ratio("slow") is not None
    assert found.sides["slow"].median_s >= 0.03
    assert found.sides["right"].median_s < 0.03
    assert found.best_peer() == "right"
    assert all(len(side.seconds) == 4 for side in found.sides.values())
    assert 0 <= found.sides["right"].error < 1
    assert found.limit == "read bandwidth"
    share = found.share("ansorc")
    assert share is not None
    assert 1e-5 / max(found.sides["ansorc"].seconds) <= share
    assert share <= 1e-5 / min(found.sides["ansorc"].seconds)
    assert (found.flops, found.array_bytes) == (2 * 256 * 256, 4 * (256 * 256 + 1))


def test_calls_from_python_are_timed_in_the_same_turns(tmp_path: Path) -> None:
    (found,) = compare(tmp_path, ["right", "slow"])
    for side in found.sides.values():
        assert len(side.called) == len(side.spaced) == len(side.seconds)
    assert found.sides["right"].called == found.sides["right"].seconds  # it has no other way
    assert min(found.sides["slow"].spaced) >= 0.03
    assert found.best_peer("spaced") == "right"
    own = found.as_called("spaced")
    assert own is not None
    assert own[0] == np.median(found.sides["ansorc"].spaced)
    (held,) = (Results.read(tmp_path) or Results({})).cases.values()
    assert held == found
    earlier = replace(found, sides={"ansorc": replace(found.sides["ansorc"], called=())})
    assert earlier.as_called("called") is None


def test_every_misfortune_of_a_side_is_a_named_gap(tmp_path: Path) -> None:
    (found,) = compare(tmp_path, ["wrong", "raising", "missing", "dying", "leaving", "right"])
    gaps = {name: (side.gap_kind, side.gap) for name, side in found.sides.items() if side.gap}
    assert set(gaps) == {"wrong", "raising", "missing", "dying", "leaving"}
    assert gaps["wrong"][0] == "failed"
    assert "wrong numbers: element [0]" in gaps["wrong"][1]
    assert gaps["raising"] == ("failed", "RuntimeError: closed: ValueError: this way is closed")
    assert gaps["missing"] == (
        "missing", "No module named 'a_library_that_nobody_has'; install it so")  # fmt: skip
    assert gaps["dying"] == ("failed", "its process died of SIGSEGV")
    assert "its process ended with status 7" in gaps["leaving"][1]
    assert not found.sides["leaving"].seconds
    assert found.best_peer() == "right"


def test_what_a_side_cannot_express_is_a_gap(tmp_path: Path) -> None:
    (found,) = compare(tmp_path, ["right"], ["GMM-1-b1"])
    assert found.sides["right"].gap_kind == "cannot"
    assert found.sides["right"].gap == "only norms are computed here"
    assert found.sides["ansorc"].gap_kind == "cannot"


def test_the_fastest_way_whose_numbers_are_right_is_taken(tmp_path: Path) -> None:
    (found,) = compare(tmp_path, ["tempting"])
    assert not found.sides["tempting"].gap
    assert found.sides["tempting"].program == "factor 1.0"
    assert found.sides["tempting"].median_s > 0.002


def test_a_side_that_died_takes_part_in_the_next_case(tmp_path: Path) -> None:
    first, second = compare(tmp_path, ["dying"], ["NRM-1-b1", "NRM-2-b1"])
    assert first.sides["dying"].gap
    assert second.sides["dying"].seconds


def test_a_side_that_never_answers_is_given_up(tmp_path: Path) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.ones((1, 2, 2), np.float32))
    side = Side(info("stuck"), 1, tmp_path / "log", "bench.peers.serve", ROOT)
    fields = {"trials": 1, "directory": str(tmp_path), "threads": 1}
    side.greet(fields, 20.0)
    begin = time.monotonic()
    workload = {"case": "NRM-1-b1", "operator": "NRM", "shape": [2, 2], "inputs": [str(x)]}
    with pytest.raises(Gap, match="no answer within 1 s"):
        side.ask({"do": "prepare", **workload, "output": str(tmp_path / "y.npy"), **fields}, 1.0)
    assert time.monotonic() - begin < 60


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    def interrupt(_: CaseResult) -> None:
        raise KeyboardInterrupt

    own, limit = info("tuner", "ansorc"), info("limit")
    chosen = Suite([info("right")], plan(tmp_path), say, own, limit)
    with pytest.raises(KeyboardInterrupt):
        chosen.run(SMALL, interrupt)
    held = Results.read(tmp_path)
    assert held is not None
    assert [found.case for found in held.cases.values()] == ["NRM-1-b1"]
    first, second = compare(tmp_path, ["right"], [c.name for c in SMALL])
    assert first == held.cases[Results.key("NRM-1-b1", 1)]
    assert second.case == "NRM-2-b1"
    assert second.sides["right"].seconds


def test_a_second_run_is_not_tuned_again(tmp_path: Path) -> None:
    (first,) = compare(tmp_path, ["right"], trials=3)
    assert (first.sides["ansorc"].tuned_s, first.sides["ansorc"].trials) == (3.0, 3)
    (second,) = compare(tmp_path, ["right", "slow"], trials=3)  # a new peer: timed, not tuned
    assert second.sides["slow"].seconds
    assert second.sides["ansorc"].seconds != first.sides["ansorc"].seconds
    assert (second.sides["ansorc"].tuned_s, second.sides["ansorc"].trials) == (3.0, 3)
    (third,) = compare(tmp_path, ["right"], trials=5)  # more trials: only those that are missing
    assert (third.sides["ansorc"].tuned_s, third.sides["ansorc"].trials) == (5.0, 5)
    assert (tmp_path / "NRM-1-b1.trials").read_text() == 5 * "trial\n"


def test_results_of_another_machine_are_not_mixed_in(tmp_path: Path) -> None:
    compare(tmp_path, [])
    held = Results.read(tmp_path)
    assert held is not None
    replace(held, machine={**held.machine, "cpu": "another"}).write(tmp_path)
    with pytest.raises(ValueError, match=r"holds results of another, 2 cores; name another dir"):
        compare(tmp_path, [])


def test_a_gap_of_ansorc_itself_is_tried_again(tmp_path: Path) -> None:
    compare(tmp_path, ["right"])
    held = Results.read(tmp_path)
    assert held is not None
    key, found = next(iter(held.cases.items()))
    failed = replace(found.sides["ansorc"], seconds=(), gap="it was killed", gap_kind="failed")
    replace(held, cases={key: replace(found, sides={**found.sides, "ansorc": failed})}).write(
        tmp_path
    )
    (again,) = compare(tmp_path, ["right"])
    assert again.sides["ansorc"].seconds


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another run uses"):
            compare(tmp_path, [])


def test_the_arrays_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "arrays").mkdir()
    (tmp_path / "arrays" / "input_9.npy").write_bytes(b"left")
    compare(tmp_path, ["right"])
    assert not (tmp_path / "arrays").exists()


def test_a_case_is_run_again_with_all_that_it_had(tmp_path: Path) -> None:
    compare(tmp_path, [])
    held = Results.read(tmp_path)
    assert held is not None
    key, found = next(iter(held.cases.items()))
    earlier = {**found.sides, "numpy": found.sides["ansorc"]}
    replace(held, cases={key: replace(found, sides=earlier)}).write(tmp_path)
    (again,) = compare(tmp_path, ["right"])
    assert set(again.sides) == {"ansorc", "right", "numpy"}
    assert again.sides["numpy"].seconds != found.sides["ansorc"].seconds


def test_no_process_is_left(tmp_path: Path) -> None:
    compare(tmp_path, ["right", "dying"])
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_mine(path)]
    assert not [line for line in lines if b"bench.peers.serve" in line]


def _is_mine(path: Path) -> bool:
    """Whether it is a process that still runs and was started by this one."""
    try:
        fields = (path.parent / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[1]) == os.getpid()


def test_cases_are_chosen_by_operator_or_name() -> None:
    assert [found.name for found in chosen_cases("tbs-2-b16, nrm-1-b1")] == [
        "TBS-2-b16",
        "NRM-1-b1",
    ]
    assert len(chosen_cases("C2D,gmm")) == 16
    assert len(chosen_cases("all")) == 96
    with pytest.raises(ValueError, match=r"no case 'c4d'; name operators \(C1D, C2D"):
        chosen_cases("c2d,c4d")


def test_peers_are_chosen_by_name() -> None:
    assert [found.name for found in chosen_peers("numpy,torch")] == ["torch", "numpy"]
    with pytest.raises(ValueError, match=r"no peer 'mkl'; there are: torch, torch-compile"):
        chosen_peers("mkl")
