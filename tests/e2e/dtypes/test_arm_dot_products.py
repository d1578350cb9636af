"""The dot products of ARM, by their code and in an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.schedule import replay
from ansorc.search.default import default_steps
from ansorc.target import Target
from tests.support.narrow_kernels import assembly_of, body_of, mnemonics, values

A76, V1 = "aarch64-linux-gnu -mcpu=cortex-a76", "aarch64-linux-gnu -mcpu=neoverse-v1"
A53 = "aarch64-linux-gnu -mcpu=cortex-a53 -mattr=+dotprod"
CASES = [
    (A76, "int8", "int8", "sdot"),
    (A53, "int8", "int8", "sdot"),
    (A76, "uint8", "uint8", "udot"),
    (V1, "uint8", "int8", "usdot"),
    (V1, "int8", "uint8", "usdot"),
]
MAIN = """
#include <stdio.h>
#include "kernel.h"
static A_TYPE a[KERNEL_A_ELEMENTS];
static W_TYPE w[KERNEL_W_ELEMENTS];
static C_TYPE c[KERNEL_C_ELEMENTS];
int main(void) {
    if (fread(a, sizeof a, 1, stdin) != 1 || fread(w, sizeof w, 1, stdin) != 1) return 3;
    int status = kernel(a, w, c, NULL, 1);
    if (status) return status;
    return fwrite(c, sizeof c, 1, stdout) == 1 ? 0 : 4;
}
"""
C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "bfloat16": "uint16_t", "float32": "float"}


def layer(left: str, right: str) -> ac.ComputeDAG:
    a = ac.placeholder((6, 32), "A", left)
    w = ac.placeholder((8, 24, 4), "W", right, constant=True)
    return ac.ComputeDAG([a, w, ac.ops.dense_packed(a, w, name="C")])


@pytest.mark.parametrize(("target", "left", "right", "instruction"), CASES)
def test_the_untuned_default_uses_the_instruction(
    target: str, left: str, right: str, instruction: str
) -> None:
    dag = layer(left, right)
    program = replay(dag, default_steps(dag, Target.parse(target)))
    text = body_of(assembly_of(program, target))
    assert instruction in mnemonics(text)
    assert text.count(f"\t{instruction}\t") >= 4


def emulate(dag: ac.ComputeDAG, target: str, inputs: list[np.ndarray], folder: Path) -> bytes:
    """Build for ARM, link with a C program, run that in QEMU; return the bytes of the output."""
    for tool in ("qemu-aarch64-static", "aarch64-linux-gnu-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    ac.build(dag, target).save(folder / "kernel.o")
    (folder / "main.c").write_text(MAIN)
    names = zip("AWC", dag.params, strict=True)
    types = [f"-D{n}_TYPE={C_TYPES.get(b.dtype.name, 'int32_t')}" for n, b in names]
    subprocess.run(
        ["aarch64-linux-gnu-gcc", "-static", "-O1", *types, "main.c", "kernel.o", "-lm",
         "-o", "main"],
        cwd=folder, check=True,
    )  # fmt: skip
    data = b"".join(array.tobytes() for array in inputs)
    command = ["qemu-aarch64-static", "-cpu", "max", "./main"]
    return subprocess.run(command, cwd=folder, input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize(("target", "left", "right", "instruction"), CASES)
def test_the_numbers_in_an_emulator(
    target: str, left: str, right: str, instruction: str, tmp_path: Path
) -> None:
    dag = layer(left, right)
    inputs = [values(buffer, np.random.default_rng(0)) for buffer in dag.inputs]
    found = np.frombuffer(emulate(dag, target, inputs, tmp_path), np.int32).reshape(6, 24)
    rows = inputs[1].transpose(0, 2, 1).reshape(32, 24)
    np.testing.assert_array_equal(found, inputs[0].astype(np.int32) @ rows.astype(np.int32))


@pytest.mark.parametrize("target", [A76, V1])
def test_bfloat16_in_an_emulator(target: str, tmp_path: Path) -> None:
    """The second processor has instructions of its own for the conversion."""
    a, w = ac.placeholder((64,), "A"), ac.placeholder((64,), "W", "bfloat16")
    c = ac.compute((64,), lambda i: a[i].astype("bfloat16") + w[i], "C")
    dag = ac.ComputeDAG([a, w, c])
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 64, np.uint32)
    bits[:6] = [0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x00008001, 0x7FC00001, 0xFF800000]
    inputs: list[Any] = [bits.view(np.float32), np.zeros(64, w.dtype.numpy)]
    found = np.frombuffer(emulate(dag, target, inputs, tmp_path), np.uint16)
    with np.errstate(invalid="ignore"):
        expected = (inputs[0].astype(w.dtype.numpy) + inputs[1]).view(np.uint16)
    number = ~np.isnan(inputs[0])
    np.testing.assert_array_equal(found[number], expected[number])
    assert ((found[~number] & 0x7FFF) > 0x7F80).all()
