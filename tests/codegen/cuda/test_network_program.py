"""Networks for a GPU, emulated: their numbers, their one image, their launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import NetworkSourceBackend, backend_of
from ansorc.codegen.call.network_module import NetworkModule, link_network
from ansorc.codegen.cuda.emit import WORKSPACE_ALIGNMENT
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.codegen.network.plan import BufferSlot, NetworkPlan, PlaceKind
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError, CallError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from tests.codegen.cuda.wheels import needs_wheels
from tests.e2e.cuda.networks import EMULATED, NETWORKS, assert_right, feeds, plan_of, row_sums


def module_of(name: str) -> NetworkModule:
    return link_network(plan_of(name), EMULATED)


def program_of(plan: NetworkPlan) -> DeviceProgram:
    backend = backend_of(EMULATED)
    assert isinstance(backend, NetworkSourceBackend)
    return backend.network_source(plan)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_emulated_network_computes_what_the_graph_says(name: str) -> None:
    """The emulation fills the workspace, the arena in it, with NaN before each call."""
    graph, module = NETWORKS[name](), module_of(name)
    for seed in (2, 3):
        inputs = feeds(graph, seed)
        assert_right(graph, inputs, module.run(inputs))


def test_outputs_may_be_the_input_a_constant_and_each_other() -> None:
    builder = GraphBuilder("few")
    x = builder.input("x", TensorType(FLOAT32, (2, 3)))
    r = builder.add("relu", [x], "r")
    same = builder.add("reshape", [r], "same", shape=[3, 2])
    graph = builder.graph([same, r, x, builder.constant(np.arange(4, dtype=np.float32), "c")])
    data = feeds(graph)
    found = ac.build(graph, EMULATED).run(data)
    wanted = np.maximum(data["x"], 0)
    expected = {"same": wanted.reshape(3, 2), "r": wanted, "x": data["x"], "c": np.arange(4)}
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_the_arena_is_poisoned() -> None:
    """A network that reads what nothing has written gives NaN: else the test above says nothing."""
    plan = plan_of("residual")
    lost = replace(plan, calls=plan.calls[1:])
    inputs = feeds(NETWORKS["residual"]())
    (found,) = link_network(lost, EMULATED).run(inputs).values()
    assert np.isnan(found).all()


def test_a_network_is_one_text_whose_kernels_are_there_once() -> None:
    plan = plan_of("attention")
    program = program_of(plan)
    text, launches = cuda_text(program), program.plan
    assert len(launches.calls) == len(plan.calls) > len(plan.kernels)
    assert sum(launches.calls) == len(launches.launches)
    for name in {launch.name for launch in launches.launches}:
        assert text.count(f" {name}(") == 1
    assert {"k0_0_matmul_add"} < {launch.name for launch in launches.launches}
    assert launches.workspace_bytes == plan.signature.workspace_bytes


def expected_place(plan: NetworkPlan, place: BufferSlot) -> tuple[int, int]:
    """Which parameter of the launches a place is in, and where."""
    first_output, weights = len(plan.inputs), len(plan.inputs) + len(plan.outputs)
    return {
        PlaceKind.INPUT: (place.offset, 0),
        PlaceKind.OUTPUT: (first_output + place.offset, 0),
        PlaceKind.WEIGHTS: (weights, place.offset),
    }[place.kind]


def test_launches_read_and_write_what_the_plan_says() -> None:
    plan = plan_of("several")
    assert plan.arena_bytes == 0
    for launch, call in zip(program_of(plan).plan.launches, plan.calls, strict=True):
        places = {(one.place, one.offset) for one in launch.arguments if one.kind == "parameter"}
        assert places == {expected_place(plan, one) for one in call.arguments}


@pytest.mark.parametrize("name", NETWORKS)
def test_intermediate_tensors_begin_where_lines_of_memory_do(name: str) -> None:
    plan = plan_of(name)
    places = [place for call in plan.calls for place in call.arguments]
    arena = [place.offset for place in places if place.kind is PlaceKind.ARENA]
    assert all(offset % WORKSPACE_ALIGNMENT == 0 for offset in arena)
    assert plan.kernel_workspace % WORKSPACE_ALIGNMENT == 0


def test_several_shapes() -> None:
    variants = row_sums()
    module = ac.build(variants, EMULATED)
    for graph in variants:
        inputs = feeds(graph)
        assert_right(graph, inputs, module.run(inputs))
    with pytest.raises(CallError, match="which has no streams"):
        module(*feeds(variants.graphs[0]).values(), stream=3)


def test_each_call_has_a_time() -> None:
    module, inputs = module_of("attention"), feeds(NETWORKS["attention"]())
    times = module.profile(*inputs.values(), repeats=1)
    assert [time.name for time in times] == list(module.call_names)
    assert all(time.seconds > 0 for time in times)


def test_an_emulated_network_is_not_saved() -> None:
    with pytest.raises(BuildError, match="is emulated, to be checked, and not saved; build it for"):
        module_of("several").save("several.cubin")


@needs_wheels
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", NETWORKS)
def test_nvidias_compiler_takes_the_text(name: str, arch: str) -> None:
    program = program_of(plan_of(name))
    compiled = compile_cubin(cuda_text(program), arch)
    names = {launch.name for launch in program.plan.launches}
    assert {one.name for one in compiled.resources} == names
    assert sum(one.spill_store_bytes for one in compiled.resources) == 0
