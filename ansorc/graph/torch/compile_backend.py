"""`torch.compile(model, backend="ansorc")`: graphs of PyTorch compiled at their first call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ansorc.codegen.call.network_module import NetworkModule
from ansorc.errors import AnsorcError, GraphError, OptionError
from ansorc.graph.cache_policy import recorded_choice
from ansorc.graph.network import Network
from ansorc.graph.network_build import built_network, chosen_programs
from ansorc.graph.torch.importer import graph_of
from ansorc.graph.torch.model import TorchProgram, array_of, load_torch, torch_library
from ansorc.graph.verbs import tune
from ansorc.ir.aligned import Array
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import place_of

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

    @staticmethod
    def of(given: Mapping[str, Any]) -> TorchCompileOptions:
        """Return the options in a dictionary; raise OptionError for others."""
        known = ("records", "trials", "threads")
        for name in given:
            if name not in known:
                raise OptionError(f"there is no option '{name}'; there are {', '.join(known)}")
        return TorchCompileOptions(
            str(given.get("records", "")), int(given.get("trials", 0)), int(given.get("threads", 0))
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
    constants; when one of those has changed it is compiled anew. What ansorc cannot compile runs in
    PyTorch, with a warning that says why. A `mode` other than "default" is ignored, with a warning
    that says what to write for it. Raise OptionError for options that there are not.
    """
    del example_inputs
    if mode not in ("", "default"):
        advice = _INSTEAD_OF_MODE.get(mode, "there are only options: records, trials and threads")
        warnings.warn(f"ansorc ignores mode='{mode}': {advice}", stacklevel=2)
    return _CompiledModule(graph_module, TorchCompileOptions.of(options or {}))


@dataclass(frozen=True, eq=False)
class _Specialization:
    """The graph for one shape of each input."""

    network: NetworkModule
    program: TorchProgram
    inputs: tuple[int, ...]
    """The places of the arguments that the network takes."""
    frozen: tuple[tuple[Any, int], ...]
    """Tensors that are constants, with their versions."""

    def is_valid(self, frozen: Sequence[tuple[Any, int]]) -> bool:
        """Whether the constants are still what they were."""
        return len(frozen) == len(self.frozen) and all(
            one is other and version == since
            for (one, version), (other, since) in zip(frozen, self.frozen, strict=True)
        )


