"""Search options on GPUs: what the programs there do not have is refused, nothing is ignored."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

import ansorc as ac
from ansorc.errors import OptionError
from ansorc.schedule.steps import Redefine, RewriteLayout
from ansorc.search.gpu.rules import CPU_OPTIONS
from ansorc.search.options import ABLATIONS, DEFAULTS, LIMITED_SPACE, PAPER, SearchOptions
from ansorc.search.space import design_space, sketch_rules
from ansorc.search.tune import tune_task
from ansorc.search.tune_options import TuneOptions
from tests.search.gpu.gpu_programs import H100
from tests.search.small_dags import matmul

CHANGED = {
    "space": "limited", "structure": "SRS", "is_simd_aware": False, "max_innermost_factor": 16,
    "max_innermost_reduce": 64, "max_register_ratio": 1.0, "unroll_limits": (0,),
    "parallel_ratios": (16,), "serial_share": 0.5, "max_locations": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", CPU_OPTIONS)
def test_what_is_of_cpus_is_refused(name: str) -> None:
    options = replace(DEFAULTS, **{name: CHANGED[name]})
    with pytest.raises(OptionError, match=f"the search for a GPU has no {name}="):
        design_space(matmul(8, 8, 8), H100, options)
    with pytest.raises(OptionError, match=f"{name}=.*leave them out, or tune for a CPU"):
        sketch_rules(options, H100)


@pytest.mark.parametrize("options", [PAPER, LIMITED_SPACE])
def test_the_spaces_of_the_paper_are_refused(options: SearchOptions) -> None:
    with pytest.raises(OptionError, match="the search for a GPU has no space='"):
        design_space(matmul(8, 8, 8), H100, options)


@pytest.mark.parametrize("change", [{"redefine": False}, {"rewrite_layout": False}])
def test_nothing_is_laid_out_or_defined_otherwise(change: dict[str, bool]) -> None:
    """Both values of these options are honoured: no program of a GPU has such steps."""
    image, weight = ac.placeholder((1, 12, 12, 8)), ac.placeholder((3, 3, 8, 8), constant=True)
    dag = ac.ComputeDAG([image, weight, ac.ops.conv2d(image, weight)])
    assert any(
        isinstance(step, (Redefine, RewriteLayout))
        for sketch in design_space(dag, ac.Target.parse("native")).sketches
        for step in sketch.steps
    )
    for options in (DEFAULTS, replace(DEFAULTS, **change)):
        for sketch in design_space(dag, H100, options).sketches:
            assert not any(isinstance(step, (Redefine, RewriteLayout)) for step in sketch.steps)


def test_every_option_is_honoured_or_refused() -> None:
    assert set(CPU_OPTIONS) <= {field.name for field in fields(SearchOptions)}
    refused = {name for name, options in ABLATIONS.items() if _is_refused(options)}
    assert refused == {"paper", "limited-space"}


def _is_refused(options: SearchOptions) -> bool:
    try:
        sketch_rules(options, H100)
    except OptionError:
        return True
    return False


def test_tuning_refuses_them_before_anything_is_measured(tmp_path: Path) -> None:
    records = tmp_path / "tune.db"
    options = replace(TuneOptions.of({"records": records}), search=PAPER)
    with pytest.raises(OptionError, match="the search for a GPU has no space='paper'"):
        tune_task(ac.Task(matmul(8, 8, 8), "cuda-emulated", "product"), options)
    assert not records.exists()
