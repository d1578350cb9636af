"""A network that Python calls on arrays: `NetworkModule`, weights and memory included."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansorc.codegen.base import LoadedNetwork, network_backend_of, network_opener_of, opener_of
from ansorc.codegen.call.arguments import check_arrays, file_path
from ansorc.codegen.call.bound import BoundCall
from ansorc.codegen.call.caller import Caller, LazyCode, require_no_stream
from ansorc.codegen.call.device_caller import DeviceCaller
from ansorc.codegen.call.timing import Timing
from ansorc.codegen.network.own_weights import with_own_weights
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.valid import require_valid
from ansorc.codegen.package.artifact import Artifact
from ansorc.codegen.package.manifest import NetworkManifest
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import BuildError, CallError
from ansorc.ir import notebook
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.target import Target


class CallTime(NamedTuple):
    """How long one call of a kernel took within a run of its network."""

    name: str
    seconds: float


class NetworkModule:
    """A network. Several threads may call it at once, each has intermediate tensors of its own."""

    def __init__(
        self,
        signature: Signature,
        call_names: tuple[str, ...],
        target: Target,
        code: LazyCode[LoadedNetwork],
        plan: NetworkPlan | None,
    ) -> None:
        self.signature = signature
        """Inputs, then outputs."""
        self.call_names = call_names
        """The names of the kernels' calls, in their order."""
        self.target = target
        self.inputs = tuple(param for param in signature.params if not param.is_output)
        """The arrays that a call takes."""
        self.outputs = tuple(param for param in signature.params if param.is_output)
        """The arrays that a call computes."""
        self._counts = (len(self.inputs), len(signature.params))
        self._caller = Caller(signature, target, code)
        is_on_device = opener_of(target).capabilities(target).device
        self._device = DeviceCaller(signature, code.get) if is_on_device else None
        self._plan = plan

    def __call__(self, *arrays: object, threads: int = 0, stream: object = None) -> Any:
        """Run the network on inputs and return its output, a new array, or a tuple of several.

        With arrays for the outputs after the inputs it fills them and returns None. All are NumPy
        arrays, or objects with `__dlpack__`. `threads`: 0 for all cores, else the most that may be
        used. Raises CallError as a kernel does.

        On a GPU arrays may lie in its memory and the network runs in `stream`, as of a `Module`;
        new arrays for the outputs are NumPy's. The first call on a device copies the weights there.
        All kernels are started in one stream, without waiting or allocating between: after one call
        in a stream others in it, with all arrays on the device, can be captured into a CUDA graph.
        """
        if len(arrays) not in self._counts:
            raise self._wrong_count(arrays)
        if self._device is None:
            if stream is not None:
                require_no_stream(self.signature.name, self.target, stream)
            return self._caller.call(arrays, threads)
        values = self._with_outputs(arrays)
        self._device.run(values, stream)
        if len(arrays) == len(values):
            return None
        outputs = values[len(arrays) :]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def bind(self, *arrays: object, threads: int = 0) -> BoundCall:
        """Return what runs the network on inputs and arrays for its outputs without arguments.

        That costs least in a loop. Raises CallError as a call does.
        """
        if self._device is not None:
            raise CallError(
                f"{self.signature.name} was built for '{self.target.text}', whose arguments cannot "
                "be bound; pass arrays in the memory of the device at every call"
            )
        if len(arrays) != len(self.signature.params):
            raise self._wrong_count(arrays)
        return self._caller.bind(arrays, threads)

    def run(self, feeds: Mapping[str, object], threads: int = 0) -> dict[str, Array]:
        """Run the network on inputs by name, and return its outputs by name, as new arrays."""
        names = [param.name for param in self.inputs]
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CallError(
                f"{self.signature.name} runs on a dict of inputs by name, not {feeds!r}"
            )
        for name in [*names, *feeds]:
            if name not in feeds or name not in names:
                what = "needs an input" if name in names else "has no input"
                takes = ", ".join(f"'{each}'" for each in names)
                raise CallError(f"{self.signature.name} {what} '{name}'; it takes {takes}")
        results = self(*(feeds[name] for name in names), threads=threads)
        outputs = (results,) if len(self.outputs) == 1 else results
        return {param.name: array for param, array in zip(self.outputs, outputs, strict=True)}

    def profile(self, *arrays: object, threads: int = 0, repeats: int = 10) -> list[CallTime]:
        """Return the name and the time of each kernel call, in their order.

        A time is the median of `repeats` runs after a first one, the clock read between the calls.
        `arrays`: the inputs, with or without the outputs.
        """
        values = self._with_outputs(arrays)
        if self._device is not None:
            runs = self._device.call_seconds(values, repeats + 1)
        else:
            runs = self._profile_calls(check_arrays(self.signature, values), threads, repeats + 1)
        medians = [statistics.median(times) for times in zip(*runs[1:], strict=True)]
        return [CallTime(*pair) for pair in zip(self.call_names, medians, strict=True)]

    def time(
        self, *arrays: object, threads: int = 0, min_time_s: float = 0.1, max_repeats: int = 100
    ) -> Timing:
        """Run the network for about `min_time_s` seconds and return the time of one call.

        `arrays`: the inputs, with or without the outputs. The calls follow each other on the same
        arrays.
        """
        values = self._with_outputs(arrays)
        if self._device is not None:
            return self._device.time(values, None, min_time_s=min_time_s, max_repeats=max_repeats)
        checked = check_arrays(self.signature, values)
        return self._caller.time(checked, threads, min_time_s=min_time_s, max_repeats=max_repeats)

    def save(
        self, path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None
    ) -> Artifact:
        """Write the network for C and C++: `path` (.so, .a or .o) with a .h and a .json beside it.

        The weights are inside, or in the file `weights`, which all processes that use it share. For
        a GPU `path` ends in .cubin, .ptx, .fatbin or .cu, and the weights are always in a file,
        which ends in .weights unless it is given.
        Raises BuildError if a tool is missing or the files cannot be written; none is left half.
        """
        if self._plan is None:
            raise BuildError(
                f"'{self.signature.name}' was loaded from a library, so there is no object code "
                "to save; copy the library's files"
            )
        backend = network_backend_of(self.target)
        file = None if weights is None else Path(weights)
        return backend.save_network(
            file_path(path), with_own_weights(self._plan), self.target, file
        )

    def __repr__(self) -> str:
        inputs, outputs = map(_list_params, (self.inputs, self.outputs))
        return f"<network {self.signature.name}({inputs}) -> ({outputs}) for {self.target.text}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: inputs, outputs and the calls of kernels."""
        rows = [(p.name, f"input {p.dtype}{list(p.shape)}") for p in self.inputs]
        rows += [(p.name, f"output {p.dtype}{list(p.shape)}") for p in self.outputs]
        title = f"network {self.signature.name} for {self.target.text}: "
        calls = [("", f"kernel {name}") for name in self.call_names]
        return notebook.frame(f"{title}{len(calls)} calls", notebook.table([*rows, *calls]))

    def _profile_calls(self, arrays: Sequence[Array], threads: int, runs: int) -> list[list[float]]:
        """The seconds of each call in each of so many runs."""
        code, workspace = self._caller.load(threads)
        profile: list[list[float]] = []
        for _ in range(runs):
            status, seconds = code.profile(arrays, workspace, threads)
            self._caller.require_success(status)
            profile.append(seconds)
        return profile

    def _new_outputs(self) -> list[Array]:
        return [aligned_empty(param.shape, param.dtype.numpy) for param in self.outputs]

    def _with_outputs(self, arrays: Sequence[object]) -> Sequence[object]:
        """The arrays of a call; new ones for the outputs if only inputs are given."""
        if len(arrays) == len(self.inputs):
            arrays = [*arrays, *self._new_outputs()]
        if len(arrays) != len(self.signature.params):
            raise self._wrong_count(arrays)
        return arrays

    def _wrong_count(self, arrays: Sequence[object]) -> CallError:
        inputs, outputs = map(_list_params, (self.inputs, self.outputs))
        total = len(self.signature.params)
        return CallError(
            f"{self.signature.name} takes {len(self.inputs)} arrays ({inputs}), or with those "
            f"for its outputs {total} ({outputs}), but {len(arrays)} were given"
        )


def link_network(plan: NetworkPlan, target: Target) -> NetworkModule:
    """Return the network of `plan`, whose kernels were compiled for `target`.

    It is loaded at its first call. Raise BuildError for a plan that is not valid, and TargetError
    if the target's back end makes no networks.
    """
    require_valid(plan)
    backend = network_backend_of(target)
    code = LazyCode(lambda: backend.load_network(plan, target))
    names = tuple(call.name for call in plan.calls)
    return NetworkModule(plan.signature, names, target, code, plan)


def open_network(library: Path, manifest: NetworkManifest) -> NetworkModule:
    """Return the network in a shared library; raise BuildError if it cannot be loaded."""
    signature, target, names = manifest.signature, manifest.target, manifest.call_names
    file = manifest.weights_file
    weights = None if file is None else library.absolute().parent / file
    opener = network_opener_of(target)
    code = LazyCode(lambda: opener.open_network(library, signature, len(names), weights, target))
    code.get()
    return NetworkModule(signature, names, target, code, None)


def _list_params(params: Sequence[Param]) -> str:
    return ", ".join(f"{param.name}: {param.dtype}{list(param.shape)}" for param in params)
