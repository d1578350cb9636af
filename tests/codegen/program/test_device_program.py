"""A program for a device is a value: it goes to other processes, and into other programs."""

from __future__ import annotations

import pytest

from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.codegen.program.device_program import CheckLine, DeviceProgram, KernelText
from ansorc.codegen.program.launch_plan import KernelArgument, Launch, LaunchPlan
from ansorc.errors import BuildError

PLAN = LaunchPlan(
    "norm",
    (
        Launch("norm_0", (4, 1, 1), (32, 8, 1), 0, (KernelArgument("parameter", 0),)),
        Launch("norm_1", (9, 2, 1), (64, 1, 1), 65536, (KernelArgument("workspace", 256),)),
    ),
    4096,
    (1, 1),
    256,
    (7, 8),
)
CHECKED = KernelText(
    "norm_0",
    ("const float *A", "long long *record"),
    256,
    ("  float x;", CheckLine("  if (A[0] > 0) tell_fault(record, ", 2, ", 0, 0, 0, 0);")),
    ("faults", "fill", "lanes"),
)
PROGRAM = DeviceProgram(
    (CHECKED, KernelText("norm_1", ("float *T",), 64, (), (), "shared_memory", waits=True)), PLAN
)
TEXT = """
extern "C" __global__ void __launch_bounds__(256) norm_0(const float *A, long long *record) {
  float x;
  if (A[0] > 0) tell_fault(record, 2, 0, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(64) norm_1(float *T) {
  extern __shared__ __align__(16) char shared_memory[];
}
"""


@pytest.mark.parametrize("source", [PROGRAM, None])
def test_a_compiled_program_survives_the_way_to_another_process(
    source: DeviceProgram | None,
) -> None:
    code = CompiledProgram(b"\x00image\n", source)
    assert CompiledProgram.from_bytes(code.to_bytes()) == code
    assert (PLAN.launches[0].threads, PLAN.launches[1].blocks) == (256, 18)


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(BuildError, match="not a compiled program of this ansorc; use one version"):
        CompiledProgram.from_bytes(b"\x7fELF")
    with pytest.raises(BuildError, match="this code is for a CPU"):
        _ = CompiledProgram(b"\x7fELF").device_program


def test_the_text_of_a_program() -> None:
    """What kernels share stands once, in front of them."""
    text = cuda_text(PROGRAM)
    assert text.endswith(TEXT)
    assert (text.count("struct alignas"), text.count(" fill("), text.count("void tell_fault(")) == (
        1,
        1,
        1,
    )


def test_a_kernel_in_another_program_has_another_name_and_other_checks() -> None:
    moved = CHECKED.rename("k3_0_norm", 5)
    text = cuda_text(DeviceProgram((moved,), PLAN))
    assert "k3_0_norm(const float *A, long long *record) {" in text
    assert "tell_fault(record, 7, 0, 0, 0, 0);" in text
