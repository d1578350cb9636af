"""PyTorch on the CPU, called eagerly: oneDNN convolutions with weights packed before, MKL products.

Both layouts are tried, and the operators with packed weights that torch.compile itself calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from bench.peers.layouts import Restore, as_images, channels_last, library_weight
from bench.peers.problem import Convolution, Norm, Product, Scores
from bench.peers.program import Make, Program, Request

Compute = Callable[[], Tensor]
_PLAIN = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def versions() -> dict[str, str]:
    """Return the version of PyTorch."""
    return {"torch": torch.__version__}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield eager ways to compute the problem."""
    torch.set_num_threads(request.threads)
    torch.set_grad_enabled(False)
    match request.problem:
        case Convolution() as conv:
            yield from _convolutions(conv, "")
            images, restore = as_images(conv)
            if images is not conv:
                yield from _convolutions(images, "as images, ", restore)
        case Product(a, b):
            yield from _products(torch.from_numpy(a), torch.from_numpy(b))
        case Norm(x):
            yield from _norms(torch.from_numpy(x))
        case Scores(query, key):
            q, k = torch.from_numpy(query), torch.from_numpy(key)
            yield _way("matmul, softmax", lambda: scores(q, k))


def scores(query: Tensor, key: Tensor) -> Tensor:
    """Return softmax(query · keyᵀ) of [batch, length, heads, hidden]."""
    return torch.softmax(query.permute(0, 2, 1, 3) @ key.permute(0, 2, 3, 1), -1)


def _way(name: str, compute: Compute, moved: Restore = lambda result: result) -> tuple[str, Make]:
    held: list[Tensor] = []

    def run() -> None:
        held[:] = [compute()]

    return name, lambda: Program(name, run, lambda: moved(held[0].numpy()))


def _products(a: Tensor, b: Tensor) -> Iterator[tuple[str, Make]]:
    out = torch.empty(a.shape[0], a.shape[1], b.shape[2])
    yield _way("bmm", lambda: torch.bmm(a, b, out=out))
    if len(a) > 1:
        return
    x, weight = a[0], b[0].t().contiguous()
    yield _way("mm", lambda: torch.mm(x, b[0]))
    yield _way("linear", lambda: functional.linear(x, weight))
    if torch.backends.mkl.is_available():
        yield "MKL", lambda: _mkl(x, weight)
    yield "oneDNN", lambda: _onednn(x, weight)


def _mkl(x: Tensor, weight: Tensor) -> Program:
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, len(x))
    linear = torch.ops.mkl._mkl_linear.default
    compute = partial(linear, x, packed, weight, None, len(x))
    return _way("MKL, weights packed before", compute)[1]()


def _onednn(x: Tensor, weight: Tensor) -> Program:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, len(x))
    compute = partial(torch.ops.mkldnn._linear_pointwise.default, x, packed, None, "none", [], "")
    return _way("oneDNN, weights packed before", compute)[1]()


def _norms(x: Tensor) -> Iterator[tuple[str, Make]]:
    flat = x.reshape(len(x), -1)
    yield _way("vector_norm", lambda: torch.linalg.vector_norm(flat, dim=1))
    yield _way("sum of squares", lambda: flat.square().sum(1).sqrt_())
    yield _way("bmm", lambda: torch.bmm(flat[:, None], flat[:, :, None]).sqrt_())
    if len(x) == 1:
        yield _way("dot", lambda: torch.dot(flat[0], flat[0]).sqrt_())


def _convolutions(
    conv: Convolution, prefix: str, restore: Restore = lambda result: result
) -> Iterator[tuple[str, Make]]:
    back: Restore = lambda result: restore(channels_last(result))  # noqa: E731
    x = torch.from_numpy(conv.x).movedim(-1, 1)
    folded, bias_array = conv.folded()
    weight = torch.from_numpy(library_weight(conv, folded))
    bias = None if bias_array is None else torch.from_numpy(bias_array)
    first = x.contiguous()
    plain = partial(_plain, conv, bias)
    yield _way(f"{prefix}channels first", plain(first, weight), back)
    if conv.rank in _CHANNELS_LAST:
        layout = _CHANNELS_LAST[conv.rank]
        last, laid = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)
        yield _way(f"{prefix}channels last", plain(last, laid), back)
        yield f"{prefix}packed", lambda: _packed(conv, last, weight, bias, prefix, back)
        yield f"{prefix}packed", lambda: _packed(conv, first, weight, bias, prefix, back)
    elif not conv.is_transposed:
        flat, line = x.unsqueeze(2), _as_plane(conv)
        laid = flat.contiguous(memory_format=torch.channels_last)
        packed = f"{prefix}as a plane, "
        yield (
            packed,
            lambda: _packed(
                line, laid, weight.unsqueeze(2), bias, packed, lambda result: back(result[:, :, 0])
            ),
        )


def _plain(conv: Convolution, bias: Tensor | None, x: Tensor, weight: Tensor) -> Compute:
    operands = (x, weight, bias, conv.stride, conv.padding)
    if conv.is_transposed:
        return lambda: functional.conv_transpose2d(*operands)
    function = _PLAIN[conv.rank]
    if bias is None:
        return lambda: function(*operands, conv.dilation, conv.groups)
    return lambda: function(*operands, conv.dilation, conv.groups).relu_()


def _packed(
    conv: Convolution, x: Tensor, weight: Tensor, bias: Tensor | None, prefix: str, back: Restore
) -> Program:
    """oneDNN with its weights in the layout that it asks for."""
    after = "none" if conv.scale is None else "relu"
    zeros = (0,) * conv.rank
    own = torch.ops.mkldnn
    if conv.is_transposed:
        packed = own._reorder_convolution_transpose_weight(
            weight, conv.padding, zeros, conv.stride, conv.dilation, conv.groups, x.shape
        )
        call = partial(own._convolution_transpose_pointwise.default, x, packed, bias,
                       conv.padding, zeros)  # fmt: skip
    else:
        packed = own._reorder_convolution_weight(
            weight, conv.padding, conv.stride, conv.dilation, conv.groups, x.shape
        )
        call = partial(own._convolution_pointwise.default, x, packed, bias, conv.padding)
    compute = partial(call, conv.stride, conv.dilation, conv.groups, after, [], "")
    order = "first" if x.is_contiguous() else "last"
    return _way(f"{prefix}channels {order}, weights packed before", compute, back)[1]()


def _as_plane(conv: Convolution) -> Convolution:
    """Return a convolution of one dimension as one of two, the first of extent 1."""
    return replace(
        conv,
        x=conv.x[:, None],
        weight=conv.weight[None],
        stride=(1, *conv.stride),
        padding=(0, *conv.padding),
        dilation=(1, *conv.dilation),
    )
