"""What the peers are given, and how it is timed; NumPy stands for them, the others are optional."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorc.compare.program import Clocked
from bench.peers import LIMIT, OWN, PEERS, ROOT, numpy_blas
from bench.peers.layouts import as_images, channels_first, channels_last, library_weight
from bench.peers.problem import Convolution, problem
from bench.peers.program import Program, Request, Unsupported
from tests.support.paper_reference import expected

FOLDER = Path(numpy_blas.__file__).parent
Array = NDArray[Any]
Case = tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...]]

SMALL: dict[str, Case] = {
    "C1D": ((8, 4, 6, 3, 2, 1), [(2, 8, 4), (3, 4, 6)], (2, 4, 6)),
    "C2D": ((6, 6, 4, 8, 3, 1, 1), [(2, 6, 6, 4), (3, 3, 4, 8)], (2, 6, 6, 8)),
    "C3D": ((4, 6, 6, 4, 8, 3, 2, 1), [(1, 4, 6, 6, 4), (3, 3, 3, 4, 8)], (1, 2, 3, 3, 8)),
    "GMM": ((4, 5, 6), [(2, 4, 6), (2, 6, 5)], (2, 4, 5)),
    "GRP": ((6, 6, 8, 8, 3, 2, 1, 4), [(1, 6, 6, 8), (3, 3, 2, 8)], (1, 3, 3, 8)),
    "DIL": ((8, 8, 4, 8, 3, 1, 1, 2), [(1, 8, 8, 4), (3, 3, 4, 8)], (1, 6, 6, 8)),
    "CAP": (
        (6, 6, 2, 3, 3, 2, 1, 4), [(1, 6, 6, 4, 4, 2), (3, 3, 4, 4, 2, 3)], (1, 3, 3, 4, 4, 3),
    ),
    "NRM": ((8, 8), [(2, 8, 8)], (2,)),
    "ConvLayer": ((6, 6, 4, 8, 3, 2, 1), [(2, 6, 6, 4), (3, 3, 4, 8), (8,), (8,)], (2, 3, 3, 8)),
    "TBS": ((5, 3, 4), [(2, 5, 3, 4), (2, 5, 3, 4)], (2, 3, 5, 5)),
}  # fmt: skip


def drawn(shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def request_of(operator: str) -> Request:
    shape, shapes, _ = SMALL[operator]
    inputs = drawn(shapes)
    return Request("case", problem(operator, shape, inputs), inputs, 1, 1, Path())


@pytest.mark.parametrize("operator", SMALL)
def test_numpy_computes_what_the_operator_means(operator: str) -> None:
    shape, shapes, out_shape = SMALL[operator]
    places = tuple(index.reshape(-1) for index in np.indices(out_shape))
    right = expected(operator, shape, drawn(shapes), places)
    for name, make in numpy_blas.programs(request_of(operator)):
        program = make()
        program.run()
        found = np.asarray(program.output()).reshape(-1)
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("operator", "shape", "shapes", "words"),
    [
        ("DEP", (6, 6, 8, 3, 2, 1), [(2, 6, 6, 8), (3, 3, 8)], "one channel a group"),
        ("T2D", (4, 4, 4, 6, 4, 2, 1), [(2, 4, 4, 4), (4, 4, 4, 6)], "no transposed convolution"),
    ],
)
def test_numpy_says_what_it_has_not(
    operator: str, shape: tuple[int, ...], shapes: list[tuple[int, ...]], words: str
) -> None:
    inputs = drawn(shapes)
    asked = Request("case", problem(operator, shape, inputs), inputs, 1, 1, Path())
    with pytest.raises(Unsupported, match=words):
        list(numpy_blas.programs(asked))


@pytest.mark.parametrize("operator", ["C1D", "C2D", "C3D", "GRP", "DIL", "CAP", "ConvLayer"])
def test_the_shape_of_the_result_is_known(operator: str) -> None:
    conv = request_of(operator).problem
    assert isinstance(conv, Convolution)
    out_shape = SMALL[operator][2]
    if operator == "CAP":  # capsules are channels
        out_shape = (*out_shape[:4], out_shape[4] * out_shape[5])
    assert conv.out_shape == out_shape


def test_a_transposed_convolution_doubles_its_image() -> None:
    conv = problem("T2D", (4, 4, 4, 6, 4, 2, 1), drawn([(2, 4, 4, 4), (4, 4, 4, 6)]))
    assert isinstance(conv, Convolution)
    assert conv.is_transposed
    assert conv.out_shape == (2, 8, 8, 6)
    assert library_weight(conv, conv.weight).shape == (4, 6, 4, 4)


def test_capsules_can_be_images() -> None:
    conv = request_of("CAP").problem
    assert isinstance(conv, Convolution)
    images, restore = as_images(conv)
    assert images.x.shape == (4, 6, 6, 8)
    one, other = (next(numpy_blas.programs(_with(c)))[1]() for c in (conv, images))
    one.run()
    other.run()
    np.testing.assert_allclose(restore(other.output()), one.output(), rtol=1e-5, atol=1e-5)


def _with(conv: Convolution) -> Request:
    return Request("case", conv, [], 1, 1, Path())


def test_layouts_are_undone() -> None:
    x = drawn([(2, 3, 4, 5)])[0]
    np.testing.assert_array_equal(channels_last(channels_first(x)), x)


def test_a_burst_is_about_as_long_as_asked() -> None:
    program = Program("sleep", lambda: time.sleep(0.002), lambda: np.zeros(1))
    times = Clocked(program).burst(0.02)
    assert len(times) >= 3
    assert all(found >= 0.002 for found in times)


def test_a_long_call_is_not_repeated() -> None:
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        time.sleep(0.11)

    clocked = Clocked(Program("long", run, lambda: np.zeros(1)))
    before = len(calls)
    assert len(clocked.burst(0.02)) == 1
    assert len(calls) == before + 1


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_own_modules_import_what_computes(path: Path) -> None:
    """A peer's process holds the peer's libraries, whose threads and LLVM are its own."""
    names = {name for node in ast.walk(ast.parse(path.read_text())) for name in _imported(node)}
    own = {name for name in names if name.partition(".")[0] == "ansorc"}
    is_own = f"bench.peers.{path.stem}" in (OWN.module, LIMIT.module)
    assert is_own == any(not name.startswith("ansorc.compare.") for name in own)


def test_what_serves_a_peer_loads_no_compiler() -> None:
    code = "import sys, bench.peers.serve; print({'llvmlite', 'onnx', 'torch'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert found.stdout.strip() == b"set()"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_every_peer_has_a_module_and_says_how_to_get_it() -> None:
    for info in PEERS:
        assert (FOLDER / f"{info.module.rpartition('.')[2]}.py").exists()
        assert info.install or info.name == "numpy"
