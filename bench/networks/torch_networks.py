"""Networks of torchvision's and transformers' definitions, with random weights.

`python -m bench torch_compile` times them as PyTorch runs them, and compiled by ansorc and by
Inductor; `python -m bench.networks.torch_networks NAME DIRECTORY` writes the numbers of one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.networks.compare import compare, run_or_refuse, takes_comparison

_TOKENS, _WORDS = 64, 1000
_SIZES = {
    "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": _WORDS,
}  # fmt: skip


def _first_output(model: Any) -> Any:
    """The module that returns the first tensor of what `model` does."""
    torch = import_module("torch")

    class First(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.model = model

        def forward(self, ids: Any) -> Any:
            return self.model(ids)[0]

    return First()


def _gpt2(tf: Any) -> Any:
    config = tf.GPT2Config(
        n_embd=256, n_layer=4, n_head=4, n_positions=_TOKENS, vocab_size=_WORDS, use_cache=False
    )
    return tf.GPT2LMHeadModel(config)


def _llama(tf: Any) -> Any:
    config = tf.LlamaConfig(intermediate_size=688, num_key_value_heads=2, use_cache=False, **_SIZES)
    return tf.LlamaForCausalLM(config)


_VISION: Mapping[str, Callable[[Any], Any]] = {
    "resnet18": lambda tv: tv.resnet18(),
    "mobilenet_v3_small": lambda tv: tv.mobilenet_v3_small(),
    "efficientnet_b0": lambda tv: tv.efficientnet_b0(),
    "shufflenet_v2": lambda tv: tv.shufflenet_v2_x1_0(),
    "squeezenet1_1": lambda tv: tv.squeezenet1_1(),
    "regnet_y_400mf": lambda tv: tv.regnet_y_400mf(),
    "convnext_tiny": lambda tv: tv.convnext_tiny(),
    "vit_tiny": lambda tv: tv.vision_transformer.VisionTransformer(224, 16, 12, 3, 192, 768),
    "swin_t": lambda tv: tv.swin_t(),
}
_LANGUAGE: Mapping[str, Callable[[Any], Any]] = {
    "bert": lambda tf: tf.BertModel(tf.BertConfig(intermediate_size=1024, **_SIZES)),
    "gpt2": _gpt2,
    "llama": _llama,
}
TORCH_NETWORKS = (*_VISION, *_LANGUAGE)


def module_of(name: str) -> Any:
    """Return one of `TORCH_NETWORKS`, or "NAME-bBATCH" of the paper's networks, for inference."""
    if name not in TORCH_NETWORKS:
        return import_module("bench.networks.definitions").network(name.rpartition("-b")[0])
    torch = import_module("torch")
    torch.manual_seed(0)
    vision = _torchvision_models(torch)  # transformers may import it, too
    if name in _VISION:
        model = _VISION[name](vision)
    else:
        model = _first_output(_LANGUAGE[name](import_module("transformers")))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            module.weight.data.normal_(0, 0.02)  # the last layer of vision transformers
    return model.eval()


def _torchvision_models(torch: Any) -> Any:
    """Import torchvision's definitions, though it may be of another build than torch."""
    try:
        return import_module("torchvision.models")
    except RuntimeError:  # its own operators do not load; declare what it expects to find
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor boxes, Tensor scores, float limit) -> Tensor")
    models = import_module("torchvision.models")
    del library
    return models


def prepare(name: str, directory: Path) -> None:
    """Write the input of a network, and what PyTorch computes of it in float64."""
    torch = import_module("torch")
    model, stem = module_of(name), directory / name
    x = torch.randn(1, 3, 224, 224) if name in _VISION else torch.randint(0, _WORDS, (1, _TOKENS))
    with torch.no_grad():
        wide = model.double()(x.double() if x.is_floating_point() else x)
    np.savez(f"{stem}-inputs.npz", x=x.numpy())
    np.save(f"{stem}-reference.npy", wide.numpy())


@click.command("torch_compile")
@click.option("--networks", default=",".join(TORCH_NETWORKS), show_default=True)
@click.option("--peers", default="torch-ansorc,torch,torch-compile", show_default=True,
              help="Sides; the first one is compared with the others.")  # fmt: skip
@takes_comparison("out/torch_compile")
def torch_compile(networks: str, peers: str, directory: Path, **given: Any) -> None:
    """Time networks compiled by torch.compile as one graph each, by ansorc and by Inductor."""

    def prepared(name: str) -> Path:
        stem = directory.absolute() / name
        if not Path(f"{stem}-reference.npy").exists():
            run_or_refuse("bench.networks.torch_networks", name, str(stem.parent))
        return stem

    compare(networks.split(","), peers.split(","), directory, prepared, **given)


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]))
