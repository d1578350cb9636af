"""ATen's attention: the same operators of graphs that ONNX's is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansorc.graph.torch.torch_call import TorchCall, TorchConverter


def _attention(call: TorchCall) -> str:
    if call.get("dropout_p", 0.0):
        call.refuse("it drops out; call module.eval() before")
    shapes = [call.type(name).shape for name in ("query", "key", "value")]
    names = [call.input(name) for name in ("query", "key", "value")]
    if min(map(len, shapes)) < 2:
        call.refuse(f"its inputs are {', '.join(str(list(shape)) for shape in shapes)}")
    outer = call.result.shape[:-3]
    for index, shape in enumerate(shapes):
        if shape[:-3] != outer:
            shapes[index] = (*outer, *((1, *shape) if len(shape) == 2 else shape)[-3:])
            names[index] = call.add("broadcast_to", [names[index]], shape=list(shapes[index]))
    batch = math.prod(outer)
    four = [(batch, *((1,) * (3 - len(s)) + s)[-3:]) for s in shapes]
    heads, groups = four[0][1], four[1][1]
    if heads % groups or groups != four[2][1]:
        call.refuse(f"{heads} heads of queries do not fit {groups} of keys and values")
    query, key, value = (call.reshape(n, s) for n, s in zip(names, four, strict=True))
    factor = call.get("scale", 1 / math.sqrt(four[0][3]))
    length, keys = four[0][2], four[1][2]
    letters = "h" if heads == groups else "hg"
    grouped = [batch, heads] if heads == groups else [batch, groups, heads // groups]
    query = call.reshape(query, [*grouped, length, four[0][3]])
    equation = f"b{letters}nd,bhmd->b{letters}nm"
    scores = call.add("einsum", [query, key], equation=equation, scale=float(factor))
    shares = _shares(call, call.reshape(scores, [batch, heads, length, keys]))
    shares = call.reshape(shares, [*grouped, length, keys])
    equation = f"b{letters}nm,bhmd->b{letters}nd"
    product = call.add("einsum", [shares, value], equation=equation)
    return call.reshape(product, call.result.shape)


def _shares(call: TorchCall, scores: str) -> str:
    """The softmax of the scores, masked."""
    is_causal = bool(call.get("is_causal", False))
    if not call.has("attn_mask") and not is_causal:
        return call.add("softmax", [scores], axis=-1)
    others: list[str] = []
    if call.has("attn_mask"):
        shape, kind = call.type("attn_mask").shape, call.builder.type(scores).dtype
        is_choice = call.type("attn_mask").dtype.is_bool
        mask = call.input("attn_mask", None if is_choice else kind)
        keys = call.builder.type(scores).shape[-1]
        if shape[-1:] != (keys,):
            mask = call.add("broadcast_to", [mask], shape=[*shape[:-1], keys])
        if len(shape) > 4:
            batch = math.prod(shape[:-3])
            whole = (*call.result.shape[:-3], *shape[-3:])
            mask = mask if batch == 1 else call.add("broadcast_to", [mask], shape=list(whole))
            mask = call.reshape(mask, [1 if batch == 1 else math.prod(whole[:-3]), *shape[-3:]])
        others.append(mask)
    last = 0 if is_causal else None
    return call.add("attention_softmax", [scores, *others], masked=bool(others), last=last)


TORCH_ATTENTION: Mapping[str, TorchConverter] = {"scaled_dot_product_attention.default": _attention}
