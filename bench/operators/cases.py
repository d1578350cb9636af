"""The cases: operators of real networks that are small, thin, or no products, with their source.

Attention as [batch, heads, places, width]; images channels last.
"""

# PyTorch is not installed where this is checked, so its functions have no types here.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ansorc as ac
from bench.operators.case import OperatorCase

Shape = tuple[int, ...]


def _norms() -> Iterator[OperatorCase]:
    for name, source, n, side, c, groups in (
        ("group_norm-64x64x320", "Stable Diffusion 1.5, UNet, first level", 2, 64, 320, 32),
        ("group_norm-32x32x640", "Stable Diffusion 1.5, UNet, second level", 2, 32, 640, 32),
        ("group_norm-8x8x1280", "Stable Diffusion 1.5, UNet, middle", 2, 8, 1280, 32),
        ("group_norm-128x128x128", "Stable Diffusion 1.5, decoder", 1, 128, 128, 32),
    ):
        yield _group_norm(name, source, (n, c, side, side), groups, is_activated=True)
    yield _group_norm("group_norm-28x28x256", "Mask R-CNN with group norm, box head",
                      (8, 256, 28, 28), 32, is_activated=False)  # fmt: skip
    yield _group_norm("instance_norm-256x256x32", "fast style transfer, first layer",
                      (1, 32, 256, 256), 32, is_activated=False)  # fmt: skip
    yield _group_norm("instance_norm-64x64x128", "fast style transfer, residual block",
                      (1, 128, 64, 64), 128, is_activated=False)  # fmt: skip
    yield OperatorCase(
        "group_norm_last-32x32x640", "norm", "Stable Diffusion 1.5, UNet, channels last",
        {"X": (2, 32, 32, 640)},
        lambda x, s, b: ac.ops.silu(ac.ops.group_norm(x, s, b, 32)),
        lambda t, x, s, b: t.nn.functional.silu(t.nn.functional.group_norm(x, 32, s, b)),
        {"S": (640,), "B": (640,)}, is_image=True,
    )  # fmt: skip
    for name, source, rows, width in (
        ("layer_norm-128x768", "BERT base, 128 words", 128, 768),
        ("layer_norm-197x768", "ViT-B/16", 197, 768),
        ("layer_norm-3136x96", "Swin-T, first stage", 3136, 96),
        ("layer_norm-1x1024", "GPT-2 medium, decoding", 1, 1024),
        ("layer_norm-2048x1024", "GPT-2 medium, batch 2, 1024 words", 2048, 1024),
    ):
        yield OperatorCase(
            name, "norm", source, {"X": (rows, width)}, ac.ops.layer_norm,
            lambda t, x, s, b: t.nn.functional.layer_norm(x, x.shape[1:], s, b),
            {"S": (width,), "B": (width,)}, "Y = LayerNormalization<axis=-1>(X, S, B)",
        )  # fmt: skip
    for name, source, rows, width in (
        ("rms_norm-1x4096", "LLaMA 7B, decoding", 1, 4096),
        ("rms_norm-128x2048", "LLaMA 3.2 1B, 128 words", 128, 2048),
    ):
        yield OperatorCase(
            name, "norm", source, {"X": (rows, width)}, ac.ops.rms_norm,
            lambda t, x, s: t.nn.functional.rms_norm(x, x.shape[1:], s, 1e-5),
            {"S": (width,)}, "Y = SimplifiedLayerNormalization<axis=-1, epsilon=1e-5>(X, S)",
        )  # fmt: skip
    yield OperatorCase(
        "l2_norm-512x512", "norm", "FaceNet, embeddings", {"X": (512, 512)},
        ac.ops.l2_normalize, lambda t, x: t.nn.functional.normalize(x, eps=1e-12), {},
        "Y = LpNormalization<axis=-1, p=2>(X)",
    )  # fmt: skip


