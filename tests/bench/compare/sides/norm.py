"""What the other modules are made of: the norm of a matrix, right or wrong, fast or slow."""

from __future__ import annotations

import time

import numpy as np

from bench.peers.problem import Array, Norm
from bench.peers.program import Program, Request, Unsupported


def versions() -> dict[str, str]:
    return {"fake": "1.0"}


def norm_program(request: Request, *, factor: float = 1.0, sleep_s: float = 0.0) -> Program:
    if not isinstance(request.problem, Norm):
        raise Unsupported("only norms are computed here")
    x = request.problem.x
    held: list[Array] = []

    def run() -> None:
        time.sleep(sleep_s)
        flat = x.reshape(len(x), -1).astype(np.float64)
        held[:] = [(np.sqrt((flat * flat).sum(1)) * factor).astype(np.float32)]

    return Program(f"factor {factor}", run, lambda: held[0])
