"""The command: cases of the paper on this machine's GPU, checked and timed in turns, one file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

from ansorc.codegen.base import DeviceBackend, backend_of
from ansorc.errors import AnsorcError, TargetError
from ansorc.lang.dag import ComputeDAG
from ansorc.search.measure.check import Expectation, expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.task import Task
from ansorc.target import Target
from ansorc.target.units import seconds_text
from bench.gpu.networks import NAMES, NETWORK_SIDES, NetworkRequest
from bench.gpu.sides import SIDES, GpuProgram, GpuRequest, Missing
from bench.paper_cases import CASES, SHAPES, Shape, dag_of
from bench.peers.problem import Array, problem

FILE = "results.json"
_SEED = 2024
_TURNS, _TURN_S, _CHOICE_S = 15, 0.03, 0.02
TINY: dict[str, Shape] = {
    "C1D": (16, 4, 8, 3, 2, 1), "C2D": (8, 8, 4, 8, 3, 1, 1), "C3D": (4, 4, 4, 4, 4, 3, 1, 1),
    "GMM": (16, 16, 16), "GRP": (8, 8, 8, 8, 3, 1, 1, 4), "DIL": (8, 8, 4, 8, 3, 1, 2, 2),
    "DEP": (8, 8, 8, 3, 1, 1), "T2D": (4, 4, 8, 4, 4, 2, 1), "CAP": (4, 4, 2, 2, 3, 1, 1, 4),
    "NRM": (16, 16), "ConvLayer": (8, 8, 4, 8, 3, 1, 1), "TBS": (8, 2, 8),
}  # fmt: skip
_SMI = (
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "clocks_throttle_reasons.active",
)
Ways = Mapping[str, Callable[[], Iterable[Callable[[], GpuProgram]]]]
"""The ways in which each side computes a problem, by the side's name."""


@dataclass(frozen=True)
class GpuCase:
    """An operator, a batch and a shape of the paper, or a tiny one to rehearse with."""

    name: str
    operator: str
    batch: int
    shape: Shape

    def dag(self) -> ComputeDAG:
        """Return the computation."""
        return dag_of(self.operator, self.batch, self.shape)


@click.command()
@click.option("--cases", default="all", show_default=True,
              help="Operators or cases: c2d,gmm-3-b1.")  # fmt: skip
@click.option("--networks", default="all", show_default=True,
              help=f"Of {', '.join(NAMES)}; or none.")  # fmt: skip
@click.option("--sides", default="all", show_default=True, help=f"Of {', '.join(SIDES)}.")
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--network-trials", type=click.IntRange(min=1),
              help="For all tasks of a network; default: 64 for each.")  # fmt: skip
@click.option("--target", default="", help="E.g. 'cuda -arch=sm_90'; default: this GPU.")
@click.option("--tiny", is_flag=True, help="Small shapes, to rehearse on an emulated driver.")
@click.option("--results", default="out/gpu", show_default=True, type=click.Path(path_type=Path),
              help="Directory of the results, which a run goes on from.")  # fmt: skip
def gpu(
    *, cases: str, networks: str, sides: str, trials: int, network_trials: int | None, target: str,
    tiny: bool, results: Path,
) -> None:  # fmt: skip
    """Compare on a GPU with cuBLAS and cuDNN (PyTorch), torch.compile and Triton."""
    machine = Target.parse(target or this_gpu())
    backend = backend_of(machine)
    if not isinstance(backend, DeviceBackend):
        raise TargetError(f"'{machine.text}' runs on no GPU")
    chosen = list(SIDES) if sides == "all" else sides.split(",")
    runs = {
        case.name: partial(_case, case, chosen, machine, trials, results)
        for case in _chosen(cases, tiny=tiny)
    } | {
        name: partial(_network, name, chosen, machine, network_trials, results)
        for name in _names(networks)
    }
    results.mkdir(parents=True, exist_ok=True)
    facts = {
        "device": asdict(backend.machine(machine)), "target": machine.text, "trials": trials,
        "peak_flops": machine.gpu.fp32_flops,
    }  # fmt: skip
    found = _all(runs, results / FILE, facts)
    click.echo(f"all figures: {results / FILE}")
    wrong = [name for name, one in found.items() if one["sides"]["ansorc"].get("wrong")]
    if wrong:
        sys.exit(f"wrong results of ansorc: {', '.join(wrong)}")


def _all(
    runs: Mapping[str, Callable[[], dict[str, Any]]], path: Path, facts: dict[str, Any]
) -> dict[str, Any]:
    """Run what the file at `path` does not hold yet; it is written after each."""
    document = json.loads(path.read_text()) if path.exists() else {"cases": {}}
    document |= facts
    for name, run in runs.items():
        if name in document["cases"]:
            continue
        click.echo(name, err=True)
        document["cases"][name] = run()
        path.with_suffix(".new").write_text(json.dumps(document, indent=1) + "\n")
        path.with_suffix(".new").replace(path)
        click.echo(_line(name, document["cases"][name]))
    return document["cases"]


