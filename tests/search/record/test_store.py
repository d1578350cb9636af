"""What is written to a record file is there, once, and comes back as it was."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.measure import (
    BuildCost,
    Failure,
    FailureKind,
    Measurement,
    ProgramText,
    RunCost,
)
from ansorc.search.record import (
    Record,
    Records,
    current_environment,
    export_lines,
    import_lines,
)
from tests.search.record.examples import ELSEWHERE, HERE, record_of, task_of


def test_records_come_back_in_order_and_unchanged(tmp_path: Path) -> None:
    written = [record_of("t", n, None if n == 2 else n * 1e-3) for n in (3, 1, 2, 5)]
    with Records.open(tmp_path / "a.db") as records:
        for record in written:
            records.add(record)
        assert records.all("t") == written
    with Records.open(tmp_path / "a.db") as records:
        assert records.all("t") == written
        assert records.all("other") == []


def test_the_best_is_the_fastest_that_was_checked(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as records:
        assert records.best("t") is None
        records.add(record_of("t", 1, None))
        assert records.best("t") is None
        records.add(record_of("t", 2, 1e-3, checked=False))
        assert records.best("t") is None
        for number, median_s in ((3, 5e-3), (4, 3e-3), (5, 4e-3)):
            records.add(record_of("t", number, median_s))
        assert records.best("t") == record_of("t", 4, 3e-3)


def test_measured_programs_are_known_except_after_our_own_faults(tmp_path: Path) -> None:
    good, crashed = record_of("t", 1), record_of("t", 2, None)
    ours = replace(record_of("t", 3, None), failure=FailureKind.UNKNOWN)
    with Records.open(tmp_path / "a.db") as records:
        for record in (good, crashed, ours):
            records.add(record)
        assert records.measured("t", HERE) == {good.program_key, crashed.program_key}


def test_records_of_another_machine_are_counted_but_not_used(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as records:
        records.add(replace(record_of("t", 1, 1e-6), environment=ELSEWHERE))
        records.add(record_of("t", 1, 1e-3))
        records.add(replace(record_of("t", 2), environment=ELSEWHERE))
        assert records.best("t", HERE) == record_of("t", 1, 1e-3)
        assert records.measured("t", HERE) == {record_of("t", 1).program_key}
        assert records.all("t", HERE) == [record_of("t", 1)]
        assert records.elsewhere("t", HERE).count == 2
        assert records.elsewhere("t", HERE).environments == (ELSEWHERE,)


def test_a_program_measured_twice_has_one_record(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as records:
        records.add(record_of("t", 1, 2e-3))
        records.add(record_of("t", 1, 1e-3))
        assert records.all("t") == [record_of("t", 1, 1e-3)]
        records.add(record_of("t", 1, 9e-4, checked=False))
        assert records.all("t") == [record_of("t", 1, 1e-3)]


@pytest.mark.parametrize(
    ("kind", "is_kept"),
    [
        (FailureKind.WRONG_RESULT, False),
        (FailureKind.CRASH, False),
        (FailureKind.RUN_TIMEOUT, True),
        (FailureKind.UNKNOWN, True),
    ],
)
def test_a_program_that_was_wrong_once_is_not_right(
    tmp_path: Path, kind: FailureKind, *, is_kept: bool
) -> None:
    right, other = record_of("t", 1, 1e-3), record_of("t", 2, 2e-3)
    wrong = replace(right, median_s=None, failure=kind, checked=False)
    with Records.open(tmp_path / "a.db") as records:
        for record in (right, other, wrong):
            records.add(record)
        assert records.best("t") == (right if is_kept else other)


def test_cold_and_warm_caches_are_different_environments(tmp_path: Path) -> None:
    warm, cold = record_of("t", 1, 1e-3), record_of("t", 1, 3e-3)
    cold = replace(cold, environment=replace(HERE, cache="cold"))
    assert cold.environment.key != warm.environment.key
    with Records.open(tmp_path / "a.db") as records:
        records.add(warm)
        records.add(cold)
        assert records.best("t", HERE) == warm
        assert records.best("t", cold.environment) == cold
        assert records.elsewhere("t", HERE).environments == (cold.environment,)
        assert export_lines(records, tmp_path / "a.jsonl") == 2
    with Records.open(tmp_path / "b.db") as records:
        import_lines(records, tmp_path / "a.jsonl")
        assert records.best("t", cold.environment) == cold


def test_lines_of_older_versions_are_of_warm_caches() -> None:
    fields = record_of("t", 1).to_json()
    environment = cast("dict[str, object]", fields["environment"])
    del environment["cache"], fields["run_s"]
    assert Record.from_json(fields) == record_of("t", 1)


def test_a_task_can_be_built_from_the_file_alone(tmp_path: Path) -> None:
    task = task_of()
    with Records.open(tmp_path / "a.db") as records:
        records.add_task(task)
        records.add_task(task)
        assert records.task_keys() == [task.key]
        assert records.task(task.key).to_json() == task.to_json()


def test_an_outcome_becomes_a_record_with_time_and_version() -> None:
    candidate = ProgramText.of_json([])
    timed = Measurement(
        (3.0, 1.0, 2.0), checked=True, build=BuildCost(0.25, llvm_s=0.25),
        run=RunCost(0.25, 0.125, 0.125, 0.25),
    )  # fmt: skip
    record = Record.of("t", candidate, timed, HERE, seed=7)
    assert (record.median_s, record.spread_s, record.repeats) == (2.0, 1.0, 3)
    assert record.checked
    assert (record.seed, record.program_key) == (7, candidate.key)
    assert record.created > 1.7e9
    assert record.version
    assert (record.build_s, record.run_s) == (0.5, 0.75)
    failed = Failure.of(FailureKind.CRASH, "x" * 2000)
    record = Record.of("t", candidate, failed, HERE)
    assert record.failure is FailureKind.CRASH
    assert record.median_s is None
    assert not record.checked
    assert len(record.message) == 500


@given(
    st.floats(1e-9, 1e3),
    st.sampled_from([None, *FailureKind]),
    st.text(max_size=30),
    st.integers(0, 2**40),
)
def test_records_survive_json(
    seconds: float, failure: FailureKind | None, message: str, seed: int
) -> None:
    median_s = None if failure else seconds
    record = replace(record_of("t", 1, median_s), failure=failure, message=message, seed=seed)
    assert Record.from_json(record.to_json()) == record


def test_the_environment_of_this_machine_is_stable_and_knows_threads() -> None:
    here = current_environment()
    assert here == current_environment()
    assert here.key == type(here).from_json(here.to_json()).key
    assert here.key != current_environment(threads=1).key
    assert here.key != current_environment(cache="cold").key
    assert here.cpu
    assert here.features


WRITER = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[2])
from tests.search.record.examples import record_of
from ansorc.search.record import Records
records = Records.open(sys.argv[1])
print("open", flush=True)
for number in range(10**9):
    records.add(record_of("t", number))
    print(number, flush=True)
"""


def test_kill_nine_loses_nothing_that_was_added_and_readers_see_it_meanwhile(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parents[3])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        last = -1
        with Records.open(path) as reader:
            while last < 60:
                last = int(writer.stdout.readline())
                assert len(reader.measured("t", HERE)) > last
        writer.kill()
        last = max([last, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    with Records.open(path) as records:
        found = records.all("t")
        assert len(found) >= last + 1
        assert found == [record_of("t", number) for number in range(len(found))]
        records.add(record_of("t", 10**6))


def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    turns = 20  # one in 30 found the file locked when nobody waited for it
    together = threading.Barrier(8)

    def add(number: int) -> None:
        for turn in range(turns):
            together.wait(timeout=60)
            with Records.open(tmp_path / f"{turn}.db") as records:
                records.add(record_of("t", number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    for turn in range(turns):
        with Records.open(tmp_path / f"{turn}.db") as records:
            assert len(records.all("t")) == 8


def test_two_writers_and_no_record_is_lost(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as one, Records.open(tmp_path / "a.db") as two:
        for number in range(40):
            (one, two)[number % 2].add(record_of("t", number))
        assert len(one.all("t")) == 40
