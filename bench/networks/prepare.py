"""`python -m bench.networks.prepare NAME BATCH DIRECTORY`: a network's ONNX file and numbers.

Writes NAME-bBATCH.onnx, the inputs and what PyTorch computes of them in float64.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.networks.definitions import inputs_of, network


def prepare(name: str, batch: int, directory: Path) -> None:
    """Write the files of one network."""
    stem, inputs, module = directory / f"{name}-b{batch}", inputs_of(name, batch), network(name)
    partial = stem.with_suffix(".part")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, tuple(inputs.values()), str(partial), input_names=list(inputs),
            output_names=["y"], opset_version=17, dynamo=False,
        )  # fmt: skip
    wide = {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}
    with torch.no_grad():
        reference = module.double()(*wide.values())
    arrays: dict[str, Any] = {name: x.numpy() for name, x in inputs.items()}
    np.savez(f"{stem}-inputs.npz", **arrays)
    np.save(f"{stem}-reference.npy", reference.numpy())
    partial.rename(stem.with_suffix(".onnx"))


if __name__ == "__main__":
    prepare(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
