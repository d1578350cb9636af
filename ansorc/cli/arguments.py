"""Arguments that several commands share: the workload with its settings and target, the records."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, cast, get_args

import click
import numpy as np
from numpy.lib.npyio import NpzFile

import ansorc as ac
from ansorc.graph.cache_policy import choose_recorded_policy
from ansorc.graph.calibration import CalibrationMethod
from ansorc.graph.graph import Graph
from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.graph.precision import PRECISIONS, Precision, choose_precision
from ansorc.graph.shaped_networks import ShapedNetworks
from ansorc.ir.aligned import Array
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.workload import load_workload, load_workloads
from ansorc.search.measure import CachePolicy, MeasuredCall
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import RecordLocation, parse_record_uri
from ansorc.search.task import Task
from ansorc.search.tune_options import cache_of
from ansorc.target import Target

TaskOrNetworks: TypeAlias = Task | Network | ShapedNetworks
"""The workload of a command: an operator, or a network for its target and one or more shapes."""
INT8 = "int8"
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


def takes_workload(command: Callable[Concatenate[TaskOrNetworks, P], None]) -> Callable[..., None]:
    """Add FILE:WORKLOAD or NETWORK.onnx and its options to a command, which gets the workload."""
    return _takes_workload(command, lambda workload: workload)


def takes_workload_to_build(
    command: Callable[Concatenate[TaskOrNetworks, P], None],
) -> Callable[..., None]:
    """Add a workload as `takes_workload` does; only weights that kernels read stay in memory."""
    return _takes_workload(
        command, lambda loaded: loaded.without_source() if isinstance(loaded, Network) else loaded
    )


def takes_workload_if_given(
    command: Callable[Concatenate[TaskOrNetworks | None, P], None],
) -> Callable[..., None]:
    """Add an optional workload; without it the command gets None."""

    @click.argument("workload", metavar="[FILE:WORKLOAD|NETWORK.onnx]", required=False)
    @describes_workload
    @wraps(command)
    def with_workload(workload: str | None, *args: P.args, **rest: P.kwargs) -> None:
        description = _take_description(rest)
        command(None if workload is None else description.workload(workload), *args, **rest)

    return with_workload


def _takes_workload(
    command: Callable[Concatenate[TaskOrNetworks, P], None],
    prepared: Callable[[TaskOrNetworks], TaskOrNetworks],
) -> Callable[..., None]:
    @click.argument("workload", metavar="FILE:WORKLOAD|NETWORK.onnx")
    @describes_workload
    @wraps(command)
    def with_workload(workload: str, *args: P.args, **rest: P.kwargs) -> None:
        description = _take_description(rest)
        command(prepared(description.workload(workload)), *args, **rest)

    return with_workload


def takes_workloads(
    command: Callable[Concatenate[list[TaskOrNetworks], P], None],
) -> Callable[..., None]:
    """Add one or more workloads to a command."""

    @click.argument("workloads", metavar="FILE:WORKLOAD|NETWORK.onnx...", nargs=-1, required=True)
    @describes_workload
    @wraps(command)
    def with_workloads(workloads: tuple[str, ...], *args: P.args, **rest: P.kwargs) -> None:
        description = _take_description(rest)
        command([description.workload(name) for name in workloads], *args, **rest)

    return with_workloads


def describes_workload(command: F) -> F:
    """Add --set, --target, --input, --constant, --precision, --calibrate and --keep to a command.

    It gets them as the fields of a `WorkloadArguments`.
    """
    command = click.option(
        "--keep", multiple=True, metavar="NAME",
        help="A node of the network whose result stays float32, by its name or that of its tensor; "
        "may be repeated.",
    )(command)  # fmt: skip
    command = click.option(
        "--calibrate", default="", metavar="FILE.npz[:METHOD]",
        help="Inputs of the network, for the ranges of --precision int8; METHOD is "
        f"{', '.join(get_args(CalibrationMethod))}.",
    )(command)  # fmt: skip
    command = click.option(
        "--precision", default=None, type=click.Choice([*PRECISIONS, INT8]),
        help="What the network's tensors are kept in between kernels; default: what its file says. "
        "int8 needs --calibrate.",
    )(command)  # fmt: skip
    command = click.option(
        "--constant", "constants", multiple=True, metavar="NAME=FILE.npy",
        help="An input of the network that always has these values; may be repeated.",
    )(command)  # fmt: skip
    command = click.option(
        "--input", "shapes", multiple=True, metavar="NAME=1x3x224x224",
        help="The shape of an input that the network's file leaves open; may be repeated. Several "
        "shapes of one input: a program for each, behind one function.",
    )(command)  # fmt: skip
    command = click.option(
        "--target", default="native", show_default=True,
        help="The machine, e.g. 'x86_64-linux-gnu -mcpu=znver4'.",
    )(command)  # fmt: skip
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=INTEGER",
        help="Set an integer parameter of the workload; may be repeated.",
    )(command)  # fmt: skip


def _take_description(given: dict[str, Any]) -> WorkloadArguments:
    """Return the options of `describes_workload` that a command is given, and take them out."""
    return WorkloadArguments(
        **{each.name: given.pop(each.name) for each in fields(WorkloadArguments)}
    )


@dataclass(frozen=True)
class WorkloadArguments:
    """The options of a command line that describe its workload."""

    settings: tuple[str, ...] = ()
    target: str = "native"
    shapes: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    precision: Precision | Literal["int8"] | None = None
    keep: tuple[str, ...] = ()
    calibrate: str = ""
    """A file of inputs, and maybe a colon and a method."""

    def workload(self, name: str) -> TaskOrNetworks:
        """Return the operator or network named `name`; raise UsageError or AnsorcError."""
        target = Target.parse(self.target)
        if is_network(name):
            if self.settings:
                raise click.UsageError(f"--set is for workloads in Python; '{name}' has none")
            graph = self._graph(name)
            if isinstance(graph, GraphVariants):
                return ShapedNetworks.of(graph, target)
            return Network.of(graph, target)
        if self.shapes or self.constants:
            raise click.UsageError(f"--input and --constant are for networks; '{name}' is none")
        if self.precision or self.keep or self.calibrate:
            raise click.UsageError(
                f"--precision, --keep and --calibrate are for networks; '{name}' is none: its "
                "definition says the dtypes of its tensors"
            )
        dag, title = dag_of(name, self.settings)
        return Task(dag, target, title)

    def _graph(self, path: str) -> Graph | GraphVariants:
        given: dict[str, list[tuple[int, ...]]] = {}
        for text in self.shapes:
            name, shape = _shape(text)
            given.setdefault(name, []).append(shape)
        shapes = {name: each[0] if len(each) == 1 else each for name, each in given.items()}
        constants = dict(_array(text) for text in self.constants)
        graph = ac.from_onnx(path, inputs=shapes, constants=constants, name=Path(path).stem)
        if self.precision == INT8 or self.calibrate:
            return self._quantize(graph)
        return choose_precision(graph, self.precision, self.keep)

    def _quantize(self, graph: Graph | GraphVariants) -> Graph:
        """Return the network in integers of 8 bits; raise UsageError, GraphError."""
        if self.precision != INT8:
            raise click.UsageError("--calibrate is for --precision int8; leave it out or add that")
        if not self.calibrate:
            raise click.UsageError(
                "--precision int8 needs data for the ranges of tensors: --calibrate FILE.npz, "
                "written by numpy.savez, with an array for each input"
            )
        if not isinstance(graph, Graph):
            raise click.UsageError(
                "--precision int8 is for one shape of each input; use bf16, or build a library "
                "for each shape"
            )
        path, colon, method = self.calibrate.rpartition(":")
        path, method = (path, method) if colon else (method, "minmax")
        if method not in get_args(CalibrationMethod):
            known = ", ".join(get_args(CalibrationMethod))
            raise click.UsageError(f"--calibrate: there is no method '{method}'; use {known}")
        data = _arrays(Path(path), "--calibrate")
        kind = cast(CalibrationMethod, method)
        return ac.quantize(graph, data, kind, self.keep, target=self.target)


def networks_of(workloads: Sequence[TaskOrNetworks | None]) -> list[Network]:
    """Return the networks among `workloads`, one for each shape."""
    networks: list[Network] = []
    for workload in workloads:
        if isinstance(workload, Network):
            networks.append(workload)
        elif isinstance(workload, ShapedNetworks):
            networks += workload.networks
    return networks


def is_network(name: str) -> bool:
    """Return whether a workload on the command line is the file of a network."""
    return Path(name).suffix == ".onnx"


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, value = text.rpartition("=")
    try:
        if equals:
            return name, tuple(int(extent) for extent in value.split("x") if value)
    except ValueError:
        pass
    raise click.UsageError(f"--input {text}: write NAME=SHAPE, e.g. --input x=1x3x224x224")


def _array(text: str) -> tuple[str, Array]:
    name, equals, path = text.rpartition("=")
    if not equals:
        raise click.UsageError(f"--constant {text}: write NAME=FILE.npy")
    try:
        return name, np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--constant {text}: {path} is not a .npy file: {error}") from error


class RecordPlaceType(click.ParamType[RecordLocation]):
    """A record file, or a database by its URL."""

    name = "path"

    def convert(
        self, value: str | RecordLocation, param: click.Parameter | None, ctx: click.Context | None
    ) -> RecordLocation:
        """Return the place that the text names; raise RecordError for another database."""
        del param, ctx
        return parse_record_uri(value)


RECORD_PLACE = RecordPlaceType()


def takes_records(command: Callable[..., Any]) -> Callable[..., None]:
    """Add --records, --threads, --cache and --measure to a command, which gets them as three."""

    @wraps(command)
    def with_records(*args: Any, measure: MeasuredCall, cache: str, **rest: Any) -> None:
        if measure == "call":
            cache = cache_of(measure, None if cache == "auto" else cast(CachePolicy, cache))
        command(*args, cache=cache, **rest)

    added = click.option(
        "--measure", default="kernel", show_default=True, type=click.Choice(get_args(MeasuredCall)),
        help="What to optimise: the kernel, called again at once, or for an operator the call of a "
        "user who does other work between two calls (1 MB of other data, 200 µs).",
    )(with_records)  # fmt: skip
    added = click.option(
        "--cache", default="auto", show_default=True,
        type=click.Choice(["auto", *get_args(CachePolicy)]),
        help="The contents of caches when programs are timed: data of the call before, nothing, "
        "all but the weights (with awake threads, as in a large network), or data of other work; "
        "auto: warm, for a network by its size.",
    )(added)  # fmt: skip
    added = click.option(
        "--threads", default=0, show_default=True, type=click.IntRange(0, 1024),
        help="Threads of the kernel; 0 means all cores.",
    )(added)  # fmt: skip
    return click.option(
        "--records", default="tune.db", show_default=True, type=RECORD_PLACE,
        help="The file of measured programs, or postgresql://user@host/database.",
    )(added)  # fmt: skip


W = TypeVar("W", TaskOrNetworks, TaskOrNetworks | None)


def takes_choice(
    command: Callable[Concatenate[W, ProgramChoice, P], None],
) -> Callable[..., None]:
    """Add --default and the options of `takes_records` to a command: its ProgramChoice."""

    @takes_records
    @click.option("--default", "use_default", is_flag=True,
                  help="Use the untuned default instead of the best record.")  # fmt: skip
    @click.option("--check-indices/--no-check-indices", default=True,
                  help="Whether the program checks indices that come from data, and returns a "
                       "status instead of reading outside a tensor; default: yes.")  # fmt: skip
    @wraps(command)
    def with_choice(
        workload: W, records: RecordLocation, threads: int, cache: str, use_default: bool,  # noqa: FBT001
        check_indices: bool, *args: P.args, **rest: P.kwargs,  # noqa: FBT001
    ) -> None:  # fmt: skip
        choice = choice_of(workload, records, threads, cache, use_default=use_default)
        command(workload, replace(choice, check_indices=check_indices), *args, **rest)

    return with_choice


def takes_inputs(command: Callable[..., Any]) -> Callable[..., None]:
    """Add --inputs to a command, which gets the arrays by their names."""

    @click.option("--inputs", "path", type=click.Path(path_type=Path), metavar="FILE.npz",
                  help="Use these arrays, named like inputs, instead of random data.")  # fmt: skip
    @wraps(command)
    def with_inputs(*args: Any, path: Path | None, **rest: Any) -> None:
        command(*args, inputs={} if path is None else _arrays(path), **rest)

    return with_inputs


def _arrays(path: Path, option: str = "--inputs") -> dict[str, Array]:
    """Return the arrays in a file that `numpy.savez` wrote, which an option names."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, NpzFile):
            raise ValueError("it holds one array without a name")
        with file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise click.UsageError(
            f"{option}: {path} is not a file of arrays ({error}); write one by numpy.savez"
        ) from error


