"""ATen's convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.importing.values import LAYOUTS
from ansorc.graph.torch.torch_call import TorchCall, TorchConverter


def _convolution(call: TorchCall) -> str:
    rank = len(call.type("weight").shape) - 2
    if rank not in LAYOUTS or len(call.type("input").shape) != rank + 2:
        call.refuse(f"its input has {rank} spatial dimensions; ansorc takes 1 to 3 of them")
    stride, dilation = call.each("stride", rank), call.each("dilation", rank)
    margins, weight = call.each("padding", rank), call.input("weight")
    options: dict[str, object] = {"groups": call.get("groups"), "layout": LAYOUTS[rank]}
    if call.get("transposed"):
        if max(dilation) > 1:
            weight = call.add("dilate", [weight], steps=[1, 1, *dilation])
        extra = call.each("output_padding", rank)
        result = call.add(
            f"conv{rank}d_transpose", [call.input("input"), weight], stride=stride,
            padding=margins, output_padding=extra, **options,
        )  # fmt: skip
    else:
        result = call.add(
            f"conv{rank}d", [call.input("input"), weight], stride=stride, dilation=dilation,
            padding=margins, **options,
        )  # fmt: skip
    if not call.has("bias"):
        return result
    return call.add("bias_add", [result, call.input("bias")], axis=1)


TORCH_CONVOLUTION: Mapping[str, TorchConverter] = {"convolution.default": _convolution}
