"""Inputs and attributes that a converter has not asked for: a node that has such is refused."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ansorc.graph.onnx.model import schema_attributes
from ansorc.graph.onnx.node_call import NodeCall

_STASH = frozenset({"stash_type"})
_SEED = frozenset({"seed"})
WITHOUT_EFFECT: Mapping[str, Set[str]] = {
    "Attention": {"softmax_precision"},
    "BatchNormalization": {"momentum"},
    "Cast": {"round_mode", "saturate"},
    "CastLike": {"round_mode", "saturate"},
    "Dropout": _SEED,
    "GroupNormalization": _STASH,
    "LayerNormalization": _STASH,
    "MaxPool": {"storage_order"},
    "Optional": {"type"},
    "QuantizeLinear": {"precision", "saturate"},
    "RMSNormalization": _STASH,
    "SequenceEmpty": {"dtype"},
    "TopK": {"sorted"},
    "com.microsoft::Attention": {"rotary_embedding_dim"},
    "com.microsoft::EmbedLayerNormalization": {"mask_index_type"},
}
"""Attributes that may be ignored, by the operator.

They are of training, of floats of 8 bits (which are refused), of how exact a float is at least, or
of what follows from other attributes.
"""
_INPUTS_WITHOUT_EFFECT: Mapping[str, Set[int]] = {"Resize": {1}}
"""Inputs that may be: a region of interest that the coordinates do not ask for."""


def refuse_ignored(call: NodeCall) -> None:
    """Raise GraphError if a node gives what was not read when it was converted.

    Attributes of ONNX's own operators that their schema names are read where they matter, which
    `tests/graph/onnx/test_ignored.py` holds.
    """
    operator = call.node.operator
    known = {*WITHOUT_EFFECT.get(operator, ()), *schema_attributes(call.node)}
    unread = [name for name in call.ignored_attributes if name not in known]
    if unread:
        call.refuse(f"ansorc does not know its attribute '{unread[0]}', and would ignore it")
    without_effect = _INPUTS_WITHOUT_EFFECT.get(operator, frozenset())
    places = [position for position in call.ignored_inputs if position not in without_effect]
    if places:
        call.refuse(f"ansorc would ignore its input {places[0]} ('{call.node.inputs[places[0]]}')")
