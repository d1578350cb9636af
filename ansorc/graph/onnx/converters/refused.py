"""ONNX operators that ansorc knows of, and refuses in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from ansorc.graph.onnx.node_call import Converter, NodeCall

_RANDOM = "it is random; ansorc computes the same in every run"
_WHY = {
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
