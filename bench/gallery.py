"""The operators of docs/gallery.md beside the same in NumPy: `python -m bench.gallery FILE.db`.

They are tuned first, 64 programs each unless `--trials` says otherwise; `--no-tuning` takes what
the file has. The two are timed in turns, in float32, and the table has the medians.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ansorc as ac

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"
SIZES: dict[str, dict[str, int]] = {
    "manhattan": {"n": 512, "m": 512, "d": 64},
    "min_plus": {"n": 256},
    "squared_relu": {"n": 512, "m": 512, "d": 512},
    "gaussian": {"n": 512, "m": 512, "d": 64},
    "bilateral": {"n": 512, "m": 1024},
    "dilation": {"n": 1024, "m": 1024},
    "cost_volume": {"n": 96, "m": 128, "c": 64},
    "triplet": {"n": 512, "m": 512, "d": 64},
    "complex_matmul": {"n": 256, "m": 256, "d": 256},
    "relative_scores": {"heads": 8, "n": 256, "d": 64},
    "four_bits": {"n": 16, "m": 1024, "groups": 32, "size": 32},
    "variation": {"images": 16, "n": 256, "m": 256},
}
ROUNDS, LEAST_S = 15, 0.01


def definitions() -> dict[str, Any]:
    """Return the names that the page defines."""
    names: dict[str, Any] = {"__name__": "gallery"}
    for text in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(text, str(PAGE), "exec"), names)
    return names


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call, of as many as take `LEAST_S`."""
    count, begin = 0, time.perf_counter()
    while (taken := time.perf_counter() - begin) < LEAST_S or not count:
        call()
        count += 1
    return taken / count


def compare(name: str, names: dict[str, Any], records: str) -> tuple[float, float]:
    """Return the seconds of the best recorded program and of NumPy; raise if they differ."""
    dag = ac.ComputeDAG(names[name](**SIZES[name]))
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(one.shape, dtype=np.float32)
        if one.dtype.is_float
        else rng.integers(0, 256, one.shape).astype(one.dtype.numpy)
        for one in dag.inputs
    ]
    kernel = ac.build(ac.Task(dag, "native", name), records=records)
    kernel = kernel.bind(
        **{b.name: a for b, a in zip(dag.inputs, inputs, strict=True) if b.constant}
    )
    varying = [a for b, a in zip(dag.inputs, inputs, strict=True) if not b.constant]
    in_numpy = names[f"{name}_numpy"]
    np.testing.assert_allclose(kernel(*varying), in_numpy(*inputs), rtol=2e-3, atol=2e-3)
    times = [
        (seconds(lambda: kernel(*varying)), seconds(lambda: in_numpy(*inputs)))
        for _ in range(ROUNDS)
    ]
    own, other = zip(*times, strict=True)
    return statistics.median(own), statistics.median(other)


def main() -> None:
    """Tune, then print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--no-tuning", action="store_true")
    given = parser.parse_args()
    names = definitions()
    if not given.no_tuning:
        for name, sizes in SIZES.items():
            task = ac.Task(ac.ComputeDAG(names[name](**sizes)), "native", name)
            ac.tune(task, trials=given.trials, records=given.records)
    print("| operator | extents | ansorc | NumPy | ratio |\n|---|---|---|---|---|")
    for name, sizes in SIZES.items():
        own, other = compare(name, names, given.records)
        both = f"{own * 1e3:.3g} ms | {other * 1e3:.3g} ms"
        extents = ", ".join(f"{key} {value}" for key, value in sizes.items())
        print(f"| `{name}` | {extents} | {both} | {other / own:.1f} |")


if __name__ == "__main__":
    main()
