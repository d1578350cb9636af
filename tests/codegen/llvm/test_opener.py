"""Saved libraries are opened without the compiler that made them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import opener_of
from ansorc.target import Target


def doubled(target: str = "native") -> ac.Module:
    a = ac.placeholder((8,), name="A")
    dag = ac.ComputeDAG([a, ac.compute((8,), lambda i: a[i] * 2, name="B")])
    return ac.build(dag, target=target)


def test_a_process_that_opens_a_library_imports_no_compiler(tmp_path: Path) -> None:
    doubled().save(tmp_path / "doubled.so")
    words = """
import sys, numpy, ansorc
print(ansorc.load_library(sys.argv[1])(numpy.arange(8, dtype="float32")).sum())
made = ("ansorc.ir.passes", "ansorc.codegen.inspect", "ansorc.codegen.llvm.emit", "ansorc.search")
print([name for name in sys.modules if name.startswith(made)])
"""
    found = subprocess.run(
        [sys.executable, "-c", words, str(tmp_path / "doubled.so")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == ["56.0", "[]"]


def test_a_module_of_that_name_beside_a_back_end_may_be_another_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_back_end"
    package.mkdir()
    (package / "backend.py").write_text("from ansorc.codegen.llvm.backend import BACKEND")
    (package / "opener.py").write_text("bottles = 1")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = doubled("native -backend=some_back_end.backend")
    module.save(tmp_path / "doubled.so")
    loaded = ac.load_library(tmp_path / "doubled.so")
    assert isinstance(loaded, ac.Module)
    assert np.array_equal(loaded(np.ones(8, np.float32)), np.full(8, 2, np.float32))


def test_what_opens_is_what_the_back_end_is_where_there_is_nothing_lighter() -> None:
    target = Target.parse("cuda-emulated -gpu=a100")
    assert hasattr(opener_of(target), "emit")
    assert not hasattr(opener_of(Target.parse("native")), "emit")
