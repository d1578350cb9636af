"""Golden texts of the passes for GPUs: a program before and after each of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ansorc.ir.parser import parse
from ansorc.ir.passes.gpu.pipeline import CUDA_PASSES
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from ansorc.target import Target
from tests.ir.passes.test_golden import SEPARATOR
from tests.ir.passes.test_pass_meaning import outcome

GOLDEN = Path(__file__).parent / "golden"
A100 = Target.parse("cuda -arch=sm_80")
PASSES = dict(CUDA_PASSES)
NAMES = [name for name, _ in CUDA_PASSES]
WITHOUT_BARRIERS = NAMES[: NAMES.index("insert_barriers") + 1]
"""The passes that take programs whose threads do not wait for each other yet."""
TOLERANCES = {"form_matrix_tiles": 1e-3, "widen_sums": 0.05}
"""Of passes that change the order or the dtype of sums; other passes keep every bit."""
FILES = sorted(GOLDEN.glob("*/*.ir"))


def results_of(name: str, function: Function) -> list[np.ndarray]:
    """Run a program from before or after the pass `name`, with barriers where it has none yet."""
    needed = ("inject_virtual_threads", "normalize_thread_nest", "insert_barriers")
    for other in needed if name in WITHOUT_BARRIERS else ():
        function = PASSES[other](function, A100)
    return outcome(function, 0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_gives_the_golden_text(path: Path, request: pytest.FixtureRequest) -> None:
    name = path.parent.name
    before, _, after = path.read_text().partition(SEPARATOR)
    function = parse(before)
    result = PASSES[name](function, A100)
    verify(result)
    tolerance = TOLERANCES.get(name, 0.0)
    for array, wanted in zip(results_of(name, result), results_of(name, function), strict=True):
        exact = wanted.astype(np.float64)
        np.testing.assert_allclose(array.astype(np.float64), exact, tolerance, tolerance)
    if request.config.getoption("--update-golden", default=False):
        path.write_text(before + SEPARATOR + to_text(result))
        return
    assert to_text(result) == after


def test_every_pass_has_golden_texts() -> None:
    assert {path.parent.name for path in FILES} == PASSES.keys() - {"simplify"}
