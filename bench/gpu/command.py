"""The command: cases of the paper on this machine's GPU, checked and timed in turns, one file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
NO_NETWORKS = "networks are not compiled for GPUs yet"


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
@click.option("--sides", default="all", show_default=True, help=f"Of {', '.join(SIDES)}.")
@click.option("--trials", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--target", default="", help="E.g. 'cuda -arch=sm_90'; default: this GPU.")
@click.option("--tiny", is_flag=True, help="Small shapes, to rehearse on an emulated driver.")
@click.option("--results", default="out/gpu", show_default=True, type=click.Path(path_type=Path),
              help="Directory of the results, which a run goes on from.")  # fmt: skip
def gpu(*, cases: str, sides: str, trials: int, target: str, tiny: bool, results: Path) -> None:
    """Compare on a GPU with cuBLAS and cuDNN (PyTorch), torch.compile and Triton."""
    machine = Target.parse(target or this_gpu())
    results.mkdir(parents=True, exist_ok=True)
    path = results / FILE
    document: dict[str, Any] = {"cases": {}}
    if path.exists():
        document = json.loads(path.read_text())
    backend = backend_of(machine)
    if not isinstance(backend, DeviceBackend):
        raise TargetError(f"'{machine.text}' runs on no GPU")
    document |= {
        "device": asdict(backend.machine(machine)), "target": machine.text, "trials": trials,
        "peak_flops": machine.gpu.fp32_flops, "networks": NO_NETWORKS,
    }  # fmt: skip
    chosen = list(SIDES) if sides == "all" else sides.split(",")
    for case in _chosen(cases, tiny=tiny):
        if case.name in document["cases"]:
            continue
        click.echo(f"{case.name}", err=True)
        document["cases"][case.name] = _run(case, chosen, machine, trials, results)
        path.with_suffix(".new").write_text(json.dumps(document, indent=1) + "\n")
        path.with_suffix(".new").replace(path)
        click.echo(_line(case.name, document["cases"][case.name]))
    click.echo(f"networks: {NO_NETWORKS}; all figures: {path}")
    wrong = [name for name, one in document["cases"].items() if one["sides"]["ansorc"].get("wrong")]
    if wrong:
        sys.exit(f"wrong results of ansorc: {', '.join(wrong)}")


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


def _run(
    case: GpuCase, sides: Sequence[str], target: Target, trials: int, directory: Path
) -> dict[str, Any]:
    """What each side reached on a case, or why nothing."""
    dag = case.dag()
    rng = np.random.default_rng(_SEED)
    inputs, references, roundings = draw_with_rounding(Task(dag, target, "case"), rng)
    expectation = expectations(dag, references, roundings)[0]
    request = GpuRequest(
        case.name, dag, problem(case.operator, case.shape, inputs), inputs, target, trials,
        directory,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    programs: dict[str, GpuProgram] = {}
    for side in sides:
        found[side] = _prepared(side, request, expectation, references[0].shape, programs)
    before = clocks()
    for turn in range(_TURNS):
        order = list(programs) if turn % 2 == 0 else list(reversed(programs))
        for side in order:
            found[side].setdefault("seconds", []).append(programs[side].seconds(_TURN_S))
    return {"flops": dag.flops, "sides": found, "clocks": [before, clocks()]}


def _prepared(
    side: str,
    request: GpuRequest,
    expectation: Expectation,
    shape: tuple[int, ...],
    programs: dict[str, GpuProgram],
) -> dict[str, Any]:
    """Choose the fastest right way of a side, which goes to `programs`."""
    best, taken, fields = None, 0.0, dict[str, Any]()
    try:
        for make in SIDES[side](request):
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
        words.append(f"{side} {median(seconds) * 1e6:.1f} µs" if seconds else f"{side}: {told}")
    return "; ".join(words)
