"""The public names, as the documentation shows them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansorc as ac

SNIPPET = """
import ansorc as ac

A = ac.placeholder((512, 512), name="A")                       # dtype="float32"
B = ac.placeholder((512, 512), name="B", constant=True)        # constant: may be re-laid-out at build time
k = ac.reduce_axis(512, name="k")                              # or (lo, hi)
C = ac.compute((512, 512), lambda i, j: ac.sum(A[i, k] * B[k, j], axis=k), name="C")
D = ac.compute((512, 512), lambda i, j: ac.maximum(C[i, j], 0.0), name="D")

dag   = ac.ComputeDAG([A, B, D])                               # inputs and outputs, in call order
state = ac.schedule(dag)
print(state)                                                   # nested loops
func  = ac.lower(state)                                        # ir.Function; prints, parses, runs in the interpreter
mod   = ac.build(state, target="native", name="matmul_relu")   # state or dag or task; dag alone gives the untuned default schedule
mod(a, b, d)                                                   # numpy arrays or anything with __dlpack__
mod.time(a, b, d)                                              # median, spread
mod.save("matmul_relu.so")                                     # + matmul_relu.h

task   = ac.Task(dag, target="native", name="matmul_relu")
result = ac.tune(task, trials=200, records="tune.db", seed=0)  # or a list of tasks, objective=..., time_budget=...
result.best, result.curve, result.build()
"""  # noqa: E501 - as in the design


def product(n: int = 32) -> ac.ComputeDAG:
    a, b = ac.placeholder((n, n), name="A"), ac.placeholder((n, n), name="B")
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def test_the_snippet_of_the_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (512, 512)).astype(np.float32) for _ in "ab")
    d = np.empty_like(a)
    names: dict[str, object] = {"a": a, "b": b, "d": d}
    exec(SNIPPET.replace("trials=200", "trials=2"), names)
    np.testing.assert_allclose(d, np.maximum(a @ b, 0), rtol=1e-3, atol=1e-3)
    result = names["result"]
    assert isinstance(result, ac.TuneResult)
    assert result.trials == 2
    tuned = np.empty_like(a)
    result.build().bind(B=b)(a, tuned)
    np.testing.assert_allclose(tuned, d, rtol=1e-3, atol=1e-3)
    for name in ("matmul_relu.so", "matmul_relu.h", "matmul_relu.json", "tune.db"):
        assert Path(name).exists()


def test_a_computation_alone_is_built_with_the_default_schedule() -> None:
    dag = product()
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (32, 32)).astype(np.float32) for _ in "ab")
    for program in (dag, ac.schedule(dag), ac.Task(dag, name="mine")):
        module = ac.build(program)
        assert module.signature.name == ("mine" if isinstance(program, ac.Task) else "kernel")
        c = np.empty_like(a)
        module(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_the_target_and_the_name_of_a_build() -> None:
    task = ac.Task(product(), "x86_64-linux-gnu -mcpu=znver4", "mine")
    assert ac.build(task).target.cpu == "znver4"
    module = ac.build(task, "aarch64-linux-gnu -mcpu=cortex-a53", "other")
    assert (module.target.cpu, module.signature.name) == ("cortex-a53", "other")


def test_every_public_name_is_there() -> None:
    for name in ac.__all__:
        assert hasattr(ac, name)
    assert callable(ac.schedule), "the function, not the package of that name"
