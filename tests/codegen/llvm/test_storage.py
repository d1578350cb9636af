"""Buffers that are not needed at the same time share the memory of the workspace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.llvm.storage import kernel_storage, workspace_bytes
from ansorc.ir.parser import parse
from ansorc.ir.passes.fill_memory import VARIABLE as FILL_VARIABLE
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, schedule
from ansorc.target import Target
from tests.codegen.llvm.llvm_harness import run
from tests.schedule.meaning import check, inputs_of, poisoned
from tests.support.dag_strategies import dags
from tests.support.nightly import examples

CHAIN = """
kernel chain(X: float32[64], Y: float32[64]):
    alloc A: float32[64]
    alloc B: float32[64]
    alloc C: float32[16]
    alloc D: float32[64]
    KIND i in 0..64:
        A[i] = X[i] + 1.0
    KIND i in 0..64:
        B[i] = A[63 - i] * 2.0
    KIND i in 0..16:
        C[i] = B[i * 4]
    KIND i in 0..64:
        D[i] = B[i] + C[i // 4]
    KIND i in 0..64:
        Y[i] = D[63 - i] - C[i % 16]
"""


@pytest.mark.parametrize("kind", ["for", "parallel"])
def test_stages_that_do_not_live_together_share_memory(kind: str) -> None:
    function = parse(CHAIN.replace("KIND", kind))
    offsets = {buffer.name: place for buffer, place in kernel_storage(function).block.items()}
    assert offsets["A"] == offsets["C"] or offsets["A"] == offsets["D"]
    assert len({offsets["B"], offsets["C"], offsets["D"]}) == 3
    assert workspace_bytes(function) == 3 * 256
    x, found = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run(function, x, found)
    b = (x[::-1] + 1) * 2
    c = b[::4]
    d = b + np.repeat(c, 4)
    np.testing.assert_array_equal(found, d[::-1] - np.tile(c, 4))


def test_what_one_loop_around_all_uses_shares_nothing() -> None:
    lines = CHAIN.replace("KIND", "for").splitlines()
    inside = "\n".join("    " + line if line.startswith("    ") else line for line in lines[6:])
    text = "\n".join([*lines[:6], "    for n in 0..2:", inside])
    assert workspace_bytes(parse(text)) == 3 * 256 + 64


def test_steps_at_root_need_two_arrays() -> None:
    data = ac.placeholder((64, 64), name="A")
    last = data
    for number in range(8):
        last = ac.compute(
            (64, 64), lambda i, j, p=last: p[63 - i, j] + p[i, 63 - j], name=f"S{number}"
        )
    dag = ac.ComputeDAG([data, last])
    function = lower(schedule(dag))
    assert workspace_bytes(function) == 2 * 64 * 64 * 4
    values = np.random.default_rng(0).random((64, 64)).astype(np.float32)
    found = ac.build(schedule(dag))(values)
    np.testing.assert_allclose(found, dag.evaluate(values), rtol=1e-5)


@examples(8, nightly=200)
@given(dags(), st.data())
def test_programs_that_share_memory_are_right(dag: ComputeDAG, data: st.DataObject) -> None:
    """Without what fills the memory of other tests at the beginning: that is a use of all of it."""
    state = schedule(dag)
    for stage in dag.ops:
        is_plain = stage.scan is None and not stage.places and not stage.reduce_axes
        if stage.axes and is_plain and data.draw(st.booleans()):
            state = state.parallel(stage.name, stage.axes[0].name)
    inputs = inputs_of(dag, seed=len(dag.ops))
    arrays = poisoned(dag, inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(FILL_VARIABLE, raising=False)
        module = compile_module(lower(state), Target.parse("native"), "kernel")
    for _ in range(2):  # the second call finds what the first has left
        module(*arrays, threads=2)
    check(dag, arrays, evaluate(dag, inputs), "the machine code")
