"""Networks in this process: right from any memory and from many threads, and clear refusals."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorc.codegen.base import network_backend_of
from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError, CallError, TargetError
from ansorc.ir.aligned import aligned_empty
from ansorc.target import Target
from tests.codegen.network import plans
from tests.codegen.network.plans import (
    ROWS,
    WIDTH,
    Floats,
    draw,
    perceptron,
    perceptron_reference,
    two_outputs,
)


def build(plan: NetworkPlan) -> NetworkModule:
    return link_network(plan, plans.NATIVE)


@pytest.fixture(scope="module")
def module() -> NetworkModule:
    return build(perceptron())


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_call_computes(module: NetworkModule, threads: int) -> None:
    x = draw(ROWS, WIDTH)
    y: Floats = module(x, threads=threads)
    assert (y.dtype, y.shape) == (np.float32, x.shape)
    np.testing.assert_allclose(y, perceptron_reference(x), 1e-5, 1e-6)
    given = np.full((ROWS, WIDTH), np.nan, np.float32)
    assert module(x, given, threads=threads) is None
    np.testing.assert_array_equal(given, y)


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_call_may_have_a_limit_of_threads(limit: int) -> None:
    x = draw(ROWS, WIDTH)
    module = build(perceptron(threads=limit))
    assert module.signature.parallel is (limit > 1)
    for threads in (0, 1, 3):
        np.testing.assert_allclose(module(x, threads=threads), perceptron_reference(x), 1e-5, 1e-6)


def test_it_does_not_depend_on_what_memory_held_before(module: NetworkModule) -> None:
    x, y = draw(ROWS, WIDTH), np.full((ROWS, WIDTH), np.nan, np.float32)
    loaded = network_backend_of(plans.NATIVE).load_network(perceptron(), plans.NATIVE)
    size = module.signature.workspace_bytes
    kernels = max(kernel.signature.workspace_bytes for kernel in perceptron().kernels)
    assert size == 2 * plans.BYTES + kernels > 2 * plans.BYTES
    fence = 64
    memory = aligned_empty(size + fence, np.uint8)
    memory.fill(0xFF)  # a NaN as float32
    assert loaded.bind([x, y], memory.ctypes.data, 0).run(2) == 0
    np.testing.assert_allclose(y, perceptron_reference(x), 1e-5, 1e-6)
    assert (memory[size:] == 0xFF).all()
    y.fill(np.nan)
    assert loaded.bind([x, y], None, 0).run(2) == 0  # it takes memory itself
    np.testing.assert_allclose(y, perceptron_reference(x), 1e-5, 1e-6)
    loaded.close()


def test_its_arguments_are_bound(module: NetworkModule) -> None:
    x, y = draw(ROWS, WIDTH), np.full((ROWS, WIDTH), np.nan, np.float32)
    run = module.bind(x, y, threads=2)
    for seed in (1, 2):
        x[:] = draw(ROWS, WIDTH, seed=seed)
        run()
        np.testing.assert_allclose(y, perceptron_reference(x), 1e-5, 1e-6)
    with pytest.raises(CallError, match=r"perceptron takes 1 arrays \(.*\), but 3 were given"):
        module.bind(x, y, y)
    with pytest.raises(CallError, match="the output 'y' overlaps 'x'"):
        module.bind(x, x)


def test_outputs_lie_in_memory_that_nobody_refers_to(module: NetworkModule) -> None:
    x = draw(ROWS, WIDTH)
    places = {module(x).ctypes.data for _ in range(20)}
    assert len(places) == 1
    held = [module(draw(ROWS, WIDTH, seed=seed)) for seed in range(6)]
    for seed, y in enumerate(held):
        expected = perceptron_reference(draw(ROWS, WIDTH, seed=seed))
        np.testing.assert_allclose(y, expected, 1e-5, 1e-6)


def test_several_outputs_and_names() -> None:
    module = build(two_outputs())
    x, z = draw(ROWS, WIDTH), draw(ROWS, WIDTH, seed=5)
    found: tuple[Floats, ...] = module(x, z)
    assert isinstance(found, tuple)
    by_name = module.run({"z": z, "x": x})
    assert list(by_name) == ["a", "b", "c"]
    for name, value in zip("abc", found, strict=True):
        np.testing.assert_array_equal(by_name[name], value)
    np.testing.assert_allclose(found[1], np.exp(z) / np.exp(z).sum(1, keepdims=True), 1e-5)
    np.testing.assert_allclose(
        found[2], np.exp(found[0]) / np.exp(found[0]).sum(1, keepdims=True), 1e-5
    )
    assert repr(module).startswith("<network three(x: float32[6, 40], z: float32[6, 40]) -> (a: ")


def test_a_network_without_memory_and_weights() -> None:
    module = build(plans.doubled())
    x = draw(ROWS, WIDTH)
    np.testing.assert_array_equal(module(x), 2 * x)
    assert module.signature.workspace_bytes == 0
    assert module.profile(x)[0].name == 'doubled "ü"'


def test_two_networks_and_many_threads_at_once() -> None:
    modules = [build(perceptron("same", seed)) for seed in (1, 11)]
    wrong: list[int] = []

    def call(number: int) -> None:
        seed, module = ((1, 11)[number % 2], modules[number % 2])
        x = draw(ROWS, WIDTH, seed=number)
        expected = perceptron_reference(x, seed)
        for _ in range(200):
            if not np.allclose(module(x, threads=number % 3), expected, 1e-5, 1e-6):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_time_and_profile(module: NetworkModule) -> None:
    x = draw(ROWS, WIDTH)
    timing = module.time(x, threads=1, min_time_s=0.02)
    assert timing.calls > 10
    profile = module.profile(x, threads=1, repeats=30)
    assert [call.name for call in profile] == ["first + relu", "second", "softmax"]
    assert module.call_names == ("first + relu", "second", "softmax")
    total = sum(call.seconds for call in profile)
    assert 0.2 * timing.median_s < total < 20 * timing.median_s + 1e-4


def failing(tmp_path: Path, status: int) -> NetworkPlan:
    """The perceptron; the kernel of its two layers returns `status`, and a softmax is before it."""
    path = tmp_path / "layer.o"
    text = f"int layer(void *x, void *w, void *b, void *y, void *s, int t) {{ return {status}; }}"
    subprocess.run(["cc", "-xc", "-", "-c", "-fPIC", "-o", path], check=True, input=text.encode())
    plan = perceptron()
    bad = replace(plan.kernels[0], code=CompiledProgram(path.read_bytes()))
    return replace(plan, kernels=(bad, plan.kernels[1]))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "perceptron ran out of memory"),
        (2, "perceptron was built for '.*', which has instructions that this CPU lacks"),
        (99, "perceptron failed with status 99"),
    ],
)
def test_the_first_status_ends_the_run(tmp_path: Path, status: int, words: str) -> None:
    module = build(failing(tmp_path, status))
    x, y = draw(ROWS, WIDTH), np.full((ROWS, WIDTH), np.nan, np.float32)
    for call in (module, module.profile, module.time):
        with pytest.raises(CallError, match=words):
            call(x, y)
    assert np.isnan(y).all()


def refused(module: NetworkModule, *values: object, threads: int = 0) -> str:
    with pytest.raises(CallError) as caught:
        module(*values, threads=threads)
    return str(caught.value)


def test_refuses_arguments_in_the_words_of_a_kernel(module: NetworkModule) -> None:
    x, y = draw(ROWS, WIDTH), draw(ROWS, WIDTH)
    assert refused(module, x[:3]) == (
        "perceptron: argument 1 'x' has shape (3, 40), but the kernel wants (6, 40)"
    )
    assert "argument 1 'x' has dtype float64" in refused(module, x.astype(np.float64))
    assert "argument 2 'y' is not contiguous" in refused(module, x, np.zeros((40, 6), "f4").T)
    assert "the output 'y' overlaps 'x' in memory" in refused(module, x, x)
    assert refused(module, x, y, y) == (
        "perceptron takes 1 arrays (x: float32[6, 40]), or with those for its outputs 2 "
        "(y: float32[6, 40]), but 3 were given"
    )
    assert refused(module, x, threads=-1) == "threads is -1, but it must be 0 (all cores) to 1024"


def test_refuses_wrong_names(module: NetworkModule) -> None:
    x = draw(ROWS, WIDTH)
    with pytest.raises(CallError, match="perceptron needs an input 'x'; it takes 'x'"):
        module.run({})
    with pytest.raises(CallError, match="perceptron has no input 'w'; it takes 'x'"):
        module.run({"x": x, "w": x})


def test_a_network_for_another_machine_is_built_but_not_called() -> None:
    module = link_network(perceptron(), Target.parse("aarch64-linux-gnu -mcpu=cortex-a53"))
    with pytest.raises(BuildError, match="'perceptron' was built for aarch64-linux-gnu and cannot"):
        module(draw(ROWS, WIDTH))


def test_a_back_end_without_networks_refuses() -> None:
    target = Target.parse("native -backend=tests.codegen.network.plain_backend")
    with pytest.raises(TargetError, match="makes single kernels only, no networks; use one that"):
        link_network(perceptron(), target)
