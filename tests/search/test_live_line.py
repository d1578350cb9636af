"""Progress in a notebook's cell: one output, which changes in place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import ansorc as ac
from ansorc.search.live_line import NotebookLine


class Kernel:
    """What IPython is in a kernel of Jupyter: a shell with a kernel, and `display`."""

    def __init__(self, *, kernel: object = "a kernel") -> None:
        self.outputs: list[list[Mapping[str, str]]] = []
        """What each output has shown, one after the other."""
        self.display = SimpleNamespace(display=self._display)
        self._shell = SimpleNamespace(kernel=kernel)

    def get_ipython(self) -> object:
        return self._shell

    def _display(self, data: Mapping[str, str], *, raw: bool, display_id: bool) -> object:
        assert raw
        assert display_id
        shown = [data]
        self.outputs.append(shown)

        def update(data: Mapping[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(data)

        return SimpleNamespace(update=update)


def product() -> ac.Task:
    a, b = ac.placeholder((16, 16), name="A"), ac.placeholder((16, 16), name="B")
    return ac.Task(ac.ComputeDAG([a, b, ac.ops.matmul(a, b)]), "native", "<product>")


def test_a_tuning_run_shows_one_line_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    ac.tune(product(), trials=3, records=tmp_path / "tune.db")
    (shown,) = kernel.outputs
    last = shown[-1]
    assert last["text/plain"].startswith("<product> 3/3 | best ")
    assert "took 0:" in last["text/plain"]
    assert "<progress value='3' max='3'></progress> <code>&lt;product&gt; 3/3" in last["text/html"]


def test_lines_come_four_times_a_second_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, now = Kernel(), [0.0]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    line = NotebookLine(lambda: now[0])
    for done in range(1, 101):
        now[0] += 0.02
        line.show(str(done), done, 100)
    (shown,) = kernel.outputs
    assert len(shown) == pytest.approx(9, abs=1)
    assert shown[-1]["text/plain"] == "100"


def test_outside_of_notebooks_nothing_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Kernel(kernel=None)  # IPython on a terminal
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    ac.tune(product(), trials=1, records=tmp_path / "tune.db")
    assert terminal.outputs == []
    assert "".join(capsys.readouterr()) == ""
