"""The plan of a CUDA program goes with its text and with its code."""

from __future__ import annotations

import pytest

from ansorc.codegen.cuda.launch import KernelArgument, Launch, LaunchPlan
from ansorc.errors import BuildError

PLAN = LaunchPlan(
    "norm",
    (
        Launch("norm_0", (4, 1, 1), (32, 8, 1), 0, (KernelArgument("parameter", 0),)),
        Launch("norm_1", (9, 2, 1), (64, 1, 1), 65536, (KernelArgument("workspace", 256),)),
    ),
    4096,
)


def test_a_plan_survives_text_and_code() -> None:
    assert LaunchPlan.of_text(f"{PLAN.comment()}\n__global__ …") == PLAN
    assert LaunchPlan.of_code(PLAN.with_image(b"\x00image\n")) == (PLAN, b"\x00image\n")
    code = PLAN.with_image(b"\x00image\n", "// a text\n")
    assert (LaunchPlan.of_code(code)[1], LaunchPlan.text_of(code)) == (
        b"\x00image\n",
        "// a text\n",
    )
    assert (PLAN.launches[0].threads, PLAN.launches[1].blocks) == (256, 18)


def test_what_holds_no_plan_is_refused() -> None:
    with pytest.raises(BuildError, match="no CUDA text of ansorc"):
        LaunchPlan.of_text("int main() {}")
    with pytest.raises(BuildError, match="no compiled CUDA program"):
        LaunchPlan.of_code(b"\x7fELF")
