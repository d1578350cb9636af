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
from ansorc.graph.cache_policy import recorded_choice
from ansorc.graph.graph import Graph
from ansorc.graph.network import Network
from ansorc.graph.packed_weights import Contents
from ansorc.graph.shared_networks import shared_networks
from ansorc.graph.torch.importer import graph_of
from ansorc.graph.torch.model import array_of, is_narrow, torch_library
from ansorc.graph.torch.specialization import BoundGraph, EagerNeededError, TracedGraph, traced
from ansorc.graph.torch.subclasses import has_parts, module_of_parts, parts_of
from ansorc.graph.torch.watched import WatchedTensors, forget_examples
from ansorc.graph.verbs import tune
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import place_of

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
"""What serves the purpose of a mode of Inductor's."""


@dataclass(frozen=True)
class TorchCompileOptions:
    """What `torch.compile(..., options=...)` may say."""

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

    @staticmethod
    def of(given: Mapping[str, Any]) -> TorchCompileOptions:
        """Return the options in a dictionary; raise OptionError for others."""
        known = ("records", "trials", "threads", "programs", "check_indices")
        for name in given:
            if name not in known:
                raise OptionError(f"there is no option '{name}'; there are {', '.join(known)}")
        return TorchCompileOptions(
            records=str(given.get("records", "")),
            trials=int(given.get("trials", 0)),
            threads=int(given.get("threads", 0)),
            programs=int(given.get("programs", TorchCompileOptions.programs)),
            check_indices=bool(given.get("check_indices", True)),
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
    """What they hold."""
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
        """How often the constant in a place was another one, or had other values."""
        self._died: list[tuple[int, ...]] = []
        """The ids of the last constants that are no more."""
        self._warned: set[str] = set()
        self._lock = RLock()

    def __call__(self, *arguments: Any) -> Any:
        if self._torch.is_grad_enabled() and any(
            self._is_tensor(one) and one.requires_grad for one in arguments
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
            bound = self._bound(plain, arguments)
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
        tensors = [one for one in arguments if self._is_tensor(one)]
        if any(one.device.type != "cpu" for one in tensors):
            return "a tensor is not in the main memory; ansorc compiles for the CPU"
        if any(one.layout is not self._torch.strided for one in tensors):
            return "a tensor is sparse or of another layout; ansorc has dense ones"
        parameter = self._torch.nn.Parameter
        static = [
            place
            for place, one in enumerate(arguments)
            if self._is_tensor(one)
            and (isinstance(one, parameter) or getattr(one, _STATIC, None) is not None)
            and not one.is_inference()  # others have no versions
        ]
        self._set_static(static, len(arguments))
        return ""

    def _set_static(self, places: Sequence[int], count: int) -> None:
        self._static = tuple(places)
        self._others = [place for place in range(count) if place not in self._static]

    def _key(self, arguments: Sequence[Any]) -> Hashable:
        """What a program is for, of the arguments that are no constants."""
        tensor, found = self._torch.Tensor, list[Hashable]()
        for place in self._others:
            one = arguments[place]
            if isinstance(one, tensor):
                found.append((one.shape, one.dtype, one.stride()))
            elif place not in self._free:
                found.append((cast("type[object]", type(one)), one))
        return tuple(found)

    def _bound(self, plain: Sequence[Any], arguments: Sequence[Any]) -> BoundGraph | None:
        """The program for a call, its constants as they are now; None if PyTorch has to run it."""
        key, static = self._key(plain), [plain[place] for place in self._static or ()]
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
        names = {place: name for name, place in graph.program.places.items()}
        values = {
            names[place]: array_of(plain[place]) for place in self._static or () if place in names
        }
        bound = self._network(graph, values, instance.contents)
        instance.bound[key] = bound
        return bound

    def _instance(self, plain: Sequence[Any]) -> _Instance:
        """The constants of a call as they are now."""
        static = [plain[place] for place in self._static or ()]
        ids, instances = tuple(map(id, static)), self._instances
        found = instances.get(ids)
        if found is not None and found.watched.are_unchanged(static):
            return found
        if found is not None:
            self._note_changes(found.watched.changed(static))
        elif self._died:
            before = self._died.pop()
            self._note_changes([n for n, one in enumerate(ids) if before[n : n + 1] != (one,)])
        if len(static) != len(self._static or ()):
            return self._instance(plain)
        died = self._died

        def forget() -> None:
            if instances.get(ids) is made:
                del instances[ids]
                died[:] = [ids]

        kinds = tuple((one.shape, one.dtype, one.stride()) for one in static)
        contents = Contents([array_of(one) for one in static if not is_narrow(one.dtype)])
        made = instances[ids] = _Instance(WatchedTensors(static, forget), kinds, contents)
        return made

    def _note_changes(self, numbers: Sequence[int]) -> None:
        """Count changes of constants; those that change too often become inputs."""
        places = [(self._static or ())[number] for number in numbers]
        for place in places:
            self._changes[place] = self._changes.get(place, 0) + 1
        often = {
            place
            for place, count in self._changes.items()
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
        self._set_static([one for one in self._static or () if one not in places], count)
        self._instances.clear()
        self._traced.clear()

    def _trace(
        self, key: Hashable, plain: Sequence[Any], arguments: Sequence[Any]
    ) -> TracedGraph | None:
        """The graph for such arguments; None if what is a constant, or a number, was changed."""
        found = self._traced.get(key)
        if found is None:
            if len(self._traced) >= self._options.programs:
                raise EagerNeededError(
                    f"it was compiled for {len(self._traced)} shapes and values of its inputs, and "
                    "PyTorch runs all others: pad inputs to fewer shapes, or allow more with "
                    f'options={{"programs": {4 * self._options.programs}}}'
                )
            module = module_of_parts(self._module, arguments) if self._has_parts else self._module
            try:
                found = traced(module, plain, sorted(self._free))
            except GraphError:
                if not self._free:
                    raise
                self._free = frozenset()
                return None
            if set(found.written) & set(self._static or ()):
                self._release(found.written)
                return None
            self._traced[key] = found
        return found

    def _network(
        self, graph: TracedGraph, values: Mapping[str, Array], contents: Contents
    ) -> BoundGraph:
        if not graph.program.outputs:
            return BoundGraph(graph, None, (), self._options.threads)
        made = graph_of(graph.program, "torch_graph", values)
        network = self._compiled(made, contents)
        return BoundGraph(graph, network, tuple(made.inputs), self._options.threads)

    def _compiled(self, graph: Graph, contents: Contents) -> NetworkModule:
        network, options = Network.of(graph), self._options
        records = options.records or "tune.db"
        if options.trials:
            tune(graph, trials=options.trials, threads=options.threads, records=records)
        choice = ProgramChoice(
            place_of(records), threads=options.threads,
            use_default=not (options.records or options.trials),
            check_indices=options.check_indices,
        )  # fmt: skip
        choice = recorded_choice([network], choice)
        return shared_networks().built(network, choice, contents)


_STATIC = "_dynamo_static_input_type"
"""What Dynamo sets on parameters and buffers of modules."""
_MANY_CHANGES, _CALLS_A_CHANGE = 6, 8
_NEEDS_GRADIENTS = (
    "a tensor requires gradients, which ansorc does not compute; call it under torch.no_grad() or "
    "torch.inference_mode()"
)


def _free_numbers(arguments: Sequence[Any]) -> frozenset[int]:
    """The places of ints that no shape of a tensor settles, so that each call may have another."""
    settled = {
        str(extent)
        for one in arguments
        for extent in getattr(one, "shape", ())
        if type(extent).__name__ == "SymInt"
    }
    return frozenset(
        place
        for place, one in enumerate(arguments)
        if type(one).__name__ == "SymInt" and str(one) not in settled
    )
