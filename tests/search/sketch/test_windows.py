"""Pipelines of stages that read windows: where stages are computed, how often, and rightly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansorc.lang as ac
from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor
from ansorc.schedule import inlining, replay
from ansorc.schedule.extent import as_array
from ansorc.schedule.stage import At, Root
from ansorc.schedule.state import State
from ansorc.schedule.steps import location
from ansorc.search.cpu.rules import RULES
from ansorc.search.cpu.sampling import sample_on_cpu
from ansorc.search.default import default_steps
from ansorc.search.sketch import Sketch, generate, place_stages
from ansorc.search.sketch.windows import DEPTHS, find_moved_axes
from ansorc.search.space.genes import steps
from tests.schedule.meaning import keeps_the_meaning
from tests.search.small_dags import ZEN3
from tests.support.nightly import examples


def chain(stages: int, extent: int = 256) -> ComputeDAG:
    """Return a chain of means of four neighbours, each two shorter than the one before."""
    data = ac.placeholder((extent, extent), name="A")
    last = data
    for number in range(stages):
        side = extent - 2 * (number + 1)
        last = ac.compute(
            (side, side),
            lambda i, j, p=last: (
                p[i, j + 1] + p[i + 2, j + 1] + p[i + 1, j] + p[i + 1, j + 2]
            ) * 0.25,
            name=f"S{number}",
        )  # fmt: skip
    return ComputeDAG([data, last])


def whole_sketches(dag: ComputeDAG, most: int = 4) -> tuple[Sketch, ...]:
    return tuple(
        whole
        for derived in generate(dag.plain, ZEN3, RULES)
        for whole in place_stages(derived, most)
    )


def computed_elements(state: State) -> float:
    """Return how many elements the program computes, as a share of those of all its tensors."""
    wanted = computed = 0
    for stage in state.stages:
        if not stage.is_inlined:
            wanted += prod(axis.extent for axis in stage.op.axes)
            runs = prod(int(as_array(extent)) for extent in stage.region)
            for target, count in state.chain(stage):
                runs *= prod(int(as_array(loop.extent)) for loop in target.iterators[:count])
            computed += runs
    return computed / wanted


def test_each_stage_at_root_is_a_program() -> None:
    first, *_ = whole_sketches(chain(6))
    assert all(isinstance(stage.attach, Root) for stage in first.state.stages)
    assert not any(stage.is_inlined for stage in first.state.stages)


def test_stages_are_computed_in_groups_of_each_depth() -> None:
    sizes = set[int]()
    for sketch in whole_sketches(chain(16)):
        roots = [s for s in sketch.state.stages if isinstance(s.attach, Root) and not s.is_inlined]
        sizes.add(len(roots))
    assert {16, 8, 4, 2, 1} <= sizes


@pytest.mark.parametrize("stages", [4, 8, 24])
def test_the_default_of_a_chain_computes_little_twice(stages: int) -> None:
    dag = chain(stages).plain
    state = replay(dag, default_steps(dag, ZEN3))
    assert computed_elements(state) < 2.5


def test_work_grows_with_the_number_of_stages_only() -> None:
    """Each window more repeats what neighbouring tiles share, not what the stages before repeat."""
    for sketch in whole_sketches(chain(12)):
        genes = sample_on_cpu(sketch, 1, np.random.default_rng(0))
        state = replay(sketch.dag, steps(sketch, genes[0]))
        per_tile = [
            prod(int(as_array(extent)) for extent in stage.region)
            / prod(a.extent for a in stage.op.axes)
            for stage in state.stages
            if isinstance(stage.attach, At)
        ]
        assert all(share <= 1 for share in per_tile)
        loads = max(len(stage.op.loads) for stage in state.stages)
        assert loads <= 4 * 4 + 4, "inlining repeats the loads of one stage at most"


def test_no_long_stencil_is_written_out_in_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing out 25 stencils of 25 terms takes seconds, and such a program is never good."""
    data = ac.placeholder((64, 64), name="A", dtype="int32")
    last = data
    for number in range(3):
        last = ac.compute(
            tuple(extent - 4 for extent in last.shape),
            lambda i, j, p=last: reduce(add, [p[i + a, j + b] * (a + b + 1)
                                              for a in range(5) for b in range(5)]),
            name=f"S{number}",
        )  # fmt: skip
    expanded = list[str]()

    def expand(reader: ComputeOp, source: ComputeOp) -> ComputeOp | None:
        expanded.append(f"{source.name} in {reader.name}")
        return None

    monkeypatch.setattr(inlining, "inline_op", expand)
    monkeypatch.setattr(location, "inline_op", expand)
    assert whole_sketches(ComputeDAG([data, last]))
    assert not expanded


