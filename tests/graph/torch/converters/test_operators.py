"""Operators of PyTorch mean in a graph what they mean in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import FaultError, GraphError, InternalError
from ansorc.graph.torch.converters import TORCH_CONVERTERS
from tests.graph.torch.torch_oracle import assert_as_torch, module_of, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
F: Any = torch.nn.functional


def numbers(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole(*shape: int, high: int = 5, low: int = 0) -> Any:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(1))


X, Y, IMAGE = numbers(2, 3, 4), numbers(2, 3, 4, seed=1), numbers(2, 4, 8, 8)
POSITIVE, INTEGERS, BOOLS = X.abs() + 0.1, whole(2, 3, 4, low=-4), X > 0
MANY = torch.arange(24.0).reshape(2, 3, 4)[torch.tensor([1, 0])].flip(1)


def _written_at(x: Any) -> Any:
    y, rows = x.clone(), torch.tensor([1, 0])
    y[:, rows] = x[:, :2] + 1
    y[rows, :, torch.tensor([-1, 2])] = 5.0
    y[x > 1] = 0.5
    y[:, torch.tensor([True, False, True])] = 0.25
    y[x[:, :, 0] > 0] = x[0, 0]
    return (
        y,
        x.index_put((rows, rows), x[:, 0] * 2, accumulate=True),
        x.index_put((x[:, 0].argmax(1) % 2, rows), x[:, 0], accumulate=True),
        torch.ops.aten.index_put(x, [None, torch.tensor([2, 2, 0])], x, True),
        x.masked_scatter(x[:1] > 0, x * 2),
    )


def _written(x: Any) -> Any:
    y = x.clone()
    y[:, 1] = 2.0
    y[0, :, 1:3] = x[1, :, 1:3]
    y[..., 0] += 1
    return y


ONE: dict[str, Callable[[Any], Any]] = {
    "views": lambda x: (x.view(6, 4) + 0, x.reshape(-1) * 1, x.permute(2, 0, 1) + 1),
    "transposed": lambda x: (x.transpose(0, 2) + 1, x[0].t() + 1, x.mT + 1, x.movedim(0, 2) + 1),
    "expanded": lambda x: (x[:, :1].expand(2, 5, 4) + 1, x.unsqueeze(1).expand(-1, 2, -1, -1) + 1),
    "slices": lambda x: (x[:, 1:, ::2] + 1, x[1] + 1, x[..., -1] + 1, x.narrow(2, 1, 2) + 1),
    "split": lambda x: [one + 1 for one in (*x.split([1, 3], 2), *x.chunk(2, 2), *x.unbind(1))],
    "joined": lambda x: (
        torch.cat([x, x * 2], 1),
        torch.stack([x, x + 1], 1),
        x.repeat(2, 1, 1, 2),
    ),
    "flattened": lambda x: (x.flatten(1) + 1, x.unflatten(2, (2, 2)) + 1, x[:, :1].squeeze(1) + 1),
    "moved": lambda x: (x.flip(0, 2), x.roll(1, 1), x.roll((1, -1), (0, 2)), x.roll(5)),
    "scalars": lambda x: (x + 2, 3 - x, x * 0.5, x / 3, 2 / (x.abs() + 1), -x, x - 1),
    "quotients": lambda x: (
        x // 0.7,
        x % 0.7,
        torch.fmod(x, 0.7),
        torch.div(x, 0.3, rounding_mode="trunc"),
    ),
    "scaled sums": lambda x: (
        torch.add(x, x, alpha=2),
        torch.sub(x, 1, alpha=3),
        torch.rsub(x, x * x, alpha=2),
    ),
    "compared": lambda x: (
        x > 0,
        x.le(0.5),
        x == x.abs(),
        (x != 0) & (x < 1),
        ~(x > 1),
        x.isnan(),
        x.isfinite(),
    ),
    "chosen": lambda x: (
        torch.where(x > 0, x, 0.0),
        x.masked_fill(x > 1, -5.0),
        torch.where(x > 0, 1, 2),
    ),
    "clamped": lambda x: (
        x.clamp(-0.5, 0.5),
        x.clamp(min=0.1),
        x.clamp_max(0.2),
        x.clamp(x * 0, x * 0 + 1),
    ),
    "powers": lambda x: (
        x**2,
        x**3,
        x.abs() ** 0.5,
        (x.abs() + 1) ** -1,
        (x.abs() + 1) ** 1.7,
        2.0**x,
    ),
    "reduced": lambda x: (
        x.sum(),
        x.sum(1),
        x.mean((0, 2), keepdim=True),
        x.amax(1),
        x.amin((1, 2)),
        x.prod(1),
    ),
    "extremes": lambda x: (
        x.max(),
        x.max(1),
        x.min(2, keepdim=True),
        x.argmax(1),
        x.argmin(),
        x.argmax(2, True),
    ),
    "moments": lambda x: (
        x.var(1),
        x.std(2),
        x.var((0, 1), correction=0),
        torch.var_mean(x, 1),
        x.norm(dim=1),
        x.norm(3),
        x.norm(1, 2),
    ),
    "logarithms": lambda x: (x.logsumexp(1), x.log_softmax(2), x.softmax(1), F.logsigmoid(x)),
    "accumulated": lambda x: (x.cumsum(1), x.cumprod(2)),
    "any": lambda x: (
        (x > 0).any(),
        (x > 0).any(1),
        (x > -1).all(2),
        (x > 0).sum(1),
        (x > 0).int().sum(),
    ),
    "sorted": lambda x: (
        x.topk(2),
        x.topk(2, 1, largest=False),
        x.sort(1),
        x.sort(2, descending=True),
    ),
    "triangles": lambda x: (x.tril(), x.triu(1), x.tril(-1)),
    "padded": lambda x: (
        F.pad(x, (1, 2)),
        F.pad(x, (1, -1, 0, 2), value=3.0),
        F.pad(x, (1, 2), "reflect"),
        F.pad(x, (2, 1), "replicate"),
        F.pad(x, (1, 1), "circular"),
    ),
    "made": lambda x: x + torch.arange(4) + torch.full_like(x, 2) + torch.zeros(4) + x.new_ones(4),
    "written": _written,
    "activations": lambda x: [
        f(x)
        for f in (
            F.relu,
            F.relu6,
            F.silu,
            F.gelu,
            F.mish,
            F.softplus,
            F.elu,
            F.selu,
            F.celu,
            F.hardswish,
            F.hardsigmoid,
            F.hardtanh,
            F.leaky_relu,
            F.softsign,
            F.tanhshrink,
            torch.sigmoid,
            F.hardshrink,
        )
    ],
    "other activations": lambda x: (
        F.gelu(x, approximate="tanh"),
        F.elu(x, 0.5),
        F.softplus(x, 2.0),
        F.softplus(x, 3.0, 0.2),
        F.glu(x, 2),
        F.threshold(x, 0.2, 7.0),
    ),
    "functions": lambda x: [
        f(x)
        for f in (
            torch.exp,
            torch.sin,
            torch.cos,
            torch.tan,
            torch.tanh,
            torch.atan,
            torch.erf,
            torch.expm1,
            torch.floor,
            torch.ceil,
            torch.round,
            torch.trunc,
            torch.sign,
            torch.abs,
            torch.exp2,
            torch.sinh,
            torch.asinh,
        )
    ],
    "einsum": lambda x: (torch.einsum("bij,bkj->bik", x, x * 2), torch.einsum("bij->bj", x)),
    "products": lambda x: (
        x @ x.mT,
        torch.bmm(x, x.mT),
        x[0] @ x[1, 0],
        torch.matmul(x, x[0, 0]),
        torch.dot(x[0, 0], x[1, 1]),
    ),
    "added products": lambda x: (
        torch.addmm(x[0, :, :3], x[0], x[1].t(), beta=0.5, alpha=2),
        torch.baddbmm(x[:, :, :3], x, x.mT),
    ),
    "indexed": lambda x: (
        x[:, torch.tensor([2, 0, 1])],
        x[torch.tensor([[0, 1]]), torch.tensor([[2], [1]])],
        x[:, torch.tensor([0, 2]), torch.tensor([1, -1])],
        x.index_select(2, torch.tensor([3, 1])),
    ),
    "norms": lambda x: (
        F.layer_norm(x, (4,)),
        F.layer_norm(x, (3, 4), x[0], x[1]),
        F.rms_norm(x, (4,), x[0, 0]),
        F.rms_norm(x, (4,)),
        F.normalize(x, dim=1),
        F.instance_norm(x),
        F.batch_norm(x, x[0, :, 0], x[1, :, 1].abs()),
    ),
    "written at places": _written_at,
    "windows": lambda x: (x.unfold(2, 3, 1), x.unfold(1, 2, 2).unfold(-2, 2, 1), x.unfold(0, 2, 1)),
    "diagonals": lambda x: (
        x.diagonal(dim1=1, dim2=2),
        x.diagonal(1, 0, 2),
        x.diagonal(-1, 2, 0),
        x[0].trace(),
    ),
    "distances": lambda x: (
        torch.cdist(x, x * 2),
        torch.cdist(x[0], x * 2, p=1.0),
        torch.cdist(x, x[:1] + 1, p=3.0),
        F.pairwise_distance(x, x * 2),
        torch.hypot(x, x * 0),
        torch.hypot(x * 0, x * 0),
    ),
    "searched": lambda x: (
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        torch.searchsorted(torch.tensor([-1.0, 0.5]), x, right=True, out_int32=True),
        torch.searchsorted(x.sort(2).values, x, right=True),
        x.median(),
        x.median(1),
        x.kthvalue(3, 2, keepdim=True),
    ),
    "counted": lambda x: (torch.histc(x, 7, -1.5, 2.0), torch.histc(x.round(), 5, -2, 2)),
    "scattered": lambda x: [
        x.scatter_reduce(1, torch.tensor([[[0, 1, 2, 2]], [[1, 1, 0, 2]]]), x, how)
        for how in ("sum", "prod", "amax", "amin")
    ],
    "bilinear": lambda x: F.bilinear(x, x * 2, x[0, :, 0].view(3, 1, 1).expand(3, 4, 4) + 1),
    "bags": lambda x: [
        F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), x[0], mode=mode)
        for mode in ("sum", "mean", "max")
    ],
    "angles": lambda x: (
        torch.atan2(x, x.flip(1)),
        torch.atan2(x * 0, x),
        torch.atan2(x, x * 0),
        torch.log10(x.abs() + 0.1),
        torch.copysign(x, x.flip(0)),
        torch.copysign(x, -0.0),
        torch.ldexp(x, torch.tensor([1, 2, -3, 0])),
        torch.fmax(x, torch.where(x > 0, x * 2, torch.nan)),
        torch.fmin(torch.where(x > 0, x * 2, torch.nan), x),
    ),
    "so far": lambda x: (
        x.cummax(1).values,
        x.cummin(2).values,
        x.flatten().repeat(5).cummax(0).values,
    ),
    "sums of products": lambda x: (
        torch.addbmm(x[0, :, :3], x, x.mT, beta=0.5, alpha=2),
        torch.dist(x, x * 2, 3),
    ),
    "rounded": lambda x: (torch.round(x, decimals=1), torch.round(x * 100, decimals=-1)),
    "as quantised": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
    "addcmul": lambda x: (torch.addcmul(x, x, x, value=2), torch.addcdiv(x, x, x.abs() + 1)),
}


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name: str) -> None:
    assert_as_torch(module_of(ONE[name]), [X])


IMAGES: dict[str, Callable[[Any], Any]] = {
    "max pool": lambda x: (
        F.max_pool2d(x, 3, 2, 1),
        F.max_pool2d(x, 2, ceil_mode=True),
        F.max_pool2d(x, 2, dilation=2),
    ),
    "places": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "mean pool": lambda x: (
        F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(x, 3, 2, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
    ),
    "adaptive": lambda x: (
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (4, 2)),
        F.adaptive_avg_pool2d(x, (3, 5)),
        F.adaptive_max_pool2d(x, 2),
        F.adaptive_avg_pool2d(x, (None, 3)),
    ),
    "one image": lambda x: (
        F.max_pool2d(x[0], 2),
        F.avg_pool2d(x[0], 2),
        F.adaptive_avg_pool2d(x[0], 2),
    ),
    "of lines": lambda x: (F.max_pool1d(x[0], 2), F.avg_pool1d(x[0], 2), F.max_pool3d(x[None], 2)),
    "nearest": lambda x: (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, size=(5, 11)),
        F.interpolate(x, scale_factor=1.7),
    ),
    "bilinear": lambda x: (
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.interpolate(x, size=(5, 11), mode="bilinear"),
        F.interpolate(x, size=(16, 3), mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=1.3, mode="bilinear"),
    ),
    "other mixtures": lambda x: (
        F.interpolate(x, scale_factor=2, mode="bicubic"),
        F.interpolate(x, size=(7, 3), mode="nearest-exact"),
        F.interpolate(x, scale_factor=1.3, mode="bicubic"),
        F.interpolate(x, size=(3, 11), mode="bicubic", align_corners=True),
        F.interpolate(x[None], scale_factor=2, mode="trilinear"),
        F.interpolate(x[0], size=5, mode="linear", align_corners=True),
    ),
    "antialiased": lambda x: (
        F.interpolate(x, size=(3, 11), mode="bilinear", antialias=True),
        F.interpolate(x, scale_factor=0.7, mode="bilinear", antialias=True),
        F.interpolate(x, size=(5, 3), mode="bicubic", antialias=True),
        F.interpolate(x, size=(5, 9), mode="bicubic", antialias=True, align_corners=True),
    ),
    "columns": lambda x: (
        F.unfold(x, (3, 2), dilation=2, padding=1, stride=(2, 1)),
        F.unfold(x[0], 2),
        F.fold(x.flatten(2)[:, :, :36], (7, 7), 2),
        F.fold(x[:, :, :2, :3].flatten(2), (3, 5), (1, 2), dilation=2, padding=(0, 1), stride=2),
    ),
    "largest of parts": lambda x: (
        F.adaptive_max_pool2d(x, (3, 5)),
        F.adaptive_max_pool1d(x[0], 3),
    ),
    "masked wholly": lambda x: torch.ops.aten._safe_softmax(
        x.masked_fill(x.mean(-1, True) > 0, float("-inf")), -1
    ),
    "shuffled": lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.unfold(x, 3)),
    "padded": lambda x: (F.pad(x, (1, 2, 3, 1), "reflect"), F.pad(x, (1, 2, 3, 1), "replicate")),
    "channel norms": lambda x: (
        F.group_norm(x, 2),
        F.instance_norm(x),
        F.local_response_norm(x, 3),
    ),
    "prelu": lambda x: F.prelu(x, x[0, :, 0, 0]),
    "sampled": lambda x: F.grid_sample(
        x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)), align_corners=False
    ),
    "volume sampled": lambda x: F.grid_sample(
        x[None], torch.tanh(x[:1, :3].permute(0, 2, 3, 1)[:, None]), align_corners=True
    ),
    "depth": lambda x: F.softmax(x.flatten(2), -1).transpose(1, 2).unflatten(1, (8, 8)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_of_images(name: str) -> None:
    assert_as_torch(module_of(IMAGES[name]), [IMAGE])


LAYERS: list[Callable[[Any], Any]] = [
    lambda nn: nn.Conv2d(4, 6, 3, 2, 1),
    lambda nn: nn.Conv2d(4, 8, (3, 1), padding=(1, 0), dilation=2, groups=2, bias=False),
    lambda nn: nn.Conv2d(4, 4, 3, padding="same", padding_mode="circular", groups=4),
    lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1),
    lambda nn: nn.ConvTranspose2d(4, 6, 2, 2, groups=2, dilation=2, bias=False),
    lambda nn: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout()),
    lambda nn: nn.Sequential(nn.Flatten(2), nn.Linear(64, 5), nn.LayerNorm(5, bias=False)),
    lambda nn: nn.Sequential(nn.Flatten(2), nn.Conv1d(4, 6, 5, 2, 2)),
    lambda nn: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Conv3d(2, 3, (2, 3, 3))),
    lambda nn: nn.Sequential(
        nn.Flatten(2), nn.TransformerEncoderLayer(64, 4, 32, batch_first=True)
    ),
]


@pytest.mark.parametrize("made", LAYERS)
def test_layers(made: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    assert_as_torch(made(torch.nn).eval(), [IMAGE])


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"}, {"mask": "float"}]
)
def test_attention(options: dict[str, Any]) -> None:
    given = dict(options)
    mask = {"bool": numbers(1, 1, 5, 6) > -0.5, "float": numbers(2, 1, 1, 6)}.get(
        given.pop("mask", "")
    )
    heads = [numbers(2, 4, 5, 8), numbers(2, 4, 6, 8, seed=1), numbers(2, 4, 6, 3, seed=2)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        chosen = mask.to(q.dtype) if mask is not None and mask.is_floating_point() else mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=chosen, **given)

    assert_as_torch(module_of(attend), heads)
    assert_as_torch(
        module_of(attend), [one[:, 0].contiguous() for one in heads] if mask is None else heads
    )


def test_grouped_attention() -> None:
    heads = [numbers(2, 4, 5, 8), numbers(2, 2, 6, 8, seed=1), numbers(2, 2, 6, 3, seed=2)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    assert_as_torch(module_of(attend), heads)


def test_integers_and_bools() -> None:
    def compute(i: Any, b: Any) -> Any:
        return (
            i + 1,
            i * 2,
            i // 3,
            i % 3,
            i / 2,
            i & 3,
            i | 1,
            ~b,
            b | (i > 1),
            i.clamp(-1, 2),
            i.sum(1),
            b + b,
            i == 2,
            i > 0.5,
            i.float() + b,
            i.abs(),
            torch.div(i, 2, rounding_mode="trunc"),
            b.cumsum(1),
            i**2,
            torch.maximum(i, -i),
            torch.where(b, i, 0.5),
            i.float().mean(),
            b * 2.5,
        )

    assert_as_torch(module_of(compute), [INTEGERS, BOOLS])


def test_places_that_are_inputs() -> None:
    def compute(x: Any, places: Any) -> Any:
        return (
            F.embedding(places, x[0]),
            x.gather(1, places[:, None].expand(2, 1, 4) % 3),
            x[:, places[0] % 3],
            x.scatter(1, places[:, None] % 3, 7.0),
            x.index_select(0, places[0] % 2),
            F.one_hot(places, 8).float(),
        )

    assert_as_torch(module_of(compute), [X, whole(2, 4, high=3)])


@pytest.mark.parametrize("number", [-1, 8])
def test_a_class_that_does_not_exist_is_an_error_of_the_call(number: int) -> None:
    def compute(x: Any) -> Any:
        return F.one_hot(x, 8)

    graph = ac.from_torch(module_of(compute), (torch.tensor([0, 7]),))
    with pytest.raises(FaultError, match="which has the extent 8"):
        ac.build(graph).run({"x": np.array([0, number])})


def test_tensors_of_no_dimensions_are_read_at_indices() -> None:
    def compute(x: Any, index: Any) -> Any:
        number = x[0, 0, 0]
        return (
            number.gather(0, index),
            number.index_select(0, index),
            number.index_select(0, index[None]),
            x[0, 0].index_select(0, index),
            number.gather(-1, index[None].expand(3)),
            F.embedding(index, x[0]),
        )

    assert_as_torch(module_of(compute), [X, torch.tensor(0)])


def test_two_tensors_of_other_shapes() -> None:
    def compute(x: Any, y: Any) -> Any:
        return x + y[:1], x * y[0, 0], x - y[..., :1], torch.minimum(x, y), x.lerp(y, 0.3), x < y

    assert_as_torch(module_of(compute), [X, Y])


def test_half_precision_is_computed_in_float32() -> None:
    def doubled(x: Any) -> Any:
        return x * 2

    graph = ac.from_torch(module_of(doubled), (X.half(),))
    kinds = {name: str(kind.dtype) for name, kind in graph.types.items()}
    assert [kinds[name] for name in (*graph.inputs, *graph.outputs)] == ["float16"] * 2
    product = next(node for node in graph.nodes if str(node.operator) == "multiply")
    assert kinds[product.name] == "float32"


Module: Any = torch.nn.Module


class Refused(Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        Module.__init__(self)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (
        torch.fft.fft,
        r"aten._fft_r2c.default .*operators.py:\d+, in forward.*does not know",
    ),
    (lambda x: x[x > 0], "depends on data|chooses elements by a mask|shape that depends"),
    (lambda x: x + 1 if x.sum() > 0 else x, "decides by the values of a tensor"),
    (lambda x: F.dropout(x, 0.5), "random.*module.eval"),
    (lambda x: x.add_(1), "writes its input"),
    (lambda x: torch.randn(3) + x[0, 0, :3], "random"),
    (lambda x: (x + 1, 3), "3 among its outputs"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_what_is_refused(function: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(GraphError, match=words):
        ac.from_torch(Refused(function), (X,))


def test_training_is_refused() -> None:
    with pytest.raises(GraphError, match=r"batch norm in training mode|module.eval\(\)"):
        ac.from_torch(torch.nn.BatchNorm2d(4), (IMAGE,))


def test_a_fault_of_a_converter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> str:
        raise KeyError("axis")

    def compute(x: Any) -> Any:
        return x.sin()

    monkeypatch.setitem(TORCH_CONVERTERS, "aten.sin.default", broken)
    with pytest.raises(InternalError, match=r"KeyError.*fault of ansorc.*'x' of float32") as caught:
        ac.from_torch(module_of(compute), (X,))
    assert "aten.sin.default" in str(caught.value)
