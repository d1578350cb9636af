"""Copies that the threads of a block make together: how often a warp stores, by the model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from search_gpu.gpu_programs import H100, ready
from search_space.small_dags import DAGS

from ansorc.ir.buffer import Scope
from ansorc.ir.expr import Expr
from ansorc.ir.passes.gpu.elements import evaluate
from ansorc.ir.stmt import For, Function, If, Stmt, Store, substatements
from ansorc.schedule import replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.gpu.description import analysed
from ansorc.search.space import design_space, steps


def stores_of_a_warp(function: Function) -> dict[str, float]:
    """Stores to each shared array, in the mean of a block's warps; every thread is looked at."""
    found: dict[str, float] = defaultdict(float)

    def visit(stmt: Stmt, loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> None:
        if isinstance(stmt, Store) and stmt.buffer.scope is Scope.SHARED:
            found[stmt.buffer.name] += executed(loops, conditions)
        if isinstance(stmt, For):
            is_block = stmt.thread.startswith("blockIdx")  # the first tells for all
            loops = (*loops, replace(stmt, extent=1) if is_block else stmt)
        if isinstance(stmt, If):
            conditions = (*conditions, stmt.condition)
        for part in substatements(stmt):
            visit(part, loops, conditions)

    visit(function.body, (), ())
    return found


def executed(loops: tuple[For, ...], conditions: tuple[Expr, ...]) -> float:
    grid = dict(
        zip((loop.var.name for loop in loops), np.indices([x.extent for x in loops]), strict=True)
    )
    happens = np.ones([loop.extent for loop in loops], dtype=bool)
    for condition in conditions:
        value = evaluate(condition, grid)
        assert value is not None
        happens &= value.astype(bool)
    (place,) = (n for n, loop in enumerate(loops) if loop.thread == "threadIdx.x")
    threads = np.moveaxis(happens, place, -1)
    warps = [threads[..., n : n + 32].any(axis=-1) for n in range(0, loops[place].extent, 32)]
    return float(np.mean([warp.sum() for warp in warps]))


@pytest.mark.parametrize("name", ["conv_layer_nchw", "matmul_odd"])
def test_threads_that_no_sides_are_multiples_of(name: str) -> None:
    dag, uneven = DAGS[name], 0
    sketch = design_space(dag, H100).sketches[0]
    for row in sample(sketch, 4, np.random.default_rng(3)):
        program = steps(sketch, row)
        counted = stores_of_a_warp(ready(dag, program, H100))
        for kernel in analysed(LoopNests(replay(dag, program), 1, {})):
            for statement in kernel.statements:
                if statement.stage.scope == "shared":
                    (stored,) = (x for x in statement.accesses if x.is_store)
                    assert np.isclose(stored.requests.item(), counted[statement.stage.name])
                    uneven += statement.more_rounds.item() != 1
    assert uneven
