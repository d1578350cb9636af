"""What notebooks show: HTML that parses, escapes names, and has the loops with what made them."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import ansorc as ac
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.network import Network
from ansorc.graph.tensor_type import TensorType
from ansorc.ir import notebook
from ansorc.ir.dtype import FLOAT32
from ansorc.search.tune_result import TuneResult

VOID = {"circle", "path"}


class Page(HTMLParser):
    """Reads HTML; fails on a tag that is not closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.titles, self._open = "", list[str](), list[str]()
        self.tags: set[str] = set()
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.titles += [value for name, value in attrs if name == "title" and value]
        assert not any(name.startswith("on") for name, _ in attrs)
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data


def page(value: object) -> Page:
    """What a notebook shows of `value`; nothing of it comes from a network or is a script."""
    show = getattr(value, "_repr_html_")  # noqa: B009
    text = show()
    assert "http" not in text
    found = Page(text)
    assert "script" not in found.tags
    return found


def matmul() -> ac.Schedule:
    a, b = ac.placeholder((8, 16), name="A"), ac.placeholder((16, 12), name="B")
    r = ac.reduce_axis(16, name="k")
    c = ac.compute((8, 12), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    return ac.schedule(ac.ComputeDAG([a, b, c])).split("C", "i", [4]).vectorize("C", "j")


def test_a_state_shows_its_loops_and_what_made_them() -> None:
    found = page(matmul())
    assert str(matmul()) in found.text
    split = next(title for title in found.titles if "loop i.0" in title)
    assert split.startswith("stage C")
    assert "Split(stage='C', iterator='i', lengths=(4,))" in split
    assert "Vectorize" not in split
    assert any("loop j" in title and "Vectorize" in title for title in found.titles)


def test_a_function_shows_its_text_and_the_loops_around_a_line() -> None:
    found = page(ac.lower(matmul()))
    assert "C[i.0 * 4 + i.1, j]" in found.text
    assert any("for i.0 in 0..2" in title and "for i.1 in 0..4" in title for title in found.titles)


def test_a_module_shows_its_arguments() -> None:
    found = page(ac.build(matmul(), target="native", name="product"))
    assert "product" in found.text
    assert "input float32[8, 16]" in found.text
    assert "output float32[8, 12]" in found.text


def test_a_tuning_run_shows_times_and_a_curve() -> None:
    task = ac.Task(matmul().dag, "native", "<b>product</b>")
    result = TuneResult(task, None, None, ((1, 4e-3), (3, 1e-3)), 7, 7, 1.0, notes=("a & b",))
    found = page(result)
    assert "<b>product</b>: 7 trials" in found.text
    assert "a & b" in found.text
    assert "b" not in found.tags
    assert "trial 3: 1 ms" in found.text
    assert "svg" in found.tags
    assert "svg" not in page(replace(result, curve=())).tags


def test_text_is_never_markup() -> None:
    hostile = "for <img src=x onerror=1> in 0..'\"&"
    found = Page(notebook.frame(hostile, notebook.code([(hostile, hostile)]),
                                 notebook.table([(hostile, hostile)])))  # fmt: skip
    assert found.text.count(hostile) == 4
    assert found.titles == [hostile]
    assert "img" not in found.tags


@pytest.mark.parametrize(
    "points", [[(1, 2.0)], [(1, 2.0), (2, 1.0)], [(0, 1e-9), (10**6, 1e-12)]]
)  # fmt: skip
def test_a_curve_stays_in_its_picture(points: list[tuple[int, float]]) -> None:
    found = notebook.curve(points, 2)
    Page(found)
    assert "nan" not in found
    places = [float(part) for part in found.split("cy='")[1].split("'")[:1]]
    assert all(0 <= y <= 200 for y in places)


def test_a_network_shows_its_nodes_and_kernels() -> None:
    builder = GraphBuilder("small")
    x = builder.input("x", TensorType(FLOAT32, (4, 8)))
    w = builder.constant(np.ones((8, 4), np.float32), "w")
    builder.source = "MatMul 'first'"
    h = builder.add("matmul", [x, w], "h")
    graph = builder.graph((builder.add("relu", [h], "y"),))
    found = page(graph)
    assert graph.to_text().strip() in found.text
    assert "MatMul 'first'" in found.titles
    network = Network.of(graph)
    assert all(task.name in page(network).text for task in network.tasks.values())
    assert "input float32[4, 8]" in page(ac.build(graph)).text
