"""Random small PyTorch modules that return whatever they hold on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.graph.torch.torch_oracle import torch

TorchModule: Any = torch.nn.Module
Step = Callable[[Any], Any]
NUMBERS: list[Step] = [
    torch.relu, torch.sigmoid, lambda x: x * 2.0, lambda x: x.clone(), lambda x: x + 0.0,
    lambda x: torch.nn.functional.dropout(x, training=False),
]  # fmt: skip
"""Steps for any tensor."""
TENSORS: list[Step] = [
    lambda x: x.transpose(0, -1), lambda x: x.reshape(-1, x.shape[-1]), lambda x: x.flatten(),
    lambda x: x.unsqueeze(0), lambda x: x[..., :1], lambda x: torch.cat([x, x.flip(0)]),
    lambda x: torch.softmax(x, -1), lambda x: x.mean(-1), lambda x: x.contiguous(),
]  # fmt: skip
IMAGES: list[Step] = [lambda x: x.mean((2, 3)), lambda x: x.amax((1, 2)), lambda x: x.sum()]


def _steps(shape: tuple[int, ...]) -> list[Step]:
    is_image = len(shape) == 4
    return [*NUMBERS, *(TENSORS if shape else []), *(IMAGES if is_image else [])]


class RandomModule(TorchModule):
    """Steps one after the other; the returned tensors are named by their places."""

    def __init__(self, seed: int) -> None:
        TorchModule.__init__(self)
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.layers: Any = torch.nn.ModuleList()
        self.fixed: Any = torch.nn.Parameter(torch.randn(2, 4, 6, 6), requires_grad=False)
        self.steps: list[tuple[int, Step]] = []
        shapes: list[tuple[int, ...]] = [(2, 4, 6, 6), (2, 4, 6, 6)]
        """Of the input, of `fixed`, then of what each step makes."""
        for _ in range(int(rng.integers(2, 7))):
            source = int(rng.integers(max(0, len(shapes) - 3), len(shapes)))
            step, shape = self._drawn(rng, shapes[source])
            self.steps.append((source, step))
            shapes.append(shape)
        count = int(rng.integers(1, 5))
        self.returned = [int(place) for place in rng.integers(0, len(shapes), count)]
        self.returned[0] = len(shapes) - 1
        self.clones = [bool(rng.random() < 0.3) for _ in self.returned]

    def _drawn(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> tuple[Step, tuple[int, ...]]:
        """A step for a tensor of that shape, and the shape that it makes."""
        layers = self._layers(shape)
        if layers and rng.random() < 0.4:
            step = layers[int(rng.integers(len(layers)))].eval()
            self.layers.append(step)
        else:
            steps = _steps(shape)
            step = steps[int(rng.integers(len(steps)))]
        with torch.no_grad():
            made = step(torch.zeros(shape))
        if made.numel() > 2000 or made.dim() > 4:
            return self._drawn(rng, shape)
        return step, tuple(made.shape)

    def _layers(self, shape: tuple[int, ...]) -> list[Any]:
        if len(shape) == 4 and shape[1] == 4:
            return [
                torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 1, groups=4),
                torch.nn.Sequential(torch.nn.Conv2d(4, 4, 1), torch.nn.BatchNorm2d(4)),
            ]  # fmt: skip
        return [torch.nn.Linear(shape[-1], 3)] if shape else []

    def forward(self, x: Any) -> Sequence[Any]:
        values = [x, self.fixed]
        for source, step in self.steps:
            values.append(step(values[source]))
        return tuple(
            values[place].clone() if clone else values[place]
            for place, clone in zip(self.returned, self.clones, strict=True)
        )