def choice_of(
    workload: TaskOrNetworks | None, records: RecordLocation, threads: int, cache: str, *,
    use_default: bool,
) -> ProgramChoice:  # fmt: skip
    """Return the choice of a program for a workload by the options; `cache` may be "auto"."""
    if cache != "auto":
        return ProgramChoice(records, threads, cast(CachePolicy, cache), use_default)
    choice = ProgramChoice(records, threads, use_default=use_default)
    networks = networks_of([workload])
    return choose_recorded_policy(networks, choice, _note) if networks else choice


def _note(sentence: str) -> None:
    click.echo(f"note: {sentence}", err=True)


def dag_of(workload: str, settings: tuple[str, ...]) -> tuple[ComputeDAG, str]:
    """Return the computation that FILE:WORKLOAD defines, and its name.

    The name may be omitted if the file has one workload. Raise LanguageError or UsageError.
    """
    path, colon, name = workload.rpartition(":")
    path, name = (path, name) if colon else (workload, "")
    dag = load_workload(path, name, dict(_setting(text) for text in settings))
    return dag, name or next(iter(load_workloads(path)))


def same_workloads(name: str = "") -> str:
    """Return the workloads, settings, target and records of this command line, for another one.

    With `name`, return only that workload.
    """
    given = click.get_current_context().params
    words = [name] if name else list(given["workloads"])
    for option, values in (("--input", given["shapes"]), ("--constant", given["constants"])):
        words += [word for value in values for word in (option, value)]
    words += [word for setting in given["settings"] for word in ("--set", setting)]
    words += [word for name in given["keep"] for word in ("--keep", name)]
    words += ["--precision", given["precision"]] if given["precision"] else []
    words += ["--calibrate", given["calibrate"]] if given["calibrate"] else []
    words += ["--target", given["target"]] if given["target"] != "native" else []
    words += ["--threads", str(given["threads"])] if given["threads"] else []
    words += ["--cache", given["cache"]] if given["cache"] != "auto" else []
    words += ["--measure", given["measure"]] if given["measure"] != "kernel" else []
    return shlex.join([*words, "--records", str(given["records"])])


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    try:
        return name, int(value)
    except ValueError:
        pass
    hint = "" if equals else " (there is no '=')"
    raise click.UsageError(f"--set {text}: write NAME=INTEGER, e.g. --set n=1024{hint}")
