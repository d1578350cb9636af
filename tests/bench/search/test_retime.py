"""Recorded programs that are timed again."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import ansorc as ac
from ansorc.search.record import Records
from bench.search.retime import main


def programs(path: Path) -> set[str]:
    with Records.open(path, create=False) as records:
        found = [record for task in records.tasks() for record in records.all(task.key)]
    assert all(record.median_s is not None and record.checked for record in found)
    assert len(found) == len({record.program_key for record in found})
    return {record.program_key for record in found}


def test_all_programs_of_a_file_are_timed_once_more(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    a, b = ac.placeholder((16, 16), name="A"), ac.placeholder((16, 16), name="B")
    task = ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b)]), "native", "small")
    ac.tune(task, trials=5, records=old, threads=1)
    words = ["--records", str(old), "--output", str(new), "--threads", "1", "--patience", "0"]
    other = CliRunner().invoke(main, [*words, "--tasks", "large,*b16"])
    assert other.exit_code == 0, other.output
    assert not programs(new)
    first = CliRunner().invoke(main, words)
    assert first.exit_code == 0, first.output
    assert "small: 5 programs" in first.output
    assert programs(new) == programs(old)
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 0, again.output
    assert "small" not in again.output, "nothing was left to do"
    assert len(programs(new)) == 5
