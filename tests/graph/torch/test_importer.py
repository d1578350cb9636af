"""Whole networks of PyTorch, small and with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from tests.graph.torch.torch_oracle import assert_as_torch, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
F: Any = torch.nn.functional
nn: Any = torch.nn
Module: Any = nn.Module


def prepared(model: Any) -> Any:
    """The model in inference, all of it random: zeros and ones would hide mistakes."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.05)
    return model.eval()


class UNet(Module):
    def __init__(self) -> None:
        Module.__init__(self)
        self.first, self.second, self.third = (
            self.block(3, 16),
            self.block(16, 32),
            self.block(32, 32),
        )
        self.up, self.fourth = nn.ConvTranspose2d(32, 16, 2, stride=2), self.block(48, 16)
        self.last = nn.Conv2d(32, 3, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()
        )

    def forward(self, x: Any) -> Any:
        a = self.first(x)
        b = self.second(F.max_pool2d(a, 2))
        c = self.third(F.avg_pool2d(b, 2))
        up = F.interpolate(c, scale_factor=2.0, mode="bilinear")
        d = self.fourth(torch.cat([up, F.interpolate(self.up(c), size=b.shape[2:])], 1))
        return self.last(torch.cat([a, F.interpolate(d, scale_factor=2.0)], 1))


class Block(Module):
    """Inverted residual with squeeze and excitation, as in mobile networks."""

    def __init__(self, channels: int) -> None:
        Module.__init__(self)
        wide = 3 * channels
        self.widen = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish()
        )
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(wide, 8, 1),
            nn.ReLU(),
            nn.Conv2d(8, wide, 1),
            nn.Hardsigmoid(),
        )
        self.narrow = nn.Sequential(
            nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)
        )

    def forward(self, x: Any) -> Any:
        hidden = self.depth(self.widen(x))
        return x + self.narrow(hidden * self.squeeze(hidden))


def test_a_unet() -> None:
    assert_as_torch(prepared(UNet()), [torch.randn(1, 3, 32, 32)])


def test_blocks_of_a_mobile_network() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), Block(8), Block(8), nn.Flatten(1), nn.Linear(2048, 5)
    )
    graph = assert_as_torch(prepared(model), [torch.randn(1, 3, 32, 32)])
    assert list(graph.inputs) == ["input"]
    assert "1.widen.0.weight" in graph.constants


NETWORKS: dict[str, Callable[[Any], Any]] = {
    "vit": lambda tv: tv.vision_transformer.VisionTransformer(64, 16, 2, 4, 64, 128),
    "swin": lambda tv: tv.swin_transformer.SwinTransformer([4, 4], 32, [1, 2], [2, 4], [4, 4]),
    "shufflenet": lambda tv: tv.shufflenet_v2_x0_5(num_classes=10),
    "squeezenet": lambda tv: tv.squeezenet1_1(num_classes=10),
    "resnet": lambda tv: tv.resnet18(num_classes=10),
}


