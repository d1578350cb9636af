"""Records as JSON lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from ansorc.errors import RecordError
from ansorc.search.record import (
    ImportSummary,
    KernelThreads,
    Records,
    export_lines,
    import_lines,
)
from tests.search.record.examples import ELSEWHERE, HERE, record_of, task_of


def exported(tmp_path: Path, count: int = 3) -> Path:
    task = task_of()
    with Records.open(tmp_path / "from.db") as records:
        records.add_task(task)
        for number in range(count):
            records.add(record_of(task.key, number, None if number == 1 else 1e-3))
        assert export_lines(records, tmp_path / "a.jsonl") == count
    return tmp_path / "a.jsonl"


def test_what_is_exported_can_be_imported(tmp_path: Path) -> None:
    lines = exported(tmp_path)
    with Records.open(tmp_path / "from.db") as old, Records.open(tmp_path / "to.db") as new:
        assert import_lines(new, lines) == ImportSummary(3, 1, truncated=False)
        assert new.task_keys() == old.task_keys()
        key = new.task_keys()[0]
        assert new.all(key) == old.all(key)
        assert import_lines(new, lines).records == 3
        assert len(new.all(key)) == 3


def test_winners_and_threads_go_along_with_what_they_were_compared_with(tmp_path: Path) -> None:
    task = task_of()
    lucky, winner, later = (record_of(task.key, n, s) for n, s in ((1, 1.0), (2, 1.2), (3, 1.1)))
    away = replace(record_of(task.key, 4, 0.5), environment=ELSEWHERE)
    kept = [KernelThreads(task.key, winner.program_key, 1)]
    with Records.open(tmp_path / "from.db") as old, Records.open(tmp_path / "to.db") as new:
        old.add_task(task)
        old.add(lucky)
        old.add(winner)
        old.decide(winner)
        old.add(away)
        old.add(later)
        old.keep_threads(HERE, kept)
        assert export_lines(old, tmp_path / "a.jsonl") == 4
        for _ in range(2):
            assert import_lines(new, tmp_path / "a.jsonl") == ImportSummary(4, 1, truncated=False)
            assert new.undefeated(task.key, HERE) == [later, winner]
            assert new.best(task.key, ELSEWHERE) == away
            assert new.threads(HERE) == {task.key: kept[0]}


def test_a_winner_beats_nothing_that_it_was_not_compared_with(tmp_path: Path) -> None:
    lines, own = tmp_path / "a.jsonl", record_of(task_of().key, 7, 0.9)
    with Records.open(tmp_path / "from.db") as old, Records.open(tmp_path / "to.db") as new:
        old.add(theirs := record_of(own.task_key, 1, 1.0))
        old.decide(theirs)
        old.keep_threads(HERE, [KernelThreads(own.task_key, theirs.program_key, 1)])
        export_lines(old, lines)
        new.add(own)
        import_lines(new, lines)
        assert new.undefeated(own.task_key, HERE) == [own, theirs]
        assert new.threads(HERE) == {}


def test_a_cut_last_line_is_dropped_and_reported(tmp_path: Path) -> None:
    lines = exported(tmp_path)
    lines.write_text(lines.read_text()[:-50])
    with Records.open(tmp_path / "to.db") as new:
        assert import_lines(new, lines) == ImportSummary(2, 1, truncated=True)


def test_a_bad_line_in_the_middle_is_named_and_nothing_is_imported(tmp_path: Path) -> None:
    lines = exported(tmp_path)
    text = lines.read_text().splitlines()
    text[1] = '{"task": 1}'
    lines.write_text("\n".join(text))
    with Records.open(tmp_path / "to.db") as new:
        with pytest.raises(RecordError, match="line 2: not a record: KeyError"):
            import_lines(new, lines)
        assert new.task_keys() == []


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as records:
        with pytest.raises(RecordError, match="cannot be read"):
            import_lines(records, tmp_path / "none.jsonl")
        with pytest.raises(RecordError, match="cannot be written"):
            export_lines(records, tmp_path / "no" / "a.jsonl")


def test_a_file_without_task_lines_can_be_exported_again(tmp_path: Path) -> None:
    with Records.open(tmp_path / "a.db") as records:
        records.add(record_of("t", 1))
        assert export_lines(records, tmp_path / "a.jsonl") == 1
