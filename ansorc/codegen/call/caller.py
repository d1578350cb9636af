"""Call code that is loaded when it is first needed: `Caller`, the same for kernels and networks.

A call tries machine code first (`base.DirectKernel`), which checks and runs. What that does not
recognise is checked here, which says what is wrong or finds a way.
"""

from __future__ import annotations

import operator
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ansorc.codegen.base import BoundKernel, DirectCall, DirectKernel, LoadedKernel
from ansorc.codegen.call.arguments import ComplexArguments, check_arrays
from ansorc.codegen.call.bound import BoundCall
from ansorc.codegen.call.output_pool import OutputPool
from ansorc.codegen.call.packed_inputs import PackedInputs
from ansorc.codegen.call.timing import Timing, measure
from ansorc.codegen.package.signature import (
    FAULT_RECORD,
    FAULT_STATUS,
    LACKS_FEATURES,
    OUT_OF_MEMORY,
    Signature,
)
from ansorc.errors import CallError, FaultError, PackingWarning
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.fault import FaultKind, fault_of_kind, fault_of_record
from ansorc.target import Target

_FAULTS = {status: kind for kind, status in FAULT_STATUS.items()}
_MOST_THREADS = 1024
"""The size of the runtime's thread pool."""
Loaded = TypeVar("Loaded", bound=LoadedKernel)


class LazyCode(Generic[Loaded]):
    """The result of `load`, which the first call asks for: the code may be of another machine."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None

    def get(self) -> Loaded:
        """Return the loaded code; raise BuildError if it cannot be loaded."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
        return self._loaded


def require_no_stream(name: str, target: Target, stream: object) -> None:
    """Raise CallError if a stream is given for what was built for a CPU."""
    if stream is not None:
        raise CallError(f"{name} was built for '{target.text}', which has no streams")


