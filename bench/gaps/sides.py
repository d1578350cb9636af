"""The sides: each multiplies [64, 256] by a weight [256, 256], float32, called from Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.compare.program import Array, SideProgram

ROWS, DEPTH, COLUMNS = 64, 256, 256
_SEED = 2024


def operands() -> tuple[Array, Array]:
    """Return A and B, always the same."""
    rng = np.random.default_rng(_SEED)
    a, b = ac.aligned_empty((ROWS, DEPTH)), ac.aligned_empty((DEPTH, COLUMNS))
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    return a, b


def task() -> ac.Task:
    """Return the product as ansorc's task; the weight is constant."""
    a = ac.placeholder((ROWS, DEPTH), name="A")
    b = ac.placeholder((DEPTH, COLUMNS), name="B", constant=True)
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b)]), "native", "product")


def ansorc(threads: int, records: Path | None) -> SideProgram:
    """Call the module, its weight bound; untuned without records."""
    module, (a, b) = ac.build(task(), records=records), operands()
    bound, out = module.bind(B=b), ac.aligned_empty((ROWS, COLUMNS))
    return SideProgram("bound", lambda: bound(a, out, threads=threads), lambda: out)


def torch(threads: int, records: Path | None) -> SideProgram:
    """Call PyTorch's product of matrices."""
    del records
    found = _torch(threads)
    a, b = map(found.from_numpy, operands())
    out = found.empty(ROWS, COLUMNS)
    return SideProgram("mm", lambda: found.mm(a, b, out=out), out.numpy)


def onednn(threads: int, records: Path | None) -> SideProgram:
    """Call oneDNN through PyTorch, its weight packed before."""
    del records
    found = _torch(threads)
    a, b = map(found.from_numpy, operands())
    own = found.ops.mkldnn
    packed = own._reorder_linear_weight(b.t().contiguous(), ROWS)
    held: list[Any] = []

    def run() -> None:
        held[:] = [own._linear_pointwise.default(a, packed, None, "none", [], "")]

    return SideProgram("packed", run, lambda: held[0].numpy())  # noqa: PLW0108 - held changes


def onnxruntime(threads: int, records: Path | None) -> SideProgram:
    """Call a session of ONNX Runtime, its weight constant, arrays bound before."""
    del records
    onnx, ort = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    a, b = operands()
    text = (f'<ir_version: 8, opset_import: ["": 17]> graph (float[{ROWS},{DEPTH}] A) => '
            f"(float[{ROWS},{COLUMNS}] Y) {{ Y = MatMul(A, B) }}")  # fmt: skip
    model = importlib.import_module("onnx.parser").parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(b, "B"))
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding, out = session.io_binding(), ort.OrtValue.ortvalue_from_shape_and_type(
        [ROWS, COLUMNS], np.float32)  # fmt: skip
    held = ort.OrtValue.ortvalue_from_numpy(a)
    binding.bind_ortvalue_input("A", held)
    binding.bind_ortvalue_output("Y", out)
    return SideProgram("session", lambda: session.run_with_iobinding(binding), out.numpy)


def _torch(threads: int) -> Any:
    found = importlib.import_module("torch")
    found.set_num_threads(threads)
    found.set_grad_enabled(False)
    return found


Make = Callable[[int, Path | None], SideProgram]
SIDES: Mapping[str, Make] = {
    "ansorc": ansorc,
    "torch": torch,
    "oneDNN": onednn,
    "onnxruntime": onnxruntime,
}
BESIDE = " beside "
"""Between the side that is timed and another one in its process, called before each gap."""