@pytest.fixture(name="tv", scope="session")
def _torchvision() -> Iterator[Any]:
    """The models of torchvision, also where its own operators cannot be loaded."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        pytest.skip("torchvision is not installed")
    library = None
    try:
        for file in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(file)
        assert torch.ops.torchvision.nms
    except (OSError, AttributeError):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor boxes, Tensor scores, float limit) -> Tensor")
        library.define("qnms(Tensor boxes, Tensor scores, float limit) -> Tensor")
    yield import_module("torchvision.models")
    del library


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_torchvision(name: str, tv: Any) -> None:
    assert_as_torch(prepared(NETWORKS[name](tv)), [torch.randn(1, 3, 64, 64)])


SIZES: dict[str, int] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@pytest.mark.usefixtures("tv")  # which some of its models import
def test_networks_of_transformers(name: str) -> None:
    tf: Any = pytest.importorskip("transformers")
    ids = torch.randint(0, 50, (1, 8), generator=torch.Generator().manual_seed(0))
    given = {"input_ids": ids}
    if name == "bert":
        model = tf.BertModel(tf.BertConfig(intermediate_size=64, **SIZES))
        given["attention_mask"] = torch.tensor([[1] * 6 + [0] * 2])
    elif name == "gpt2":
        config = tf.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False, vocab_size=50
        )
        model = tf.GPT2LMHeadModel(config)
    else:
        config = tf.LlamaConfig(
            intermediate_size=64, num_key_value_heads=2, use_cache=False, **SIZES
        )
        model = tf.LlamaForCausalLM(config)
    graph = assert_as_torch(prepared(model), [], given)
    assert list(graph.inputs) == list(given)
    assert graph.outputs[0] in ("last_hidden_state", "logits")


IMAGES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
}  # fmt: skip
STAGES: dict[str, Any] = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}
PUBLISHED: dict[str, dict[str, Any]] = {
    "Albert": {"embedding_size": 16, "intermediate_size": 64, **SIZES},
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50},
    "DebertaV2": {"intermediate_size": 64, "relative_attention": True,
                  "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0, **SIZES},
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 50},
    "Electra": {"embedding_size": 32, "intermediate_size": 64, **SIZES},
    "GPTNeoX": {"intermediate_size": 64, **SIZES},
    "Gemma": {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8, **SIZES},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 50, "state_size": 4},
    "Mistral": {"intermediate_size": 64, "num_key_value_heads": 2, **SIZES},
    "OPT": {"hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 64, "num_attention_heads": 4,
            "vocab_size": 50, "max_position_embeddings": 32, "word_embed_proj_dim": 32},
    "Phi": {"intermediate_size": 64, **SIZES},
    "Qwen2": {"intermediate_size": 64, "num_key_value_heads": 2, **SIZES},
    "Roberta": {"intermediate_size": 64, **SIZES},
    "T5Encoder": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
                  "vocab_size": 50},
    "CLIPVision": {"intermediate_size": 64, "patch_size": 8, **IMAGES},
    "ConvNextV2": STAGES,
    "DeiT": {"intermediate_size": 64, "patch_size": 8, **IMAGES},
    "Dinov2": {"patch_size": 8, **IMAGES},
    "MobileViT": {"image_size": 64},
    "PoolFormer": STAGES,
    "ResNet": {"embedding_size": 8, **STAGES},
    "Segformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32],
                  "decoder_hidden_size": 16},
}  # fmt: skip
"""Definitions of transformers by their names, which end in Model and Config, small."""


class _FirstOutput(Module):
    def __init__(self, model: Any) -> None:
        Module.__init__(self)
        self.model = model

    def forward(self, x: Any) -> Any:
        return next(value for value in self.model(x).values() if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.usefixtures("tv")
def test_published_definitions(name: str) -> None:
    tf: Any = pytest.importorskip("transformers")
    config = getattr(tf, f"{name.removesuffix('Encoder')}Config")(**PUBLISHED[name])
    config.use_cache = False
    model = _FirstOutput(prepared(getattr(tf, f"{name}Model")(config)))
    seeded = torch.Generator().manual_seed(0)
    if "vocab_size" in PUBLISHED[name]:
        x = torch.randint(0, 50, (1, 8), generator=seeded)
    else:
        size = PUBLISHED[name].get("image_size", 64)
        x = torch.randn((1, 3, size, size), generator=seeded)
    graph = assert_as_torch(model, [x])
    assert len(graph.inputs) == 1


EXPERTS: dict[str, dict[str, Any]] = {
    "Mixtral": {"intermediate_size": 64, "num_local_experts": 4},
    "Qwen3Moe": {"moe_intermediate_size": 16, "num_experts": 6, "num_experts_per_tok": 3,
                 "head_dim": 8},
}  # fmt: skip


@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.usefixtures("tv")
def test_layers_of_experts(name: str) -> None:
    """Rows sorted by expert, each group by a matrix; PyTorch does that in no float64."""
    tf: Any = pytest.importorskip("transformers")
    config = getattr(tf, f"{name}Config")(num_key_value_heads=2, **EXPERTS[name], **SIZES)
    config.use_cache = False
    model = _FirstOutput(prepared(getattr(tf, f"{name}Model")(config)))
    x = torch.randint(0, 50, (1, 8), generator=torch.Generator().manual_seed(0))
    graph = ac.from_torch(model, (x,))
    assert "grouped_mm_fallback" in str(graph)
    model.model.set_experts_implementation("eager")
    with torch.no_grad():
        wanted = model.double()(x).numpy()
    found = ac.build(graph)(x.numpy())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * float(np.abs(wanted).max()))
