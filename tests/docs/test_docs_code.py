"""The code on the pages that teach is run as it is printed, one page after the other in a folder.

A block after the comment `<!-- illustrative: why -->` is not run; one after `<!-- needs TOOL -->`
only where that tool is; one after `<!-- nightly: TOOLS -->` with the long checks. Blocks of one
page build on each other; one that begins with a comment of a file's name, such as `# gemm.py`, is
that file, too. Tuning is cut short.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import AnsorcError
from ansorc.schedule.steps import STEPS
from bench.gallery import definitions
from tests.support.arm.emulated import needs_qemu
from tests.support.nightly import sampled

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md", DOCS / "start.md", DOCS / "gallery.md",
    *sorted((DOCS / "tutorials").glob("*.md")), *sorted((DOCS / "guides").glob("*.md")),
]  # fmt: skip
FIRST_PAGES = [ROOT / "README.md"]
"""The others are run by `make nightly`."""
TRIALS = "2"
_BLOCK = re.compile(
    r"^(?:<!-- (?P<word>illustrative|needs|nightly)(?P<more>[^\n]*) -->\n)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"^(?:#|//) ([\w.]+)\n")
_SHIM = f"""#!{sys.executable}
from ansorc.cli.main import main
main()
"""


class Block(NamedTuple):
    language: str
    text: str
    needs: str


def blocks(page: Path, *, nightly: bool = False) -> Iterator[Block]:
    """The blocks that are run or written to files; with `nightly` those of the long checks."""
    for found in _BLOCK.finditer(page.read_text()):
        word, more = found["word"], found["more"]
        if word != "illustrative" and (word == "nightly") == nightly:
            yield Block(found["language"], found["text"], more.strip() if word else "")


def relative(page: Path) -> str:
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))


def run_shell(text: str) -> str:
    """What commands print, tuning with few trials; `ansorc` is that of this repository."""
    Path("bin").mkdir(exist_ok=True)
    for name, program in (
        ("ansorc", _SHIM),
        ("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n'),
    ):
        Path("bin", name).write_text(program)
        Path("bin", name).chmod(0o755)
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT), ANSORC=str(ROOT),
        PATH=f"{Path('bin').absolute()}:{os.environ['PATH']}",
    )  # fmt: skip
    short = re.sub(r"--trials \d+", f"--trials {TRIALS}", text)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", short], env=environment, text=True,
        capture_output=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{short}\n{done.stdout}{done.stderr}"
    return done.stdout


@needs_qemu
@pytest.mark.nightly
def test_the_network_in_cpp_is_built_for_arm_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared, static = blocks(DOCS / "tutorials/cross_compile.md", nightly=True)
    right = re.findall(r"digits: (\d+) of 297 right", run_shell(shared.text + static.text))
    assert len(right) == 2
    assert all(int(one) >= 280 for one in right)


@pytest.mark.parametrize("page", sampled(PAGES, FIRST_PAGES), ids=relative)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = next(block for block in blocks(DOCS / "start.md") if block.language == "python")
    Path("gemm.py").write_text(first.text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "gemm", raising=False)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        if name := _FILE.match(block.text):
            Path(name[1]).write_text(block.text)
        if block.needs and shutil.which(block.needs) is None:
            continue
        if block.language == "python":
            exec(compile(block.text, relative(page), "exec"), names)
        elif block.language == "sh":
            run_shell(block.text)


def test_every_block_says_its_language() -> None:
    for page in PAGES:
        for block in blocks(page):
            assert block.language, f"{relative(page)}: {block.text[:60]}"
            assert block.language in ("sh", "python", "text") or _FILE.match(block.text)


GALLERY = definitions()
OPERATORS = [name for name in GALLERY if f"{name}_numpy" in GALLERY]


def test_the_gallery_has_operators() -> None:
    workloads = re.findall(
        r"^@ac\.workload\ndef (\w+)", (DOCS / "gallery.md").read_text(), re.MULTILINE
    )
    assert sorted(workloads) == sorted(OPERATORS)
    assert len(OPERATORS) >= 12


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_the_gallery_is_what_numpy_computes(name: str) -> None:
    make, in_numpy = GALLERY[name], GALLERY[f"{name}_numpy"]
    assert callable(make)
    assert callable(in_numpy)
    dag = ac.ComputeDAG(cast("list[ac.Tensor]", make()))
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(one.shape).astype(one.dtype.numpy)
        if one.dtype.is_float
        else rng.integers(0, 128, one.shape).astype(one.dtype.numpy)
        for one in dag.inputs
    ]
    kernel = ac.build(dag, name=name)
    wanted = in_numpy(*(one.astype(np.float64) if one.dtype.kind == "f" else one for one in inputs))
    np.testing.assert_allclose(kernel(*inputs), np.asarray(wanted), rtol=2e-4, atol=2e-4)


def test_a_wrong_step_of_the_tutorial_is_refused() -> None:
    a = ac.placeholder((4, 4), name="A")
    r = ac.reduce_axis(4, name="k")
    c = ac.compute((4,), lambda i: ac.sum(a[i, r], axis=r), name="C")
    with pytest.raises(AnsorcError, match="rfactor"):
        ac.schedule(ac.ComputeDAG([a, c])).parallel("C", "k")


def test_every_step_has_a_picture_in_which_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(DOCS / "site"), *sys.path])
    pictures = import_module("step_pictures").pictures()
    assert set(pictures) == set(STEPS)
    for shown in pictures.values():
        for picture in shown:
            assert picture.before != picture.after, picture.call
