"""Weights under `torch.compile`: whose they are, whether they changed, and what is shared."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc.graph.shared_networks as shared
import ansorc.graph.torch.compile_backend as backend
from ansorc.codegen.call.network_module import NetworkModule
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.target import Target
from tests.graph.torch.torch_oracle import torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
Module: Any = torch.nn.Module
prune: Any = pytest.importorskip("torch.nn.utils.prune")


class Block(Module):
    def __init__(self, width: int = 16) -> None:
        Module.__init__(self)
        self.norm = torch.nn.LayerNorm(width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x))))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch.compiler.reset()
    with torch.no_grad():
        yield


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a graph was specialised, and a kernel compiled."""
    found = {"graphs": 0, "kernels": 0}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            found[name] += 1
            return function(*arguments, **keywords)

        return call

    whole = backend._CompiledModule  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(whole, "_specialized", counted("graphs", whole._specialized))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(shared, "compile_kernel", counted("kernels", shared.compile_kernel))
    return found


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=backend.torch_backend, options=options)


def assert_same(run: Any, model: Any, *arguments: Any) -> None:
    torch.testing.assert_close(run(*arguments), model(*arguments), rtol=1e-4, atol=1e-4)


def words_of(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if "ansorc" in str(one.message)]


def test_instances_of_a_class_share_machine_code(counts: dict[str, int]) -> None:
    blocks, given = [Block().eval() for _ in range(6)], torch.randn(3, 16)
    runs = [compiled(one) for one in blocks]
    assert_same(runs[0], blocks[0], given)
    first = dict(counts)
    assert first["graphs"] == 1
    for run, block in zip(runs, blocks, strict=True):
        assert_same(run, block, given)
    assert counts == {"graphs": 6, "kernels": first["kernels"]}
    for _ in range(3):
        for run, block in zip(runs, blocks, strict=True):
            assert_same(run, block, torch.randn(3, 16))
    assert counts == {"graphs": 6, "kernels": first["kernels"]}


def test_what_was_bound_to_an_instance_goes_with_it() -> None:
    given, modules = torch.randn(3, 16), list[Any]()
    whole = backend._CompiledModule  # pyright: ignore[reportPrivateUsage]

    def remembered(graph: Any, inputs: Any) -> Any:
        modules.append(whole(graph, inputs, backend.TorchCompileOptions()))
        return modules[-1]

    blocks = [Block().eval() for _ in range(3)]
    runs = [torch.compile(one, backend=remembered) for one in blocks]
    for number in range(3):
        runs[number](given)
    assert sum(len(one._instances) for one in modules) == 3
    del runs[1:], blocks[1:]
    gc.collect()
    assert sum(len(one._instances) for one in modules) == 1
    assert_same(runs[0], blocks[0], given)


def plans_of(patch: pytest.MonkeyPatch) -> list[NetworkPlan]:
    """The plans of what is built from now on."""
    plans, build = list[NetworkPlan](), shared.link_network

    def remembered(plan: NetworkPlan, target: Target) -> NetworkModule:
        plans.append(plan)
        return build(plan, target)

    patch.setattr(shared, "link_network", remembered)
    return plans


def test_programs_for_other_shapes_share_weights() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(2)]).eval()
    run = torch.compile(model, backend=backend.torch_backend, dynamic=True)
    with pytest.MonkeyPatch.context() as patch:
        plans = plans_of(patch)
        for batch in (2, 3, 5, 8, 13, 21, 34):
            assert_same(run, model, torch.randn(batch, 256))
    assert len(plans) == 7
    large = {
        one.array.ctypes.data: one.array.nbytes
        for plan in plans
        for one in plan.bound
        if one.array.nbytes >= 4 * 256 * 256
    }
    assert sum(large.values()) <= 2 * 2 * 4 * 256 * 256, "two layouts of each weight at most"


