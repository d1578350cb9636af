"""What the operators of networks refuse, by their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ansorc as ac
from ansorc import ops
from ansorc.errors import LanguageError

A = ac.placeholder((8, 4), "A")
V = ac.placeholder(8, "V")
N = ac.placeholder((3, 4), "N", "int32")
X = ac.placeholder((1, 6, 6, 4), "X")

UNTYPED: Any = ops
W = ac.placeholder((3, 3, 4, 2), "W")

CASES: list[tuple[str, Callable[[], object]]] = [
    (r"prelu of A .*axis -1 has 4 channels; use a slope \[4\]", lambda: ops.prelu(A, V)),
    ("clip of A .*low 2 must not be above high 1", lambda: ops.clip(A, 2, 1)),
    (r"where of .*extents must be equal, or 1", lambda: ops.where(N, A, V)),
    ("where.*bool", lambda: ops.where(N, N, N)),
    ("sum of A .*there is no axis 2; use -2..1", lambda: ops.sum(A, 2)),
    (r"max of A .*an axis is named twice in \(0, -2\)", lambda: ops.max(A, (0, -2))),
    ("mean of N .*it needs floats; cast it first", lambda: ops.mean(N)),
    ("argmax of s .*there is no axis to search", lambda: ops.argmax(ac.placeholder((), "s"))),
    (r"matmul of A .*the dimensions in front must be equal, or 1",
     lambda: ops.matmul(ac.placeholder((2, 3, 8), "A"), ac.placeholder((3, 8, 2), "B"))),
    (r"dense of V .*\[..., k\] and \[units, k\]", lambda: ops.dense(V, A)),
    ("reshape of A .*its 32 elements do not make", lambda: ops.reshape(A, (5, 6))),
    ("reshape of A .*do not make", lambda: ops.reshape(A, (-1, -1))),
    ("reshape of A .*do not make", lambda: ops.reshape(A, (-1, 5))),
    ("flatten of A .*there is no axis 3", lambda: ops.flatten(A, 3)),
    (r"squeeze of A .*the extents of \[0\] must be 1", lambda: ops.squeeze(A, 0)),
    ("expand_dims of A .*must be different dimensions", lambda: ops.expand_dims(A, (0, -4))),
    (r"broadcast_to of A .*cannot be broadcast to \[4, 8\]", lambda: ops.broadcast_to(A, (4, 8))),
    ("broadcast_to of A .*cannot", lambda: ops.broadcast_to(A, (4,))),
    (r"tile of A .*repeats are \(2,\)", lambda: ops.tile(A, (2,))),
    ("tile of A .*one of 1 or more", lambda: ops.tile(A, (2, 0))),
    ("slice of A .*for each of 2", lambda: ops.slice(A, (0,), (1,))),
    ("slice of A .*a stride of 0", lambda: ops.slice(A, (0, 0), (1, 1), (0, 1))),
    ("slice of A .*leaves nothing", lambda: ops.slice(A, (3, 0), (3, 1))),
    ("concat needs one tensor", lambda: ops.concat([])),
    ("concat of A .* and X .*differ in axis 0 alone", lambda: ops.concat([A, X])),
    ("concat.*cast one arm", lambda: ops.concat([ac.placeholder((3, 4), "F"), N])),
    ("stack needs one tensor", lambda: ops.stack([])),
    ("stack of A .*one shape", lambda: ops.stack([A, V])),
    ("stack of A .*no axis 3", lambda: ops.stack([A, A], 3)),
    ("edge_pad of A .*must not be negative", lambda: ops.edge_pad(A, (-1, 0), (0, 0))),
    ("reflect_pad of A .*must be less than", lambda: ops.reflect_pad(A, (0, 4), (0, 0))),
    ("take of A .*the indices are float32; they must be integers", lambda: ops.take(A, V)),
    ("take has no mode 'fill'; use 'raise': the call", lambda: ops.take(A, N, 0, "fill")),
    ("gather of I .*each must have 2", lambda: ops.gather(A, ac.placeholder(3, "I", "int32"))),
    ("gather of N .*must not be longer, but along axis 1",
     lambda: ops.gather(N, ac.placeholder((4, 4), "I", "int64"), 1)),
    ("embedding of V .*must have 2", lambda: ops.embedding(V, N)),
    ("one_hot of A .*must be integers", lambda: ops.one_hot(A, 3)),
    ("one_hot of N .*depth is 0", lambda: ops.one_hot(N, 0)),
    ("one_hot of N .*no axis 4", lambda: ops.one_hot(N, 2, 4)),
    ("no coordinates 'corner'; use half_pixel",
     lambda: ops.resize2d_nearest(X, 3, coordinates="corner")),
    ("no rounding 'up'; use floor", lambda: ops.resize2d_nearest(X, 3, rounding="up")),
    (r"resize2d_nearest of X .*the size \(0, 0\) is empty", lambda: ops.resize2d_nearest(X, 0)),
    ("resize2d_bilinear of A .*4 dimensions", lambda: ops.resize2d_bilinear(A, 3)),
    ("resize2d_bilinear of N .*it needs floats", lambda: ops.resize2d_bilinear(N, 3)),
    ("max_pool3d of X .*must have 5 dimensions", lambda: ops.max_pool3d(X, 2)),
    ("avg_pool1d of N .*it needs floats", lambda: ops.avg_pool1d(N, 2)),
    (r"avg_pool2d: kernel is \(2, 2, 2\)", lambda: ops.avg_pool2d(X, (2, 2, 2))),
    (r"max_pool2d of X .*window \(7, 7\) is larger", lambda: ops.max_pool2d(X, 7)),
    ("global_max_pool of A .*1 to 3 spatial", lambda: ops.global_max_pool(A)),
    ("layer_norm of A .*must have the last extents of", lambda: ops.layer_norm(A, V, V)),
    ("rms_norm of A .*must have the last extents", lambda: ops.rms_norm(A, V)),
    (r"group_norm of X .*scale and shift must be \[4\], a multiple of 3",
     lambda: ops.group_norm(X, ac.placeholder(4, "a"), ac.placeholder(4, "b"), 3)),
    ("conv2d has no option 'strides'; it has dilation, groups",
     lambda: UNTYPED.conv2d(X, W, strides=2)),
    ("depthwise_conv2d has no option 'groups'",
     lambda: UNTYPED.depthwise_conv2d(X, W, groups=2)),
    ("conv2d_transpose has no option 'pad'", lambda: UNTYPED.conv2d_transpose(X, W, pad=2)),
    ("max_pool2d has no option 'count_include_pad'",
     lambda: UNTYPED.max_pool2d(X, 2, count_include_pad=True)),
    ("avg_pool2d has no option 'strides'", lambda: UNTYPED.avg_pool2d(X, 2, strides=2)),
    ("resize2d_bilinear has no option 'rounding'",
     lambda: UNTYPED.resize2d_bilinear(X, 2, rounding="floor")),
    ("group_norm has no option 'eps'", lambda: UNTYPED.group_norm(X, V, V, 1, eps=1)),
    ("batch_norm_inference has no option 'eps'",
     lambda: UNTYPED.batch_norm_inference(X, V, V, V, V, eps=1)),
    ("attention of X .*they must be .batch, heads, n, k.",
     lambda: ops.attention(X, X, ac.placeholder((1, 1, 3, 3), "v"))),
    ("attention has no option 'masks'", lambda: UNTYPED.attention(X, X, X, masks=1)),
    ("attention: mask is 1 .*not a tensor or None",
     lambda: UNTYPED.attention(X, X, X, mask=1)),
    ("the mask must be booleans that are broadcast to .1, 6, 6, 6.",
     lambda: ops.attention(X, X, X, mask=ac.placeholder((6, 5), "m", "bool"))),
    ("lengths must be integers .batch.",
     lambda: ops.attention(X, X, X, lengths=ac.placeholder((6,), "n", "int64"))),
    ("cross_entropy of A .*they must be", lambda: ops.cross_entropy(A, A)),
    ("l2_normalize of A .*axis 5", lambda: ops.l2_normalize(A, 5)),
    ("group_norm of V .*1 to 3 spatial", lambda: ops.group_norm(V, V, V, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "build"), CASES, ids=[words[:40] for words, _ in CASES])
def test_refused_with_words(words: str, build: Callable[[], object]) -> None:
    with pytest.raises(LanguageError, match=f"(?s){words}"):
        build()
