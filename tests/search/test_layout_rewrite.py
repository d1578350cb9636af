"""Tuning with constant weights: they are packed before the timing, and the records say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from ansorc.search.default import default_steps
from ansorc.search.options import SearchOptions
from ansorc.search.programs import compile_program, program_of_record
from ansorc.search.record import Record, Records, export_lines, import_lines
from ansorc.search.space import design_space
from ansorc.search.tune import tune_task
from tests.search.small_tasks import layer, options, product

IN_THE_KERNEL = SearchOptions(rewrite_layout=False)


def test_a_winner_with_a_packed_weight_is_right_and_says_so(tmp_path: Path) -> None:
    task = layer()
    result = tune_task(task, options(tmp_path, 8))
    assert not result.failures
    with Records.open(tmp_path / "tune.db") as records:
        found = records.all(task.key)
        assert len(found) == 8
        assert all(record.packed_before == ("t1",) for record in found)
        assert all(Record.from_json(record.to_json()) == record for record in found)
        assert found[0].to_json()["packed_before"] == ["t1"]
        export_lines(records, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert {tuple(line["packed_before"]) for line in lines if "task" in line} == {("B",)}
    with Records.open(tmp_path / "copy.db") as copy:
        assert import_lines(copy, tmp_path / "lines.jsonl").records == 8
        assert copy.all(task.key)[0].packed_before == ("t1",)
    assert result.best is not None
    origin = program_of_record(task, result.best).origin
    assert result.packed_before == ("B",)
    assert origin.endswith("(without the packing of B, done once before)")
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (32, 32)).astype(np.float32) for _ in range(2))
    c = np.full((32, 32), np.nan, np.float32)
    module = compile_program(task, program_of_record(task, result.best))
    module(a, module.pack("B", b), c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, 1e-4, 1e-4)


def test_packing_can_be_kept_in_the_time(tmp_path: Path) -> None:
    chosen = replace(options(tmp_path, 6), search=IN_THE_KERNEL)
    assert not tune_task(layer(), chosen).failures
    with Records.open(tmp_path / "tune.db") as records:
        assert {record.packed_before for record in records.all(layer().key)} == {()}


def test_the_layout_takes_the_place_of_the_panel() -> None:
    task = layer()
    inside = {s.name for s in design_space(task.dag, task.target, IN_THE_KERNEL).sketches}
    before = {s.name for s in design_space(task.dag, task.target).sketches}
    panels = {name for name in inside if "pack B" in name}
    assert panels
    assert before == {f"{name}, lay out B" for name in inside - panels}
    plain = product()
    names = {s.name for s in design_space(plain.dag, plain.target).sketches}
    assert names == inside, "what is not constant is packed in the kernel as before"


def test_the_default_program_lays_weights_out() -> None:
    task = layer()
    names = [type(step).__name__ for step in default_steps(task.dag, task.target)]
    assert names.count("RewriteLayout") == 1
    kept = default_steps(task.dag, task.target, rewrite_layout=False)
    assert "RewriteLayout" not in [type(step).__name__ for step in kept]
