"""The untuned default: right for every operator, well formed for large ones."""

from dataclasses import replace

import numpy as np
import pytest

import ansorc.lang as ac
from ansorc.codegen.build import prepare
from ansorc.codegen.inspect.assembly import innermost_loops
from ansorc.codegen.llvm.binding import assembly
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.ir.buffer import Scope
from ansorc.ir.node import walk
from ansorc.ir.passes.code_size import count_statements
from ansorc.ir.stmt import Allocate
from ansorc.lang import ComputeDAG
from ansorc.lang import operators as ops
from ansorc.schedule import lower, replay
from ansorc.schedule.stage import Mark, Root, Stage
from ansorc.schedule.state import Step
from ansorc.schedule.steps import ComputeAt, ComputeInline, Redefine, RewriteLayout, RFactor
from ansorc.search.cpu import default
from ansorc.search.cpu.default import (
    NARROW_UNROLL_LIMIT,
    UNROLL_LIMIT,
    WINDOW_UNROLL_LIMIT,
)
from ansorc.search.cpu.default_borders import settle_borders
from ansorc.search.default import default_steps
from ansorc.search.options import DEFAULTS
from ansorc.target import Target
from bench.paper_cases import case
from tests.search.small_dags import DAGS, TARGET, ZEN3, check_meaning, conv_layer, matmul, softmax
from tests.support.nightly import sampled


@pytest.mark.parametrize("name", sampled(DAGS, list(DAGS)[::2]))
def test_default_computes_what_it_should(name: str) -> None:
    check_meaning(DAGS[name], default_steps(DAGS[name], TARGET))


def stage_of(dag: ComputeDAG, name: str, target: Target = ZEN3) -> Stage:
    return replay(dag, default_steps(dag, target)).stage(name)


def extents(stage: Stage, mark: Mark) -> list[int]:
    return [it.extent for it in stage.iterators if it.mark is mark and isinstance(it.extent, int)]


@pytest.mark.parametrize("cpu", ["znver3", "znver4", "x86-64-v2"])
def test_matmul_fills_vectors_registers_and_cores(cpu: str) -> None:
    target = Target.parse(f"x86_64-linux-gnu -mcpu={cpu} -cores=4")
    stage = stage_of(matmul(512, 512, 512), "C.local", target)
    outer = stage_of(matmul(512, 512, 512), "C", target)
    lanes = target.vector_bytes // 4
    vector, unrolled = extents(stage, Mark.VECTORIZE)[0], extents(stage, Mark.UNROLL)
    assert vector % lanes == 0
    tile = vector // lanes * int(np.prod(unrolled))
    assert target.vector_registers // 4 <= tile < target.vector_registers
    chunks = extents(outer, Mark.PARALLEL)[0]
    assert chunks % 4 == 0 or chunks > 16


def test_a_layer_is_one_nest() -> None:
    state = replay(conv_layer(56, 64, 64), default_steps(conv_layer(56, 64, 64), TARGET))
    assert [s.name for s in state.stages_inside("relu")] == ["conv"]


def marked(stage: Stage, mark: Mark) -> list[str]:
    return [it.name for it in stage.iterators if it.mark is mark]


def test_a_long_norm_is_divided_among_the_cores_and_vectorised() -> None:
    data = ac.placeholder((1, 2048, 2048), "A")
    partial = stage_of(ComputeDAG([data, ops.norm2(data, name="N")]), "N.sum.rf")
    assert (marked(partial, Mark.PARALLEL), marked(partial, Mark.VECTORIZE)) == (["i.0"], ["j"])


def test_rows_are_parallel_and_their_passes_vectorised_in_the_row() -> None:
    steps = default_steps(softmax(1024, 1024), ZEN3)
    state = replay(softmax(1024, 1024), steps)
    assert marked(state.stage("soft"), Mark.PARALLEL) == ["i0"]
    assert {stage.name for stage in state.stages_inside("soft")} == {
        "soft.max",
        "soft.exp",
        "soft.sum",
    }
    for name in ("soft.max", "soft.exp", "soft.sum", "soft"):
        assert len(marked(state.stage(name), Mark.VECTORIZE)) == 1


def convolution(pixels: int = 28, channels: int = 64) -> ComputeDAG:
    x = ac.placeholder((1, pixels, pixels, channels), "x")
    w = ac.placeholder((3, 3, channels, channels), "w", constant=True)
    return ComputeDAG([x, w, ops.conv2d(x, w, padding=1, name="y")])