def _group_norm(
    name: str, source: str, shape: Shape, groups: int, *, is_activated: bool
) -> OperatorCase:
    def define(x: ac.Tensor, s: ac.Tensor, b: ac.Tensor) -> ac.Tensor:
        found = ac.ops.group_norm(x, s, b, groups, layout="NCHW")
        return ac.ops.silu(found) if is_activated else found

    def torch(t: Any, x: Any, s: Any, b: Any) -> Any:
        found = t.nn.functional.group_norm(x, groups, s, b)
        return t.nn.functional.silu(found) if is_activated else found

    scale = {"S": (shape[1],), "B": (shape[1],)}
    norm = f"N = GroupNormalization<num_groups={groups}>(X, S, B)"
    norm += " G = Sigmoid(N) Y = Mul(N, G)" if is_activated else " Y = Identity(N)"
    return OperatorCase(name, "norm", source, {"X": shape}, define, torch, scale, norm)


def _softmax() -> Iterator[OperatorCase]:
    for name, source, shape in (
        ("softmax-4096x10", "CIFAR-10 classifier, batch 4096", (4096, 10)),
        ("softmax-256x1000", "ResNet-50, batch 256", (256, 1000)),
        ("softmax-12x128x128", "BERT base, scores", (12, 128, 128)),
        ("softmax-12x197x197", "ViT-B/16, scores", (12, 197, 197)),
        ("softmax-64x49x49", "Swin-T, windows", (192, 49, 49)),
        ("softmax-1x32000", "LLaMA 7B, sampling", (1, 32000)),
        ("softmax-16x50257", "GPT-2, logits of 16 words", (16, 50257)),
    ):
        yield OperatorCase(
            name, "softmax", source, {"X": shape}, ac.ops.softmax,
            lambda t, x: t.softmax(x, -1), {}, "Y = Softmax<axis=-1>(X)",
        )  # fmt: skip
    for name, source, shape in (
        ("log_softmax-4096x10", "CIFAR-10 classifier, batch 4096", (4096, 10)),
        ("log_softmax-256x1000", "ResNet-50, batch 256", (256, 1000)),
        ("log_softmax-8x100000", "word2vec, a large vocabulary", (8, 100000)),
    ):
        yield OperatorCase(
            name, "softmax", source, {"X": shape}, ac.ops.log_softmax,
            lambda t, x: t.log_softmax(x, -1), {}, "Y = LogSoftmax<axis=-1>(X)",
        )  # fmt: skip
    for name, source, shape in (
        ("argmax-4096x10", "CIFAR-10 classifier, batch 4096", (4096, 10)),
        ("argmax-256x1000", "ResNet-50, batch 256", (256, 1000)),
        ("argmax-1x32000", "LLaMA 7B, greedy decoding", (1, 32000)),
        ("argmax-16x100000", "a large vocabulary", (16, 100000)),
    ):
        yield OperatorCase(
            name, "argmax", source, {"X": shape}, lambda x: ac.ops.argmax(x, -1),
            lambda t, x: t.argmax(x, -1), {}, "Y = ArgMax<axis=-1, keepdims=0>(X)",
        )  # fmt: skip
    yield OperatorCase(
        "cross_entropy-512x1000", "softmax", "ResNet-50, loss of a batch of 512",
        {"X": (512, 1000), "i": (512,)}, ac.ops.cross_entropy,
        lambda t, x, i: t.nn.functional.cross_entropy(x, i, reduction="none"), {}, places=1000,
    )  # fmt: skip


