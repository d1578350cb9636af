"""Stages that C functions compute: with others around them, saved, tuned, and refused."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansorc as ac
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.errors import AnsorcError, ArgumentError, BuildError, LanguageError, ScheduleError
from ansorc.schedule import Schedule
from ansorc.target import Target
from tests.lang.intrinsic_references import halves, of_another_shape, sums_of_rows, weighted
from tests.schedule.meaning import keeps_the_meaning
from tests.support.nightly import examples
from tests.support.schedule_strategies import schedules

OPTIONS = settings(
    deadline=None, database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip
SUMS = """
static {kind} add({kind} a, {kind} b) {{ return a + b; }}
void sums(const {kind} *x, {kind} *y) {{
  for (int i = 0; i < {rows}; ++i) {{
    {kind} total = 0;
    for (int j = 0; j < {columns}; ++j)
      y[i * {columns} + j] = total = add(total, x[i * {columns} + j]);
  }}
}}
"""
WEIGHTED = """
void weighted(const {kind} *x, const {kind} *w, {kind} *y) {{
  for (int i = 0; i < {rows} * {columns}; ++i) y[i] = x[i] * w[i % {columns}];
}}
"""


def _sums(x: ac.Tensor, name: str = "sums") -> ac.Tensor:
    kind = {"float32": "float", "float64": "double"}[x.dtype.name]
    text = SUMS.format(kind=kind, rows=x.shape[0], columns=x.shape[1])
    return ac.extern(
        x.shape, [x], "sums", source=text, reference=sums_of_rows, dtype=x.dtype, name=name
    )


def _weighted(x: ac.Tensor, w: ac.Tensor, name: str = "weighted") -> ac.Tensor:
    kind = {"float32": "float", "float64": "double"}[x.dtype.name]
    text = WEIGHTED.format(kind=kind, rows=x.shape[0], columns=x.shape[1])
    return ac.extern(
        x.shape, [x, w], "weighted", source=text, reference=weighted, dtype=x.dtype, name=name
    )


@st.composite
def chains(draw: st.DrawFn) -> ac.ComputeDAG:
    """One or two C functions with stages before, between and behind them."""
    dtype = draw(st.sampled_from(["float32", "float64"]))
    shape = draw(st.sampled_from([(1, 5), (4, 8), (7, 19), (16, 33)]))
    x, w = ac.placeholder(shape, "x", dtype), ac.placeholder((shape[1],), "w", dtype)
    last, made = x, list[ac.Tensor]()
    if draw(st.booleans()):
        last = ac.compute(shape, lambda i, j, t=last: t[i, j] * 0.5 + w[j], "before")
        made.append(last)
    last = _sums(last)
    if draw(st.booleans()):
        made.append(last)
    if draw(st.booleans()):
        last = ac.compute(shape, lambda i, j, t=last: ac.maximum(t[i, j], x[i, j]), "between")
        last = _weighted(last, w)
    k = ac.reduce_axis(shape[1], "k")
    match draw(st.sampled_from(["none", "elements", "rows"])):
        case "elements":
            last = ac.compute(shape, lambda i, j, t=last: t[i, j] + x[i, j], "behind")
        case "rows":
            last = ac.compute(shape[0], lambda i, t=last: ac.sum(t[i, k], axis=k), "behind")
        case _:
            pass
    more = [t for t in made if t is not last and draw(st.booleans())]
    return ac.ComputeDAG([x, w, *more, last])


def _inputs(dag: ac.ComputeDAG) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, b.shape).astype(b.dtype.numpy) for b in dag.inputs]


@examples(4, nightly=200, options=OPTIONS)
@given(schedules(chains(), most=8))
def test_any_schedule_of_other_stages(state: Schedule) -> None:
    keeps_the_meaning(state, has_text=False)


@examples(3, nightly=100, options=OPTIONS)
@given(chains())
def test_untuned(dag: ac.ComputeDAG) -> None:
    assert ac.ComputeDAG.from_text(dag.to_text()) == dag
    inputs = _inputs(dag)
    expected: Any = dag.evaluate(*inputs)
    found: Any = ac.build(dag)(*inputs)
    is_one = not isinstance(expected, tuple)
    for array, wanted in zip(*([x] if is_one else x for x in (found, expected)), strict=True):
        np.testing.assert_allclose(array, wanted, rtol=2e-4, atol=2e-4)


def _dag() -> ac.ComputeDAG:
    x, w = ac.placeholder((4, 8), "x"), ac.placeholder((8,), "w")
    a = ac.compute((4, 8), lambda i, j: x[i, j] * 2.0, "a")
    y = _weighted(_sums(a), w)
    return ac.ComputeDAG([x, w, ac.compute((4, 8), lambda i, j: y[i, j] + 1.0, "b")])


def _expected(x: Any, w: Any) -> Any:
    return np.cumsum(x * 2.0, axis=1) * w + 1.0


def test_integers() -> None:
    n = ac.placeholder((6,), "n", "int32")
    text = "void half(const int *n, int *m) { for (int i = 0; i < 6; ++i) m[i] = n[i] / 2; }"
    m = ac.extern(6, [n], "half", source=text, reference=halves, dtype="int32")
    dag, data = ac.ComputeDAG([n, m]), np.arange(6, dtype=np.int32)
    for found in (dag.evaluate(data), dag.interpret(data), ac.build(dag)(data)):
        np.testing.assert_array_equal(found, data // 2)


def test_texts_and_keys() -> None:
    dag = _dag()
    again = pickle.loads(pickle.dumps(dag))
    assert again == dag
    assert again.key == dag.key
    inputs = _inputs(dag)
    np.testing.assert_allclose(again.evaluate(*inputs), _expected(*inputs), rtol=1e-6)
    x = ac.placeholder((2,), "x")

    def key(text: str) -> str:
        y = ac.extern(2, [x], "f", source=text, reference=np.sqrt)
        return ac.ComputeDAG([x, y]).key

    text = "void f(const float *x, float *y) { y[0] = y[1] = x[0]; }"
    assert key(text) == key(text) != key(text.replace("x[0]", "x[1]"))


PROGRAM = """
#include <cmath>
#include "{name}.h"
int main() {{
    float x[32], w[8], y[32];
    for (int i = 0; i < 32; ++i) x[i] = 0.25f * i;
    for (int j = 0; j < 8; ++j) w[j] = 1.0f + j;
    if ({name}(x, w, y, nullptr, 1)) return 1;
    for (int i = 0; i < 4; ++i) {{
        float total = 0;
        for (int j = 0; j < 8; ++j) {{
            total += 2 * x[i * 8 + j];
            if (std::fabs(y[i * 8 + j] - (total * w[j] + 1)) > 1e-3f) return 2;
        }}
    }}
    return 0;
}}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_libraries_in_cxx(tmp_path: Path, suffix: str) -> None:
    library = tmp_path / f"libchain{suffix}"
    module = ac.build(_dag(), name="chain")
    module.save(library)
    inputs = _inputs(_dag())
    if suffix == ".so":
        found = ac.load_library(library)(*inputs)
        np.testing.assert_allclose(found, _expected(*inputs), rtol=1e-5)
        command = ["nm", "-D", str(library)]
        shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        assert "chain" in shown
        assert "sums" not in shown
    (tmp_path / "chain.h").write_text(library.with_suffix(".h").read_text())
    (tmp_path / "main.cc").write_text(PROGRAM.format(name="chain"))
    program, sources = tmp_path / "main", [str(tmp_path / "main.cc"), str(library)]
    flags = ["-std=c++17", f"-Wl,-rpath,{tmp_path}", "-I", str(tmp_path), "-pthread"]
    subprocess.run(["c++", *flags, *sources, "-o", str(program), "-lm"], check=True)
    assert subprocess.run([str(program)], check=False).returncode == 0