def is_redefined(dag: ComputeDAG, *, redefine: bool = True) -> bool:
    return any(isinstance(s, Redefine) for s in default_steps(dag, ZEN3, redefine=redefine))


def test_the_default_of_a_convolution_that_stays_in_cache_is_redefined() -> None:
    assert is_redefined(convolution())
    assert not is_redefined(convolution(), redefine=False)


@pytest.mark.parametrize(("last_mib", "redefined"), [(32, True), (4, False)])
def test_weights_of_a_redefined_default_may_be_in_the_last_cache(
    last_mib: int, *, redefined: bool
) -> None:
    """4 MiB with tiles of 2 results a side, 9 with tiles of 4: more than the second caches hold."""
    target = replace(ZEN3, cache_bytes=(32 << 10, 1 << 20, last_mib << 20))
    steps = default_steps(convolution(14, 256), target)
    assert any(isinstance(step, Redefine) for step in steps) == redefined


@pytest.mark.parametrize(("name", "penalty", "redefined"), [
    ("C2D-3-b16", 1.5, True),  # 0.6 of the cycles, 1.2 to 1.9 times as fast
    ("C2D-3-b16", 2.0, False),
    ("DIL-4-b16", 1.5, False),  # 0.82 of the cycles, and slower
])  # fmt: skip
def test_what_leaves_the_second_caches_must_seem_much_faster(
    name: str, penalty: float, monkeypatch: pytest.MonkeyPatch, *, redefined: bool
) -> None:
    monkeypatch.setattr("ansorc.search.cpu.default.PENALTY_LEAVING", penalty)
    target = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=2")
    steps = default_steps(case(name).dag(constant=True), target)
    assert any(isinstance(step, Redefine) for step in steps) == redefined


def test_a_redefined_default_lays_out_weights_only_if_it_may() -> None:
    for allowed in (True, False):
        found = default_steps(convolution(), TARGET, rewrite_layout=allowed)
        assert any(isinstance(step, RewriteLayout) for step in found) == allowed


def test_default_is_the_same_each_time() -> None:
    dag = matmul(96, 96, 96)
    assert default_steps(dag, TARGET) == default_steps(dag, TARGET)


def test_a_border_is_read_in_place_where_few_tests_are_left() -> None:
    """And the tile of a depthwise convolution stays in registers beside it."""
    dag = case("DEP-1-b1").dag(constant=True)
    made = default_steps(dag, ZEN3)
    assert "conv.pad" in [step.stage for step in made if isinstance(step, ComputeInline)]
    assert not any(step.stage == "conv.pad" for step in made if isinstance(step, ComputeAt))
    prepared = prepare(lower(replay(dag, made)), ZEN3)
    scopes = {part.buffer.scope for part in walk(prepared.body) if isinstance(part, Allocate)}
    assert scopes == {Scope.REGISTER}
    loops = innermost_loops(assembly(emit_llvm(prepared, ZEN3), ZEN3))
    assert sum(loop.spills for loop in loops) == 0


def test_the_sums_of_a_small_image_stay_in_registers() -> None:
    """Though blocks of three vectors of channels seem as fast."""
    target = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=2")
    data, weight = ac.placeholder((1, 7, 7, 960), "x"), ac.placeholder((3, 3, 960), "w")
    dag = ComputeDAG([data, weight, ops.depthwise_conv2d(data, weight, padding=1)])
    prepared = prepare(lower(replay(dag, default_steps(dag, target))), target)
    scopes = {part.buffer.scope for part in walk(prepared.body) if isinstance(part, Allocate)}
    assert scopes == {Scope.REGISTER}


def test_a_border_stays_a_stage_where_many_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansorc.search.cpu.default_borders.MOST_TESTS", 0.0)
    made = default_steps(case("C2D-1-b1").dag(constant=True), ZEN3)
    assert "conv.pad" not in [step.stage for step in made if isinstance(step, ComputeInline)]


def test_a_border_in_a_cache_hides_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 of 1024 channels seem best where the border's cost is not counted."""
    dag = case("DEP-4-b16").dag(constant=True)
    target = Target.parse("x86_64-linux-gnu -mcpu=znver4 -cores=2")
    found = replay(dag, default_steps(dag, target)).stage("conv")
    monkeypatch.setattr("ansorc.search.cpu.default_borders.CERTAIN", 0.0)
    unseen = replay(dag, default_steps(dag, target)).stage("conv")
    assert max(extents(unseen, Mark.VECTORIZE)) == 16
    assert max(extents(found, Mark.VECTORIZE)) >= 64


