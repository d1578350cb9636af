"""Which operators of PyTorch are taken apart before they are imported, and how."""

from __future__ import annotations

import math
from typing import Any

from ansorc.graph.torch.model import torch_library
from ansorc.graph.torch.quantized import QUANTIZED

_KEPT = (
    "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default", "adaptive_max_pool2d.default",
    "adaptive_max_pool3d.default", "col2im.default", "einsum.default", "gelu.default",
    "grid_sampler_2d.default", "group_norm.default", "hardsigmoid.default", "hardswish.default",
    "im2col.default", "layer_norm.default", "linear.default", "log_softmax.int",
    "logsumexp.default", "masked_fill.Scalar", "masked_fill.Tensor", "matmul.default",
    "max_pool1d.default", "max_pool2d.default", "max_pool3d.default", "mish.default",
    "one_hot.default", "pixel_shuffle.default", "rms_norm.default", "roll.default",
    "scaled_dot_product_attention.default", "selu.default", "silu.default", "softmax.int",
    "softplus.default", "tril.default", "triu.default",
    *(
        f"{name}.{overload}"
        for name in (
            "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_bicubic2d",
            "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
            "upsample_nearest3d", "upsample_trilinear3d",
        )
        for overload in ("default", "vec")
    ),
)  # fmt: skip
"""Operators that the graph has as one: they are not decomposed."""


def decompositions() -> Any:
    """Return PyTorch's table of decompositions without the operators that are kept.

    The operators of fast paths, which `nn.MultiheadAttention` and `nn.TransformerEncoderLayer` call
    in evaluation, and those of quantisation are taken apart into what they compute.
    """
    torch = torch_library()
    table = torch.export.default_decompositions()
    for name in _KEPT:
        overload = _overload(torch, f"aten.{name}")
        if overload is not None:
            table.pop(overload, None)
    for name, function in {**_FAST_PATHS, **QUANTIZED}.items():
        overload = _overload(torch, name)
        if overload is not None:
            table[overload] = function
    return table


def _overload(torch: Any, name: str) -> Any:
    """Return the operator of a name; None where PyTorch has none, or has not loaded it."""
    part_of = torch.ops
    for part in name.split("."):
        part_of = getattr(part_of, part, None)
    return part_of


def _attention(query: Any, key: Any, value: Any, *given: Any) -> tuple[Any, Any]:
    """Compute `aten._native_multi_head_attention` of tensors [batch, length, embedding].

    A mask leaves out what it is not 0 for, whatever its dtype, as PyTorch's fast path has it.
    """
    embedding, heads, qkv_weight, qkv_bias, out_weight, out_bias, *rest = given
    mask, needs_weights, is_averaged, kind = (*rest, *(None, True, True, None)[len(rest) :])
    functional = torch_library().nn.functional
    split = [embedding, embedding, embedding]
    parts = [
        _heads(functional.linear(data, weight, bias), heads)
        for data, weight, bias in zip(
            (query, key, value), qkv_weight.split(split), qkv_bias.split(split), strict=True
        )
    ]
    left_out = None if mask is None else _whole_mask(mask, kind)
    if needs_weights:
        scores = parts[0] @ parts[1].transpose(-2, -1) / math.sqrt(embedding // heads)
        if left_out is not None:
            scores = scores.masked_fill(left_out, -math.inf)
        shares = scores.softmax(-1)
        mixed = shares @ parts[2]
        weights = shares.mean(1) if is_averaged else shares
    else:
        kept = None if left_out is None else left_out.logical_not()
        mixed = functional.scaled_dot_product_attention(*parts, attn_mask=kept)
        weights = query.new_zeros(0)
    joined = mixed.transpose(1, 2).flatten(2)
    return functional.linear(joined, out_weight, out_bias), weights


def _heads(data: Any, heads: int) -> Any:
    return data.unflatten(-1, (heads, -1)).transpose(1, 2)


def _whole_mask(mask: Any, kind: int | None) -> Any:
    """Return what is left out of [batch, heads, queries, keys].

    A mask of kind 1 leaves out keys, by [batch, keys].
    """
    chosen = mask.bool()
    return chosen[:, None, None, :] if kind == 1 else chosen


def _encoder_layer(source: Any, embedding: int, heads: int, *given: Any) -> Any:
    """Compute `aten._transformer_encoder_layer_fwd` of a tensor [batch, length, embedding]."""
    projections, (is_gelu, is_norm_first, epsilon), rest = given[:4], given[4:7], given[7:]
    norms, layers, masked = (rest[0:2], rest[2:4]), (rest[4:6], rest[6:8]), rest[8:]
    mask, kind = (*masked, *(None, None)[len(masked) :])
    functional = torch_library().nn.functional

    def normalize(data: Any, number: int) -> Any:
        return functional.layer_norm(data, (embedding,), *norms[number], epsilon)

    def attend(data: Any) -> Any:
        options = (mask, False, True, kind)
        return _attention(data, data, data, embedding, heads, *projections, *options)[0]

    def fed_forward(data: Any) -> Any:
        hidden = functional.linear(data, *layers[0])
        hidden = functional.gelu(hidden) if is_gelu else functional.relu(hidden)
        return functional.linear(hidden, *layers[1])

    if is_norm_first:
        source = source + attend(normalize(source, 0))
        return source + fed_forward(normalize(source, 1))
    source = normalize(source + attend(source), 0)
    return normalize(source + fed_forward(source), 1)


_FAST_PATHS = {
    "aten._native_multi_head_attention.default": _attention,
    "aten._transformer_encoder_layer_fwd.default": _encoder_layer,
}
