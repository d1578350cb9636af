"""What the benches of fleets compare: a landscape without noise, and the same tuning replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("distributed", reason="a fleet needs the package distributed")

from ansorc.search.machines import MeasurerProgram
from ansorc.search.measure import Measurement, MeasureOptions, Stopwatch
from ansorc.search.options import SearchOptions
from ansorc.search.record import Record, Records
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from bench.fleet.alike import fleet_alike
from bench.fleet.in_flight import Landscape, SimulatedMachines, fleet_in_flight
from tests.fleet.made_up import MEASURING, MadeUpMachine, product

SEARCH = SearchOptions(population=64, strategy="random", cost_model="random")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("known") / "tune.db"
    with MadeUpMachine(MEASURING) as here:
        tune_task(product(), TuneOptions(60, path, threads=1, search=SEARCH, measurer=here))
    return path


@pytest.fixture(scope="module")
def records(known: Path) -> list[Record]:
    with Records.open(known) as held:
        return held.all(product().key)


@pytest.fixture(scope="module")
def landscape(records: list[Record]) -> Landscape:
    return Landscape(product(), records[:40])


def test_a_landscape_says_what_was_recorded_and_the_same_of_others_each_time(
    records: list[Record], landscape: Landscape
) -> None:
    for record in records[:40]:
        if record.median_s is not None:
            assert landscape.seconds(record.program) == record.median_s
    others = [one.program for one in records[40:]]
    found = [landscape.seconds(one) for one in others]
    assert found == [landscape.seconds(one) for one in others]
    assert all(1e-7 < seconds < 1e-5 for seconds in found)


def test_so_many_programs_are_in_flight_on_simulated_devices(
    records: list[Record], landscape: Landscape
) -> None:
    asked = ended = most = 0
    machines = SimulatedMachines(landscape, 7)
    measurer = machines.open(product(), MEASURING, 0.0, Stopwatch())

    def programs() -> Iterator[MeasurerProgram]:
        nonlocal asked, most
        for record in records:
            asked += 1
            most = max(most, asked - ended)
            yield measurer, record.program

    ends: list[str] = []
    for _, program, outcome in machines.stream(programs()):
        assert isinstance(outcome, Measurement)
        assert outcome.seconds == (landscape.seconds(program),)
        ends.append(program.key)
        ended += 1
    assert most == 7
    assert sorted(ends) == sorted(record.program_key for record in records)


def test_one_in_flight_chooses_when_this_machine_does(
    records: list[Record], landscape: Landscape
) -> None:
    machines = SimulatedMachines(landscape, 1)
    measurer = machines.open(product(), MeasureOptions(batch=8), 0.0, Stopwatch())
    events: list[str] = []
    programs = [one.program for one in records[:20]]
    for _ in measurer.measure(programs, lambda: events.append("chosen")):
        events.append("measured")
    assert events.index("chosen") == 14, "three batches of 7, 7 and 6"


@pytest.mark.nightly
def test_the_bench_of_programs_in_flight(known: Path) -> None:
    arguments = ["--records", str(known), "--in-flight", "1,4", "--trials", "24", "--seeds", "1"]
    done = CliRunner().invoke(fleet_in_flight, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert re.search(r"geometric mean.* 1\.000 ", done.output), done.output


@pytest.mark.nightly
def test_what_was_measured_here_is_proposed_again_by_a_fleet_that_replays_it() -> None:
    arguments = ["--trials", "40", "--labels", "1", "--tunings", "1"]
    done = CliRunner().invoke(fleet_alike, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    same, of = map(int, re.findall(r"(\d+) of (\d+) programs are the same", done.output)[0])
    assert same == of >= 40, done.output
