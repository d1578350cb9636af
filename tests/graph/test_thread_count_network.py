"""Caches and threads of a network's kernels: by the network's size, and by measured times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.call.network_module import CallTime, link_network
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.graph import thread_count_network
from ansorc.graph.cache_policy import cache_policy_of, count_bytes
from ansorc.graph.network import Network
from ansorc.graph.network_build import choose_programs, compile_network_plan
from ansorc.graph.thread_count_network import (
    measure_threads,
    tune_threads,
)
from ansorc.schedule import Names
from ansorc.search.measure import ProgramText
from ansorc.search.programs import ChosenSchedule, ProgramChoice, default_program, program_key
from ansorc.search.record import KernelThreads, Record, Records, current_environment
from ansorc.search.thread_count_op import thread_counts
from ansorc.target import Target
from tests.codegen.network.plans import NATIVE, WIDTH, perceptron
from tests.graph.small_networks import NETWORKS, attention_network

X = np.zeros((6, WIDTH), np.float32)


def network(target: str = "native") -> Network:
    return Network.of(attention_network(), target)


def defaults(one: Network) -> dict[str, ChosenSchedule]:
    return {key: default_program(task) for key, task in one.tasks.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_bytes_of_a_network_are_those_of_its_plan(name: str) -> None:
    one = Network.of(NETWORKS[name]())
    plan = compile_network_plan(one, defaults(one))
    assert count_bytes(one) <= plan.arena_bytes + plan.weights.nbytes
    assert plan.arena_bytes + plan.weights.nbytes <= 1.5 * count_bytes(one) + 4096


def test_weights_are_cold_where_the_last_cache_does_not_hold_the_network() -> None:
    size = count_bytes(network())
    for third, policy in ((size, "warm"), (size - 1, "cold-weights")):
        target = f"native -cache=1024,2048,{third}"
        assert cache_policy_of(network(target)) == policy


def test_of_a_shared_cache_each_core_has_its_share() -> None:
    two = Target.parse("x86_64-linux-gnu -mcpu=znver3 -cores=2 -cache=32768,524288,33554432")
    assert two.last_cache_bytes == 8 << 20
    assert replace(two, cores=8).last_cache_bytes == 32 << 20
    assert replace(two, cores=16).last_cache_bytes == 32 << 20
    assert replace(two, cache_bytes=(32768, 524288, 0)).last_cache_bytes == 1 << 20


@pytest.mark.parametrize(("most", "counts"), [(1, ()), (2, (1,)), (4, (1, 2)), (6, (1, 2, 4))])
def test_powers_of_two_below_all_are_tried(most: int, counts: tuple[int, ...]) -> None:
    assert thread_counts(most) == counts


class Profiled:
    """A network whose calls take what a rule says, by the threads of each call."""

    def __init__(self, plan: NetworkPlan, seconds: dict[int, Sequence[float]]) -> None:
        self.plan, self.seconds = plan, seconds

    def profile(self, *_: object, threads: int, repeats: int) -> list[CallTime]:
        assert repeats == 1
        limits = [call.threads or threads for call in self.plan.calls]
        rows = zip(self.plan.calls, limits, range(len(limits)), strict=True)
        return [CallTime(call.name, self.seconds[limit][n]) for call, limit, n in rows]


@pytest.mark.parametrize(
    ("alone", "in_all", "expected"),
    [
        ((2.0, 2.0, 9.0), (1.0, 1.0, 9.0), (0, 0)),
        ((1.0, 1.0, 9.0), (2.0, 2.0, 9.0), (1, 0)),
        ((0.5, 2.0, 9.0), (2.0, 1.0, 9.0), (1, 0)),  # both calls of the kernel together
        ((0.99, 0.99, 9.0), (1.0, 1.0, 9.0), (0, 0)),  # a tie
    ],
)
def test_each_kernel_gets_the_fastest_number(
    alone: Sequence[float],
    in_all: Sequence[float],
    expected: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target.parse("native -cores=2")
    seconds = {0: in_all, 1: alone}

    def build(plan: NetworkPlan, _: Target) -> Profiled:
        return Profiled(plan, seconds)

    monkeypatch.setattr(thread_count_network, "link_network", build)
    plan = perceptron(threads=1)
    found = measure_threads(plan, target, [X], rounds=3)
    assert found.threads == expected
    assert found.all_s == pytest.approx(sum(in_all))
    assert found.chosen_s <= found.all_s
    assert [call.threads for call in found.apply(plan).calls] == [expected[0]] * 2 + [0]


@pytest.mark.parametrize(("seconds", "known"), [(1e9, 1), (60.0, 1), (18.0, 0)])
def test_time_that_is_up_ends_the_rounds(
    seconds: float, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    class Slow(Profiled):
        """A call takes a second."""

        def profile(self, *arrays: object, threads: int, repeats: int) -> list[CallTime]:
            now[0] += 1.0
            return super().profile(*arrays, threads=threads, repeats=repeats)

    def build(plan: NetworkPlan, _: Target) -> Slow:
        return Slow(plan, {0: (2.0, 2.0, 9.0), 1: (1.0, 1.0, 9.0)})

    monkeypatch.setattr(thread_count_network, "link_network", build)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    plan, target = perceptron(threads=1), Target.parse("native -cores=2")
    found = measure_threads(plan, target, [X], deadline=seconds)
    assert now[0] <= min(seconds, 31 * 4)
    assert math.isfinite(found.all_s) == bool(known)
    assert found.threads == (known, 0)


def test_a_real_network_is_right_with_whatever_was_chosen() -> None:
    plan = perceptron()
    found = measure_threads(plan, NATIVE, [X], rounds=3)
    assert len(found.threads) == 2
    module = link_network(found.apply(plan), NATIVE)
    np.testing.assert_array_equal(module(X), link_network(plan, NATIVE)(X))


def record_of(key: str, task: ac.Task, program: ChosenSchedule) -> Record:
    source = ProgramText.encode(program.steps, Names(task.dag))
    return Record(key, source.key, source.steps, "", current_environment(), 1e-6, checked=True)


def test_builds_use_what_is_kept_of_their_programs(tmp_path: Path) -> None:
    path, one = tmp_path / "tune.db", network()
    choice, programs = ProgramChoice(path), defaults(one)
    (first, task), (second, _), *_ = one.tasks.items()
    with Records.open(path) as records:
        records.add(record_of(first, task, programs[first]))
    assert {program.threads for program in choose_programs(one, choice).values()} == {0}
    own = program_key(task, programs[first])
    kept = [KernelThreads(first, own, 1), KernelThreads(second, "another program", 1)]
    with Records.open(path) as records:
        records.keep_threads(current_environment(), kept)
    found = choose_programs(one, choice)
    assert {key: program.threads for key, program in found.items() if program.threads} == {first: 1}
    plan = compile_network_plan(one, found)
    assert [call.threads for call in plan.calls] == [
        int(of_call.key == first) for _, of_call in one.task_of
    ]


def test_what_was_measured_is_kept_for_each_program(tmp_path: Path) -> None:
    path, one = tmp_path / "tune.db", network()
    found = tune_threads(one, ProgramChoice(path, use_default=True))
    with Records.open(path) as records:
        kept = records.threads(current_environment())
        assert records.threads(current_environment(cache="cold")) == {}
    assert [kept[key].threads for key in one.tasks] == list(found.threads)
    for key, program in defaults(one).items():
        assert kept[key].program_key == program_key(one.tasks[key], program)


def test_of_one_thread_there_is_nothing_to_choose(tmp_path: Path) -> None:
    one = network()
    found = tune_threads(one, ProgramChoice(tmp_path / "tune.db", threads=1, use_default=True))
    assert set(found.threads) == {0}


def test_of_time_that_is_up_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    found = tune_threads(network(), ProgramChoice(path, use_default=True), deadline=0.0)
    assert set(found.threads) == {0}
    assert not path.exists()
