"""The errors of modules in 16 bits, beside those of PyTorch in the same precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

import ansorc as ac
from tests.graph.torch.torch_oracle import tensors_in, torch

pytestmark = pytest.mark.filterwarnings("ignore")
nn, F = torch.nn, torch.nn.functional
Made: TypeAlias = "tuple[Any, list[Any]]"
KINDS = {"bf16": "bfloat16", "f16": "float16"}
ALLOWED = 1.5
"""Times PyTorch's error: a sum half-way between two numbers may be rounded to the other one."""
FLOAT32_ERROR = 1e-6
"""Of what PyTorch keeps in float32, with sums in another order."""


class Computed(nn.Module):
    """A function of modules and inputs."""

    def __init__(self, function: Callable[..., Any], **modules: Any) -> None:
        nn.Module.__init__(self)
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def attended(own: Any, x: Any) -> Any:
    batch, words, width = x.shape
    heads = [
        one.view(batch, words, 4, width // 4).transpose(1, 2) for one in own.qkv(x).chunk(3, -1)
    ]
    scores = heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(width // 4)
    mixed = torch.softmax(scores, -1) @ heads[2]
    return own.out(mixed.transpose(1, 2).reshape(batch, words, width))


def attention(width: int) -> Any:
    return Computed(attended, qkv=nn.Linear(width, 3 * width), out=nn.Linear(width, width))


def post_norm(own: Any, x: Any) -> Any:
    x = own.first(x + own.attention(x))
    return own.second(x + own.narrow(F.gelu(own.widen(x))))


def pre_norm(own: Any, x: Any) -> Any:
    x = x + own.attention(own.first(x))
    return x + own.narrow(F.gelu(own.widen(own.second(x))))


def layer(function: Callable[..., Any], width: int = 64) -> Made:
    modules = {
        "attention": attention(width), "first": nn.LayerNorm(width), "second": nn.LayerNorm(width),
        "widen": nn.Linear(width, 2 * width), "narrow": nn.Linear(2 * width, width),
    }  # fmt: skip
    return Computed(function, **modules), [torch.randn(2, 24, width)]


def residual_block() -> Made:
    def block(own: Any, x: Any) -> Any:
        return F.relu(x + own.body(x))

    body = nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
    )  # fmt: skip
    return Computed(block, body=body), [torch.randn(2, 16, 12, 12)]


def perceptron() -> Made:
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 32)]
    return nn.Sequential(*layers), [torch.randn(16, 64)]


def words() -> Made:
    layers = [nn.Embedding(100, 64), nn.LayerNorm(64), nn.Linear(64, 64)]
    return nn.Sequential(*layers), [torch.randint(0, 100, (4, 16))]


def cell() -> Made:
    def step(own: Any, x: Any, hidden: Any, memory: Any) -> Any:
        return own.cell(x, (hidden, memory))

    return Computed(step, cell=nn.LSTMCell(32, 32)), [torch.randn(8, 32) for _ in range(3)]


def image_layers() -> Made:
    layers = [nn.Conv2d(8, 32, 1), nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv2d(32, 8, 3, padding=1)]
    return nn.Sequential(*layers), [torch.randn(2, 8, 10, 10)]


def moments() -> Made:
    def normalized(_: Any, x: Any) -> Any:
        return (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True).sqrt()

    return Computed(normalized), [torch.randn(16, 256) + 2]


MODULES: dict[str, Callable[[], Made]] = {
    "post_norm": lambda: layer(post_norm), "pre_norm": lambda: layer(pre_norm),
    "residual_block": residual_block, "perceptron": perceptron, "words": words, "cell": cell,
    "image_layers": image_layers, "moments": moments,
}  # fmt: skip

CASES = [*((name, "bf16") for name in MODULES), ("post_norm", "f16"), ("image_layers", "f16")]


def made(name: str) -> Made:
    """The module in inference, its norms random: ones and zeros would hide mistakes."""
    torch.manual_seed(0)
    module, inputs = MODULES[name]()
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
                part.weight.uniform_(0.5, 1.5)
                part.bias.normal_(0, 0.1)
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
    return module.eval(), inputs


def exact(module: Any, inputs: Sequence[Any]) -> list[Any]:
    with torch.no_grad():
        wide = [one.double() if one.is_floating_point() else one for one in inputs]
        return tensors_in(copy.deepcopy(module).double()(*wide))


def array(tensor: Any) -> Any:
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def error(found: Any, wanted: Any) -> float:
    """The root mean square of the errors, relative to that of the elements."""
    values, reference = np.asarray(found, np.float64), wanted.numpy()
    assert values.shape == reference.shape
    return math.sqrt(np.square(values - reference).mean() / np.square(reference).mean())


def assert_as_precise(found: Sequence[Any], beside: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(found) == len(beside) == len(wanted)
    for own, other, reference in zip(found, beside, wanted, strict=True):
        limit = max(ALLOWED * error(other.double(), reference), FLOAT32_ERROR)
        assert error(own, reference) <= limit


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_modules_of_16_bits_are_as_precise_as_pytorch(name: str, precision: str) -> None:
    module, inputs = made(name)
    kind = KINDS[precision]
    dtype = getattr(torch, kind)
    module = module.to(dtype)
    inputs = [one.to(dtype) if one.is_floating_point() else one for one in inputs]
    graph = ac.from_torch(module, tuple(inputs))
    feeds = dict(zip(graph.inputs, map(array, inputs), strict=True))
    found = list(ac.build(graph).run(feeds).values())
    with torch.no_grad():
        beside = tensors_in(module(*inputs))
    assert [str(one.dtype) for one in found] == [kind] * len(beside)
    assert_as_precise(found, beside, exact(module, inputs))


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_a_chosen_precision_is_as_precise_as_autocast(name: str, precision: str) -> None:
    module, inputs = made(name)
    compiled = torch.compile(module, backend="ansorc", options={"precision": precision})
    with torch.inference_mode():
        found = tensors_in(compiled(*inputs))
        with torch.autocast("cpu", dtype=getattr(torch, KINDS[precision])):
            beside = tensors_in(module(*inputs))
    assert {str(one.dtype) for one in found} == {"torch.float32"}
    assert_as_precise([one.numpy() for one in found], beside, exact(module, inputs))


@pytest.mark.parametrize("precision", ["f32", "bf16", "f16"])
def test_explicit_casts_round_whatever_the_precision(precision: str) -> None:
    def casts(x: Any) -> Any:
        return (x.bfloat16() @ weight.bfloat16()).float() * 3, x.half().float() + x

    torch.manual_seed(0)
    x, weight = torch.randn(8, 8), torch.eye(8)
    compiled = torch.compile(casts, backend="ansorc", options={"precision": precision})
    with torch.inference_mode():
        for own, other in zip(compiled(x), casts(x), strict=True):
            assert torch.equal(own, other)
