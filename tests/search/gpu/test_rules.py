"""The space of GPU programs: all stages are bound, rows are legal, and compute what they should."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.lang import operators as ops
from ansorc.schedule import replay
from ansorc.schedule.steps import RFactor
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.evolution.variation import mutate
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.kernels import kernels_of
from ansorc.search.space import design_space, encode, phenotype_keys, population_state, steps
from ansorc.search.space.genes import are_legal
from ansorc.target import Target
from ansorc.target.gpu_limits import launch_limits
from tests.search import small_dags
from tests.search.gpu.gpu_programs import H100, TESLA, check_threads, sketches_of
from tests.search.small_dags import DAGS
from tests.support.nightly import also_nightly, amount, is_nightly

LONG = {
    "softmax": small_dags.softmax(5, 150),
    "layer_norm": small_dags.dag(
        [(4, 170), (170,), (170,)], lambda t: ops.layer_norm(t[0], t[1], t[2])
    ),
    "total": small_dags.dag([(300,)], lambda t: small_dags.total(t[0])),
    "argmax": small_dags.dag([(9, 130)], lambda t: small_dags.extreme(t[0], 1)),
    "columns": small_dags.dag([(3, 90, 4)], lambda t: ops.softmax(t[0], axis=1)),
    "product": small_dags.matmul(3, 2, 140),
}
"""Reductions that the threads of a block make together."""


@also_nightly
@pytest.mark.parametrize("name", list(LONG))
def test_threads_reduce_together(name: str) -> None:
    sketches = design_space(LONG[name], H100).sketches
    together = [s for s in sketches if any(isinstance(step, RFactor) for step in s.steps)]
    assert together
    assert len(together) < len(sketches)
    for sketch in together[: amount(2, 4)]:
        for row in sample(sketch, amount(1, 2), np.random.default_rng(3)):
            check_threads(LONG[name], steps(sketch, row))


def test_a_softmax_is_one_kernel_or_three() -> None:
    spaces = design_space(LONG["softmax"], H100).sketches
    assert {len(kernels_of(sketch.state)) for sketch in spaces} == {1, 3}


@also_nightly
@pytest.mark.parametrize("name", list(DAGS))
def test_programs_compute_what_is_defined(name: str) -> None:
    """One that is drawn and one that is mutated, of two sketches; by default half of these."""
    for number, sketch in enumerate(sketches_of(name)[:2]):
        genes = sample(sketch, 3, np.random.default_rng(3))
        rows = [*genes[:1], *mutate(sketch, genes[1:2], np.random.default_rng(4))]
        for row in rows if is_nightly() else rows[number : number + 1]:
            check_threads(DAGS[name], steps(sketch, row))


@pytest.mark.parametrize("name", list(DAGS))
def test_every_stage_with_work_is_bound(name: str) -> None:
    for sketch in sketches_of(name):
        for kernel in kernels_of(sketch.state):
            assert kernel.is_bound or not kernel.root.op.axes


@pytest.mark.parametrize("name", ["matmul", "conv_layer", "softmax", "transpose"])
def test_genes_and_steps_are_inverse(name: str) -> None:
    for sketch in sketches_of(name)[:2]:
        genes = sample(sketch, 16, np.random.default_rng(0))
        for row in genes:
            found = encode(sketch, steps(sketch, row))
            assert found is not None
            assert phenotype_keys(sketch, found[None]) == phenotype_keys(sketch, row[None])
            assert steps(sketch, found) == steps(sketch, row)


@pytest.mark.parametrize("machine", [H100, TESLA])
def test_what_is_drawn_keeps_the_limits(machine: Target) -> None:
    sketch, *_ = design_space(small_dags.matmul(1024, 768, 1024), machine).sketches
    genes = sample(sketch, 256, np.random.default_rng(0))
    children = mutate(sketch, genes, np.random.default_rng(1))
    limits = launch_limits(machine)
    for rows in (genes, children):
        assert are_legal(sketch, rows).all()
        for kernel in kernels_of(population_state(sketch, rows)):
            assert (kernel.threads <= limits.threads).all()
            assert (kernel.threads >= 32).all()
            assert np.all(kernel.shared_bytes <= limits.shared_bytes)
            assert np.all(kernel.vthreads <= 8)


def test_a_row_of_a_population_is_the_program_alone() -> None:
    computation = small_dags.matmul(100, 52, 77)
    sketch, *_ = design_space(computation, H100).sketches
    genes = sample(sketch, 32, np.random.default_rng(0))
    (kernel,) = kernels_of(population_state(sketch, genes))
    for place, row in enumerate(genes):
        (alone,) = kernels_of(replay(computation, steps(sketch, row)))
        for name in ("blocks", "threads", "vthreads", "shared_bytes", "registers"):
            values = np.broadcast_to(getattr(kernel, name), len(genes))
            assert values[place] == getattr(alone, name), name


@pytest.mark.parametrize("name", ["matmul_odd", "conv_layer_nchw", "layer_norm", "elementwise"])
def test_the_default_computes_what_is_defined(name: str) -> None:
    check_threads(DAGS[name], default_steps(DAGS[name], H100))


def test_a_transposition_touches_whole_sectors_of_both_tensors() -> None:
    computation = small_dags.dag([(512, 384)], lambda t: ops.transpose(t[0], (1, 0)))
    state = replay(computation, default_steps(computation, H100))
    (found,) = descriptions(state, 1)
    for access in found.global_accesses:
        moved = 32 * np.asarray(access.sectors).item() * np.asarray(access.requests).item()
        blocks = np.prod([np.asarray(extent).item() for extent in found.grid])
        assert moved * blocks * -(-np.asarray(found.threads).item() // 32) <= 1.05 * 512 * 384 * 4
