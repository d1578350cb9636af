"""Data that says places which do not exist: never a result without an error, never a crash.

The reference is NumPy's evaluation of the definition, which refuses what reads outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.module import Module
from ansorc.errors import FaultError, IRError, LanguageError
from ansorc.ir.aligned import Array
from ansorc.ir.interpret import interpret
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.schedule import lower, replay
from ansorc.search.default import default_steps
from ansorc.search.evolution.sampling import sample
from ansorc.search.options import DEFAULTS
from ansorc.search.space import design_space, steps
from ansorc.target import detect
from tests.e2e.places.gathers import Gather, aligned, gather
from tests.support.nightly import sampled

Run = Callable[[Sequence[Array]], Array]
REFUSED = (FaultError, IRError)


def expected(case: Gather) -> Array | None:
    """What the definition says; None if it reads outside of a tensor."""
    try:
        return evaluate(case.dag, case.inputs)[0]
    except (LanguageError, FaultError):
        return None


def check(case: Gather, run: Run) -> None:
    wanted = expected(case)
    if wanted is None:
        with pytest.raises(REFUSED):
            run(case.inputs)
    else:
        found = run(case.inputs)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=case.title)


def compiled(module: Module, threads: int) -> Run:
    return lambda inputs: module(*aligned(list(inputs)), threads=threads)


def interpreted(dag: ComputeDAG) -> Run:
    function = lower(replay(dag, default_steps(dag, detect())), "kernel")

    def run(inputs: Sequence[Array]) -> Array:
        output = dag.outputs[0]
        array = np.zeros(output.shape, output.dtype.numpy)
        interpret(function, [*inputs, array])
        return array

    return run


def emulated(dag: ComputeDAG) -> Run:
    module = ac.build(dag, "cuda-emulated -arch=sm_80", name="gathered")

    def run(inputs: Sequence[Array]) -> Array:
        output = dag.outputs[0]
        (array,) = aligned([np.zeros(output.shape, output.dtype.numpy)])
        module(*aligned(list(inputs)), array)
        return array

    return run


def any_program(dag: ComputeDAG, seed: int) -> Module:
    """A random program of the search space."""
    rng = np.random.default_rng(seed)
    sketches = design_space(dag, detect(), DEFAULTS).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    (row,) = sample(sketch, 1, rng, DEFAULTS)
    return ac.build(replay(dag, steps(sketch, row)), name="gathered")


def check_on_cpu(seed: int) -> None:
    case = gather(seed)
    module = ac.build(case.dag, name="gathered")
    for threads in (1, 0):
        check(case, compiled(module, threads))


def check_any_program(seed: int) -> None:
    case = gather(seed)
    check(case, compiled(any_program(case.dag, seed), 0))


@pytest.mark.parametrize("seed", sampled(range(24), range(10)))
def test_compiled(seed: int) -> None:
    check_on_cpu(seed)


@pytest.mark.parametrize("seed", sampled(range(1000, 1016), range(1000, 1006)))
def test_any_program(seed: int) -> None:
    check_any_program(seed)


@pytest.mark.parametrize("seed", sampled(range(2000, 2012), range(2000, 2005)))
def test_interpreted(seed: int) -> None:
    case = gather(seed)
    check(case, interpreted(case.dag))


@pytest.mark.parametrize("seed", range(3000, 3002))
def test_emulated_on_a_gpu(seed: int) -> None:
    case = gather(seed)
    check(case, emulated(case.dag))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_compiled_many() -> None:
    for seed in range(10_000, 12_000):
        check_on_cpu(seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_any_program_many() -> None:
    for seed in range(20_000, 21_000):
        check_any_program(seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_emulated_many() -> None:
    for seed in range(30_000, 30_200):
        case = gather(seed)
        check(case, emulated(case.dag))