SETTLED = {
    "nothing is hidden": ((100, 90, 10, 10), "first, in place"),
    "in place it is better": ((100, 10, 79, 70), "other, in place"),
    "in place it is no better": ((100, 10, 81, 60), "other"),
    "neither is certain": ((100, 10, 81, 81), "first, in place"),
    "kept it is surely better": ((100, 10, 79, 60), "other"),
}
"""Cycles of the first program with its border read in place and with none counted, and of the
other, in place and not; and which of them is taken."""


@pytest.mark.parametrize("name", SETTLED)
def test_a_border_is_settled_by_what_a_program_becomes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles, taken = SETTLED[name]
    first, other = program("first"), program("other")
    made = [program("first, in place"), first, program("other, in place"), other]

    def in_place(_: ComputeDAG, __: Target, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return made[made.index(steps) - 1]

    def estimated(_: ComputeDAG, __: Target, steps: tuple[Step, ...], ___: object = ()) -> int:
        return cycles[made.index(steps)]

    monkeypatch.setattr("ansorc.search.cpu.default_borders._read_in_place", in_place)
    monkeypatch.setattr("ansorc.search.cpu.default_borders._cycles", estimated)
    found = settle_borders(conv_layer(14, 16, 16), TARGET, first, lambda: other)
    assert found == program(taken)


def program(name: str) -> tuple[Step, ...]:
    return (ComputeInline(name),)


def test_what_is_transposed_is_a_copy_of_its_own() -> None:
    """Vectors of a convolution are gathered neither from its data nor into its result."""
    data = ac.placeholder((1, 32, 56, 56), "x")
    weight = ac.placeholder((3, 3, 32), "w", constant=True)
    image = ops.transpose(data, (0, 2, 3, 1), name="last")
    total = ops.depthwise_conv2d(image, weight, padding=1, name="conv")
    result = ops.transpose(ops.relu(total, name="positive"), (0, 3, 1, 2), name="first")
    dag = ComputeDAG([data, weight, result])
    state = replay(dag, default_steps(dag, ZEN3))
    roots = {stage.name for stage in state.stages if isinstance(stage.attach, Root)}
    assert {"positive", "first"} <= roots
    assert not state.stage("last").is_inlined
    assert [stage.name for stage in state.stages_inside("positive")] == ["conv"]


def test_narrow_results_are_summed_in_lanes() -> None:
    """Three results a pixel, each the sum of 64 channels that adjoin."""
    made = default_steps(case("T2D-4-b1").dag(constant=True), ZEN3)
    assert any(isinstance(step, RFactor) for step in made)
    assert not any(isinstance(s, RFactor) for s in default_steps(conv_layer(56, 64, 64), ZEN3))


def test_rows_of_a_softmax_are_finished_beside_their_product() -> None:
    dag = case("TBS-2-b16").dag(constant=True)
    found = {
        stage.name for stage in replay(dag, default_steps(dag, TARGET)).stages_inside("scores")
    }
    assert {"scores.product", "scores.max", "scores.sum"} <= found


def test_the_search_does_not_breed_from_the_default() -> None:
    limits = {UNROLL_LIMIT, NARROW_UNROLL_LIMIT, WINDOW_UNROLL_LIMIT}
    assert not limits & set(DEFAULTS.unroll_limits)


def test_an_image_whose_channels_come_first_is_read_where_it_lies() -> None:
    x = ac.placeholder((1, 3, 64, 64), "x")
    w = ac.placeholder((3, 3, 3, 32), "w", constant=True)
    turned = ops.transpose(x, (0, 2, 3, 1), name="turned")
    dag = ComputeDAG([x, w, ops.conv2d(turned, w, stride=2, padding=1, name="y")])
    state = replay(dag, default_steps(dag, ZEN3))
    assert {"turned", "y.pad"} <= {stage.name for stage in state.stages if stage.is_inlined}


def test_programs_of_many_reductions_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ac.placeholder((300,), "x", "int64")
    dag = ComputeDAG([x, ops.sort(x)])

    def code() -> int:
        made = lower(replay(dag.plain, default_steps(dag, ZEN3)))
        return count_statements(prepare(made, ZEN3).body)

    short = code()
    monkeypatch.setattr(default, "MANY_REDUCTIONS", 1000)
    assert 4 * short < 3 * code()
