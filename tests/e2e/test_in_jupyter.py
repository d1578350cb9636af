"""A notebook that a real kernel of Jupyter runs: what its cells show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]  # others' deprecations

CELLS = (
    """
import ansorc as ac
a, b = ac.placeholder((16, 16), name="A"), ac.placeholder((16, 16), name="B")
task = ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b)]), "native", "product")
""",
    "result = ac.tune(task, trials=12, records='tune.db')",
    "result",
    "ac.build(task, records='tune.db')",
    "ac.replay(task.dag, [])",
)


def outputs_of_cells(folder: Path) -> list[list[Any]]:
    """Run the cells in a kernel of their own; its errors are raised here."""
    words = "pip install nbclient ipykernel"
    nbformat: Any = pytest.importorskip("nbformat", reason=words)
    nbclient: Any = pytest.importorskip("nbclient", reason=words)
    pytest.importorskip("ipykernel", reason=words)
    made = nbformat.v4
    notebook = made.new_notebook(cells=[made.new_code_cell(text) for text in CELLS])
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute(env=os.environ)
    return [cell.outputs for cell in notebook.cells]


def test_cells_show_progress_results_modules_and_loops(tmp_path: Path) -> None:
    quiet, progress, result, module, loops = outputs_of_cells(tmp_path)
    assert quiet == []
    (line,) = [one for one in progress if one.output_type == "display_data"]
    assert "<progress value='12' max='12'></progress>" in line.data["text/html"]
    for shown, words in ((result, "<svg"), (module, "product"), (loops, "<pre")):
        (output,) = shown
        assert output.output_type == "execute_result"
        assert words in output.data["text/html"]
