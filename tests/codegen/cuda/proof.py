"""Whether a program for a GPU is right: compiled for GPUs, emulated, held against float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ansorc.codegen.build import prepare
from ansorc.codegen.cuda.emit import emit_cuda
from ansorc.codegen.cuda.emulation.compiler import compile_library
from ansorc.codegen.cuda.emulation.program import EmulatedProgram
from ansorc.codegen.cuda.emulation.sanitize import Sanitizer, check_program
from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError, CallError
from ansorc.ir.aligned import Array, aligned_empty
from ansorc.ir.stmt import Function
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.rounding import evaluate_with_rounding
from ansorc.search.measure.check import Expectation, expectations
from ansorc.target import Target
from tests.codegen.cuda.wheels import HAS_WHEELS

EMULATED = Target.parse("cuda-emulated -arch=sm_80")
ARCHITECTURES = ("sm_80", "sm_90")
SANITIZERS: tuple[Sanitizer, Sanitizer] = ("thread", "address")
ORDERS = 2, 3
"""Seeds of an order of blocks and of its reverse: of two that store one element each is last."""


def program_of_function(function: Function, target: Target = EMULATED) -> DeviceProgram:
    """The kernels of a lowered program; raise BuildError for what no GPU runs."""
    return emit_cuda(prepare(function, target), target)


@dataclass(frozen=True)
class Experiment:
    """Inputs of a computation, and what it gives for them."""

    dag: ComputeDAG
    inputs: tuple[Array, ...]
    expected: tuple[Expectation, ...]

    @staticmethod
    def of(dag: ComputeDAG, seed: int = 0, *, is_wide: bool = False) -> Experiment:
        """Random inputs of one sign; `is_wide`: of both, and in each row one that is far larger,
        which no maximum may miss, in the first row a negative one."""
        rng = np.random.default_rng(seed)
        inputs: list[Array] = []
        for buffer in dag.inputs:
            array = _aligned(buffer.shape, buffer.dtype.numpy)
            if buffer.dtype.is_float and is_wide:
                array[...] = rng.normal(size=buffer.shape)
                for number, row in enumerate(array.reshape(-1, array.shape[-1])):
                    row[_largest_at(len(row))[number % 3]] = 200.0
                    if number == 0:
                        row[:] = row - 400.0
            elif buffer.dtype.is_float:
                array[...] = rng.uniform(0.25, 1.0, buffer.shape)
            else:
                array[...] = rng.integers(0, 2 if buffer.dtype.is_bool else 3, buffer.shape)
            inputs.append(array)
        expected = expectations(dag, *evaluate_with_rounding(dag, inputs))
        return Experiment(dag, tuple(inputs), tuple(expected))

    def arrays(self) -> list[Array]:
        """The arguments of a call: the inputs, and outputs full of what no kernel computes."""
        given = dict(zip((b.name for b in self.dag.inputs), self.inputs, strict=True))
        found: list[Array] = []
        for buffer in self.dag.arguments:
            array = _aligned(buffer.shape, buffer.dtype.numpy)
            if buffer.name in given:
                array[...] = given[buffer.name]
            else:
                array.reshape(-1).view(np.uint8)[...] = 0xFF
            found.append(array)
        return found

    def compare(self, arrays: Sequence[Array]) -> str:
        """What is wrong with the outputs, in words; "" if nothing is."""
        by_name = {b.name: array for b, array in zip(self.dag.arguments, arrays, strict=True)}
        for buffer, expected in zip(self.dag.outputs, self.expected, strict=True):
            name = self.dag.updates.get(buffer.name, buffer.name)
            shaped = by_name[name].reshape(buffer.shape)
            if complaint := expected.compare(shaped).complaint:
                return f"{buffer.name}: {complaint}"
        return ""


def _largest_at(columns: int) -> tuple[int, int, int]:
    """The first column, the last, and one whose thread has all bits set: all exchanges move it."""
    return 0, columns - 1, (1 << columns.bit_length() - 1) - 1


def emulate(program: DeviceProgram, experiment: Experiment, seed: int = ORDERS[0]) -> str:
    """What is wrong with the program when it is run with fibers; "" if nothing is."""
    workspace = aligned_empty(max(1, program.plan.workspace_bytes), np.uint8)
    arrays = experiment.arrays()
    loaded = EmulatedProgram(compile_library(program))
    try:
        status = loaded.run(arrays, workspace.ctypes.data, 1, seed)
    except CallError as error:
        return str(error)
    finally:
        loaded.close()
    return f"status {status}" if status else experiment.compare(arrays)


def sanitize(program: DeviceProgram, experiment: Experiment, sanitizer: Sanitizer) -> str:
    """What a sanitizer finds in the program; "" if nothing, and the outputs are right."""
    arrays = experiment.arrays()
    order = ORDERS[SANITIZERS.index(sanitizer)]
    found = check_program(program, arrays, sanitizer, seed=order)
    return str(found) if found is not None else experiment.compare(arrays)


def sanitized_bits(program: DeviceProgram, experiment: Experiment) -> bytes:
    """The outputs, for both orders, of a program in which AddressSanitizer finds nothing."""
    found: list[Array] = []
    for order in ORDERS:
        arrays = experiment.arrays()
        assert check_program(program, arrays, "address", seed=order) is None
        found += arrays
    return b"".join(array.tobytes() for array in found)


def compiled_for_gpus(program: DeviceProgram) -> None:
    """Compile the program for ARCHITECTURES where NVIDIA's compiler is; raise BuildError."""
    if HAS_WHEELS:
        for arch in ARCHITECTURES:
            names = [kernel.name for kernel in compile_cubin(cuda_text(program), arch).resources]
            wanted = [launch.name for launch in program.plan.launches]
            if sorted(names) != sorted(wanted):
                raise BuildError(f"kernels {names}, not {wanted}")


def complaint_of(
    function: Function, experiment: Experiment, sanitizers: Sequence[Sanitizer] = ()
) -> str | None:
    """What is wrong with a lowered program: "" if nothing, None where no GPU runs it."""
    try:
        program = program_of_function(function)
    except BuildError:
        return None
    compiled_for_gpus(program)
    found = emulate(program, experiment)
    for sanitizer in sanitizers:
        found = found or sanitize(program, experiment, sanitizer)
    return f"{found}\n{cuda_text(program)}" if found else ""


def _aligned(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return aligned_empty(size, np.uint8).view(dtype).reshape(shape)
