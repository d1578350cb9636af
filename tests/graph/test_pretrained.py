"""Pretrained networks from wheels of the package index, on made-up but real input.

The wheels are fetched, never kept in the repository. Outputs are held against the graph in float64,
and the answer must be the one that ONNX Runtime's outputs give.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.graph_reference import run_reference
from ansorc.ir.aligned import Array

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

_OCR = "rapidocr_onnxruntime/models/ch_PP-OCRv4"


def fetched(requirement: str, model: str, directory: Path) -> Path:
    """The file `model` of a wheel; skips where the package index cannot be reached."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run([*command, "--dest", directory, requirement], check=False)
    if done.returncode:
        pytest.skip(f"{requirement} cannot be fetched here")
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(model, directory))


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


CASES = {
    "ocr-recogniser-320": ("rapidocr-onnxruntime==1.4.4", f"{_OCR}_rec_infer.onnx",
                           lambda: rendered(48, 320), -1),
    "ocr-recogniser-480": ("rapidocr-onnxruntime==1.4.4", f"{_OCR}_rec_infer.onnx",
                           lambda: rendered(48, 480), -1),
    "ocr-detector-320": ("rapidocr-onnxruntime==1.4.4", f"{_OCR}_det_infer.onnx",
                         lambda: rendered(320, 320), None),
    "ocr-detector-480": ("rapidocr-onnxruntime==1.4.4", f"{_OCR}_det_infer.onnx",
                         lambda: rendered(320, 480), None),
    "basic-pitch": ("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                    tune_of_sines, None),
    "magika": ("magika", "magika/models/standard_v3_3/model.onnx", text_file, -1),
}  # fmt: skip
"""Package, file in it, input, and the axis along which the largest element is the answer; None: an
element of more than 0.3 is one."""


@pytest.mark.parametrize("name", CASES)
def test_a_pretrained_network_gives_its_answer(name: str, tmp_path: Path) -> None:
    requirement, model, make, axis = CASES[name]
    path, value = fetched(requirement, model, tmp_path), make()
    onnx: Any = import_module("onnx")
    input_name = onnx.load(str(path)).graph.input[0].name
    graph = ac.from_onnx(path, inputs={input_name: value.shape})
    expected = run_reference(graph, {input_name: value})
    found = ac.build(graph).run({input_name: value})
    session: Any = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    for output, theirs in zip(found, session.run(None, {input_name: value}), strict=True):
        reference = expected[output]
        allowed = 1e-4 * max(float(np.abs(reference).max()), 1.0)
        rounding = float(np.abs(theirs - reference).max())  # of float32, where logarithms need more
        assert np.abs(found[output] - reference).max() <= max(allowed, 2 * rounding)
        np.testing.assert_array_equal(answer(found[output], axis), answer(theirs, axis))


def answer(values: Array, axis: int | None) -> Array:
    return values > 0.3 if axis is None else np.argmax(values, axis)