def test_a_table_is_computed_once_where_it_is_read_at_places_that_are_data() -> None:
    index, data = ac.placeholder(4096, "I", "uint8"), ac.placeholder(256, "D", "int32")
    table = ac.compute(256, lambda v: data[v] * 3 // 7, name="T")
    few, many = (
        ac.compute(n, lambda i: table[index[i].astype("int32")], name="R") for n in (16, 4096)
    )
    (derived, *_) = generate(ComputeDAG([index, data, many]), ZEN3, RULES)
    assert not derived.state.stage("T").is_inlined
    (derived, *_) = generate(ComputeDAG([index, data, few]), ZEN3, RULES)
    assert derived.state.stage("T").is_inlined


def tripled(value: Scalar) -> Scalar:
    return value * 3.0


def test_functions_of_a_table_along_a_sum_are_computed_once() -> None:
    data, matrix = ac.placeholder(32, "D"), ac.placeholder((32, 4096), "M")
    k = ac.reduce_axis(32, "k")
    for function, is_inlined in ((ac.sqrt, False), (tripled, True)):
        table = ac.compute(32, lambda s, f=function: f(data[s]), name="T")
        total = ac.compute(
            4096, lambda i, t=table: ac.sum(t[k] * matrix[k, i], axis=k), name="R"
        )  # fmt: skip
        (derived, *_) = generate(ComputeDAG([data, matrix, total]), ZEN3, RULES)
        assert derived.state.stage("T").is_inlined == is_inlined


def test_long_terms_of_a_histogram_are_computed_before_it() -> None:
    image = ac.placeholder((4, 4096), "I", "uint8")
    bright = ac.compute(4096, lambda i: reduce(add, [image[c, i] // 4 for c in range(4)]), name="B")
    copied = ac.compute(4096, lambda i: image[0, i] // 4, name="B")
    for terms, is_inlined in ((bright, False), (copied, True)):
        dag = ComputeDAG([image, ac.scatter(256, terms, 1, name="H")])
        for derived in generate(dag, ZEN3, RULES):
            assert derived.state.stage("B").is_inlined == is_inlined


def test_a_short_source_of_a_window_is_inlined() -> None:
    data = ac.placeholder((64, 64), name="A")
    twice = ac.compute((64, 64), lambda i, j: data[i, j] * 2.0, name="T")
    blur = ac.compute((62, 64), lambda i, j: twice[i, j] + twice[i + 1, j] + twice[i + 2, j], "B")
    (derived,) = generate(ComputeDAG([data, blur]).plain, ZEN3, RULES)
    assert derived.state.stage("T").is_inlined


def test_windows_reach_along_the_axes_of_all_sources() -> None:
    data = ac.placeholder((3, 40, 40), name="A")
    across = ac.compute((3, 40, 38), lambda c, i, j: data[c, i, j] + data[c, i, j + 2], name="X")
    down = ac.compute((3, 38, 38), lambda c, i, j: across[c, i, j] + across[c, i + 2, j], name="Y")
    turned = ac.compute((38, 3, 38), lambda i, c, j: down[c, i, j] * 2.0, name="Z")
    state = replay(ComputeDAG([data, turned]).plain, ())
    assert find_moved_axes(state, state.stage("Y"), {}) == {"i"}
    assert find_moved_axes(state, state.stage("Z"), {}) == {"i"}


def test_sources_read_at_places_that_are_cut_off_are_computed_in_tiles() -> None:
    data = ac.placeholder((100, 64), name="A")

    def body(source: Tensor) -> Tensor:
        return ac.compute(
            (100, 64),
            lambda i, j: source[ac.maximum(i - 1, 0), j] + source[ac.minimum(i + 1, 99), j] * 3.0
            + source[i, j] / 2.0,
            name=f"{source.name}.next",
        )  # fmt: skip

    dag = ComputeDAG([data, body(body(data))])
    attached = [
        stage
        for sketch in whole_sketches(dag)
        for stage in sketch.state.stages
        if isinstance(stage.attach, At)
    ]
    assert attached
    tiled = {variable.axis for sketch in whole_sketches(dag) for variable in sketch.variables}
    assert "i" in tiled, "windows that are cut off reach along i"


@st.composite
def pipelines(draw: st.DrawFn) -> ComputeDAG:
    """Draw up to four stages that read windows of one or two of the tensors before.

    Windows are shifted, cut off at the borders, guarded, strided, or sums over an axis.
    """
    extents = st.integers(3, 21)
    data = ac.placeholder((draw(extents), draw(extents)), name="A")
    tensors: list[Tensor] = [data]
    for number in range(draw(st.integers(2, 4))):
        source = draw(st.sampled_from(tensors[-2:]))
        tensors.append(_window(draw, source, f"S{number}"))
    *_, last = tensors
    return ComputeDAG([data, last])


def _window(draw: st.DrawFn, source: Tensor, name: str) -> Tensor:
    rows, columns = source.shape
    shifts = draw(st.lists(st.tuples(_SHIFTS, _SHIFTS), min_size=1, max_size=4, unique=True))
    kind = draw(st.sampled_from(["cut off", "guarded", "inside", "strided", "sum"]))
    if kind == "sum" and min(rows, columns) > 3:
        r = ac.reduce_axis(3, name=f"{name}_r")
        return ac.compute(
            (rows - 2, columns), lambda i, j: ac.sum(source[i + r, j] * 0.5, axis=r), name=name
        )
    if kind == "strided":
        return ac.compute(
            ((rows - 1) // 2 + 1, columns),
            lambda i, j: source[i * 2, j] - source[ac.minimum(i * 2 + 1, rows - 1), j] * 0.25,
            name=name,
        )
    if kind == "inside" and min(rows, columns) > 5:
        return ac.compute(
            (rows - 4, columns - 4), lambda i, j: _sum(source, i + 2, j + 2, shifts), name=name
        )

    def at(i: Scalar, j: Scalar) -> Scalar:
        if kind == "cut off":
            terms = [source[_cut(i + di, rows), _cut(j + dj, columns)] for di, dj in shifts]
            return sum(terms[1:], terms[0]) * 0.5
        inside = ac.all_of(i >= 2, i < rows - 2, j >= 2, j < columns - 2)
        return ac.if_then_else(inside, _sum(source, i, j, shifts), source[i, j])

    return ac.compute((rows, columns), at, name=name)


_SHIFTS = st.integers(-2, 2)


def _cut(index: Scalar, extent: int) -> Scalar:
    return ac.maximum(ac.minimum(index, extent - 1), 0)


def _sum(source: Tensor, i: Scalar, j: Scalar, shifts: Sequence[tuple[int, int]]) -> Scalar:
    terms = [source[i + di, j + dj] for di, dj in shifts]
    return sum(terms[1:], terms[0]) * 0.5


@examples(4, nightly=100)
@given(pipelines(), st.integers(0, 1 << 16))
def test_pipelines_are_right_in_each_place(dag: ComputeDAG, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sketches = whole_sketches(dag, 2)
    assert len(sketches) <= (len(DEPTHS) + 2) * 8
    sketch = sketches[int(rng.integers(len(sketches)))]
    for genes in sample_on_cpu(sketch, 1, rng):
        keeps_the_meaning(replay(sketch.dag, steps(sketch, genes)))
    keeps_the_meaning(replay(dag.plain, default_steps(dag.plain, ZEN3)))
