"""Programs for GPUs, many of them: NVIDIA's compiler takes them, and emulated they are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import ansorc as ac
from ansorc.codegen.cuda.emulation.sanitize import Sanitizer
from ansorc.codegen.cuda.text import cuda_text
from ansorc.errors import ArgumentError, BuildError, IRError
from ansorc.schedule import Schedule, lower, schedule
from tests.codegen.cuda.gpu_schedules import drawn_programs, searched_schedules, thread_schedules
from tests.codegen.cuda.proof import SANITIZERS, Experiment, complaint_of, program_of_function
from tests.search.every_operator import NAMES, computation

SAMPLED = NAMES[::12]
PARTS, OF_A_PART = 28, 50
OPTIONS = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ),
)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def check_operator(name: str, count: int, sanitized: int) -> Counter[str]:
    """Check `count` programs of an operator, the first `sanitized` of them with sanitizers too."""
    dag = computation(name)
    experiment, verdicts = Experiment.of(dag), Counter[str]()
    for number, state in enumerate(drawn_programs(dag, count, len(name))):
        sanitizers = SANITIZERS if number < sanitized else ()
        found = complaint_of(lower(state, "kernel"), experiment, sanitizers)
        verdicts["refused" if found is None else "wrong" if found else "right"] += 1
        assert not found, f"{name}, program {number}: {found}\n{state}"
    return verdicts


def check_schedule(state: Schedule, sanitizers: Sequence[Sanitizer] = ()) -> str:
    """The text of a program that is right, "" of one that no GPU runs."""
    try:
        function = lower(state, "kernel")
        text = cuda_text(program_of_function(function))
    except (ArgumentError, BuildError, IRError):
        return ""
    experiment = Experiment.of(state.dag, len(state.steps))
    found = complaint_of(function, experiment, sanitizers)
    assert not found, f"{found}\n{state}"
    return text


def check_part(part: int, count: int = OF_A_PART) -> set[str]:
    """The texts of `count` random programs or more, all of them right; `part` seeds them."""
    texts: set[str] = set()
    for strategy in (thread_schedules(most=20), searched_schedules()):

        @settings(OPTIONS, max_examples=count, phases=(Phase.generate,))
        @seed(part)
        @given(strategy)
        def check(state: Schedule) -> None:
            texts.add(check_schedule(state, SANITIZERS))

        check()
    return texts - {""}


@pytest.mark.parametrize("name", SAMPLED)
def test_some_programs_of_some_operators(name: str) -> None:
    assert check_operator(name, 1, 0)["right"]


@OPTIONS
@given(thread_schedules())
def test_random_programs(state: Schedule) -> None:
    check_schedule(state)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_programs_of_every_operator(name: str) -> None:
    assert check_operator(name, 12, 1)["right"]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_random_programs(part: int) -> None:
    """Each part by itself: `-k 'random_programs and [7]'` goes on where a run was cut off."""
    assert len(check_part(part)) >= OF_A_PART


def test_loops_over_blocks_may_be_bound_inside_loops_over_threads() -> None:
    A = ac.placeholder((8, 4), name="A")
    B = ac.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    state = schedule(ac.ComputeDAG([A, B])).bind("B", "i", "threadIdx.x")
    assert check_schedule(state.bind("B", "j", "blockIdx.x"))