class Caller(Generic[Loaded]):
    """Calls with arrays that are checked, each thread with a workspace of its own."""

    def __init__(
        self,
        signature: Signature,
        target: Target,
        code: LazyCode[Loaded],
        packed: PackedInputs | None = None,
    ) -> None:
        """Call `code`; `packed` holds the weights that were packed, if several callers share it."""
        self._signature, self._target, self._code = signature, target, code
        self._of_thread = threading.local()
        params = signature.params
        self._pools = [OutputPool(param) for param in params if param.is_output]
        self._is_output = [param.is_output for param in params]
        self._inputs = self._is_output.count(False)
        self._has_outputs_last = not any(self._is_output[: self._inputs])
        self._packed_inputs = PackedInputs(signature) if packed is None else packed
        self._complex = ComplexArguments(signature)
        self._direct: DirectCall | None = None
        self._has_tried_direct = False

    def call(self, values: tuple[object, ...], threads: int) -> Any:
        """Run the code once on `values`, and return new arrays for the outputs if they have none.

        One output is returned as it is, several as a tuple. Raise CallError for what `values` must
        not be, and with the meaning of a status other than 0.
        """
        if len(values) != self._inputs or not self._pools:
            return self._run(values, threads)
        if len(self._pools) == 1 and self._has_outputs_last:
            output = self._pools[0].take()
            self._run((*values, output), threads)
            return output
        outputs = tuple(pool.take() for pool in self._pools)
        self._run(self._with_outputs(values, outputs), threads)
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(self, values: tuple[object, ...], threads: int) -> BoundCall:
        """Return what runs the code on `values`, outputs included, which are checked now."""
        arrays = check_arrays(self._signature, values)
        self.load(threads)
        text = f"<{self._signature.name} on {len(arrays)} arrays>"
        return BoundCall(lambda: self._bind(arrays, threads), self.require_success, text)

    def _with_outputs(
        self, values: tuple[object, ...], outputs: tuple[Array, ...]
    ) -> tuple[object, ...]:
        if self._has_outputs_last:
            return values + outputs
        inputs, made = iter(values), iter(outputs)
        return tuple(next(made) if is_output else next(inputs) for is_output in self._is_output)

    def _run(self, values: tuple[object, ...], threads: int) -> None:
        direct = self._direct
        if self._complex.has_any and len(values) == len(self._is_output):
            values = self._complex.parts(values)
        status = None
        if direct is not None:
            status = direct(values, threads, self._workspace() or 0)
        if status is None:
            status = self._run_checked(values, threads)
        if status:
            self.require_success(status)

    def _run_checked(self, values: tuple[object, ...], threads: int) -> int:
        """Run the code on what machine code does not recognise; return its status."""
        known = self._packed_inputs.replace(values)
        if known is not None and self._direct is not None:
            status = self._direct(known, threads, self._workspace() or 0)
            if status is not None:
                return status
        arrays = check_arrays(self._signature, known or values, self._packed_inputs.pack)
        call = self._bind(arrays, threads)
        status = call.run(1)
        if status == 0:
            call.fetch()
            self._prepare_direct()
        warning = self._packed_inputs.warning()
        if warning:
            warnings.warn(warning, PackingWarning, stacklevel=5)  # where the module is called
        return status

    def _prepare_direct(self) -> None:
        if self._has_tried_direct:
            return
        code = self._code.get()
        if isinstance(code, DirectKernel):
            self._direct = code.direct(self._signature, {}, _MOST_THREADS)
        self._has_tried_direct = True

    def time(
        self, arrays: Sequence[Array], threads: int, *, min_time_s: float, max_repeats: int
    ) -> Timing:
        """Run the code for about `min_time_s` seconds and return the time of one call."""
        call = self._bind(arrays, threads)
        timing = measure(
            lambda calls: self.require_success(call.run(calls)),
            time.perf_counter,
            min_time_s=min_time_s,
            max_repeats=max_repeats,
        )
        call.fetch()
        return timing

    def load(self, threads: int) -> tuple[Loaded, int | None]:
        """Return the code, loaded, and the address of this thread's workspace.

        Raise CallError for a wrong number of threads.
        """
        _thread_count(threads)
        return self._code.get(), self._workspace()

    def require_success(self, status: int) -> None:
        """Raise CallError with the meaning of `status` unless it is 0."""
        if not status:
            return
        kind = _FAULTS.get(status)
        if kind is not None:
            raise self._fault(kind)
        raise CallError(f"{self._signature.name} {self._meaning(status)}")

    def _fault(self, kind: FaultKind) -> FaultError:
        """Return the error of a call that failed for its data, from what this thread's says."""
        signature, offset = self._signature, self._signature.fault_place
        memory: Array | None = getattr(self._of_thread, "memory", None)
        if memory is None:
            return fault_of_kind(signature.name, kind)
        record = memory[offset : offset + FAULT_RECORD.bytes].view(np.int64).tolist()
        return fault_of_record(signature.name, kind, signature.faults, record)

    def _bind(self, arrays: Sequence[Array], threads: int) -> BoundKernel:
        code, workspace = self.load(threads)
        return code.bind(arrays, workspace, _thread_count(threads))

    def _workspace(self) -> int | None:
        """Return the address of this thread's workspace, which is kept for its next call."""
        size = self._signature.workspace_bytes
        if size == 0:
            return None
        if not hasattr(self._of_thread, "address"):
            try:
                memory = aligned_empty(size, np.uint8)
            except MemoryError as error:
                words = f"{self._signature.name} needs {size} bytes of workspace"
                raise CallError(f"{words}, and there is no such memory") from error
            self._of_thread.memory = memory
            self._of_thread.address = memory.ctypes.data
        return int(self._of_thread.address)

    def _meaning(self, status: int) -> str:
        if status == OUT_OF_MEMORY:
            return "ran out of memory; free some, or use fewer threads"
        if status == LACKS_FEATURES:
            words = "which has instructions that this CPU lacks"
            return f"was built for '{self._target.text}', {words}"
        return f"failed with status {status}"


def _thread_count(threads: int) -> int:
    """Return `threads`, which may be an integer of any kind, as Python's; raise CallError."""
    try:
        count = operator.index(threads)
    except TypeError:
        count = -1
    if not 0 <= count <= _MOST_THREADS:
        raise CallError(f"threads is {threads}, but it must be 0 (all cores) to {_MOST_THREADS}")
    return count