def _attention() -> Iterator[OperatorCase]:
    for name, source, heads, queries, keys, width, is_causal in (
        ("attention-12x64x64", "BERT base, 64 words", 12, 64, 64, 64, False),
        ("attention-12x197x64", "ViT-B/16", 12, 197, 197, 64, False),
        ("attention-12x128-causal", "GPT-2, 128 words", 12, 128, 128, 64, True),
        ("attention-12x1024-causal", "GPT-2, 1024 words", 12, 1024, 1024, 64, True),
        ("attention-8x4096x40", "Stable Diffusion 1.5, first level", 8, 4096, 4096, 40, False),
        ("attention-32x1x512", "LLaMA 7B, decoding after 512 words", 32, 1, 512, 128, False),
        ("attention-32x1x8192", "LLaMA 7B, decoding after 8192 words", 32, 1, 8192, 128, False),
    ):

        def define(
            q: ac.Tensor, k: ac.Tensor, v: ac.Tensor, *, is_causal: bool = is_causal
        ) -> ac.Tensor:
            return ac.ops.attention(q, k, v, causal=is_causal)

        def torch(t: Any, q: Any, k: Any, v: Any, *, is_causal: bool = is_causal) -> Any:
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

        data = {"Q": (1, heads, queries, width)}
        data |= dict.fromkeys(("K", "V"), (1, heads, keys, width))
        nodes = (
            "T = Transpose<perm=[0,1,3,2]>(K) P = MatMul(Q, T) "
            f"c = Constant<value=float {{{1 / math.sqrt(width)}}}>() S = Mul(P, c) "
            "A = Softmax<axis=-1>(S) Y = MatMul(A, V)"
        )
        yield OperatorCase(
            name, "attention", source, data, define, torch, {}, "" if is_causal else nodes
        )


def _products() -> Iterator[OperatorCase]:
    for name, source, batch, n, k, m in (
        ("bmm-1024x3x3x3", "PointNet, rotations", 1024, 3, 3, 3),
        ("bmm-4096x4x4x4", "skinning of meshes, joints", 4096, 4, 4, 4),
        ("bmm-512x7x7x7", "graph attention, neighbourhoods of 7", 512, 7, 7, 7),
        ("bmm-256x17x13x11", "odd sizes, pose graphs of 17 joints", 256, 17, 13, 11),
        ("bmm-64x49x32x49", "Swin-T, scores of windows", 192, 49, 32, 49),
        ("bmm-48x65x33x67", "odd sizes, frames of 65 tokens", 48, 65, 33, 67),
    ):
        yield OperatorCase(
            name, "bmm", source, {"A": (batch, n, k), "B": (batch, k, m)}, ac.ops.batch_matmul,
            lambda t, a, b: t.bmm(a, b), {}, "Y = MatMul(A, B)",
        )  # fmt: skip
    for name, source, n, k in (
        ("gemv-768x768", "BERT base, one word", 768, 768),
        ("gemv-4096x4096", "LLaMA 7B, decoding", 4096, 4096),
        ("gemv-1000x2048", "ResNet-50, classifier, batch 1", 1000, 2048),
        ("gemv-10x512", "CIFAR-10 classifier, batch 1", 10, 512),
    ):
        yield OperatorCase(
            name, "gemv", source, {"X": (1, k)}, ac.ops.dense,
            lambda t, x, w: t.nn.functional.linear(x, w), {"W": (n, k)}, "Y = Gemm<transB=1>(X, W)",
        )  # fmt: skip
    for name, source, n, k in (
        ("gemv_t-768x768", "GPT-2, one word", 768, 768),
        ("gemv_t-2304x768", "GPT-2, query, key and value", 2304, 768),
        ("gemv_t-1000x4096", "VGG-16, classifier, batch 1", 1000, 4096),
    ):
        yield OperatorCase(
            name, "gemv", source, {"X": (1, k)}, ac.ops.matmul,
            lambda t, x, w: t.mm(x, w), {"W": (k, n)}, "Y = MatMul(X, W)",
        )  # fmt: skip
    for name, source, shape in (
        ("gemv_data-1024x1024", "attention over a memory, a product per call", (1024, 1024)),
        ("gemv_data_t-1024x1024", "the same, transposed", (1024, 1024)),
    ):
        is_transposed = "_t-" in name
        yield OperatorCase(
            name, "gemv", source, {"A": shape, "X": (1024,)},
            lambda a, x, is_t=is_transposed: _matrix_vector(a, x, is_transposed=is_t),
            lambda t, a, x, is_t=is_transposed: t.mv(a.T if is_t else a, x),
            {}, "" if is_transposed else "Y = MatMul(A, X)",
        )  # fmt: skip