def this_gpu() -> str:
    """Return the target for this machine's GPU; raise BuildError if there is none."""
    found = Target.parse("cuda -arch=sm_90")
    backend = backend_of(found)
    assert isinstance(backend, DeviceBackend)
    return f"cuda -arch={backend.machine(found).features[0]}"


def _chosen(words: str, *, tiny: bool) -> list[GpuCase]:
    if tiny:
        all_ = [GpuCase(f"{one}-tiny", one, 1, shape) for one, shape in TINY.items()]
    else:
        all_ = [GpuCase(one.name, one.operator, one.batch, one.shape) for one in CASES]
    if words == "all":
        return all_
    names = {word.strip().lower() for word in words.split(",")}
    unknown = names - {one.lower() for one in SHAPES} - {one.name.lower() for one in all_}
    if unknown:
        raise click.UsageError(f"there is no case {', '.join(sorted(unknown))}")
    return [one for one in all_ if {one.operator.lower(), one.name.lower()} & names]


def _names(words: str) -> list[str]:
    """The networks that are meant: of the paper, or others whose files are there already."""
    if words in {"all", "none"}:
        return list(NAMES) if words == "all" else []
    return [word.strip() for word in words.split(",")]


def _case(
    case: GpuCase, sides: Sequence[str], target: Target, trials: int, directory: Path
) -> dict[str, Any]:
    """What each side reached on a case, or why nothing."""
    dag = case.dag()
    rng = np.random.default_rng(_SEED)
    inputs, references, roundings = draw_with_rounding(Task(dag, target, "case"), rng)
    request = GpuRequest(
        case.name, dag, problem(case.operator, case.shape, inputs), inputs, target, trials,
        directory,
    )  # fmt: skip
    ways = {side: partial(SIDES[side], request) for side in sides}
    expectation = expectations(dag, references, roundings)[0]
    return {"flops": dag.flops, **_compared(ways, expectation, references[0].shape)}


def _network(
    name: str, sides: Sequence[str], target: Target, trials: int | None, directory: Path
) -> dict[str, Any]:
    """What each side that runs networks reached on one, or why nothing."""
    own = [side for side in sides if side in NETWORK_SIDES]
    try:
        request = NetworkRequest.of(name, target, trials, directory)
    except Missing as missing:
        return {"sides": {side: {"missing": str(missing)} for side in own}, "clocks": []}
    ways = {side: partial(NETWORK_SIDES[side], request) for side in own}
    return _compared(ways, request.expectation, request.reference.shape)


def _compared(ways: Ways, expectation: Expectation, shape: tuple[int, ...]) -> dict[str, Any]:
    """Time the fastest right way of each side, in turns."""
    found: dict[str, dict[str, Any]] = {}
    programs: dict[str, GpuProgram] = {}
    for side in ways:
        found[side] = _prepared(side, ways, expectation, shape, programs)
    before = clocks()
    for turn in range(_TURNS):
        order = list(programs) if turn % 2 == 0 else list(reversed(programs))
        for side in order:
            found[side].setdefault("seconds", []).append(programs[side].seconds(_TURN_S))
    return {"sides": found, "clocks": [before, clocks()]}


def _prepared(
    side: str,
    ways: Ways,
    expectation: Expectation,
    shape: tuple[int, ...],
    programs: dict[str, GpuProgram],
) -> dict[str, Any]:
    """Choose the fastest right way of a side, which goes to `programs`."""
    best, taken, fields = None, 0.0, dict[str, Any]()
    try:
        for make in ways[side]():
            program = make()
            output: Array = program.output().reshape(shape)
            verdict = expectation.compare(np.ascontiguousarray(output))
            if verdict.complaint:
                fields["wrong"] = f"{program.name}: {verdict.complaint}"
                continue
            seconds = program.seconds(_CHOICE_S)
            if best is None or seconds < taken:
                best, taken = program, seconds
                fields |= {"program": program.name, "error": verdict.max_error,
                           "prepared_s": program.prepared_s}  # fmt: skip
    except Missing as missing:
        fields["missing"] = str(missing)
    except AnsorcError as error:
        fields["failed"] = str(error)
    except Exception as error:
        if side == "ansorc":
            raise
        fields["failed"] = f"{type(error).__name__}: {error}"
    if best is not None:
        programs[side] = best
    return fields


def clocks() -> dict[str, str]:
    """Return what nvidia-smi says of clocks, heat, power and throttling; empty without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    command = [tool, f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return {}
    values = done.stdout.strip().splitlines()[0].split(", ")
    return {"time": time.strftime("%H:%M:%S"), **dict(zip(_SMI, values, strict=False))}


def _line(name: str, result: dict[str, Any]) -> str:
    words = [f"{name:16}"]
    for side, fields in result["sides"].items():
        told = fields.get("missing") or fields.get("failed") or fields.get("wrong") or ""
        seconds = fields.get("seconds")
        words.append(f"{side} {seconds_text(median(seconds))}" if seconds else f"{side}: {told}")
    return "; ".join(words)
