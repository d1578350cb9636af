"""The measured kernels as descriptions, and the command that ranks them; rows are made up here."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ansorc.target.gpu import GPUS
from ansorc.target.gpu_model import seconds
from bench.__main__ import main
from bench.gpu_model import conv, gemm
from bench.gpu_model.data import Measured, Quality, random_share
from bench.gpu_model.gemm import Columns

GEMM = {
    "MWG": 128, "NWG": 128, "KWG": 32, "MDIMC": 16, "NDIMC": 8, "MDIMA": 16, "NDIMB": 32,
    "KWI": 2, "VWM": 4, "VWN": 4, "STRM": 0, "STRN": 0, "SA": 1, "SB": 1, "PRECISION": 32,
}  # fmt: skip
CONV = {
    "block_size_x": 32, "block_size_y": 4, "tile_size_x": 1, "tile_size_y": 4, "read_only": 0,
    "use_padding": 0, "use_shmem": 1, "use_cmem": 1, "filter_height": 15, "filter_width": 15,
}  # fmt: skip


def columns(rows: list[dict[str, int]]) -> Columns:
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_a_product_is_described() -> None:
    kernel = gemm.describe(columns([GEMM, GEMM | {"SA": 0, "SB": 0}]))
    blocks = kernel.grid[0] * kernel.grid[1]
    work = blocks * kernel.threads * kernel.multiply_adds
    assert np.asarray(work).tolist() == [4096**3] * 2
    assert np.asarray(kernel.shared_bytes).tolist() == [32 * 4 * 256, 0]
    assert np.asarray(kernel.barriers).tolist() == [256, 0]


def test_sixteen_results_in_a_row_take_64_cycles_however_wide_the_loads_are() -> None:
    rows = [GEMM | {"MDIMC": 8, "NDIMC": 16, "VWM": width} for width in (1, 2, 4, 8)]
    kernel = gemm.describe(columns(rows))
    used = kernel.shared_accesses[1]
    assert (np.asarray(used.requests) * used.wavefronts / 4096).tolist() == [64] * 4


def test_a_convolution_is_described() -> None:
    rows = [CONV, CONV | {"block_size_y": 16}, CONV | {"use_shmem": 0, "tile_size_y": 3}]
    kernel = conv.describe(columns(rows))
    loads = np.asarray(kernel.shared_accesses[1].requests)
    assert loads.tolist() == [27 * 15, 60 * 15, 0]
    assert np.asarray(kernel.global_accesses[0].requests)[2] == 225 * 3
    assert np.asarray(kernel.multiply_adds).tolist() == [900, 900, 675]


def test_copies_that_are_left_over_are_waited_for_one_by_one() -> None:
    rows = [CONV, CONV | {"tile_size_x": 3}, CONV | {"tile_size_x": 4}, CONV | {"use_shmem": 0}]
    kernel = conv.describe(columns(rows))
    assert np.asarray(kernel.steps).tolist() == [8 * 2, 8 * 3, 8 * 2, 1]


@pytest.mark.parametrize("name", GPUS)
def test_order_of_products(name: str) -> None:
    """Larger register tiles are faster, and 16 in a row of a factor slower."""
    rows = [
        GEMM, GEMM | {"MWG": 64, "NWG": 64, "MDIMC": 16, "NDIMC": 16},
        GEMM | {"MWG": 32, "NWG": 32, "MDIMC": 16, "NDIMC": 16, "VWM": 1, "VWN": 1},
        GEMM | {"NWG": 16, "MDIMC": 8, "NDIMC": 16, "NDIMB": 16, "VWN": 1},
    ]  # fmt: skip
    found = seconds(gemm.describe(columns(rows)), GPUS[name])
    assert np.argsort(found).tolist() == [0, 1, 2, 3]


def test_quality() -> None:
    measured = np.arange(1.0, 101)
    same, reverse = Quality.of(measured, measured), Quality.of(-measured, measured)
    assert (same.spearman, same.best_of_first) == (pytest.approx(1), 1)
    assert (reverse.spearman, reverse.best_of_first) == (pytest.approx(-1), pytest.approx(1 / 81))
    assert Quality.of(measured**2, measured).spearman == pytest.approx(1)
    assert 0.1 < random_share(measured) < 0.7


def written(path: Path, gpu: str) -> Path:
    """Kernels whose times are those of the model, with some noise."""
    rows = [
        GEMM | {"MWG": m, "NWG": n, "MDIMC": 16, "NDIMC": 8, "VWM": vm, "VWN": vn, "SA": s, "SB": s}
        for m, n, vm, vn, s in itertools.product((32, 64), (32, 64), (1, 2), (1, 2, 4), (0, 1))
    ]
    times = seconds(gemm.describe(columns(rows)), GPUS[gpu]) * 1e3
    times *= np.random.default_rng(0).uniform(0.95, 1.05, len(rows))
    with path.open("w") as file:
        writer = csv.DictWriter(file, [*GEMM, "time_ms"])
        writer.writeheader()
        writer.writerows(row | {"time_ms": time} for row, time in zip(rows, times, strict=True))
    return path


def test_the_command(tmp_path: Path) -> None:
    data, other = written(tmp_path / "a.csv", "rtx3090"), written(tmp_path / "b.csv", "a6000")
    assert Measured.read(data, "RTX 3090").family == "gemm"
    done = CliRunner().invoke(
        main, ["gpu_model", "--data", str(data), "--gpu", "rtx3090", "--train", f"a6000={other}"]
    )
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if "model" in line]
    assert all("0.9" in line or "1.000" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("gpu", "train", "words"),
    [
        ("rtx9", "", "'rtx9' is not a known GPU"),
        ("rtx3090", "a6000", "'a6000' is not GPU=FILE"),
        ("rtx3090", "rtx3090={data}", "it would give the answer"),
        ("rtx3090", "a6000={bad}", "columns of no known kernel"),
        ("rtx3090", "a6000={none}", "no rows with a column 'time_ms'"),
    ],
)
def test_what_cannot_be_ranked(tmp_path: Path, gpu: str, train: str, words: str) -> None:
    data, bad, none = (tmp_path / f"{name}.csv" for name in ("data", "bad", "none"))
    written(data, "rtx3090")
    bad.write_text("x,time_ms\n1,2\n")
    none.write_text("")
    more = ["--train", train.format(data=data, bad=bad, none=none)] if train else []
    done = CliRunner().invoke(main, ["gpu_model", "--data", str(data), "--gpu", gpu, *more])
    assert done.exit_code == 1
    assert words in " ".join(done.output.split())