class _CompiledModule:
    """A graph of TorchDynamo, compiled for each shape of its inputs."""

    def __init__(self, graph_module: Any, options: TorchCompileOptions) -> None:
        self._module = graph_module
        self._options = options
        self._torch = torch_library()
        self._known: dict[tuple[object, ...], _Specialization | None] = {}
        self._warned: set[str] = set()

    def __call__(self, *arguments: Any) -> Any:
        reason = self._why_eager(arguments)
        if reason:
            return self._eager(reason, arguments)
        frozen = self._frozen(arguments)
        key = self._key(arguments, frozen)
        found = self._known.get(key)
        if found is None and key in self._known:
            return self._module(*arguments)
        if found is None or not found.is_valid(list(frozen.values())):
            try:
                found = self._specialized(arguments, frozen)
            except AnsorcError as error:
                self._known[key] = None
                return self._eager(str(error), arguments)
            self._known[key] = found
        return self._run(found, arguments)

    def _why_eager(self, arguments: Sequence[Any]) -> str:
        """Why PyTorch has to run the graph itself; "" if nothing hinders."""
        tensors = [one for one in arguments if self._is_tensor(one)]
        if any(one.device.type != "cpu" for one in tensors):
            return "a tensor is not in the main memory; ansorc compiles for the CPU"
        if any(one.layout is not self._torch.strided for one in tensors):
            return "a tensor is sparse or of another layout; ansorc has dense ones"
        if self._torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            return (
                "a tensor requires gradients, which ansorc does not compute; call it under "
                "torch.no_grad() or torch.inference_mode()"
            )
        return ""

    def _eager(self, reason: str, arguments: Sequence[Any]) -> Any:
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"ansorc leaves a graph to PyTorch: {reason}", stacklevel=3)
        return self._module(*arguments)

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)

    def _frozen(self, arguments: Sequence[Any]) -> dict[int, tuple[Any, int]]:
        """Parameters and buffers among the arguments, by place, with their versions."""
        found: dict[int, tuple[Any, int]] = {}
        for place, one in enumerate(arguments):
            is_static = getattr(one, "_dynamo_static_input_type", None) is not None
            is_static = is_static or isinstance(one, self._torch.nn.Parameter)
            if is_static and not one.is_inference():  # others have no versions
                found[place] = (one, one._version)
        own = [*self._module.parameters(), *self._module.buffers()]
        for number, one in enumerate(own):
            found[-1 - number] = (one, 0 if one.is_inference() else one._version)
        return found

    def _key(self, arguments: Sequence[Any], frozen: Mapping[int, object]) -> tuple[object, ...]:
        """What a specialization is for."""
        found: list[object] = []
        for place, one in enumerate(arguments):
            if place in frozen:
                found.append(place)
            elif self._is_tensor(one):
                found.append((tuple(one.shape), one.dtype))
            else:
                found.append((type(one).__name__, one))
        return tuple(found)

    def _specialized(
        self, arguments: Sequence[Any], frozen: Mapping[int, tuple[Any, int]]
    ) -> _Specialization:
        program = load_torch(self._module, arguments, {})
        places = [place for place, one in enumerate(arguments) if self._is_tensor(one)]
        if len(places) != len(program.inputs):
            raise GraphError("PyTorch exports the graph with other inputs than it is called with")
        names = dict(zip(program.inputs, places, strict=True))
        memory = {*program.inputs, *program.constants}
        for ref in program.outputs.values():
            if program.owner(ref) in memory:
                raise GraphError("the graph returns an input or a weight, or a view of one")
        values = {
            name: array_of(arguments[place]).copy()
            for name, place in names.items()
            if place in frozen
        }
        graph = graph_of(program, "torch_graph", values)
        network, options = Network.of(graph), self._options
        records = options.records or "tune.db"
        if options.trials:
            tune(graph, trials=options.trials, threads=options.threads, records=records)
        choice = ProgramChoice(
            place_of(records), threads=options.threads,
            use_default=not (options.records or options.trials),
        )  # fmt: skip
        choice = recorded_choice([network], choice)
        built = built_network(network, chosen_programs(network, choice))
        inputs = tuple(names[name] for name in graph.inputs)
        return _Specialization(built, program, inputs, tuple(frozen.values()))

    def _run(self, found: _Specialization, arguments: Sequence[Any]) -> Any:
        feeds = [self._array(arguments[place]) for place in found.inputs]
        made = found.network(*feeds, threads=self._options.threads)
        arrays: list[Array] = [made] if len(found.network.outputs) == 1 else list(made)
        kinds = [found.program.kind(ref) for ref in found.program.outputs.values()]
        tensors = iter(
            self._tensor(array, () if kind is None else kind.strides)
            for array, kind in zip(arrays, kinds, strict=True)
        )
        others = found.program.others
        count = len(arrays) + len(others)
        return tuple(others[place] if place in others else next(tensors) for place in range(count))

    def _array(self, tensor: Any) -> Array:
        """The memory of a tensor as an array."""
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        if plain.dtype is self._torch.bfloat16:
            return np.asarray(plain.view(self._torch.int16).numpy()).view(ml_dtypes.bfloat16)
        return np.asarray(plain.numpy())

    def _tensor(self, array: Array, strides: tuple[int, ...]) -> Any:
        """A tensor in the memory of an array; in new memory where its strides are others."""
        if array.dtype == ml_dtypes.bfloat16:
            tensor = self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        else:
            tensor = self._torch.from_numpy(array)
        if not strides:
            return tensor
        return self._torch.empty_strided(array.shape, strides, dtype=tensor.dtype).copy_(tensor)
