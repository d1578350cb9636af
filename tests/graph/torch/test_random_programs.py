"""`torch.compile` of random programs does what PyTorch does: results, memory, writes, errors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ansorc.graph.shared_networks as shared
from ansorc.graph.torch.compile_backend import torch_backend
from ansorc.search.programs import ChosenSchedule as Schedule
from tests.graph.torch.torch_oracle import tensors_in, torch
from tests.graph.torch.torch_programs import Program, drawn_program, given, layers_of

pytestmark = pytest.mark.filterwarnings("ignore")
CALLS = ((4, 3), (4, 3), (5, 4), (5, 4))
"""Rows and the number of each call: some again, some others."""

ERROR = ("is an error of the computation", "random numbers after it")
"""What is compared of a call that raises an error."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Build kernels without a search for schedules; what PyTorch is told is the same."""

    def plain(*_: object, **__: object) -> Schedule:
        return Schedule((), "loops as they are defined")

    monkeypatch.setattr(shared, "default_program", plain)
    shared.get_shared_networks.cache_clear()
    with torch.no_grad():
        yield
    shared.get_shared_networks.cache_clear()
    torch.compiler.reset()


def assert_as_eager(program: Program, number: int, *, is_shared: bool) -> int:
    """Run a program compiled and eager; return how often ansorc left a graph to PyTorch."""
    torch.compiler.reset()
    function, run = program.function(), torch.compile(program.function(), backend=torch_backend)
    mine, others = layers_of(number), layers_of(number)
    left = 0
    for call, (rows, k) in enumerate(CALLS):
        sides: list[list[Any]] = []
        for side, layers in ((function, others), (run, mine)):
            arguments = given(rows, k, call, is_shared=is_shared)
            torch.manual_seed(call)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                sides.append(outcome(side, [*arguments, layers]))
            words = [str(one.message) for one in caught if "ansorc" in str(one.message)]
            left += len(words)
            assert not any("fault of ansorc" in one for one in words), f"{words}\n{program}"
        if len(sides[1]) == len(ERROR) < len(sides[0]) and is_refused_by_dynamo(program, arguments):
            return left
        compare(sides[0], sides[1], f"call {call} of program {number}:\n{program}")
        if call == 1:  # behind PyTorch's back
            for layers in (mine, others):
                layers[0].linear.weight.data.mul_(0.5)
        if call == 2:  # other instances
            mine[:2], others[:2] = mine[1::-1], others[1::-1]
    return left


def is_refused_by_dynamo(program: Program, arguments: list[Any]) -> bool:
    """Return whether Dynamo raises an error by itself, as it does for `t.expand(2, 3).copy_(t)`."""
    torch.compiler.reset()
    run = torch.compile(program.function(), backend="eager")
    try:
        run(*arguments, layers_of(0))
    except torch._dynamo.exc.TorchRuntimeError:
        return True
    return False


def outcome(function: Any, arguments: list[Any]) -> list[Any]:
    """What a call leaves: results and arguments, what is shared, what writing a result changes."""
    before = arguments[:2]
    held = [*before, arguments[4][2], *arguments[4][0].parameters(), *arguments[4][0].buffers()]
    try:
        results = list(function(*arguments))
    except (RuntimeError, AssertionError, IndexError) as error:
        return [isinstance(error, (RuntimeError, AssertionError)), torch.rand(2)]
    every = [*results, *held]
    places = [one.untyped_storage().data_ptr() for one in every]
    identities = [[one is other for other in every] for one in every]
    shares = [[one == other for other in places] for one in places]
    strides = [
        [step for step, extent in zip(one.stride(), one.shape, strict=True) if extent > 1]
        for one in results
    ]
    found = [identities, shares, strides, [one.clone() for one in every], torch.rand(2)]
    for one in results:
        try:
            one.add_(1)
        except RuntimeError:  # several of its elements lie in one place
            continue
        found.append([each.clone() for each in every])
    return found


def compare(wanted: list[Any], found: list[Any], where: str) -> None:
    def words(difference: str) -> str:
        return f"{difference}\n{where}"

    assert len(wanted) == len(found), where
    for one, other in zip(wanted, found, strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.equal(one, other), f"random numbers\n{where}"
        elif tensors := tensors_in(one):
            for a, b in zip(tensors, other, strict=True):
                torch.testing.assert_close(b, a, rtol=2e-4, atol=2e-4, equal_nan=True, msg=words)
        else:
            assert one == other, where


def run_programs(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    left = 0
    for number in range(count):
        is_shared = bool(rng.random() < 0.15)
        program = drawn_program(rng, CALLS[0][0], is_shared=is_shared)
        left += assert_as_eager(program, number, is_shared=is_shared) > 0
    assert left < 0.7 * count, "most programs are left to PyTorch"


def test_a_few_random_programs() -> None:
    run_programs(0, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 7))
def test_random_programs(seed: int) -> None:
    run_programs(seed, 60)
