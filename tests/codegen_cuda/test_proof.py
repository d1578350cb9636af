"""Programs for GPUs, many of them: NVIDIA's compiler takes them, and emulated they are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest
from codegen_cuda.gpu_schedules import drawn_programs, thread_schedules
from codegen_cuda.proof import Experiment, complaint_of
from hypothesis import HealthCheck, given, settings
from search_space.every_operator import NAMES, computation

from ansorc.codegen.cuda.emulation.sanitize import Sanitizer
from ansorc.errors import IRError
from ansorc.schedule import Schedule, lower

SAMPLED = NAMES[::12]
SANITIZERS: tuple[Sanitizer, Sanitizer] = ("thread", "address")
_OPTIONS = settings(
    max_examples=12,
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


def check_schedule(state: Schedule, *, is_sanitized: bool) -> str:
    experiment = Experiment.of(state.dag, len(state.steps))
    try:
        found = complaint_of(lower(state, "kernel"), experiment, SANITIZERS if is_sanitized else ())
    except IRError:
        return "refused"
    assert not found, f"{found}\n{state}"
    return "refused" if found is None else "right"


@pytest.mark.parametrize("name", SAMPLED)
def test_some_programs_of_some_operators(name: str) -> None:
    assert check_operator(name, 1, 0)["right"]


@_OPTIONS
@given(thread_schedules())
def test_random_programs(state: Schedule) -> None:
    check_schedule(state, is_sanitized=False)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_programs_of_every_operator(name: str) -> None:
    assert check_operator(name, 12, 1)["right"]


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
@settings(_OPTIONS, max_examples=1200)
@given(thread_schedules(most=20))
def test_thousands_of_random_programs(state: Schedule) -> None:
    check_schedule(state, is_sanitized=len(state.steps) % 8 == 0)