def test_tuning(tmp_path: Path) -> None:
    task, records = ac.Task(_dag()), str(tmp_path / "tune.db")
    result = ac.tune(task, trials=3, records=records)
    assert result.best is not None, str(result.notes)
    assert not result.notes
    inputs = _inputs(_dag())
    found = ac.build(task, records=records)(*inputs)
    np.testing.assert_allclose(found, _expected(*inputs), rtol=1e-5)


def test_a_wrong_function_is_found(tmp_path: Path) -> None:
    x = ac.placeholder((4, 8), "x")
    text = WEIGHTED.format(kind="float", rows=4, columns=7)
    w = ac.placeholder((8,), "w")
    y = ac.extern((4, 8), [x, w], "weighted", source=text, reference=weighted)
    result = ac.tune(ac.Task(ac.ComputeDAG([x, w, y])), trials=1, records=str(tmp_path / "tune.db"))
    assert result.best is None


_unknown: Callable[[Any], Any] = lambda a: a  # noqa: E731, without a place


def _refused(words: str, error: type[AnsorcError] = LanguageError) -> pytest.RaisesExc[AnsorcError]:
    return pytest.raises(error, match=words)


def test_refusals_of_definitions() -> None:
    x, z = ac.placeholder((2,), "x"), ac.placeholder((2,), "z", "complex64")
    text = "void f(const float *x, float *y) { y[0] = y[1] = x[0]; }"

    def define(inputs: Any, source: str = text, reference: Any = np.sqrt) -> ac.Tensor:
        return ac.extern(2, inputs, "f", source=source, reference=reference, name="y")

    with _refused("the inputs of 'y' are .*; give a list of tensors"):
        define([])
    with _refused("'y' gets z: complex64.2.; a C function gets tensors of real numbers"):
        define([z])
    with _refused("which has no function 'f'; give the text of a C file with void f"):
        define([x], source="void g(float *y) {}")
    with _refused("which other processes cannot import: define it by def"):
        define([x], reference=_unknown)
    y = define([x], reference=of_another_shape)
    with _refused("the reference of 'f' returned an array of shape .1,., and the stage has .2,."):
        ac.ComputeDAG([x, y]).evaluate(np.ones(2))
    with _refused("the derivative of .* in 'y' is not known"):
        ac.gradient(ac.ops.sum(y), [x])
    with _refused("'y' is computed by a C function, in a DAG that updates its inputs"):
        ac.ComputeDAG([x, ac.update(x, ac.ops.add(x, x), name="u"), y])