def _matrix_vector(a: ac.Tensor, x: ac.Tensor, *, is_transposed: bool) -> ac.Tensor:
    rows, columns = a.shape
    if is_transposed:
        r = ac.reduce_axis(rows, "r")
        return ac.compute((columns,), lambda i: ac.sum(a[r, i] * x[r], axis=r), "y")
    k = ac.reduce_axis(columns, "k")
    return ac.compute((rows,), lambda i: ac.sum(a[i, k] * x[k], axis=k), "y")


def _convolutions() -> Iterator[OperatorCase]:
    for name, source, side, ci, co in (
        ("pointwise-112x112x32x16", "MobileNetV2, first block", 112, 32, 16),
        ("pointwise-112x112x16x96", "MobileNetV2, second block", 112, 16, 96),
        ("pointwise-56x56x24x144", "MobileNetV2, third block", 56, 24, 144),
        ("pointwise-28x28x144x32", "MobileNetV2, fourth block", 28, 144, 32),
        ("pointwise-112x112x3x8", "a first block that mixes colours", 112, 3, 8),
    ):
        yield _conv(name, source, (1, side, side, ci), (1, 1, ci, co))
    yield _conv("first-224x224x3x32", "MobileNetV2, first layer", (1, 224, 224, 3), (3, 3, 3, 32),
                stride=2, padding=1)  # fmt: skip
    yield _conv("first-28x28x1x32", "MNIST, first layer, batch 32", (32, 28, 28, 1), (3, 3, 1, 32),
                padding=1)  # fmt: skip
    yield _conv("grouped-14x14x512", "ResNeXt-50, third stage", (1, 14, 14, 512), (3, 3, 16, 512),
                padding=1, groups=32)  # fmt: skip
    for name, source, side, c, window, stride in (
        ("depthwise-112x112x32", "MobileNetV2, first block", 112, 32, 3, 1),
        ("depthwise-112x112x96-s2", "MobileNetV2, second block", 112, 96, 3, 2),
        ("depthwise-14x14x384", "MobileNetV2, middle", 14, 384, 3, 1),
        ("depthwise-7x7x960", "MobileNetV2, last block", 7, 960, 3, 1),
        ("depthwise-28x28x240-5x5", "EfficientNet-B0", 28, 240, 5, 1),
        ("depthwise-56x56x96-7x7", "ConvNeXt-T, first stage", 56, 96, 7, 1),
    ):
        yield _depthwise(name, source, (1, side, side, c), window, stride)


def _conv(
    name: str, source: str, data: Shape, weight: Shape, stride: int = 1, padding: int = 0,
    groups: int = 1,
) -> OperatorCase:  # fmt: skip
    kind = "grouped" if groups > 1 else name.partition("-")[0]
    return OperatorCase(
        name, kind, source, {"X": data},
        lambda x, w: ac.ops.conv2d(x, w, stride=stride, padding=padding, groups=groups),
        lambda t, x, w: t.nn.functional.conv2d(x, w, None, stride, padding, 1, groups),
        {"W": weight}, _conv_node(stride, padding, groups), is_image=True,
    )  # fmt: skip


def _depthwise(name: str, source: str, data: Shape, window: int, stride: int) -> OperatorCase:
    padding, c = window // 2, data[3]
    return OperatorCase(
        name, "depthwise", source, {"X": data},
        lambda x, w: ac.ops.depthwise_conv2d(x, w, stride=stride, padding=padding),
        lambda t, x, w: t.nn.functional.conv2d(x, w, None, stride, padding, 1, c),
        {"W": (window, window, c)}, _conv_node(stride, padding, c), is_image=True,
    )  # fmt: skip


