"""ONNX operators of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansorc.graph.importing.values import Value
from ansorc.graph.onnx.node_call import Converter, NodeCall

_RAW, _CAPPED, _MASKED, _PROBABILITIES = range(4)
"""The values of the attribute that chooses the fourth output."""


@dataclass(frozen=True)
class Heads:
    """A tensor of heads: [b, heads, n, d]; [b, n, heads, d] where it came in 3 dimensions."""

    name: str
    shape: tuple[int, ...]
    is_flat: bool

    @property
    def count(self) -> int:
        """How many heads there are."""
        return self.shape[2 if self.is_flat else 1]

    @property
    def length(self) -> int:
        """How many queries, keys or values each has."""
        return self.shape[1 if self.is_flat else 2]

    def letters(self, length: str, width: str, heads: str) -> str:
        """Return its dimensions for an equation."""
        return f"b{length}{heads}{width}" if self.is_flat else f"b{heads}{length}{width}"

    @staticmethod
    def flat(call: NodeCall, name: str, count: int) -> Heads:
        """Return a tensor [b, n, width] as `count` heads; refuse what cannot be divided so."""
        shape = call.builder.type(name).shape
        if len(shape) != 3 or count < 1 or shape[2] % count:
            call.refuse(f"'{name}' is {list(shape)}, which are no {count} heads of [b, n, width]")
        parts = (*shape[:2], count, shape[2] // count)
        return Heads(call.add("reshape", [name], shape=parts), parts, is_flat=True)

    @staticmethod
    def join(call: NodeCall, past: str, new: Heads) -> Heads:
        """Return heads behind those of earlier calls, [b, heads, n, d]."""
        name = call.add("concat", [past, new.split(call)], axis=2)
        return Heads(name, call.builder.type(name).shape, is_flat=False)

    def split(self, call: NodeCall) -> str:
        """Return the tensor as [b, heads, n, d]."""
        if not self.is_flat:
            return self.name
        return call.add("transpose", [self.name], order=[0, 2, 1, 3])

    def in_groups(self, call: NodeCall, groups: int) -> str:
        """Return it with the heads in `groups` of neighbours, as two dimensions."""
        dimension = 2 if self.is_flat else 1
        shape = list(self.shape)
        shape[dimension : dimension + 1] = [groups, self.count // groups]
        return call.add("reshape", [self.name], shape=shape)


def _attention(call: NodeCall) -> Sequence[Value]:
    query, key, value = (
        _heads(call, 0, "q_num_heads"),
        _append_to_past(call, 1, 4),
        _append_to_past(call, 2, 5),
    )
    if query.count % key.count or key.count != value.count:
        call.refuse(f"{query.count} heads of queries do not fit {key.count} of keys and values")
    scale = call.attribute("scale")
    factor = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    scores = scores_of(call, query, key, factor)
    mode, outputs = _mode(call), call.node.outputs
    wants_scores = len(outputs) > 3 and bool(outputs[3])
    scores_out, probabilities = _probabilities(call, scores, mode)
    result = mix_values(call, probabilities, query, value)
    results: list[Value] = [result, "", "", ""]
    if len(outputs) > 1:
        results[1], results[2] = key.split(call), value.split(call)
    if wants_scores:
        results[3] = scores if mode == _RAW else scores_out
    return results[: len(outputs)]


def _heads(call: NodeCall, index: int, attribute: str) -> Heads:
    name, shape = call.input(index), call.type(index).shape
    if len(shape) == 4:
        return Heads(name, shape, is_flat=False)
    count = call.attribute(attribute)
    if len(shape) != 3 or not count or shape[2] % count:
        call.refuse(f"its input {index} is {list(shape)}, {attribute} is {count}")
    return Heads.flat(call, name, count)


def _append_to_past(call: NodeCall, index: int, past: int) -> Heads:
    """Keys or values, behind those of earlier calls."""
    heads = _heads(call, index, "kv_num_heads")
    if not call.has(past):
        return heads
    return Heads.join(call, call.input(past), heads)


def scores_of(call: NodeCall, query: Heads, key: Heads, factor: float) -> str:
    """Return `factor` times the products of all queries and keys, [b, heads, n, m]."""
    shape = (query.shape[0], query.count, query.length, key.length)
    if query.count == key.count:
        terms = f"{query.letters('n', 'd', 'h')},{key.letters('m', 'd', 'h')}"
        return call.add("einsum", [query.name, key.name], equation=f"{terms}->bhnm", scale=factor)
    terms = f"{query.letters('n', 'd', 'hg')},{key.letters('m', 'd', 'h')}"
    grouped = [query.in_groups(call, key.count), key.name]
    products = call.add("einsum", grouped, equation=f"{terms}->bhgnm", scale=factor)
    return call.add("reshape", [products], shape=shape)


def mix_values(call: NodeCall, shares: str, query: Heads, value: Heads) -> str:
    """Return the values by their shares, in the form that the queries came in."""
    batch, heads, width = query.shape[0], query.count, value.shape[3]
    letters = "hg" if heads != value.count else "h"
    if heads != value.count:
        split = (batch, value.count, heads // value.count, query.length, value.length)
        shares = call.add("reshape", [shares], shape=split)
    terms = f"b{letters}nm,{value.letters('m', 'd', 'h')}->{query.letters('n', 'd', letters)}"
    mixture = call.add("einsum", [shares, value.name], equation=terms)
    if query.is_flat:
        return call.add("reshape", [mixture], shape=[batch, query.length, heads * width])
    if heads != value.count:
        return call.add("reshape", [mixture], shape=[batch, heads, query.length, width])
    return mixture


def _mode(call: NodeCall) -> int:
    """Return what the fourth output is."""
    mode = call.attribute("qk_matmul_output_mode", 0)
    is_capped = bool(call.attribute("softcap", 0.0))
    if len(call.node.outputs) < 4 or not call.node.outputs[3]:
        return _PROBABILITIES
    if is_capped and mode == _RAW:
        call.refuse("qk_matmul_output_mode 0 with a softcap is not supported; use 1")
    return mode


def _probabilities(call: NodeCall, scores: str, mode: int) -> tuple[str, str]:
    """The fourth output, and the shares of the values."""
    causal = bool(call.attribute("is_causal", 0))
    left, right = (call.attribute(f"{side}_window_size", -1) for side in ("left", "right"))
    last = min([0] * causal + [right] * (right >= 0), default=None)
    others = [call.input(index) for index in (3, 6) if call.has(index)]
    options: dict[str, object] = {
        "masked": call.has(3), "softcap": call.attribute("softcap", 0.0), "last": last,
        "first": -left if left >= 0 else None,
        "offset": call.type(4).shape[2] if call.has(4) else 0,
    }  # fmt: skip
    if mode in (_CAPPED, _MASKED):
        stage = "capped" if mode == _CAPPED else "masked"
        if stage == "capped" and not options["softcap"]:
            return scores, call.add("attention_softmax", [scores, *others], **options)
        options["outputs"] = f"{stage},probabilities"
        names = call.builder.add_many("attention_softmax", [scores, *others], ("", ""), **options)
        return names[0], names[1]
    is_plain = not others and not options["softcap"] and last is None and left < 0
    probabilities = (
        call.add("softmax", [scores], axis=-1)
        if is_plain
        else call.add("attention_softmax", [scores, *others], **options)
    )
    return probabilities, probabilities


def _rotary_embedding(call: NodeCall) -> str:
    shape = call.type(0).shape
    heads = call.attribute("num_heads", 0)
    if len(shape) == 3 and not heads:
        call.refuse("num_heads is needed for an input of 3 dimensions")
    return call.add(
        "rotary_embedding", call.inputs(), heads=heads if len(shape) == 3 else 0,
        size=call.attribute("rotary_embedding_dim", 0),
        interleaved=bool(call.attribute("interleaved", 0)),
    )  # fmt: skip


ATTENTION: Mapping[str, Converter] = {
    "Attention": _attention,
    "RotaryEmbedding": _rotary_embedding,
}