def test_weights_that_are_read_as_they_lie_are_not_copied() -> None:
    weight = torch.nn.Parameter(torch.randn(64, 64))

    def forward(x: Any) -> Any:
        return x * model.weight

    model = Module()
    model.weight = weight
    model.forward = forward
    run = compiled(model)
    with pytest.MonkeyPatch.context() as patch:
        plans = plans_of(patch)
        assert_same(run, model, torch.randn(64, 64))
    assert weight.data_ptr() in [one.array.ctypes.data for one in plans[0].bound]


def _pruned(model: Any) -> None:
    prune.l1_unstructured(model, "weight", 0.5)
    prune.remove(model, "weight")


def _through_numpy(model: Any) -> None:
    model.weight.detach().numpy()[...] += 1


CHANGES: dict[str, Callable[[Any], object]] = {
    "add_": lambda m: m.weight.add_(1),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "vector_to_parameters": lambda m: torch.nn.utils.vector_to_parameters(
        torch.randn(72), m.parameters()
    ),
    "prune": _pruned,
    "data =": lambda m: setattr(m.weight, "data", torch.randn(8, 8)),
    "data of the same memory": lambda m: setattr(m.weight, "data", m.weight.data.t()),
    "data.add_": lambda m: m.weight.data.add_(1.0),
    "data.copy_": lambda m: [p.data.copy_(torch.randn_like(p)) for p in m.parameters()],
    "data.clamp_": lambda m: [p.data.clamp_(-0.01, 0.01) for p in m.parameters()],
    "one element of data": lambda m: m.weight.data[3, 4:5].add_(9),
    "a bias": lambda m: m.bias.data[2:3].add_(9),
    "numpy()": _through_numpy,
    "another parameter": lambda m: setattr(m, "bias", torch.nn.Parameter(torch.randn(8))),
    "weight_norm": lambda m: torch.nn.utils.parametrizations.weight_norm(m).bias.data.add_(1),
    "a step of SGD": lambda m: _stepped(m, torch.optim.SGD),
    "a step of AdamW": lambda m: _stepped(m, torch.optim.AdamW),
}


def _stepped(model: Any, kind: Any) -> None:
    steps = kind(model.parameters(), lr=0.5)
    for one in model.parameters():
        one.grad = torch.ones_like(one)
    steps.step()


@pytest.mark.parametrize("name", CHANGES)
def test_changed_weights_are_seen_at_the_next_call(name: str) -> None:
    model, given = torch.nn.Linear(8, 8).eval(), torch.randn(4, 8)
    run = compiled(model)
    for _ in range(2):
        assert_same(run, model, given)
    CHANGES[name](model)
    assert_same(run, model, given)


def test_parameters_can_be_swapped() -> None:
    model, other = torch.nn.Linear(8, 8).eval(), torch.nn.Linear(8, 8).eval()
    given = torch.randn(4, 8)
    runs = [compiled(model), compiled(other)]
    for _ in range(2):
        for run, one in zip(runs, (model, other), strict=True):
            assert_same(run, one, given)
        torch.utils.swap_tensors(model.weight, other.weight)
    torch.utils.swap_tensors(model.weight, torch.nn.Parameter(torch.ones(8, 8)))
    assert_same(runs[0], model, given)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
        assert_same(runs[0], model, given)
        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert_same(runs[0], model, given.double())


def test_a_model_is_saved_and_copied_without_ansorc() -> None:
    model, given = torch.nn.BatchNorm1d(8).eval(), torch.randn(4, 8)
    assert_same(compiled(model), model, given)
    saved = pickle.dumps(model)
    assert b"ansorc." not in saved  # none of its classes
    for one in (pickle.loads(saved), copy.deepcopy(model)):
        one.running_mean.add_(1)
        assert_same(compiled(one), one, given)
    assert_same(compiled(model), model, given)


def test_arguments_that_share_memory_are_compiled() -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        return x @ y + z[:, 0]

    run, whole = compiled(function), torch.randn(6, 4)
    given = whole[:4], whole[2:], whole.t()
    assert not words_of(lambda: assert_same(run, function, *given))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "bool", "int16"])
