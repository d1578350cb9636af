"""Saved kernels and networks whose data has a place that there is not, called from C and C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import OutOfRangeError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dtype import FLOAT32, INT64
from ansorc.lang.dag import ComputeDAG

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
MAIN = """\
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float table[50 * 8], rows[64 * 8];
static int64_t places[64];

int main(void) {
  void *memory = aligned_alloc(64, NAME_WORKSPACE_BYTES);
  const int64_t wrong[] = {50, -1, 1000000000000, -1000000000000, INT64_MIN, INT64_MAX};
  int32_t threads, n, use;
  for (n = 0; n < 50 * 8; ++n) table[n] = (float)n;
  for (threads = 0; threads < 4; ++threads)
    for (use = 0; use < 2; ++use) {
      void *workspace = use ? memory : NULL;
      for (n = 0; n < 64; ++n) places[n] = n % 50;
      if (NAME(ARGUMENTS, workspace, threads) != ANSORC_OK) return 1;
      for (n = 0; n < 64 * 8; ++n)
        if (rows[n] != table[places[n / 8] * 8 + n % 8]) return 2;
      for (n = 0; n < 6; ++n) {
        int32_t status;
        int64_t record[5];
        places[63 - 9 * n] = wrong[n];
        status = NAME(ARGUMENTS, workspace, threads);
        places[63 - 9 * n] = 3;
        if (status != ANSORC_INDEX_OUT_OF_RANGE) return 3;
        if (strcmp(ansorc_status_text(status), "an index in the data is none of a tensor's places"))
          return 4;
        memcpy(record, (char *)memory + NAME_FAULT_PLACE, sizeof record);
        if (use && (record[0] != 1 || record[1] != wrong[n] || record[3] != 49 || record[4] != 0))
          return 5;
      }
    }
  free(memory);
  if (strcmp(ansorc_status_text(0), "it worked")) return 6;
  return strcmp(ansorc_status_text(99), "an unknown status") ? 7 : 0;
}
"""


def run_in_c(directory: Path, name: str, arguments: str) -> None:
    source = MAIN.replace("NAME_", f"{name.upper()}_").replace("NAME", name)
    for suffix, compiler in ((".c", ("cc", "-std=c11")), (".cc", ("c++", "-std=c++17", "-xc++"))):
        path = directory / f"main{suffix}"
        path.write_text(source.replace("ARGUMENTS", arguments))
        link = ["-xnone", f"{name}.so", "-Wl,-rpath,.", "-o", "main"]
        command = [*compiler, *STRICT, str(path), *link]
        subprocess.run(command, check=True, cwd=directory)
        found = subprocess.run(["./main"], check=False, cwd=directory)
        assert found.returncode == 0, f"{compiler}: {found.returncode}"


def test_a_kernel(tmp_path: Path) -> None:
    t, i = ac.placeholder((50, 8), "T"), ac.placeholder((64,), "I", "int64")
    c = ac.compute((64, 8), lambda a, b: t[i[a], b], "C")
    ac.build(ComputeDAG([t, i, c]), name="pick").save(tmp_path / "pick.so")
    header = (tmp_path / "pick.h").read_text()
    assert "1: ANSORC_INDEX_OUT_OF_RANGE, T" in header
    run_in_c(tmp_path, "pick", "table, places, rows")
    module = ac.load_library(tmp_path / "pick.so")
    with pytest.raises(OutOfRangeError, match="pick got the index 50 for dimension 0 of 'T'"):
        module(np.zeros((50, 8), np.float32), np.full(64, 50))


def test_a_network(tmp_path: Path) -> None:
    builder = GraphBuilder("picks")
    table = builder.input("table", TensorType(FLOAT32, (50, 8)))
    places = builder.input("places", TensorType(INT64, (64,)))
    rows = builder.add("take", [table, places], axis=0)
    graph = builder.graph([builder.add("relu", [rows], "rows")])
    ac.build(graph, name="picks").save(tmp_path / "picks.so")
    run_in_c(tmp_path, "picks", "table, places, rows")
    module = ac.load_library(tmp_path / "picks.so")
    with pytest.raises(
        OutOfRangeError, match=r"picks got the index -7 for .*\(in 'take \+ relu'\)"
    ):
        module(np.zeros((50, 8), np.float32), np.full(64, -7))


def test_a_kernel_without_checks_has_none(tmp_path: Path) -> None:
    a = ac.placeholder((8,), "A")
    ac.build(ComputeDAG([a, ac.compute((8,), lambda i: a[i] + 1.0, "C")]), name="one").save(
        tmp_path / "one.so"
    )
    assert "FAULT" not in (tmp_path / "one.h").read_text()
