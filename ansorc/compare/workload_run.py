"""A user's operators and networks beside other libraries: prepared, checked, timed in turns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

from ansorc.compare.figures import largest_error, median_ratio, quartiles
from ansorc.compare.side import Gap, PeerInfo, Side
from ansorc.compare.turns import Turns, take_turns
from ansorc.errors import MeasureError
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.network import Network
from ansorc.graph.random_inputs import random_inputs
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import BFLOAT16, FLOAT16
from ansorc.lang.rounding import Bound
from ansorc.search.measure.check import expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import current_environment, text_of
from ansorc.search.task import Task

OWN = PeerInfo("ansorc", "ansorc", "ansorc")
PEERS: tuple[PeerInfo, ...] = (
    PeerInfo("numpy", "numpy", "NumPy", "pip install numpy"),
    PeerInfo("torch", "torch", "PyTorch", "pip install torch"),
    PeerInfo("numba", "numba", "Numba", "pip install numba"),
    PeerInfo("onnxruntime", "onnxruntime", "ONNX Runtime", "pip install onnxruntime onnx"),
    PeerInfo("openvino", "openvino", "OpenVINO", "pip install openvino onnx"),
)
"""Whom a workload is compared with, in the order of tables and pictures."""
_NETWORK_TOLERANCE = 1e-4
"""The share of an output's largest element that float32 rounding changes in a deep network."""
_NARROW_TOLERANCE = 0.05
"""The same of roundings to 16 bits, of which bfloat16 has 8."""
_SEED = 1
_SERVER = "ansorc.compare.workload_server"
_DEFAULT = ProgramChoice(Path("tune.db"), 1, use_default=True)


@dataclass
class SideTimes:
    """Times of one side, or why there are none. Seconds of a call, a median a turn."""

    program: str = ""
    """How the side computed it."""
    error: float = 0.0
    """The largest deviation from float64: of an operator in units of what rounding explains, of a
    network as a share of the largest element."""
    seconds: list[float] = field(default_factory=list[float])
    """Repeated by machine code where the side can, else as `called`."""
    called: list[float] = field(default_factory=list[float])
    """From Python, back to back."""
    spaced: list[float] = field(default_factory=list[float])
    """From Python, with other work between two calls."""
    gap: str = ""

    @property
    def spread(self) -> float:
        """The distance between the quartiles of `called`, as a share of the median."""
        low, middle, high = quartiles(self.called)
        return (high - low) / middle


@dataclass
class WorkloadTimes:
    """One operator or network on all sides, ansorc first."""

    name: str
    sides: dict[str, SideTimes] = field(default_factory=dict[str, SideTimes])
    """By the names of `OWN` and `PEERS`."""
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def ratio(self, side: str) -> float | None:
        """Return how many times as long calls of `side` take as ansorc's, back to back."""
        ours, other = self.sides[OWN.name], self.sides[side]
        return median_ratio(ours.called, other.called) if ours.called and other.called else None


@dataclass(frozen=True)
class ComparedWorkload:
    """A workload to compare: the file, and the operator or network in it."""

    path: Path
    workload: Task | Network
    name: str = ""
    """The name of the operator in its file; empty for a network."""
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Inputs of a network that always have the same values."""
    choice: ProgramChoice = _DEFAULT
    """Which of ansorc's programs takes part; all sides compute with its threads, not 0."""

    @property
    def title(self) -> str:
        """The title in tables."""
        return self.name or self.path.stem


def find_peers() -> tuple[list[PeerInfo], list[PeerInfo]]:
    """Return the peers whose packages are there, and those whose are not."""
    there = [info for info in PEERS if find_spec(info.module) is not None]
    return there, [info for info in PEERS if info not in there]


def compare_workload(
    compared: ComparedWorkload,
    peers: Sequence[PeerInfo],
    turns: Turns,
    say: Callable[[str], None],
) -> WorkloadTimes:
    """Return what all sides reached; a side that fails is a gap of the result.

    Each is a process of its own that stands still while it is not its turn, and its results are
    held against float64. `say` is told what goes on.
    """
    if isinstance(compared.workload, Task) and compared.workload.dag.updates:
        raise MeasureError(
            f"'{compared.title}' updates its inputs, so each of many calls has other data; compare "
            "the definition without ac.update"
        )
    times_of_sides = WorkloadTimes(compared.title)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ansorc-bench-")))
        message, check = _prepare(compared, directory)
        right = dict[str, Side]()
        for info in (OWN, *peers):
            say(f"{compared.title}: {info.label} prepares")
            side = Side(info, compared.choice.threads, directory / "sides.log", _SERVER)
            stack.callback(side.end)
            times_of_sides.sides[info.name] = times = SideTimes()
            try:
                answer = side.ask(message, turns.patience_s)
                times.program, times.error = answer["program"], check(directory / "outputs.npz")
                times_of_sides.versions |= answer["versions"]
                right[info.name] = side
            except Gap as gap:
                times.gap = _words(info, gap, directory / "sides.log")
        say(f"{compared.title}: timing in turns")
        for name, medians in zip(right, take_turns(list(right.values()), turns), strict=True):
            times = times_of_sides.sides[name]
            if isinstance(medians, Gap):
                times.gap = str(medians)
            else:
                times.seconds, times.called = medians["seconds"], medians["called"]
                times.spaced = medians["spaced"]
    return times_of_sides


