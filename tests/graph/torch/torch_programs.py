"""Random programs of PyTorch, as text: views, writes, graph breaks, samplers, instances, numbers.

Statements are drawn and run once while they are drawn, so that each of them is legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.graph.torch.torch_oracle import torch

WIDTH = 6
NAMES = ("x", "y", "k", "p", "layers")
_VALUES = (
    "{a} * 2", "{a} + {b}", "{a} - {b}.tanh()", "{a}.relu()", "{a} * {a}", "{a} / 3 + 1",
    "torch.where({a} > 0, {a}, {b})", "{a}.sum(0, keepdim=True)", "{a}.mean(-1, keepdim=True)",
    "torch.cat([{a}, {b}])", "torch.stack([{a}, {a}]).sum(0)", "{a}.clone()", "{a}.flip(0)",
    "torch.zeros_like({a}) + {a}", "{a}.softmax(-1)", "{a}.cumsum(0)", "{a} @ {a}.t()",
    "torch.ones({a}.shape)", "{a}.contiguous()", "{a} * k", "{a} + k // 2", "{a} * p",
    "torch.empty({a}.shape).fill_(2)", "{a}.new_full({a}.shape, 3.0)", "torch.arange(6) * 1.0",
    "layers[0]({a})", "layers[1]({a})", "layers[0](layers[1]({a}))", "layers[2] + {a}",
)  # fmt: skip
_VIEWS = (
    "{a}.t()", "{a}[:, :2]", "{a}[1:]", "{a}[:, 1]", "{a}[0]", "{a}.reshape(-1)", "{a}.view(-1)",
    "{a}.unsqueeze(0)", "{a}.unfold(0, 2, 1)", "{a}.diagonal()", "{a}.narrow(0, 1, 2)",
    "{a}[:1].expand(3, -1)", "{a}[::2]", "{a}.detach()", "{a}.squeeze()", "{a}[..., None]",
    "{a}.chunk(2)[1]", "{a}.sum(0, keepdim=True).expand(4, -1)", "{a}", "{a}.view_as({a})",
    "torch.meshgrid({a}[0], {a}[0], indexing='ij')[1]", "{a}.permute(1, 0)", "{a}.expand_as({b})",
    "{a}.as_strided((2, 2), (1, 2))", "torch.broadcast_to({a}, (2, *{a}.shape))",
)  # fmt: skip
_WRITES = (
    "{a}.add_(1)", "{a}.mul_(0.5)", "{a}.zero_()", "{a}.copy_({b})", "{a}[0] = 3",
    "{a}[:, :1] = {b}[:, :1]", "{a}.t().add_(2)", "{a}.view(-1)[1:3].neg_()", "{a}.clamp_(-1, 1)",
    "{a}[1:].mul_(2)", "{a}.add_({b})", "{a}.masked_fill_({a} > 1, 0.0)", "{a}.fill_(k)",
    "{a}.relu_()", "{a}.diagonal().zero_()", "layers[2].add_(1)",
)  # fmt: skip
_SAMPLERS = (
    "{a} + torch.rand_like({a})", "torch.nn.functional.dropout({a})",
    "{a} + torch.randn({a}.shape)",
    "{a} + torch.empty({a}.shape).uniform_()", "torch.bernoulli({a}.sigmoid())",
    "torch.poisson({a}.abs())", "{a}[torch.randperm({a}.shape[0])]", "{a}.clone().exponential_()",
    "torch.nn.functional.gumbel_softmax({a})", "torch.normal({a}, 1.0)",
)  # fmt: skip
_BREAKS = ("torch._dynamo.graph_break()", "print(end='')")
_CHECKS = (
    "assert ({a} > -1e6).all(), 'too small'", "assert ({a}.sum() < 40).all(), 'too large'",
    "torch._assert_async(({a} < 30).all(), 'an element is too large')",
)  # fmt: skip


class Layer(torch.nn.Module):
    """One of several instances of a class."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("shift", torch.rand(WIDTH))

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.linear(x)) + self.shift


@dataclass
class Program:
    """The text of a function of NAMES, which returns a tuple."""

    lines: list[str] = field(default_factory=list[str])
    returned: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        body = [*self.lines, f"return ({', '.join(self.returned)},)"]
        return "\n    ".join([f"def function({', '.join(NAMES)}):", *body]) + "\n"

    def function(self) -> Any:
        """Return the function, for `layers` that are its own."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(str(self), "<drawn>", "exec"), scope)
        return scope["function"]


def given(rows: int, k: int, seed: int, *, is_shared: bool) -> list[Any]:
    """Return new arguments but for the layers; the second one a part of the first if shared."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, WIDTH, generator=generator)
    y = x[1:] if is_shared else torch.randn(rows, WIDTH, generator=generator)
    return [x, y, k, k / 8 + 0.5]


def layers_of(seed: int) -> list[Any]:
    """Return two instances of a class, and a parameter."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        last = torch.nn.Parameter(torch.randn(WIDTH), requires_grad=False)
        return [Layer().eval(), Layer().eval(), last]


def drawn_program(rng: np.random.Generator, rows: int, *, is_shared: bool) -> Program:
    """Return a program of 3 to 12 statements, and what it returns."""
    found = Program()
    scope: dict[str, Any] = {"torch": torch, "layers": layers_of(0)}
    scope |= dict(zip(NAMES, given(rows, 3, 0, is_shared=is_shared), strict=False))
    tensors = ["x", "y"]
    kinds: list[tuple[Sequence[str], float]] = [
        (_VALUES, 0.4), (_VIEWS, 0.25), (_WRITES, 0.2), (_BREAKS, 0.08), (_CHECKS, 0.03),
        (_SAMPLERS, 0.04),
    ]  # fmt: skip
    shares = np.array([share for _, share in kinds])
    count = int(rng.integers(3, 13))
    while len(found.lines) < count:
        number = int(rng.choice(len(kinds), p=shares / shares.sum()))
        form = str(rng.choice(kinds[number][0]))
        recent = tensors[-4:] if rng.random() < 0.7 else tensors
        names = {"a": str(rng.choice(recent)), "b": str(rng.choice(tensors))}
        line = form.format(**names)
        is_value = kinds[number][0] in (_VALUES, _VIEWS, _SAMPLERS)
        name = f"t{len(found.lines)}"
        if _runs(line if not is_value else f"{name} = {line}", scope):
            found.lines.append(line if not is_value else f"{name} = {line}")
            if is_value:
                tensors.append(name)
    known = tensors[2:] or tensors
    for _ in range(int(rng.integers(1, 5))):
        found.returned.append(str(rng.choice(tensors if rng.random() < 0.15 else known)))
    return found


def _runs(line: str, scope: dict[str, Any]) -> bool:
    """Run a statement; whether it can be, and gives something of a useful size."""
    try:
        exec(line, scope)
    except (RuntimeError, IndexError, AssertionError, TypeError, ValueError):
        return False
    name = line.partition(" = ")[0]
    value = scope.get(name) if name.isidentifier() else None
    return value is None or 0 < value.numel() < 4000
