"""torch.compile: autotuned as far as it goes, weights frozen into the graph and packed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch._inductor import config
from torch.nn import functional

from bench.peers.layouts import Restore, as_images, channels_last, library_weight
from bench.peers.problem import Convolution, Norm, Product, Scores
from bench.peers.program import Make, Program, Request
from bench.peers.pytorch import scores

_PLAIN = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
Body = Callable[..., Tensor]


class _Module(nn.Module):
    """A function of inputs and weights, as a module whose weights the compiler may freeze."""

    def __init__(self, body: Body, *weights: Tensor | None) -> None:
        super().__init__()
        self.body, self.count = body, len(weights)
        for index, weight in enumerate(weights):
            held = None if weight is None else nn.Parameter(weight, requires_grad=False)
            self.register_parameter(f"weight{index}", held)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.body(*inputs, *(getattr(self, f"weight{i}") for i in range(self.count)))


def versions() -> dict[str, str]:
    """Return the version of PyTorch."""
    return {"torch": torch.__version__}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield compiled ways to compute the problem."""
    torch.set_num_threads(request.threads)
    torch.set_grad_enabled(False)
    config.freezing = True
    torch._dynamo.reset()  # else every call tries the guards of all cases before
    match request.problem:
        case Convolution() as conv:
            yield from _convolutions(conv, "")
            images, restore = as_images(conv)
            if images is not conv:
                yield from _convolutions(images, "as images, ", restore)
        case Product(a, b):
            yield from _products(torch.from_numpy(a), torch.from_numpy(b))
        case Norm(x):
            flat = torch.from_numpy(x).reshape(len(x), -1)
            yield _way("sum of squares", _Module(lambda x: x.square().sum(1).sqrt()), flat)
            norm = _Module(lambda x: torch.linalg.vector_norm(x, dim=1))
            yield _way("vector_norm", norm, flat)
        case Scores(query, key):
            inputs = torch.from_numpy(query), torch.from_numpy(key)
            yield _way("matmul, softmax", _Module(scores), *inputs)


def _way(
    name: str, module: nn.Module, *inputs: Tensor, moved: Restore = lambda result: result
) -> tuple[str, Make]:
    def make() -> Program:
        begin = time.perf_counter()
        compiled = torch.compile(module.eval(), dynamic=False, mode="max-autotune-no-cudagraphs")
        held = [compiled(*inputs)]

        def run() -> None:
            held[:] = [compiled(*inputs)]

        spent = time.perf_counter() - begin
        return Program(name, run, lambda: moved(held[0].numpy()), tuned_s=spent)

    return name, make


def _products(a: Tensor, b: Tensor) -> Iterator[tuple[str, Make]]:
    yield _way("bmm", _Module(torch.bmm, b), a)
    if len(a) == 1:
        weight = b[0].t().contiguous()
        yield _way("linear", _Module(functional.linear, weight), a[0])


def _convolutions(
    conv: Convolution, prefix: str, restore: Restore = lambda result: result
) -> Iterator[tuple[str, Make]]:
    folded, bias_array = conv.folded()
    weight = torch.from_numpy(library_weight(conv, folded))
    bias = None if bias_array is None else torch.from_numpy(bias_array)
    x = torch.from_numpy(conv.x).movedim(-1, 1)
    layouts = [("channels first", torch.contiguous_format)]
    if conv.rank in _CHANNELS_LAST:
        layouts.append(("channels last", _CHANNELS_LAST[conv.rank]))
    for name, layout in layouts:
        module = _Module(_body(conv), weight.contiguous(memory_format=layout), bias)
        laid = x.contiguous(memory_format=layout)
        yield _way(prefix + name, module, laid, moved=lambda result: restore(channels_last(result)))


def _body(conv: Convolution) -> Body:
    def transposed(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return functional.conv_transpose2d(x, weight, bias, conv.stride, conv.padding)

    def plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        function = _PLAIN[conv.rank]
        y = function(x, weight, bias, conv.stride, conv.padding, conv.dilation, conv.groups)
        return y if bias is None else y.relu()

    return transposed if conv.is_transposed else plain
