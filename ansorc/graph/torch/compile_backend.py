"""`torch.compile(model, backend="ansorc")`: graphs of PyTorch compiled at their first call."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, cast

from ansorc.codegen.call.network_module import NetworkModule
from ansorc.errors import AnsorcError, FaultError, GraphError, OptionError
from ansorc.graph.api import tune
from ansorc.graph.cache_policy import choose_recorded_policy
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.graph.packed_weights import Contents
from ansorc.graph.precision import Precision, as_precision, choose_precision
from ansorc.graph.shared_networks import get_shared_networks
from ansorc.graph.torch.importer import graph_of
from ansorc.graph.torch.model import array_of, is_narrow, torch_library
from ansorc.graph.torch.specialization import BoundGraph, EagerNeededError, TracedGraph, trace_graph
from ansorc.graph.torch.subclasses import has_parts, module_of_parts, parts_of
from ansorc.graph.torch.watched import WatchedTensors, forget_examples
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import parse_record_uri

_LOG = logging.getLogger(__name__)
_TUNED = (
    'instead of a mode write options={"records": "tune.db", "trials": 1000} to tune at the first '
    'call, or tune before it and write options={"records": "tune.db"}'
)
_INSTEAD_OF_MODE = {
    "max-autotune": _TUNED,
    "max-autotune-no-cudagraphs": _TUNED,
    "reduce-overhead": "a call runs one function of machine code, whose overhead is small already",
}
"""Advice on what to use instead of a mode of Inductor's."""


@dataclass(frozen=True)
class TorchCompileOptions:
    """The options of `torch.compile(..., options=...)`."""

    records: str = ""
    """The record file; without it, and without trials, schedules are untuned."""
    trials: int = 0
    """Programs to measure for all kernels of a graph at its first call; 0 tunes nothing."""
    threads: int = 0
    """The most that a call uses; 0: all cores."""
    programs: int = 32
    """The most shapes and values of its inputs that a graph is compiled for."""
    check_indices: bool = True
    """Whether indices are checked; without, one that a tensor does not have gives some element."""
    precision: Precision | None = None
    """What tensors are kept in between kernels; None: what the module says."""

    @staticmethod
    def of(given: Mapping[str, Any]) -> TorchCompileOptions:
        """Return the options in a dictionary; raise OptionError for others."""
        known = ("records", "trials", "threads", "programs", "check_indices", "precision")
        for name in given:
            if name not in known:
                raise OptionError(f"there is no option '{name}'; there are {', '.join(known)}")
        return TorchCompileOptions(
            records=str(given.get("records", "")),
            trials=int(given.get("trials", 0)),
            threads=int(given.get("threads", 0)),
            programs=int(given.get("programs", TorchCompileOptions.programs)),
            check_indices=bool(given.get("check_indices", True)),
            precision=as_precision(given.get("precision")),
        )


def torch_backend(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str = "",
) -> Callable[..., Any]:
    """Return what runs a graph of TorchDynamo, as its back ends do.

    It is compiled at the first call for each shape of its inputs, parameters and buffers as
    constants; when one of those has changed, or others are passed, these are bound anew. What
    ansorc cannot compile runs in PyTorch, with a warning that says why. A `mode` other than
    "default" is ignored, with a warning that says what to write for it. Raise OptionError for
    options that there are not.
    """
    if mode not in ("", "default"):
        advice = _INSTEAD_OF_MODE.get(mode, "there are only options: records, trials, threads")
        warnings.warn(f"ansorc ignores mode='{mode}': {advice}", stacklevel=2)
    return _CompiledModule(graph_module, example_inputs, TorchCompileOptions.of(options or {}))


@dataclass(eq=False)
class _Instance:
    """Certain tensors as constants, and what was built with them."""

    watched: WatchedTensors
    kinds: Hashable
    """Shapes, dtypes and strides of the tensors."""
    contents: Contents
    """The elements of the tensors."""
    bound: dict[Hashable, BoundGraph] = field(default_factory=dict[Hashable, BoundGraph])
    """By what the other arguments are."""


