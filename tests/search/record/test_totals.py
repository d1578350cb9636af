"""How many records a file has is kept, whatever is done to them."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from ansorc.search.record import Environment, Records
from ansorc.search.record.salvage import salvage
from ansorc.search.record.upkeep import merge, prune, verify
from tests.search.record.examples import ELSEWHERE, HERE, record_of
from tests.support.nightly import examples

Change: TypeAlias = tuple[str, int, float | None, Environment, str, bool]
CHANGES: st.SearchStrategy[list[Change]] = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(0, 5), st.sampled_from([None, 1e-3]),
        st.sampled_from([HERE, ELSEWHERE]), st.sampled_from(["", "older"]), st.booleans(),
    ),
    max_size=20,
)  # fmt: skip


def kept(path: Path) -> list[tuple[object, ...]]:
    """What the file keeps of each task and environment, after that was held against its records."""
    counted = (
        "SELECT task_key, environment_key, count(*), count(median_s) FROM records GROUP BY 1, 2"
    )
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM totals WHERE programs").fetchall()
    assert sorted(found) == sorted(connection.execute(counted).fetchall())
    connection.close()
    return found


@examples(4, nightly=15)
@given(CHANGES.filter(bool), CHANGES)
def test_totals_are_what_counting_gives(first: list[Change], second: list[Change]) -> None:
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place) / name for name in ("first.db", "second.db", "both.db")]
        for path, changes in zip(paths, (first, second), strict=False):
            with Records.open(path) as records:
                for task, number, median_s, environment, version, checked in changes:
                    record = record_of(task, number, median_s, checked=checked)
                    record = replace(record, environment=environment)
                    records.add(replace(record, version=version or record.version))
            kept(path)
        merge(paths[2], paths[:2])
        kept(paths[2])
        with Records.open(paths[2], read_only=True) as records:
            assert records.count() == sum(one.programs for one in records.holdings())
        salvage(paths[2], Path(place) / "saved.db")
        kept(Path(place) / "saved.db")
        prune(paths[2])
        kept(paths[2])
        assert not any("numbers of records" in words for words in verify(paths[2]).faults)


def test_wrong_totals_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Records.open(path) as records:
        records.add(record_of("t", 1, 1e-3))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE totals SET programs = 5")
    connection.commit()
    connection.close()
    assert any("numbers of records" in words for words in verify(path).faults)