def _conv_node(stride: int, padding: int, groups: int) -> str:
    pads = ",".join([str(padding)] * 4)
    return f"Y = Conv<strides=[{stride},{stride}], pads=[{pads}], group={groups}>(X, W)"


def _elements() -> Iterator[OperatorCase]:
    shape = (256, 1024)
    for exponent, source in (
        (2.0, "RMS norm, squares"), (3.0, "GELU by tanh, cubes"), (0.5, "Adam, roots"),
        (-0.5, "normalised adjacency of a graph"), (2.2, "gamma of images"),
        (0.75, "local response norm"),
    ):  # fmt: skip
        yield OperatorCase(
            f"pow-{exponent:g}", "pow", source, {"pX": shape},
            lambda x, e=exponent: ac.compute(
                x.shape, lambda i, j: ac.power(x[i, j], ac.const(e, "float32")), "y"
            ),
            lambda t, x, e=exponent: t.pow(x, e), {},
            f"c = Constant<value=float {{{exponent}}}>() Y = Pow(pX, c)",
        )  # fmt: skip
    for name, source, rows, words, width in (
        ("embedding-128x768", "BERT base, 128 words", 128, 30522, 768),
        ("embedding-2048x64", "recommender, 2048 lookups", 2048, 100000, 64),
        ("embedding-1x4096", "LLaMA 7B, decoding", 1, 32000, 4096),
    ):
        yield OperatorCase(
            name, "gather", source, {"i": (rows,)}, lambda i, w: ac.ops.embedding(w, i),
            lambda t, i, w: t.nn.functional.embedding(i, w), {"W": (words, width)},
            "Y = Gather<axis=0>(W, i)", places=words,
        )  # fmt: skip
    yield OperatorCase(
        "concat-28x28", "concat", "Inception, outputs of a block, channels last",
        {"A": (784, 64), "B": (784, 128), "C": (784, 32), "D": (784, 32)},
        lambda *x: ac.ops.concat(x, 1), lambda t, *x: t.cat(x, 1), {},
        "Y = Concat<axis=1>(A, B, C, D)",
    )  # fmt: skip


def _transposes() -> Iterator[OperatorCase]:
    for name, source, shape, order in (
        ("transpose-1024x1024", "weights of a dense layer", (1024, 1024), (1, 0)),
        ("transpose-3x224x224", "an image to channels last", (3, 224, 224), (1, 2, 0)),
        ("transpose-128x12x64", "BERT base, heads", (128, 12, 64), (1, 0, 2)),
        ("transpose-56x56x256", "ResNet-50, to channels first", (1, 56, 56, 256), (0, 3, 1, 2)),
        ("transpose-swin", "Swin-T, windows", (8, 7, 8, 7, 96), (0, 2, 1, 3, 4)),
        ("transpose-patches", "ViT-B/16, patches", (3, 14, 16, 14, 16), (1, 3, 2, 4, 0)),
        ("transpose-shuffle", "ESPCN, pixel shuffle by 3", (1, 3, 3, 3, 80, 80),
         (0, 1, 4, 2, 5, 3)),
    ):  # fmt: skip
        yield OperatorCase(
            name, "transpose", source, {"X": shape},
            lambda x, order=order: ac.ops.transpose(x, order),
            lambda t, x, order=order: x.permute(order).contiguous(), {},
            f"Y = Transpose<perm=[{','.join(map(str, order))}]>(X)",
        )  # fmt: skip


_FAMILIES: tuple[Callable[[], Iterator[OperatorCase]], ...] = (
    _norms, _softmax, _attention, _products, _convolutions, _elements, _transposes,
)  # fmt: skip
CASES: tuple[OperatorCase, ...] = tuple(case for family in _FAMILIES for case in family())
"""All cases, in the order of the tables."""
