"""ONNX operators that ansorc knows of, and refuses in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from ansorc.graph.onnx.node_call import Converter, NodeCall

_RANDOM = "it is random; ansorc computes the same in every run"
_BLOCKED = (
    "ONNX Runtime wrote it for the machine that it ran on, with channels in blocks; save the model "
    "at the level ORT_ENABLE_EXTENDED (GraphOptimizationLevel) instead of ORT_ENABLE_ALL"
)
_BITS = "weights below 8 bits are not supported; export the model with weights of 8 bits or floats"
_IN_PLACE = (
    "its keys and values are buffers that are written in place, and ansorc's networks have no "
    "state; export the model with MultiHeadAttention, or with Attention of ONNX"
)
_NCHWC = (
    "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput",
    "ReorderOutput", "Upsample",
)  # fmt: skip
_WHY = {
    **{f"com.microsoft.nchwc::{name}": _BLOCKED for name in _NCHWC},
    "com.microsoft::GroupQueryAttention": _IN_PLACE,
    "com.microsoft::DecoderMaskedMultiHeadAttention": _IN_PLACE,
    "com.microsoft::GatherBlockQuantized": _BITS,
    "com.microsoft::MatMulBnb4": _BITS,
    "com.microsoft::MatMulNBits": _BITS,
    "Bernoulli": _RANDOM,
    "BitCast": "the IR has no operator that takes bits for another type",
    "ImageDecoder": "files of images are no tensors; decode them before",
    "Multinomial": _RANDOM,
    "NonMaxSuppression": (
        "how many boxes are left depends on data, and ansorc's shapes do not; cut the network "
        "before it, and choose the boxes in your program"
    ),
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "TfIdfVectorizer": "it counts sequences of words; do that before the network",
}


def _refuse(why: str) -> Converter:
    def convert(call: NodeCall) -> NoReturn:
        call.refuse(why)

    return convert


REFUSED: Mapping[str, Converter] = {name: _refuse(why) for name, why in _WHY.items()}
