"""`python -m bench gpu_samples`: programs of many speeds, as measured and as the model says.

`prepare` needs no GPU: it draws programs, compiles them, and keeps their steps. `measure` runs them
on a GPU, checks each against a float64 reference and times it. `report` needs no GPU again: it asks
today's model for the time of each, so what was measured once judges every later model.
"""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import ansorc as ac
from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.module import Module
from ansorc.errors import AnsorcError
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Step, replay, steps_from_json, steps_to_json
from ansorc.search.gpu.default import best_on_gpu, sketches_on_gpu
from ansorc.search.gpu.description import descriptions
from ansorc.search.gpu.estimated_programs import seconds_of
from ansorc.search.gpu.sampling import sample_on_gpu
from ansorc.search.measure.check import Expectation, expectations
from ansorc.search.measure.data import draw_with_rounding
from ansorc.search.space.genes import steps
from ansorc.search.task import Task
from ansorc.target import Target
from ansorc.target.gpu_model import seconds
from ansorc.target.units import seconds_text
from bench.gpu.sides import Missing, torch_on_gpu, ways
from bench.gpu_model.data import Quality
from bench.paper_cases import CASES
from bench.peers.problem import problem

FILE, MEASURED = "programs.jsonl", "measured.jsonl"
OWN = Path(__file__).parents[1] / "gpu_model" / "h200_programs.jsonl.gz"
FEWEST = 5
"""Programs of a case that can be ordered well or badly."""
_PLACES = (0, 1, 2, 4, 8, 16, 32, 63)
"""Of the order by the model, which programs of those that it holds for the best are taken."""
_ROWS, _NEAR = 256, 20.0
_TIME_S, _REPEATS, _GRAPH_CALLS, _AHEAD = 0.008, 20, 20, 3


def problems() -> dict[str, ComputeDAG]:
    """The cases of the paper by name, and products of large matrices in the types of GPUs."""
    found = {case.name: case.dag() for case in CASES}
    for n in (1024, 2048, 4096):
        for dtype in ("float32", "float16", "bfloat16", "int8"):
            found[f"MM-{n}-{dtype}"] = _product(n, dtype)
    return found


def _product(n: int, dtype: str) -> ComputeDAG:
    a, b = (ac.placeholder((n, n), dtype=dtype, name=name) for name in "AB")
    product = ac.ops.matmul(a, b, sum_dtype="int32" if dtype == "int8" else None)
    return ComputeDAG([a, b, product])


@dataclass(frozen=True)
class Request:
    """A problem, and how many programs of it are wanted."""

    name: str
    target: str
    count: int
    folder: Path


@click.group("gpu_samples")
def gpu_samples() -> None:
    """Measure programs of many speeds on a GPU beside what its model says of them."""


@gpu_samples.command()
@click.option("--cases", required=True, help="Names, comma-separated: gmm-3-b1,MM-1024-float16.")
@click.option("--count", default=16, show_default=True, type=click.IntRange(min=1))
@click.option("--target", default="cuda -arch=sm_90", show_default=True)
@click.option("--processes", default=2, show_default=True, type=click.IntRange(min=1))
@click.argument("folder", type=click.Path(path_type=Path))
def prepare(*, cases: str, count: int, target: str, processes: int, folder: Path) -> None:
    """Draw programs and compile them into FOLDER; what is there already is kept."""
    known = {name.lower(): name for name in problems()}
    words = [word.strip().lower() for word in cases.split(",")]
    if unknown := [word for word in words if word not in known]:
        raise click.UsageError(f"there is no problem {', '.join(unknown)}")
    requests = [Request(known[word], target, count, folder) for word in words]
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        for number, (name, made) in enumerate(pool.map(_prepared, requests), 1):
            click.echo(f"[{number}/{len(requests)}] {name}: {made} programs")


