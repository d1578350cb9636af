"""Random ONNX networks of the kinds that users have: each is a chain of random blocks.

Residual convolutions, resizing, attention, recurrent layers, quantised chains, and what frameworks
write between them; many extents are 1 or odd.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from ansorc.ir.aligned import Array
from tests.graph.campaign.elementwise_blocks import ELEMENTWISE
from tests.graph.campaign.image_blocks import IMAGES
from tests.graph.campaign.network_writer import Block, NetworkWriter, Value
from tests.graph.campaign.quantised_blocks import QUANTISED
from tests.graph.campaign.sequence_blocks import SEQUENCES

MAX_ELEMENTS = 20_000
"""Of a value that a block is given."""


def random_network(seed: int) -> tuple[onnx.ModelProto, dict[str, Array], bool]:
    """Return a network, inputs for it, and whether it rounds to few bits between its layers."""
    rng = np.random.default_rng(seed)
    net = NetworkWriter(rng, int(rng.choice([13, 17, 18, 21])))
    family = int(rng.integers(4))
    blocks: Sequence[Block] = (IMAGES, SEQUENCES, QUANTISED, ELEMENTWISE)[family]
    value = _draw_input(net, is_image=family in {0, 2})
    for _ in range(int(rng.integers(2, 7))):
        own = blocks if rng.random() < 0.7 else ELEMENTWISE
        value = _append_block(net, value, own)
    outputs = [value.name]
    others = [one.name for one in net.values if one.name not in (*net.inputs, value.name)]
    for _ in range(int(rng.integers(0, 3))):  # intermediates that the user asks for as well
        outputs.extend(rng.choice(others, 1) if others else [])
    return net.model(list(dict.fromkeys(outputs))), net.inputs, family == 2


def _append_block(net: NetworkWriter, value: Value, blocks: Sequence[Block]) -> Value:
    """Return what one of `blocks` that takes `value` makes of it; `value` itself if none does."""
    for index in net.rng.permutation(len(blocks)):
        before = len(net.nodes), len(net.values), dict(net.initializers), dict(net.inputs)
        made = blocks[int(index)](net, value)
        if made is not None and 0 < np.prod(made.shape) <= MAX_ELEMENTS:
            return made
        nodes, values, net.initializers, net.inputs = before
        del net.nodes[nodes:], net.values[values:]
    return value


def _draw_input(net: NetworkWriter, *, is_image: bool) -> Value:
    extents = [1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16]
    rank = 4 if is_image else 3
    shape = [int(net.rng.choice(extents)) for _ in range(rank)]
    shape[0] = int(net.rng.choice([1, 1, 2, 3]))
    return net.input((net.rng.standard_normal(shape) * 1.5).astype(np.float32))
