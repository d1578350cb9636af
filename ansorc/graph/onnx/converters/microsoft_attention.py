"""Operators of com.microsoft that are attention, and the embeddings before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from ansorc.graph.importing.integer_products import integer_product
from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.converters.attention import Heads, mix_values, scores_of
from ansorc.graph.onnx.converters.quantized import integers
from ansorc.graph.onnx.node_call import Converter, NodeCall

_FILTER = -10000.0
"""The number added to masked scores, unless an attribute gives another."""


def _multi_head(call: NodeCall) -> Sequence[Value]:
    heads = int(call.attribute("num_heads"))
    query, key, value = _project(call, heads)
    query, key, value = _with_bias(call, [query, key, value])
    _refuse_shared_buffers(call, (8, 9))
    past = 0
    if call.has(6) != call.has(7):
        call.refuse("it has one of past_key and past_value; it needs both or none")
    if call.has(6):
        past = call.type(6).shape[2]
        key, value = (
            Heads.join(call, call.input(index), heads_now)
            for index, heads_now in ((6, key), (7, value))
        )
    mask = _add_masks(call, 4, 5, (query.shape[0], query.length, key.length))
    scores, result = _attend(call, query, key, value, mask, past)
    outputs: list[Value] = [result, "", "", scores]
    if len(call.node.outputs) > 1:
        outputs[1], outputs[2] = key.split(call), value.split(call)
    return outputs[: len(call.node.outputs)]


def _attention(call: NodeCall) -> Sequence[Value]:
    if call.attribute("do_rotary", 0):
        call.refuse("rotary positions inside of it are not supported; use RotaryEmbedding before")
    _refuse_shared_buffers(call, (6,))
    product = call.add("matmul", [call.input(0), call.input(1)])
    if call.has(2):
        product = call.add("add", [product, call.input(2)])
    return _self_attention(call, product, (3, 4, 5))


def _quantized_attention(call: NodeCall) -> Sequence[Value]:
    if call.attribute("do_rotary", 0):
        call.refuse("rotary positions inside of it are not supported; use RotaryEmbedding before")
    _refuse_shared_buffers(call, ())
    total = integer_product(call, integers(call, 0, 6), integers(call, 1, 7))
    product = call.add("cast", [total], dtype="float32")
    scale = call.add("multiply", [call.input(3), call.input(4)])
    product = call.add("add", [call.add("multiply", [product, scale]), call.input(2)])
    return _self_attention(call, product, (5, 8, -1))


def _self_attention(call: NodeCall, product: str, places: Sequence[int]) -> Sequence[Value]:
    """Attention of queries, keys and values that lie side by side in the last dimension.

    `places` are those of the mask, of earlier keys and values, and of what is added to scores.
    """
    mask_place, past_place, bias_place = places
    heads, width = int(call.attribute("num_heads")), call.builder.type(product).shape[-1]
    sizes = list(call.attribute("qkv_hidden_sizes") or [width // 3] * 3)
    if sum(sizes) != width or any(size % heads for size in sizes) or sizes[0] != sizes[1]:
        call.refuse(f"its products have {width} columns, of {sizes} for {heads} heads")
    ends = np.cumsum([0, *sizes])
    query, key, value = (
        Heads.flat(call, _columns(call, product, int(begin), int(end)), heads)
        for begin, end in pairwise(ends)
    )
    past = 0
    if past_place >= 0 and call.has(past_place):
        state = call.input(past_place)
        shape = call.type(past_place).shape
        past = shape[3]
        earlier = [call.add("squeeze", [_part(call, state, 0, n, n + 1)], axis=0) for n in range(2)]
        key, value = (
            Heads.join(call, name, tensor)
            for name, tensor in zip(earlier, (key, value), strict=True)
        )
    extent = (query.shape[0], query.length, key.length)
    mask = _add_masks(call, mask_place, bias_place, extent)
    _, result = _attend(call, query, key, value, mask, past)
    if len(call.node.outputs) < 2:
        return [result]
    if key.shape[3] != value.shape[3]:
        call.refuse("its state has keys and values of different sizes")
    return [result, call.add("stack", [key.split(call), value.split(call)], axis=0)]


def _attend(
    call: NodeCall, query: Heads, key: Heads, value: Heads, mask: str, past: int
) -> tuple[str, str]:
    """The scores with their masks, and the values by the softmax of these."""
    scale = call.attribute("scale", 0.0) or 1 / math.sqrt(query.shape[3])
    scores = scores_of(call, query, key, scale)
    if mask:
        scores = call.add("add", [scores, mask])
    if call.attribute("unidirectional", 0) and query.length > 1:
        first = np.arange(query.length)[:, None] + past
        later = np.arange(key.length)[None] > first
        later[-1] = False  # ONNX Runtime lets the last query see all keys, also later ones
        added = np.where(later, np.finfo(np.float32).min, 0).astype(np.float32)
        scores = call.add("add", [scores, call.constant(added)])
    shares = call.add("softmax", [scores], axis=-1)
    return scores, mix_values(call, shares, query, value)


def _mask_value(call: NodeCall) -> float:
    return float(call.attribute("mask_filter_value", _FILTER))


def _add_masks(
    call: NodeCall, mask_place: int, bias_place: int, extent: tuple[int, int, int]
) -> str:
    """Return what mask and bias add to the scores [batch, heads, queries, keys]; "" if nothing."""
    parts: list[str] = []
    if call.has(mask_place):
        parts.append(_padding_mask(call, mask_place, extent))
    if bias_place >= 0 and call.has(bias_place):
        parts.append(call.input(bias_place))
    return parts[0] if len(parts) == 1 else call.add("add", parts) if parts else ""


def _padding_mask(call: NodeCall, index: int, extent: tuple[int, int, int]) -> str:
    """Return what is added for a mask: 1 for each key that counts, or the places where they end."""
    (batch, queries, keys), shape, mask = extent, call.type(index).shape, call.input(index)
    if shape in ((batch, keys), (batch, queries, keys)):
        axes = (batch, 1, shape[1] if len(shape) == 3 else 1, keys)
        zero = call.constant(np.zeros((), call.type(index).dtype.numpy))
        kept = call.add("greater", [call.add("reshape", [mask], shape=axes), zero])
    elif shape in ((batch,), (2 * batch,)):
        at = call.constant(np.arange(keys).reshape(1, 1, 1, keys).astype(np.int32))
        end = call.add("reshape", [_part(call, mask, 0, 0, batch)], shape=(batch, 1, 1, 1))
        kept = call.add("less", [at, call.add("cast", [end], dtype="int32")])
        if shape == (2 * batch,):
            begin = _part(call, mask, 0, batch, 2 * batch)
            begin = call.add("reshape", [begin], shape=(batch, 1, 1, 1))
            after = call.add("greater_equal", [at, call.add("cast", [begin], dtype="int32")])
            kept = call.add("logical_and", [kept, after])
    else:
        call.refuse(
            f"its mask is {list(shape)} for {batch} sequences of {queries} queries and {keys} keys;"
            f" ansorc takes [{batch}], [{2 * batch}], [{batch}, {keys}] and "
            f"[{batch}, {queries}, {keys}]"
        )
    values = [call.constant(np.float32(number)) for number in (0.0, _mask_value(call))]
    return call.add("where", [kept, *values])


def _project(call: NodeCall, heads: int) -> tuple[Heads, Heads, Heads]:
    """Queries, keys and values, which may come packed in one or two tensors."""
    if call.rank(0) == 5:
        if call.has(1) or call.has(2):
            call.refuse("its queries, keys and values are packed; it needs no others")
        query, key, value = _unpack(call, 0, 3)
        return query, key, value
    query = Heads.flat(call, call.input(0), heads)
    if not call.has(1):
        call.refuse("it has no keys")
    if call.rank(1) == 5:
        if call.has(2):
            call.refuse("its keys and values are packed; it needs no others")
        key, value = _unpack(call, 1, 2)
        return query, key, value
    if call.rank(1) == 4:
        names = [call.input(index) for index in (1, 2)]
        key, value = (Heads(name, call.builder.type(name).shape, is_flat=False) for name in names)
        return query, key, value
    key, value = (Heads.flat(call, call.input(index), heads) for index in (1, 2))
    return query, key, value


def _unpack(call: NodeCall, index: int, count: int) -> list[Heads]:
    """Tensors [b, n, heads, d] that lie side by side in one, [b, n, heads, count, d]."""
    data, shape = call.input(index), call.type(index).shape
    if shape[3] != count:
        call.refuse(f"its input {index} is {list(shape)}; it needs {count} in its dimension 3")
    parts = [call.add("squeeze", [_part(call, data, 3, n, n + 1)], axis=3) for n in range(count)]
    return [Heads(part, (*shape[:3], shape[4]), is_flat=True) for part in parts]


def _with_bias(call: NodeCall, tensors: Sequence[Heads]) -> list[Heads]:
    """Queries, keys and values, each with its part of the bias."""
    if not call.has(3):
        return list(tensors)
    if not all(tensor.is_flat for tensor in tensors):
        call.refuse("it has a bias for keys and values that come from another layer")
    total = sum(tensor.shape[2] * tensor.shape[3] for tensor in tensors)
    if call.type(3).shape != (total,):
        call.refuse(f"its bias is {list(call.type(3).shape)}; it needs [{total}]")
    biased, begin = list[Heads](), 0
    for tensor in tensors:
        heads, width = tensor.shape[2:]
        part = _part(call, call.input(3), 0, begin, begin + heads * width)
        begin += heads * width
        part = call.add("reshape", [part], shape=(heads, width))
        biased.append(Heads(call.add("add", [tensor.name, part]), tensor.shape, is_flat=True))
    return biased


def _refuse_shared_buffers(call: NodeCall, places: Sequence[int]) -> None:
    _mask_value(call)  # is given also where nothing is masked
    if call.attribute("past_present_share_buffer", 0) or any(call.has(index) for index in places):
        call.refuse(
            "its state is a buffer that is written in place, and ansorc's networks have no state; "
            "export the model with past and present of their own (past_present_share_buffer=0)"
        )


def _columns(call: NodeCall, data: str, begin: int, end: int) -> str:
    return _part(call, data, len(call.builder.type(data).shape) - 1, begin, end)


def _part(call: NodeCall, data: str, axis: int, begin: int, end: int) -> str:
    """The elements from `begin` to `end` along an axis."""
    shape = call.builder.type(data).shape
    if (begin, end) == (0, shape[axis]):
        return data
    if (value := call.builder.value(data)) is not None:
        return call.constant(value.take(range(begin, end), axis))
    first, behind = [0] * len(shape), list(shape)
    first[axis], behind[axis] = begin, end
    return call.add("slice", [data], begin=first, end=behind)


def _embedding_norm(call: NodeCall) -> Sequence[Value]:
    """Words, positions and segments, added and normalised; and how many words count."""
    batch, length = call.type(0).shape
    total = call.add("take", [call.input(2), call.input(0)], axis=0)
    if call.has(8):
        positions = call.add("take", [call.input(3), call.input(8)], axis=0)
    else:
        positions = _part(call, call.input(3), 0, 0, length)
    total = call.add("add", [total, positions])
    if call.has(1):
        segments = call.add("take", [call.input(4), call.input(1)], axis=0)
        total = call.add("add", [total, segments])
    epsilon = float(call.attribute("epsilon", 1e-12))
    result = call.add("layer_norm", [total, call.input(5), call.input(6)], epsilon=epsilon)
    outputs: list[Value] = [result, np.zeros(batch, np.int32), total]
    if call.has(7) and len(call.node.outputs) > 1 and call.node.outputs[1]:
        is_word = call.add("equal", [call.input(7), call.scalar(1, call.input(7))])
        outputs[1] = call.add("sum", [call.add("cast", [is_word], dtype="int32")], axis=[1])
    return outputs[: len(call.node.outputs)]


def _rotary(call: NodeCall) -> str:
    if call.attribute("is_packed_batching", 0):
        call.refuse("packed batches are not supported")
    if call.attribute("scale", 1.0) != 1:
        call.refuse("a scale other than 1 is not supported")
    shape, heads = call.type(0).shape, int(call.attribute("num_heads", 0))
    size = int(call.attribute("rotary_embedding_dim", 0))
    if len(shape) == 3 and not heads:
        heads = shape[2] // (2 * call.type(2).shape[1])
    rows = shape[1] if len(shape) == 3 else shape[2]
    positions = call.input(1)
    if call.type(1).shape in ((1,), ()):  # the first of each sequence
        steps = call.constant(np.arange(rows)[None])
        positions = call.add("add", [call.add("cast", [positions], dtype="int64"), steps])
        positions = call.add("broadcast_to", [positions], shape=(shape[0], rows))
    return call.add(
        "rotary_embedding", [call.input(0), call.input(2), call.input(3), positions],
        heads=heads if len(shape) == 3 else 0, size=size,
        interleaved=bool(call.attribute("interleaved", 0)),
    )  # fmt: skip


MICROSOFT_ATTENTION: Mapping[str, Converter] = {
    "com.microsoft::Attention": _attention,
    "com.microsoft::EmbedLayerNormalization": _embedding_norm,
    "com.microsoft::MultiHeadAttention": _multi_head,
    "com.microsoft::QAttention": _quantized_attention,
    "com.microsoft::RotaryEmbedding": _rotary,
}
