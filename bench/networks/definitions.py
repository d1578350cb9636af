"""The five networks of the paper, defined here, with random weights and calibrated batch norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv_norm(dims: int, channels: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1
              ) -> nn.Sequential:  # fmt: skip
    """Return a convolution that keeps the size (but for its stride), and its batch norm."""
    conv = {2: nn.Conv2d, 3: nn.Conv3d}[dims]
    norm = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[dims]
    return nn.Sequential(
        conv(*channels, kernel, stride, kernel // 2, groups=groups, bias=False), norm(channels[1])
    )


class Residual(nn.Module):
    """The sum of a branch and its input, projected where the shapes differ, then a ReLU."""

    def __init__(self, branch: nn.Module, projection: nn.Module | None) -> None:
        super().__init__()
        self.branch, self.projection = branch, projection

    def forward(self, x: Tensor) -> Tensor:
        other = x if self.projection is None else self.projection(x)
        return functional.relu(self.branch(x) + other)


def resnet50() -> nn.Module:
    """ResNet-50 (He et al., 2015; the stride in the 3×3 convolutions), 224×224."""
    layers: list[nn.Module] = [conv_norm(2, (3, 64), 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            stride, out = first if number == 0 else 1, 4 * width
            branch = nn.Sequential(
                conv_norm(2, (channels, width), 1), nn.ReLU(),
                conv_norm(2, (width, width), 3, stride), nn.ReLU(),
                conv_norm(2, (width, out), 1),
            )  # fmt: skip
            shortcut = conv_norm(2, (channels, out), 1, stride) if number == 0 else None
            layers.append(Residual(branch, shortcut))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Inverted(nn.Module):
    """The inverted residual of MobileNet-V2."""

    def __init__(self, inside: int, out: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = inside * factor
        layers: list[nn.Module] = []
        if factor > 1:
            layers += [conv_norm(2, (inside, wide), 1), nn.ReLU6()]
        layers += [conv_norm(2, (wide, wide), 3, stride, wide), nn.ReLU6()]
        self.body = nn.Sequential(*layers, conv_norm(2, (wide, out), 1))
        self.is_residual = stride == 1 and inside == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


def mobilenet_v2() -> nn.Module:
    """MobileNet-V2 (Sandler et al., 2018), 224×224."""
    layers: list[nn.Module] = [conv_norm(2, (3, 32), 3, 2), nn.ReLU6()]
    channels = 32
    for factor, out, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            layers.append(Inverted(channels, out, first if number == 0 else 1, factor))
            channels = out
    layers += [conv_norm(2, (channels, 1280), 1), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def resnet3d_18() -> nn.Module:
    """3D-ResNet-18 (Tran et al., 2018: R3D), 16 frames of 112×112."""
    stem = nn.Sequential(
        nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64), nn.ReLU()
    )
    layers: list[nn.Module] = [stem]
    channels = 64
    for width, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for number in range(2):
            stride = first if number == 0 else 1
            branch = nn.Sequential(
                conv_norm(3, (channels, width), 3, stride), nn.ReLU(),
                conv_norm(3, (width, width), 3),
            )  # fmt: skip
            shortcut = conv_norm(3, (channels, width), 1, stride) if stride > 1 else None
            layers.append(Residual(branch, shortcut))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(channels, 400))


def dcgan() -> nn.Module:
    """The generator of DCGAN (Radford et al., 2015), 64×64."""
    layers: list[nn.Module] = []
    channels = 100
    for out, stride, padding in ((512, 1, 0), (256, 2, 1), (128, 2, 1), (64, 2, 1)):
        layers += [nn.ConvTranspose2d(channels, out, 4, stride, padding, bias=False)]
        layers += [nn.BatchNorm2d(out), nn.ReLU()]
        channels = out
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())


class Encoder(nn.Module):
    """One layer of BERT (Devlin et al., 2018), norms behind the residuals."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.last = nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        return x.view(batch, tokens, self.heads, self.size).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (self.split(part(x)) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / math.sqrt(self.size) + mask
        mixed = (functional.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(mixed))
        return self.last(x + self.narrow(functional.gelu(self.wide(x))))


class Bert(nn.Module):
    """BERT-base without its pooler: token numbers and a mask to vectors."""

    def __init__(self, tokens: int, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([Encoder(width, width // 64) for _ in range(layers)])
        self.register_buffer("numbers", torch.arange(tokens))

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.words(words) + self.places(self.numbers))
        hidden = (1.0 - mask[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = layer(x, hidden)
        return x


@dataclass(frozen=True)
class Definition:
    """A network, and the shapes of its inputs without the batch."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    is_text: bool = False


TOKENS = 128
DEFINITIONS: Mapping[str, Definition] = {
    "resnet50": Definition(resnet50, (3, 224, 224)),
    "mobilenet_v2": Definition(mobilenet_v2, (3, 224, 224)),
    "resnet3d_18": Definition(resnet3d_18, (3, 16, 112, 112)),
    "dcgan": Definition(dcgan, (100, 1, 1)),
    "bert": Definition(lambda: Bert(TOKENS), (TOKENS,), is_text=True),
}


def inputs_of(name: str, batch: int) -> dict[str, Tensor]:
    """Return the inputs of a network, by name, always the same."""
    generator = torch.Generator().manual_seed(batch)
    definition = DEFINITIONS[name]
    shape = (batch, *definition.shape)
    if not definition.is_text:
        return {"x": torch.randn(shape, generator=generator)}
    mask = torch.ones(shape)
    mask[:, -TOKENS // 4 :] = 0
    return {"words": torch.randint(0, 30522, shape, generator=generator), "mask": mask}


def network(name: str) -> nn.Module:
    """Return a network of `DEFINITIONS` for inference, its batch norms calibrated by one pass."""
    torch.manual_seed(0)
    module = DEFINITIONS[name].make()
    norms = (nn.BatchNorm2d, nn.BatchNorm3d)
    for each in module.modules():
        if isinstance(each, norms):
            each.momentum = 1.0
    with torch.no_grad():
        if any(isinstance(each, norms) for each in module.modules()):
            module.train()(*inputs_of(name, 4).values())
    return module.eval().requires_grad_(requires_grad=False)
