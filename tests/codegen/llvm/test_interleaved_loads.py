"""Vectors whose lanes come from 2 or 4 rows in turns are loaded row by row."""

from __future__ import annotations

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.schedule import lower, schedule
from ansorc.target import Target
from tests.support.guarded_memory import guarded

COLUMNS = 24


@pytest.mark.parametrize("terms", [2, 3, 4])
@pytest.mark.parametrize("kind", ["int8", "int16", "float32", "float64"])
def test_rows_are_interleaved(terms: int, kind: str) -> None:
    groups = 3
    x = ac.placeholder((groups * terms, COLUMNS), "X", kind)
    y = ac.compute((groups, COLUMNS, terms), lambda g, j, t: x[g * terms + t, j], "Y")
    dag = ac.ComputeDAG([x, y])
    program = schedule(dag).fuse("Y", ("j", "t"))
    (fused,) = [it.name for it in program.stage("Y").iterators if "@" in it.name]
    program = program.split("Y", fused, [8 * terms])
    program = program.vectorize("Y", program.stage("Y").iterators[-1].name)
    values = np.random.default_rng(terms).integers(-100, 100, x.shape).astype(kind)
    result = guarded(np.full((groups, COLUMNS, terms), 77, kind), at_end=True)
    ac.build(program)(guarded(values, at_end=True), result)
    expected = values.reshape(groups, terms, COLUMNS).transpose(0, 2, 1)
    np.testing.assert_array_equal(result, expected)
    target = Target.parse("x86_64-linux-gnu -mcpu=znver3")
    text = emit_llvm(prepare(lower(program), target), target)
    assert ("insertelement" not in text) == (terms != 3)
