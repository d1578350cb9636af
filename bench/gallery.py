"""The operators of docs/gallery.md and other ways to write them: `python -m bench.gallery FILE.db`.

The others are the NumPy of the page, the same NumPy compiled by `torch.compile`, and loops compiled
by Numba (bench/gallery_loops.py), those that are installed, each in a process of its own and in
turns. The operators are tuned first, 64 programs each unless `--trials` says otherwise;
`--no-tuning` takes what the file has. Times are medians of calls from Python, in float32; they run
on as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any

import ansorc as ac
from ansorc.compare.figures import geometric_mean
from ansorc.compare.turns import Turns
from ansorc.compare.workload_run import (
    PEERS,
    ComparedWorkload,
    WorkloadTimes,
    compare_workload,
    find_peers,
)
from ansorc.lang.workload import load_workload
from ansorc.search.programs import ProgramChoice
from ansorc.target.units import seconds_text

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
OTHERS = ("numpy", "torch", "numba")
WRITTEN_ELSE = """
def {name}_torch(*tensors, _compiled=[]):
    import torch
    if not _compiled:
        _compiled.append(torch.compile({name}_numpy))
    return _compiled[0](*(tensor.numpy() for tensor in tensors))

def {name}_numba(*arrays):
    import bench.gallery_loops
    return bench.gallery_loops.{name}(*arrays)
"""


def page_code() -> str:
    """Return the Python of the page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


def definitions() -> dict[str, Any]:
    """Return the names that the page defines."""
    names: dict[str, Any] = {"__name__": "gallery"}
    exec(compile(page_code(), str(PAGE), "exec"), names)
    return names


def write_workloads(path: Path) -> None:
    """Write the operators of the page into one file, with the other ways to write them."""
    path.write_text(page_code() + "".join(WRITTEN_ELSE.format(name=name) for name in SIZES))


def row(name: str, found: WorkloadTimes) -> tuple[str, dict[str, float]]:
    """Return a line of the table, and how many times as long as ansorc the others take."""
    own = statistics.median(found.sides["ansorc"].called)
    ratios = {one: ratio for one in OTHERS if one in found.sides and (ratio := found.ratio(one))}
    cells = [seconds_text(own, 3)]
    for one in OTHERS:
        if one in ratios:
            taken = statistics.median(found.sides[one].called)
            cells.append(f"{seconds_text(taken, 3)} ({ratios[one]:.1f})")
        else:
            cells.append(found.sides[one].gap if one in found.sides else "not installed")
    extents = ", ".join(f"{key} {value}" for key, value in SIZES[name].items())
    return f"| `{name}` | {extents} | " + " | ".join(cells) + " |", ratios


def main() -> None:
    """Tune, then print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--no-tuning", action="store_true")
    given = parser.parse_args()
    labels = {info.name: info.label for info in PEERS} | {"torch": "torch.compile"}
    peers = [info for info in find_peers()[0] if info.name in OTHERS]
    everyone: dict[str, list[float]] = {one: [] for one in OTHERS}
    with tempfile.TemporaryDirectory(prefix="ansorc-gallery-") as folder:
        path = Path(folder) / "gallery.py"
        write_workloads(path)
        tasks = [
            ac.Task(load_workload(path, name, sizes), "native", name)
            for name, sizes in SIZES.items()
        ]
        if not given.no_tuning:
            for task in tasks:
                ac.tune(task, trials=given.trials, records=given.records)
        print("| operator | extents | ansorc | " + " | ".join(labels[one] for one in OTHERS) + " |")
        print("|---" * (3 + len(OTHERS)) + "|")
        for task in tasks:
            choice = ProgramChoice(given.records, task.target.cores)
            compared = ComparedWorkload(path, task, task.name, choice=choice)
            found = compare_workload(compared, peers, Turns(), lambda _: None)
            line, ratios = row(task.name, found)
            print(line, flush=True)
            for one, ratio in ratios.items():
                everyone[one].append(ratio)
    for one, ratios in everyone.items():
        if ratios:
            print(f"{labels[one]}: {geometric_mean(ratios):.1f} × as long, the geometric mean")


if __name__ == "__main__":
    main()
