"""`ANSORC_DUMP`: each stage of what is built, in numbered files."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import backend_of
from ansorc.errors import BuildError, OptionError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.dump import VARIABLE, dump_folder
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.target import Target


def product(n: int = 16) -> ac.ComputeDAG:
    a, b = ac.placeholder((n, n), name="A"), ac.placeholder((n, n), name="B", constant=True)
    k = ac.reduce_axis(n, name="k")
    c = ac.compute((n, n), lambda i, j: ac.sum(a[i, k] * b[k, j], axis=k), name="C")
    return ac.ComputeDAG([a, b, c])


def small_network() -> Graph:
    builder = GraphBuilder("a net/work")
    x = builder.input("x", TensorType(FLOAT32, (4, 8)))
    y = builder.add("softmax", [builder.add("exp", [x])], axis=-1)
    builder.add("exp", [y])  # nobody reads it
    return builder.graph([y])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_each_stage_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "dump"))
    state = ac.schedule(product()).vectorize("C", "j")
    ac.build(state, name="matmul")
    folder = tmp_path / "dump" / "matmul"
    names = files(folder)
    assert names[:4] == ["00_dag.txt", "01_steps.txt", "02_schedule.txt", "03_lowered.ir"]
    assert [name[3:] for name in names[-3:]] == ["llvm.ll", "optimized.ll", "asm.s"]
    numbers = [int(name[:2]) for name in names]
    assert sorted(set(numbers)) == numbers, "each pass has its own"
    assert (folder / "00_dag.txt").read_text().strip() == state.dag.to_text().strip()
    assert (folder / "01_steps.txt").read_text() == "Vectorize(stage='C', iterator='j')\n"
    assert (folder / "02_schedule.txt").read_text().strip() == str(state).strip()
    assert "define" in (folder / names[-3]).read_text()
    assert "vfmadd" in (folder / names[-1]).read_text() or not Target.parse("native").is_x86
    passes = [name for name in names if name.endswith(".ir")]
    texts = [(folder / name).read_text() for name in passes]
    assert all(one != other for one, other in pairwise(texts))
    assert all(to_text(parse(text)) == text for text in texts), "they can be read back"
    known = [name for name, _ in backend_of(Target.parse("native")).passes]
    for name in passes[1:]:
        number, _, stage = name.removesuffix(".ir").partition("_")
        assert known[int(number) - 4] == stage


def test_a_second_build_of_one_name_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for _ in range(2):
        ac.build(product(), name="matmul")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["matmul", "matmul-2"]
    assert files(tmp_path / "matmul") == files(tmp_path / "matmul-2")


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    code = (
        "from ansorc.ir.dump import dump_folder\n"
        "for number in range(20): dump_folder('k').write('stage', str(number))"
    )
    given = {**os.environ, VARIABLE: str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=given) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    folders = list(tmp_path.iterdir())
    assert len(folders) == 40
    assert all(files(folder) == ["00_stage.txt"] for folder in folders)


def test_a_network_has_its_graph_after_each_pass_and_a_folder_for_each_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    graph = small_network()
    x = np.ones((4, 8), np.float32)
    np.testing.assert_allclose(ac.build(graph)(x), 1 / 8, rtol=1e-6)
    (folder,) = tmp_path.iterdir()
    assert folder.name == "a_net_work"
    assert files(folder)[:2] == ["00_imported.txt", "01_remove_dead_nodes.txt"]
    assert files(folder)[-1].endswith("_kernels.txt")
    assert (folder / "00_imported.txt").read_text().strip() == graph.to_text().strip()
    assert "exp + softmax: x -> " in (folder / files(folder)[-1]).read_text()
    kernels = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert kernels == ["kernel0_exp_softmax"]
    assert "03_lowered.ir" in files(folder / kernels[0])
    assert files(folder / kernels[0])[-1].endswith("_asm.s")


def test_a_gpu_program_has_its_text_even_where_its_compiler_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    def missing(*_: object) -> NoReturn:
        raise BuildError("no compiler")

    target = Target.parse("cuda -arch=sm_80")
    monkeypatch.setattr("ansorc.codegen.cuda.listings.compile_ptx", missing)
    monkeypatch.setattr("ansorc.codegen.cuda.listings.compile_cubin", missing)
    monkeypatch.setattr(backend_of(target), "compile", missing, raising=False)
    with pytest.raises(BuildError, match="no compiler"):
        ac.build(product(64), target, "matmul")
    folder = tmp_path / "matmul"
    (text,) = folder.glob("*_cuda.cu")
    assert "__global__" in text.read_text()
    (ptx,) = folder.glob("*.ptx")
    assert ptx.read_text() == "not made: no compiler\n"


def test_nothing_is_written_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    ac.build(product())
    monkeypatch.setenv(VARIABLE, "")
    assert dump_folder("k") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_network", [False, True])
def test_a_folder_that_cannot_be_written_is_an_error_in_words(
    *, is_network: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    words = r"ANSORC_DUMP asks for files in .*file, which cannot be written: .*; set it to a folder"
    with pytest.raises(OptionError, match=words):
        ac.build(small_network() if is_network else product())
