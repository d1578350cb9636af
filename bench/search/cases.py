"""The workloads on which the search is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ansorc as ac
from bench.paper_cases import case


@dataclass(frozen=True)
class SearchCase:
    """A workload and what it is called."""

    name: str
    words: str
    dag: Callable[[], ac.ComputeDAG]

    def task(self) -> ac.Task:
        """Return it as a task for this machine."""
        return ac.Task(self.dag(), name=self.name.replace("-", "_"))


def product(size: int) -> ac.ComputeDAG:
    a, b = (ac.placeholder((size, size), name=name) for name in "AB")
    return ac.ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def pointwise() -> ac.ComputeDAG:
    x = ac.placeholder((16, 7, 7, 512), name="X")
    w = ac.placeholder((1, 1, 512, 2048), name="W", constant=True)
    return ac.ComputeDAG([x, w, ac.ops.conv2d(x, w, name="Y")])


_ALL = (
    SearchCase("matmul64", "matrix product 64³", lambda: product(64)),
    SearchCase("matmul512", "matrix product 512³", lambda: product(512)),
    SearchCase("matmul1024", "matrix product 1024³", lambda: product(1024)),
    SearchCase(
        "conv14", "convolution 14×14, 256 to 256, 3×3", lambda: case("C2D-3-b1").dag(constant=True)
    ),
    SearchCase(
        "conv7", "convolution 7×7, 512 to 512, 3×3", lambda: case("C2D-4-b1").dag(constant=True)
    ),
    SearchCase(
        "resnet50-last",
        "convolution 7×7, 512 to 512, 3×3, batch 16",
        lambda: case("C2D-4-b16").dag(constant=True),
    ),
    SearchCase("resnet50-last-1x1", "convolution 7×7, 512 to 2048, 1×1, batch 16", pointwise),
)
CASES = {each.name: each for each in _ALL}
"""By name. Data is float32, convolutions are channels-last with constant weights. The last 3×3
convolution of ResNet-50 is the last one in the paper's list of shapes; a 1×1 comes after it."""
