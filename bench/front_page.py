"""The picture of the front page: operators and networks beside other libraries.

`python -m bench.front_page` reads two tables of bench/README.md, so the picture says what they say,
and writes docs/pictures/peers.png. The dates are those of the commits that the tables name.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "bench" / "README.md"
PICTURE = ROOT / "docs" / "pictures" / "peers.png"
OPERATORS = {
    "C1D": "convolution 1-D", "C2D": "convolution 2-D", "C3D": "convolution 3-D",
    "GMM": "matrix product", "GRP": "grouped convolution", "DIL": "dilated convolution",
    "DEP": "depthwise convolution", "T2D": "transposed convolution", "CAP": "capsules",
    "NRM": "norm", "ConvLayer": "convolution + batch norm + ReLU",
    "TBS": "transpose + product + softmax",
}  # fmt: skip
"""The operators of the table, in words."""
NETWORKS = {
    "resnet50": "ResNet-50", "mobilenet_v2": "MobileNet-V2", "resnet3d_18": "3D-ResNet-18",
    "dcgan": "DCGAN", "bert": "BERT",
}  # fmt: skip
_COLOURS = {
    "PyTorch": "#a6cee3", "torch.compile": "#1f78b4", "ONNX Runtime": "#b2df8a",
    "OpenVINO": "#33a02c", "NumPy": "#bdbdbd", "TVM": "#fdbf6f", "Halide": "#cab2d6",
}  # fmt: skip
_OWN_COLOUR = "#d62728"
_ROW_INCHES, _WIDTH_INCHES = 0.175, 6.2


@dataclass(frozen=True)
class Beside:
    """A table: how many times as long as ansorc the peers take, and where and when that was."""

    machine: str
    commit: str
    ratios: dict[str, dict[str, float]]
    """By the table's first column, then by peer."""


def operators(text: str) -> Beside:
    """Return the table of operators on two threads in `text`."""
    head = re.search(r"Results on two threads\.\*\* ([\w ]+), commit (\w+)", text)
    assert head is not None
    found = _table(text[head.end() :])
    named = {OPERATORS[key]: row for key, row in found.items() if key in OPERATORS}
    return Beside(head[1], head[2], named)


def networks(text: str) -> Beside:
    """Return the table of tuned networks in `text`."""
    head = re.search(r"Tuned \(.*?threads of an AMD ([\w ]+), commit (\w+)", text, re.DOTALL)
    assert head is not None
    found = _table(text[head.end() :])
    rows = {key: key.split(", ") for key in found}
    return Beside(
        head[1], head[2],
        {f"{NETWORKS[name]}, batch {batch}": found[key] for key, (name, batch) in rows.items()},
    )  # fmt: skip


def _table(text: str) -> dict[str, dict[str, float]]:
    """Return the ratios of the first table of `text` that are of a peer."""
    lines = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert lines is not None
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")]
                      for line in lines[0].splitlines())  # fmt: skip
    peers = [name.removeprefix("× ").replace("Inductor", "torch.compile") for name in head]
    return {
        row[0]: {
            peer: float(cell)
            for peer, cell in zip(peers, row, strict=True)
            if peer in _COLOURS and cell != "–"
        }
        for row in rows
    }


def main() -> None:
    """Draw the picture."""
    text = TABLES.read_text()
    parts = {"operators": operators(text), "networks": networks(text)}
    heights = [len(part.ratios) + 1.6 for part in parts.values()]
    figure, axes = plt.subplots(
        2, 1, figsize=(_WIDTH_INCHES, _ROW_INCHES * (sum(heights) + 4)), layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )  # fmt: skip
    for axis, (title, part) in zip(axes, parts.items(), strict=True):
        _draw(axis, part)
        axis.set_title(
            f"{title} · AMD {part.machine}, 2 threads, float32 · {_date(part.commit)}",
            fontsize=9, loc="left",
        )  # fmt: skip
    axes[-1].set_xlabel("speed; ansorc is 1", fontsize=9)
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=name)
        for name, colour in {"ansorc": _OWN_COLOUR, **_COLOURS}.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=9, frameon=False,
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150)
    print(PICTURE.relative_to(ROOT))


def _draw(axis: Axes, part: Beside) -> None:
    names = list(part.ratios)
    for place, row in enumerate(part.ratios.values()):
        for peer, ratio in row.items():
            axis.plot(1 / ratio, place, "o", color=_COLOURS[peer], markersize=6.5,
                      markeredgecolor="#555555", markeredgewidth=0.4, zorder=3)  # fmt: skip
    axis.axvline(1, color=_OWN_COLOUR, linewidth=2.5, zorder=2)
    axis.set_yticks(range(len(names)), names, fontsize=9)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, 1.08)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axis.tick_params(length=0, labelsize=9)
    axis.grid(color="#e5e5e5", linewidth=0.6, zorder=0)
    axis.spines[:].set_visible(False)


def _date(commit: str) -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%as", commit]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