def test_refusals_of_machines() -> None:
    dag = _dag()
    for make in (ac.Task, ac.build):
        with _refused("the C function 'sums' runs on CPUs, not on 'cuda", ArgumentError):
            make(dag, "cuda -arch=sm_80")
    with _refused("the C function 'sums' runs on CPUs only; write its stage", BuildError):
        emit_cuda(ac.lower(ac.schedule(dag)), Target.parse("cuda -arch=sm_80"))
    x = ac.placeholder((2,), "x")
    y = ac.extern(2, [x], "f", source="void f(int x) { return y; }", reference=np.sqrt)
    with _refused("the C text of 'f' is refused: .*failed with status", BuildError):
        ac.build(ac.ComputeDAG([x, y]))


def test_refusals_of_steps() -> None:
    state = ac.schedule(_dag())
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("'sums' is computed as a whole by the C function 'sums', so no step changes it",
         lambda: state.split("sums", "i0", [2])),
        ("'weighted' gets the array of 'sums'", lambda: state.compute_inline("sums")),
        ("'weighted' is computed as a whole", lambda: state.compute_at("weighted", "b", "i")),
        ("the C function 'sums' of 'sums' gets the array of 'a', which this step would change",
         lambda: state.compute_inline("a")),
        ("the C function 'weighted' of 'weighted' gets the array of 'w'",
         lambda: state.cache_read("w", "local", ["weighted"])),
    ]  # fmt: skip
    for words, step in steps:
        with _refused(words, ScheduleError):
            step()
