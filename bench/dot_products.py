"""Time products of narrow numbers against what the machine's dot-product instruction can do.

Kernel and probes run in turns on one core; of each the fastest batch of a round counts, and a
figure is the median of the ratios of the rounds.

    .venv/bin/python bench/dot_products.py [--rounds 15]
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

import ansorc as ac
from ansorc.codegen.llvm.limits import FmaProbe
from ansorc.target import Target
from ansorc.target.dot_products import dot_products
from bench.dot_limits import DotProbe

SIZE = 512
AVX2 = "x86_64-linux-gnu -mcpu=znver3"
VNNI = f"{AVX2} -mattr=+avxvnni"
CASES = (
    # words, target, dtypes of data and weights, terms, shifted, what the instruction multiplies
    ("uint8 x int8", "native", ("uint8", "int8"), 4, False, ("uint8", "int8")),
    ("int8 x int8, shifted", "native", ("int8", "int8"), 4, True, ("uint8", "int8")),
    ("int8 x int8, as int16", "native", ("int8", "int8"), 2, False, ("int16", "int16")),
    ("bfloat16 x bfloat16", "native", ("bfloat16", "bfloat16"), 2, False, ("bfloat16", "bfloat16")),
    ("uint8 x int8, AVX-VNNI", VNNI, ("uint8", "int8"), 4, False, ("uint8", "int8")),
    ("int8 x int8, as int16, AVX2", AVX2, ("int8", "int8"), 2, False, ("int16", "int16")),
)  # fmt: skip


def layer(dtypes: tuple[str, str], terms: int, *, is_shifted: bool) -> ac.ComputeDAG:
    a = ac.placeholder((SIZE, SIZE), "A", dtypes[0])
    w = ac.placeholder((SIZE // terms, SIZE, terms), "W", dtypes[1], constant=True)
    return ac.ComputeDAG([a, w, ac.ops.dense_packed(a, w, is_shifted=is_shifted)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print("| 512×512×512, one core | instruction, Gop/s | of it | × the FMA peak of its target |")
    print("|---|---|---|---|")
    for words, text, dtypes, terms, is_shifted, factors in CASES:
        target = Target.parse(text)
        if not dot_products(target, terms, *factors):
            print(f"| {words} | none on this machine | | |")
            continue
        module = ac.build(layer(dtypes, terms, is_shifted=is_shifted), target)
        arrays = [np.ones(p.shape, p.dtype.numpy) for p in module.signature.params]
        dots, fmas = DotProbe(target, 1, terms, *factors), FmaProbe(target, 1)
        shares: list[tuple[float, float, float]] = []
        for _ in range(rounds):
            peak, fma = dots.time(0.02)[1], fmas.time(0.02)[1]
            rate = 2.0 * SIZE**3 / module.time(*arrays, threads=1, min_time_s=0.04).fastest_s
            shares.append((peak, rate / peak, rate / fma))
        peak, of_peak, of_fma = (median(column) for column in zip(*shares, strict=True))
        print(f"| {words} | {peak / 1e9:.0f} | {of_peak:.0%} | {of_fma:.2f} |")


if __name__ == "__main__":
    main()