def as_json(results: Sequence[WorkloadTimes], threads: int) -> dict[str, object]:
    """Return all times, with the machine that they are of."""
    here = current_environment(threads)
    return {
        "cpu": here.cpu, "cores": here.cores, "threads": threads, "load": list(os.getloadavg()),
        "workloads": [asdict(times) for times in results],
    }  # fmt: skip


def relative_speeds(results: Sequence[WorkloadTimes]) -> list[tuple[str, str, float]]:
    """Return (workload, side, speed of its calls) for a picture; 1 is the fastest side."""
    labels = {info.name: info.label for info in (OWN, *PEERS)}
    rows: list[tuple[str, str, float]] = []
    for workload in results:
        times = {name: median(side.called) for name, side in workload.sides.items() if side.called}
        best = min(times.values(), default=0.0)
        rows += [(workload.name, labels[name], best / seconds) for name, seconds in times.items()]
    return rows


Check = Callable[[Path], float]
"""Returns the error of the results in a file; raises Gap if they are wrong."""


def _prepare(compared: ComparedWorkload, directory: Path) -> tuple[dict[str, object], Check]:
    """The message to all sides, whose arrays are in files, and what judges their results."""
    if isinstance(compared.workload, Task):
        task = compared.workload
        drawn, references, roundings = draw_with_rounding(task, np.random.default_rng(_SEED))
        inputs = {buffer.name: a for buffer, a in zip(task.dag.inputs, drawn, strict=True)}
        check = _operator_check(task, references, roundings)
    else:
        inputs = random_inputs(compared.workload.source)
        expected = run_reference(compared.workload.source, inputs)
        kinds = {kind.dtype for kind in compared.workload.graph.types.values()}
        is_narrow = not kinds.isdisjoint((FLOAT16, BFLOAT16))
        tolerance = _NARROW_TOLERANCE if is_narrow else _NETWORK_TOLERANCE
        check = _network_check(list(expected.values()), tolerance)
    arrays = {f"input {name}": array for name, array in inputs.items()}
    arrays |= {f"constant {name}": array for name, array in compared.constants.items()}
    np.savez(directory / "arrays.npz", allow_pickle=False, **arrays)
    workload = {
        "path": str(compared.path.absolute()), "name": compared.name,
        "task": compared.workload.to_json() if isinstance(compared.workload, Task) else "",
        "inputs": list(inputs), "constants": list(compared.constants),
        "choice": {**asdict(compared.choice), "records": text_of(compared.choice.records)},
    }  # fmt: skip
    return {
        "do": "prepare", "workload": workload, "arrays": str(directory / "arrays.npz"),
        "outputs": str(directory / "outputs.npz"),
    }, check  # fmt: skip


def _operator_check(task: Task, references: Sequence[Array], roundings: Sequence[Bound]) -> Check:
    expected = expectations(task.dag, references, roundings)

    def check(path: Path) -> float:
        worst = 0.0
        for expectation, result in zip(expected, _results(path, references), strict=True):
            verdict = expectation.compare(result)
            if verdict.complaint:
                raise Gap("failed", verdict.complaint.replace("candidate rejected", "wrong"))
            worst = max(worst, verdict.max_error)
        return worst

    return check


def _network_check(references: Sequence[Array], tolerance: float) -> Check:
    def check(path: Path) -> float:
        worst = 0.0
        for expected, result in zip(references, _results(path, references), strict=True):
            worst = max(worst, largest_error(result, expected))
        if not worst <= tolerance:
            raise Gap("failed", f"wrong: its largest error is {worst:.2g} of the largest element")
        return worst

    return check


def _results(path: Path, references: Sequence[Array]) -> list[Array]:
    """The results in a file, in the shapes of the references; raise Gap for others."""
    with np.load(path) as held:
        results = [held[name] for name in held.files]
    path.unlink()
    if [array.shape for array in results] != [array.shape for array in references]:
        shapes = ", ".join(str(array.shape) for array in results)
        wanted = ", ".join(str(array.shape) for array in references)
        raise Gap("failed", f"it returned {shapes}, not {wanted}")
    return [np.ascontiguousarray(array) for array in results]


def _words(info: PeerInfo, gap: Gap, log: Path) -> str:
    """Why there is no time, and what to do; the log goes with its directory."""
    if gap.kind == "missing":
        return f"{gap}; {info.install}"
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{str(gap).split('; ' + str(log))[0]}" + (
        f" ({lines[-1][:200]})" if lines and str(log) in str(gap) else ""
    )
