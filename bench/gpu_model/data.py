"""Files of measured kernels, and the numbers that say how well an order of them is predicted."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ansorc.target.gpu import Gpu, gpu_named
from ansorc.target.gpu_kernel import KernelDescription
from bench.gpu_model import conv, gemm
from bench.gpu_model.gemm import Columns, Floats

TIME = "time_ms"
FIRST = 20
"""Kernels that one would measure."""
DRAWS = 1000
_FAMILIES = {
    "gemm": ({"MWG", "NWG", "KWG", "MDIMC", "NDIMC", "VWM", "VWN", "SA", "SB"}, gemm.describe),
    "conv": ({"block_size_x", "block_size_y", "tile_size_x", "tile_size_y"}, conv.describe),
}


@dataclass(frozen=True)
class Measured:
    """The kernels of one file: what they do, and their times on one GPU."""

    name: str
    family: str
    gpu: Gpu
    kernels: KernelDescription
    seconds: Floats

    @staticmethod
    def read(path: Path, gpu: str) -> Measured:
        """Read a CSV file, packed or not; raise ValueError if its columns are those of no kernel.

        Raise TargetError for an unknown GPU, OSError if there is no such file.
        """
        columns = _columns(path)
        for family, (needed, describe) in _FAMILIES.items():
            if needed <= columns.keys():
                seconds = columns[TIME] / 1e3
                name = path.name.partition(".")[0]
                return Measured(name, family, gpu_named(gpu), describe(columns), seconds)
        known = "; ".join(f"{name}: {', '.join(sorted(needed))}"
                          for name, (needed, _) in _FAMILIES.items())  # fmt: skip
        raise ValueError(f"{path} has the columns of no known kernel; known are {known}")


def _columns(path: Path) -> Columns:
    packed = path.read_bytes()
    text = gzip.decompress(packed) if path.suffix == ".gz" else packed
    rows = list(csv.DictReader(text.decode().splitlines()))
    if not rows or TIME not in rows[0]:
        raise ValueError(f"{path} has no rows with a column '{TIME}'")
    try:
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Quality:
    """How good an order of measured kernels is."""

    spearman: float
    best_of_first: float
    """The speed of the best of the `FIRST` kernels, of the best kernel's."""

    @staticmethod
    def of(predicted: Floats, measured: Floats) -> Quality:
        """Compare two arrays of times of the same kernels."""
        first = np.argsort(predicted, kind="stable")[:FIRST]
        ranks = np.corrcoef(_ranks(predicted), _ranks(measured))[0, 1]
        return Quality(float(ranks), float(measured.min() / measured[first].min()))


def random_share(measured: Floats) -> float:
    """Return the best of `FIRST` random kernels, of the best one's speed, on average."""
    rng = np.random.default_rng(0)
    drawn = measured[rng.integers(0, len(measured), (DRAWS, FIRST))]
    return float((measured.min() / drawn.min(axis=1)).mean())


def _ranks(values: Floats) -> Floats:
    """Ranks, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