class _CompiledModule:
    """A graph of TorchDynamo, compiled for each shape of its inputs."""

    def __init__(
        self, graph_module: Any, example_inputs: Sequence[Any], options: TorchCompileOptions
    ) -> None:
        self._module, self._options = graph_module, options
        self._torch = torch_library()
        self._free: frozenset[int] = _free_numbers(example_inputs)
        self._has_parts = any(map(has_parts, example_inputs))
        self._static: tuple[int, ...] | None = None
        """The places of the arguments that are constants; None before the first call."""
        self._others: list[int] = []
        self._instances: dict[tuple[int, ...], _Instance] = {}
        """By the ids of their tensors, which are alive."""
        self._traced: dict[Hashable, TracedGraph] = {}
        self._refused: set[Hashable] = set()
        self._calls = 0
        self._changes: dict[int, int] = {}
        """How often the constant at a position was another one, or had other values."""
        self._died: list[tuple[int, ...]] = []
        """The ids of the last constants that are no more."""
        self._warned: set[str] = set()
        self._lock = RLock()

    def __call__(self, *arguments: Any) -> Any:
        if self._torch.is_grad_enabled() and any(
            self._is_tensor(value) and value.requires_grad for value in arguments
        ):
            return self._eager(_NEEDS_GRADIENTS, arguments)
        plain = parts_of(arguments) if self._has_parts else arguments
        if self._static is None:
            reason = self._prepare(plain)
            if reason:
                return self._eager(reason, arguments)
        self._calls += 1
        reason, is_final = "", False
        try:
            bound = self._bind(plain, arguments)
            if bound is not None:
                return bound.run(plain)
        except EagerNeededError as error:
            reason = str(error)
        except FaultError:
            pass  # of the data: PyTorch's own error says it
        except AnsorcError as error:
            reason, is_final = str(error), True
        except Exception as error:  # noqa: BLE001 - a fault of ours must not be the user's
            words = f"{type(error).__name__}: {error}".partition("\n")[0]
            reason = f"this is a fault of ansorc, please report it with the graph: {words}"
            is_final = True
        if is_final:
            self._refused.add(self._key(plain))
        return self._eager(reason, arguments)

    def _eager(self, reason: str, arguments: Sequence[Any]) -> Any:
        if reason and reason not in self._warned:
            self._warned.add(reason)
            _LOG.info("a graph is left to PyTorch: %s", reason)
            warnings.warn(f"ansorc leaves a graph to PyTorch: {reason}", stacklevel=3)
        return self._module(*arguments)

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)

    def _prepare(self, arguments: Sequence[Any]) -> str:
        """See which arguments are constants; return why PyTorch has to run the graph, or ""."""
        forget_examples(self._module)
        tensors = [value for value in arguments if self._is_tensor(value)]
        if any(tensor.device.type != "cpu" for tensor in tensors):
            return "a tensor is not in the main memory; ansorc compiles for the CPU"
        if any(tensor.layout is not self._torch.strided for tensor in tensors):
            return "a tensor is sparse or of another layout; ansorc has dense ones"
        parameter = self._torch.nn.Parameter
        static = [
            position
            for position, value in enumerate(arguments)
            if self._is_tensor(value)
            and (isinstance(value, parameter) or getattr(value, _STATIC, None) is not None)
            and not value.is_inference()  # others have no versions
        ]
        self._set_static(static, len(arguments))
        return ""

    def _set_static(self, places: Sequence[int], count: int) -> None:
        self._static = tuple(places)
        self._others = [position for position in range(count) if position not in self._static]

    def _key(self, arguments: Sequence[Any]) -> Hashable:
        """Return the shapes, dtypes and values of the arguments that are no constants."""
        tensor, parts = self._torch.Tensor, list[Hashable]()
        for position in self._others:
            value = arguments[position]
            if isinstance(value, tensor):
                parts.append((value.shape, value.dtype, value.stride()))
            elif position not in self._free:
                parts.append((cast("type[object]", type(value)), value))
        return tuple(parts)

    def _bind(self, plain: Sequence[Any], arguments: Sequence[Any]) -> BoundGraph | None:
        """Return the program for a call and its constants; None if PyTorch has to run it."""
        key, static = self._key(plain), [plain[position] for position in self._static or ()]
        instance = self._instances.get(tuple(map(id, static)))
        if instance is not None and instance.watched.are_unchanged(static):
            bound = instance.bound.get(key)
            if bound is not None:
                return bound
        if key in self._refused:
            return None
        with self._lock, self._torch.no_grad():
            return self._specialized(plain, arguments)

    def _specialized(self, plain: Sequence[Any], arguments: Sequence[Any]) -> BoundGraph:
        while True:
            instance, key = self._instance(plain), self._key(plain)
            if key in instance.bound:  # another thread was here
                return instance.bound[key]
            graph = self._trace((instance.kinds, key), plain, arguments)
            if graph is not None:
                break
        names = {position: name for name, position in graph.program.places.items()}
        values = {
            names[position]: array_of(plain[position])
            for position in self._static or ()
            if position in names
        }
        bound = self._network(graph, values, instance.contents)
        instance.bound[key] = bound
        return bound

    def _instance(self, plain: Sequence[Any]) -> _Instance:
        """Return the constants of a call as they are now."""
        static = [plain[position] for position in self._static or ()]
        ids, instances = tuple(map(id, static)), self._instances
        known = instances.get(ids)
        if known is not None and known.watched.are_unchanged(static):
            return known
        if known is not None:
            self._note_changes(known.watched.find_changed(static))
        elif self._died:
            before = self._died.pop()
            self._note_changes(
                [n for n, number in enumerate(ids) if before[n : n + 1] != (number,)]
            )
        if len(static) != len(self._static or ()):
            return self._instance(plain)
        died = self._died

        def forget() -> None:
            if instances.get(ids) is made:
                del instances[ids]
                died[:] = [ids]

        kinds = tuple((tensor.shape, tensor.dtype, tensor.stride()) for tensor in static)
        contents = Contents([array_of(tensor) for tensor in static if not is_narrow(tensor.dtype)])
        made = instances[ids] = _Instance(WatchedTensors(static, forget), kinds, contents)
        return made

    def _note_changes(self, numbers: Sequence[int]) -> None:
        """Count changes of constants; those that change too often become inputs."""
        places = [(self._static or ())[number] for number in numbers]
        for position in places:
            self._changes[position] = self._changes.get(position, 0) + 1
        often = {
            position
            for position, count in self._changes.items()
            if count >= _MANY_CHANGES and self._calls < _CALLS_A_CHANGE * count
        }
        if often & set(self._static or ()):
            warnings.warn(
                f"{len(often)} of the weights of a graph changed in most of the calls: ansorc "
                "passes them as inputs from now on, which is slower than constants that stay",
                stacklevel=7,
            )
            self._release(often)

    def _release(self, places: Collection[int]) -> None:
        """Treat constants as inputs from now on."""
        count = len(self._static or ()) + len(self._others)
        self._set_static(
            [position for position in self._static or () if position not in places], count
        )
        self._instances.clear()
        self._traced.clear()

    def _trace(
        self, key: Hashable, plain: Sequence[Any], arguments: Sequence[Any]
    ) -> TracedGraph | None:
        """Return the graph for such arguments; None if constants or free numbers became fewer."""
        graph = self._traced.get(key)
        if graph is None:
            if len(self._traced) >= self._options.programs:
                raise EagerNeededError(
                    f"it was compiled for {len(self._traced)} shapes and values of its inputs, and "
                    "PyTorch runs all others: pad inputs to fewer shapes, or allow more with "
                    f'options={{"programs": {4 * self._options.programs}}}'
                )
            module = module_of_parts(self._module, arguments) if self._has_parts else self._module
            try:
                graph = trace_graph(module, plain, sorted(self._free))
            except GraphError:
                if not self._free:
                    raise
                self._free = frozenset()
                return None
            if set(graph.written) & set(self._static or ()):
                self._release(graph.written)
                return None
            self._traced[key] = graph
        return graph

    def _network(
        self, graph: TracedGraph, values: Mapping[str, Array], contents: Contents
    ) -> BoundGraph:
        if not graph.program.outputs:
            return BoundGraph(graph, None, (), self._options.threads)
        made = graph_of(graph.program, "torch_graph", values)
        network = self._compile(made, contents)
        return BoundGraph(graph, network, tuple(made.inputs), self._options.threads)

    def _compile(self, graph: Graph, contents: Contents) -> NetworkModule:
        options = self._options
        graph = choose_precision(graph, options.precision)
        network = Network.of(graph)
        records = options.records or "tune.db"
        if options.trials:
            tune(graph, trials=options.trials, threads=options.threads, records=records)
        choice = ProgramChoice(
            parse_record_uri(records), threads=options.threads,
            use_default=not (options.records or options.trials),
            check_indices=options.check_indices,
        )  # fmt: skip
        choice = choose_recorded_policy([network], choice)
        return get_shared_networks().build(network, choice, contents)


_STATIC = "_dynamo_static_input_type"
"""The attribute that Dynamo sets on parameters and buffers of modules."""
_MANY_CHANGES, _CALLS_A_CHANGE = 6, 8
_NEEDS_GRADIENTS = (
    "a tensor requires gradients, which ansorc does not compute; call it under torch.no_grad() or "
    "torch.inference_mode()"
)


def _free_numbers(arguments: Sequence[Any]) -> frozenset[int]:
    """Return the positions of ints that no tensor's shape settles: calls may have others."""
    settled = {
        str(extent)
        for value in arguments
        for extent in getattr(value, "shape", ())
        if type(extent).__name__ == "SymInt"
    }
    return frozenset(
        position
        for position, value in enumerate(arguments)
        if type(value).__name__ == "SymInt" and str(value) not in settled
    )
