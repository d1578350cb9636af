"""Random programs on a real GPU: right, the same bits each time, nothing written beside outputs.

Run by `make gpu`; what is emulated elsewhere of the same programs needs no GPU.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, seed, settings

from ansorc.codegen.build import compile_function
from ansorc.codegen.cuda.binding import FIRST_DEVICE, device_count, facts_of
from ansorc.codegen.cuda.kernel import CudaKernel
from ansorc.errors import BuildError, IRError
from ansorc.schedule import Schedule, lower
from ansorc.target import Target
from tests.codegen.cuda.gpu_schedules import drawn_programs, searched_schedules, thread_schedules
from tests.codegen.cuda.proof import Experiment
from tests.codegen.cuda.test_proof import OPTIONS
from tests.search.every_operator import NAMES, computation

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device, or no pycuda"),
]
CALLS, OF_AN_OPERATOR, PARTS, OF_A_PART = 3, 4, 28, 12


def target() -> Target:
    return Target.parse(f"cuda -arch={facts_of(FIRST_DEVICE).arch}")


def complaint_of(state: Schedule, experiment: Experiment, target: Target) -> str | None:
    """What is wrong with a program on the first GPU; None where no GPU runs it."""
    try:
        compiled = compile_function(lower(state, "kernel"), target)
    except (BuildError, IRError):
        return None
    kernel = CudaKernel(
        compiled.code.device_program.plan, compiled.code.image, compiled.signature,
        facts_of(FIRST_DEVICE).arch,
    )  # fmt: skip
    found: set[bytes] = set()
    for _ in range(CALLS):
        arrays = experiment.arrays()
        bound = kernel.bind_on(arrays, None)
        bound.run(1)
        bound.fetch()
        is_intact = bound.is_intact()
        bound.release()
        complaint = experiment.compare(arrays) if is_intact else "it writes beside its outputs"
        if complaint:
            return complaint
        found.add(b"".join(array.tobytes() for array in arrays))
    kernel.close()
    return "" if len(found) == 1 else "its results differ from call to call"


@pytest.mark.parametrize("name", NAMES)
def test_programs_of_every_operator(name: str) -> None:
    dag = computation(name)
    experiment, right = Experiment.of(dag), 0
    for number, state in enumerate(drawn_programs(dag, OF_AN_OPERATOR, len(name) + 1)):
        found = complaint_of(state, experiment, target())
        assert not found, f"{name}, program {number}: {found}\n{state}"
        right += found == ""
    assert right


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    for strategy in (thread_schedules(most=20), searched_schedules()):

        @settings(OPTIONS, max_examples=OF_A_PART, phases=(Phase.generate,))
        @seed(part + 1000)
        @given(strategy)
        def check(state: Schedule) -> None:
            experiment = Experiment.of(state.dag, len(state.steps))
            found = complaint_of(state, experiment, target())
            assert not found, f"{found}\n{state}"

        check()
