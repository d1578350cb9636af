"""Plans whose calls would leave their memory are refused, by the words that name call and array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ansorc.codegen.call.network_module import link_network
from ansorc.codegen.network.derived import DerivedBlock
from ansorc.codegen.network.plan import BoundWeight, BufferSlot, NetworkPlan, PlaceKind
from ansorc.codegen.network.weights import join_weights
from ansorc.errors import BuildError
from ansorc.ir.aligned import aligned_empty
from tests.codegen.network import plans
from tests.codegen.network.plans import (
    BYTES,
    arena,
    constant,
    perceptron,
    result,
    source,
    two_outputs,
    with_call,
)

PLAN = perceptron()
FIRST, SECOND, LAST = (call.arguments for call in PLAN.calls)
WEIGHTS = PLAN.weights.nbytes


def moved(number: int, argument: int, place: BufferSlot) -> NetworkPlan:
    """The plan with one argument of a call elsewhere."""
    arguments = list(PLAN.calls[number].arguments)
    arguments[argument] = place
    return with_call(PLAN, number, arguments=tuple(arguments))


def with_derived(start: int) -> NetworkPlan:
    """The plan with derived weights, and stored ones that end where the former's source does."""
    plan = plans.derived_perceptron()
    (one,) = plan.derived.weights.values()
    block, _ = join_weights([np.zeros(one.packing.source.shape, np.float32)])
    return replace(plan, weights=block, derived=DerivedBlock([replace(one, source=start)]))


def with_bound(size: int) -> NetworkPlan:
    """The plan with a weight elsewhere, of so many bytes."""
    plan = moved(0, 1, BufferSlot(PlaceKind.BOUND, 0))
    return replace(plan, bound=(BoundWeight(aligned_empty(size, np.uint8)),))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, name="a b"), "cannot be called 'a b'"),
        (replace(PLAN, arena_bytes=-1), "perceptron: arena_bytes is -1, but must be at least 0"),
        (with_call(PLAN, 1, kernel=2), "call 1 'second': it calls kernel 2, but there are 2"),
        (with_call(PLAN, 2, arguments=LAST[:1]), "has 1 arguments, but its kernel takes 2"),
        (with_call(PLAN, 0, threads=-2), "it may use -2 threads, but it must be 0"),
        (moved(0, 0, source(1)), "call 0 'first . relu', argument 'X': it is input 1, but there a"),
        (moved(2, 1, result(-1)), "it is output -1, but there are 1"),
        (moved(0, 3, arena(32)), "argument 'Y': it lies at byte 32 of the arena, which is no mult"),
        (moved(0, 3, arena(BYTES + 64)), "it takes the bytes 1024 to 1984 of the arena, which has"),
        (moved(0, 3, arena(-64)), "it takes the bytes -64 to 896 of the arena"),
        (moved(0, 1, constant(WEIGHTS)), "of the weights, which has"),
        (moved(0, 3, constant(0)), "it is written, but lies in the weights"),
        (
            moved(0, 3, BufferSlot(PlaceKind.DERIVED, 0)),
            "bytes 0 to 960 of the derived weights, which ha",
        ),
        (
            with_derived(64),
            "derived weight at 0 is made of the bytes 64 to 6464 of the weights, which",
        ),
        (with_derived(4), "derived weight at 0 is made of the bytes 4 to"),
        (moved(0, 1, BufferSlot(PlaceKind.BOUND, 0)), "argument 'W': it is bound weight 0 of 0"),
        (with_bound(BYTES), "is a bound weight of 960 bytes at"),
        (moved(2, 1, source()), "it is written, but lies in an input"),
        (moved(1, 3, arena(64)), "argument 'Y': it overlaps 'X', and one of them is written"),
        (moved(2, 1, arena(0)), "perceptron: no call writes the output 'y'"),
        (moved(0, 0, result()), "argument 'X': it reads the output 'y', which no call before has"),
        (
            replace(PLAN, inputs=(plans.array("x", 6, 41),)),
            "it is the input 'x' of 984 bytes, but the kernel takes 960",
        ),
    ],
)
def test_refusals(plan: NetworkPlan, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        link_network(plan, plans.NATIVE)


def test_inputs_may_be_read_twice_and_outputs_after_they_are_written() -> None:
    link_network(two_outputs(), plans.NATIVE)
    shared = with_call(two_outputs(), 1, arguments=(source(0), result(1)))
    link_network(shared, plans.NATIVE)


def test_weights_are_joined_at_multiples_of_64_bytes() -> None:
    a, b = np.arange(17, dtype=np.float32), np.full((2, 3), 7, np.int8)
    block, offsets = join_weights([a, b, a])
    written = b"".join(block.chunks())
    memory = block.array()
    assert memory.tobytes() == written == b"".join(block.chunks())
    assert offsets == (0, 128, 0)
    assert memory.nbytes == 192
    assert memory.ctypes.data % 64 == 0
    np.testing.assert_array_equal(memory[:68].view(np.float32), a)
    np.testing.assert_array_equal(memory[128:134].view(np.int8), b.reshape(-1))
    assert not memory[134:].any()