def test_samples_are_read_in_every_dtype(dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensors = [torch.zeros(shape, dtype=kind) for shape in ((3,), (500, 7), (), (1, 0))]
    tensors += [torch.zeros(40, 30, dtype=kind).t(), torch.zeros(99, dtype=kind)[1::2]]
    for number, one in enumerate(tensors):
        watched = backend.WatchedTensors(tensors, lambda: None)
        assert watched.are_unchanged(tensors)
        if one.numel():
            one.data.fill_(1)
            assert not watched.are_unchanged(tensors), number
            assert number in watched.find_changed(tensors)


def test_weights_that_always_change_become_inputs(counts: dict[str, int]) -> None:
    model, given = torch.nn.Linear(8, 8).eval(), torch.randn(4, 8)
    run = compiled(model)

    def train() -> None:
        for _ in range(20):
            model.weight.mul_(1.01)
            assert_same(run, model, given)

    (words,) = words_of(train)
    assert "1 of the weights of a graph changed in most of the calls" in words
    assert counts["graphs"] <= 8
    model.bias.add_(1)  # still a constant, and watched
    assert_same(run, model, given)


def test_buffers_that_the_graph_writes_are_written() -> None:
    class Counter(Module):
        def __init__(self) -> None:
            Module.__init__(self)
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x * self.count

    model, other, given = Counter(), Counter(), torch.randn(3)
    run = compiled(model)
    for _ in range(4):
        torch.testing.assert_close(run(given), other(given))
        torch.testing.assert_close(model.count, other.count)


def test_the_number_of_programs_is_limited_in_words(counts: dict[str, int]) -> None:
    model = torch.nn.Linear(8, 8).eval()
    run = torch.compile(model, backend=backend.torch_backend, dynamic=True, options={"programs": 2})

    def calls() -> None:
        for batch in (2, 3, 4, 5, 4, 5, 2, 3):
            assert_same(run, model, torch.randn(batch, 8))

    (words,) = words_of(calls)
    assert "compiled for 2 shapes and values of its inputs" in words
    assert 'options={"programs": 8}' in words


def test_numbers_of_a_call_are_inputs(counts: dict[str, int]) -> None:
    weight = torch.randn(16, 16)

    def function(x: Any, step: int, rate: float) -> Any:
        near = (x @ weight) * step + step // 2 - (step % 3) * rate
        return near / (rate + 2), x.to(torch.int32) + step, x > rate * step, -step * x.double()

    run, given = torch.compile(function, backend=backend.torch_backend), torch.randn(4, 16)
    assert not words_of(lambda: None)
    for step in range(2, 14):
        found, wanted = run(given, step, step / 7), function(given, step, step / 7)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert counts["graphs"] <= 4


def test_numbers_that_settle_shapes_are_compiled_for_each(counts: dict[str, int]) -> None:
    def function(x: Any, size: int) -> Any:
        return x[:, :size] * size, x.roll(size, 1)

    run, given = torch.compile(function, backend=backend.torch_backend), torch.randn(4, 16)
    for size in (3, 4, 5, 4, 3, 5):
        for one, other in zip(run(given, size), function(given, size), strict=True):
            torch.testing.assert_close(one, other)
    assert counts["graphs"] <= 4  # Dynamo's first graph is for the first number alone


def test_twenty_batch_sizes_cost_one_more_layout_at_most() -> None:
    def resident() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(one.split()[1]) / 1024 for one in lines if one.startswith("VmRSS"))

    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).eval()
    run = torch.compile(model, backend=backend.torch_backend, dynamic=True)
    for batch in (2, 3):
        run(torch.randn(batch, 2048))
    before = resident()
    for batch in range(4, 24):
        assert_same(run, model, torch.randn(batch, 2048))
    assert resident() - before <= 70
    assert np.isfinite(before)