def _prepared(request: Request) -> tuple[str, int]:
    own = request.folder / request.name
    listed = own / FILE
    if listed.exists():
        return request.name, len(listed.read_text().splitlines())
    own.mkdir(exist_ok=True)
    target, dag = Target.parse(request.target), problems()[request.name]
    lines: list[str] = []
    for program in _programs(dag, target, request.count):
        image = own / f"p{len(lines)}.cubin"
        try:
            ac.build(replay(dag, program), target, f"p{len(lines)}").save(image)
        except AnsorcError as error:
            click.echo(f"{request.name}: {error}", err=True)
            continue
        lines.append(json.dumps({"image": image.name, "steps": steps_to_json(program)}))
    listed.write_text("\n".join(lines) + "\n")
    return request.name, len(lines)


def _programs(dag: ComputeDAG, target: Target, count: int) -> list[tuple[Step, ...]]:
    """Half of what the model holds for the best, half random ones up to `_NEAR` times as slow."""
    best = best_on_gpu(dag, target, _PLACES[-1] + 1)
    found = [best[place] for place in _PLACES if place < len(best)][: -(-count // 2)]
    drawn: list[tuple[float, tuple[Step, ...]]] = []
    for sketch in (sketches := sketches_on_gpu(dag, target)):
        genes = sample_on_gpu(sketch, max(8, _ROWS // len(sketches)), np.random.default_rng(0))
        times = seconds_of(sketch, genes)
        good = np.flatnonzero(np.isfinite(times))
        drawn += [(float(times[row]), steps(sketch, genes[row])) for row in good]
    drawn.sort(key=lambda one: one[0])
    near = [program for taken, program in drawn if taken <= _NEAR * drawn[0][0]]
    places = np.linspace(0, len(near) - 1, count - len(found)).astype(int)
    found += [near[int(place)] for place in places]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class _Data:
    inputs: list[Any]
    reference: Any
    expectation: Expectation


def _data(dag: ComputeDAG, target: Target) -> _Data:
    rng = np.random.default_rng(np.random.SeedSequence().entropy)
    inputs, references, roundings = draw_with_rounding(Task(dag, target, "sample"), rng)
    return _Data(inputs, references[0], expectations(dag, references, roundings)[0])


@gpu_samples.command()
@click.option("--limit", default=0.0, help="Seconds after which no other problem begins; 0: none.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("results", type=click.Path(path_type=Path))
def measure(*, limit: float, folder: Path, results: Path) -> None:
    """Check and time the programs in FOLDER on this GPU; RESULTS gets a line for each."""
    torch, begin = _torch(), time.perf_counter()
    warnings.filterwarnings("ignore", message=".*not writable.*")
    listed = sorted(folder.glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime)
    names = [path.parent.name for path in listed]
    known, target = problems(), Target.parse("cuda -arch=sm_90")
    results.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with ThreadPoolExecutor(_AHEAD + 4) as pool, (results / MEASURED).open("a") as file:
        ahead = [pool.submit(_data, known[name], target) for name in names[:_AHEAD]]
        for number, name in enumerate(names):
            if number + _AHEAD < len(names):
                ahead.append(pool.submit(_data, known[names[number + _AHEAD]], target))
            data = ahead[number].result()
            lines = list(_measured(torch, pool, folder / name, known[name], data))
            lines += _peers(torch, name, data)
            ahead[number] = Future()  # its arrays are needed no more
            for line in lines:
                file.write(json.dumps(line) + "\n")
            file.flush()
            bad = [line for line in lines if line.get("error")]
            wrong += len(bad)
            words = f"; {len(bad)} bad: {bad[0]['image']} {bad[0]['error'][:200]}" if bad else ""
            click.echo(f"[{number + 1}/{len(names)}] {name}: {_told(lines)}{words}")
            if limit and time.perf_counter() - begin > limit:
                click.echo(f"{limit} s are over: {len(names) - number - 1} problems were not begun")
                break
    if wrong:
        raise click.ClickException(f"{wrong} programs were wrong or failed; see {file.name}")


def _torch() -> Any:
    try:
        return torch_on_gpu()
    except Missing as missing:
        words = f"{missing}; measuring needs a GPU and a PyTorch for it"
        raise click.ClickException(words) from missing


def _measured(
    torch: Any, pool: ThreadPoolExecutor, folder: Path, dag: ComputeDAG, data: _Data
) -> Iterator[dict[str, Any]]:
    """What became of each program of a problem."""
    held = [_to_device(torch, one) for one in data.inputs]
    given = dict(zip((buffer.name for buffer in dag.inputs), held, strict=True))
    output = dag.outputs[0]
    empty = np.zeros(output.shape, output.dtype.numpy)
    out = _to_device(torch, empty)
    arrays = [given.get(buffer.name, out) for buffer in dag.params]
    waiting: list[tuple[dict[str, Any], Future[Any]]] = []
    for text in (folder / FILE).read_text().splitlines():
        line = {"case": folder.name, **json.loads(text)}
        try:
            module = load_kernel(folder / line["image"])
            out.view(torch.uint8).fill_(0xFF)
            module(*arrays)
            torch.cuda.synchronize()
            found = _to_host(torch, out, empty.dtype)
            line |= _times(torch, module, arrays)
        except Exception as error:  # noqa: BLE001 - each failure is one line of the results
            line["error"] = f"{type(error).__name__}: {error}"
            waiting.append((line, _nothing()))
            continue
        waiting.append((line, pool.submit(data.expectation.compare, found)))
    for line, verdict in waiting:
        said = verdict.result()
        if said is not None:
            line |= {"max_error": said.max_error}
            if said.complaint:
                line["error"] = f"wrong: {said.complaint}"
        yield line


def _times(torch: Any, module: Module, arrays: Sequence[Any]) -> dict[str, float]:
    """A call's time by our clock, with the spread of it, and in a CUDA graph."""
    timing = module.time(*arrays, min_time_s=_TIME_S, max_repeats=_REPEATS)
    graph = _graph_seconds(torch, lambda stream: module(*arrays, stream=stream))
    return {"median_s": timing.median_s, "spread_s": timing.spread_s, "graph_s": graph}


def _told(lines: Sequence[dict[str, Any]]) -> str:
    own = [line["graph_s"] for line in lines if "image" in line and line.get("graph_s")]
    others = [line["graph_s"] for line in lines if "peer" in line and line.get("graph_s")]
    words = f"{len(own)} programs"
    if own:
        words += f", default {seconds_text(own[0])}, best {seconds_text(min(own))}"
    return words + (f", PyTorch {seconds_text(min(others))}" if others else "")


def _peers(torch: Any, name: str, data: _Data) -> list[dict[str, Any]]:
    """How long PyTorch takes, by each of its ways."""
    found: list[dict[str, Any]] = []
    for way, compute in _peer_ways(torch, name, data):
        line: dict[str, Any] = {"case": name, "peer": way}
        try:
            line["graph_s"] = _graph_seconds(torch, lambda stream, compute=compute: compute())
        except Exception as error:  # noqa: BLE001 - each failure is one line of the results
            line |= {"image": "PyTorch", "error": f"{way}: {type(error).__name__}: {error}"}
        found.append(line)
    return found


def _peer_ways(torch: Any, name: str, data: _Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    case = next((one for one in CASES if one.name == name), None)
    if case is not None:
        for way, compute, _ in ways(torch, problem(case.operator, case.shape, data.inputs)):
            yield way, compute
        return
    a, b = (_to_device(torch, one) for one in data.inputs)
    yield "product", (lambda: torch._int_mm(a, b)) if a.dtype == torch.int8 else (lambda: a @ b)


def _to_device(torch: Any, array: Any) -> Any:
    held = np.ascontiguousarray(array)
    if held.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(held.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(held).cuda()


def _to_host(torch: Any, tensor: Any, dtype: Any) -> Any:
    if dtype == ml_dtypes.bfloat16:
        return tensor.view(torch.int16).cpu().numpy().view(dtype)
    return tensor.cpu().numpy()


def _nothing() -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(None)
    return done


def _graph_seconds(torch: Any, call: Callable[[Any], Any]) -> float:
    """The time of a call in a CUDA graph of many, which the host does not hold up."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(3):  # cuDNN chooses, memory is taken
            call(side)
    side.synchronize()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(_GRAPH_CALLS):
            call(side)
    graph.replay()
    taken: list[float] = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3 / _GRAPH_CALLS)
    return float(np.median(taken))


@gpu_samples.command()
@click.option("--gpu", default="h200", show_default=True, help="What they were measured on.")
@click.argument("file", default=OWN, type=click.Path(path_type=Path, exists=True))
def report(*, gpu: str, file: Path) -> None:
    """Compare the times in FILE, by default those of an H200, with what the model says today."""
    target, known = Target.parse(f"cuda -gpu={gpu}"), problems()
    table = Table(title=f"programs on {target.gpu.name}")
    for heading in (
        "case",
        "programs",
        "fastest µs",
        "PyTorch µs",
        "Spearman",
        "first by the model",
    ):
        table.add_column(heading)
    found: list[Judged] = []
    for name, lines in measured_cases(file).items():
        one = Judged.of(known[name], target, lines)
        found.append(one)
        table.add_row(
            name, str(one.programs), f"{one.fastest_s * 1e6:.1f}", f"{one.peer_s * 1e6:.1f}",
            f"{one.spearman:.2f}", f"{one.share_of_first:.2f}",
        )  # fmt: skip
    several = [one for one in found if one.programs >= FEWEST]
    table.add_row(f"mean of those of {FEWEST} or more", "", "", "",
                  f"{np.mean([one.spearman for one in several]):.2f}",
                  f"{np.mean([one.share_of_first for one in several]):.2f}")  # fmt: skip
    Console(width=140).print(table)


def measured_cases(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Read what `measure` wrote, packed or not, by the case; what failed is left out."""
    packed = file.read_bytes()
    text = gzip.decompress(packed) if file.suffix == ".gz" else packed
    lines = [json.loads(line) for line in text.decode().splitlines()]
    good = sorted((one for one in lines if one.get("graph_s")), key=lambda one: one["case"])
    return {name: list(group) for name, group in groupby(good, lambda one: one["case"])}


@dataclass(frozen=True)
class Judged:
    """How well the model orders the programs of a case."""

    programs: int
    fastest_s: float
    peer_s: float
    """PyTorch's time; NaN if it was not taken."""
    spearman: float
    share_of_first: float
    """The speed of what the model holds for the fastest, of the fastest."""

    @staticmethod
    def of(dag: ComputeDAG, target: Target, lines: Sequence[dict[str, Any]]) -> Judged:
        """Ask the model for the time of each program in `lines`."""
        own = [line for line in lines if "steps" in line]
        said = np.array([modelled(dag, target, line) for line in own])
        taken = np.array([line["graph_s"] for line in own])
        peers = [line["graph_s"] for line in lines if "peer" in line]
        quality = Quality.of(said, taken) if len(own) > 1 else None
        return Judged(
            len(own), float(taken.min()), min(peers, default=np.nan),
            np.nan if quality is None else quality.spearman,
            float(taken.min() / taken[said.argmin()]),
        )  # fmt: skip


def modelled(dag: ComputeDAG, target: Target, line: dict[str, Any]) -> float:
    """Return the model's seconds of a program."""
    kernels = descriptions(replay(dag, steps_from_json(line["steps"])), 1)
    return sum(float(np.asarray(seconds(one, target.gpu)).reshape(-1)[0]) for one in kernels)
