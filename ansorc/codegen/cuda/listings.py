"""Listings that `ansorc show` prints of a program for a GPU: CUDA C, PTX, SASS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import compile_cubin, compile_ptx, disassemble
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.target import Target

LISTINGS: Mapping[str, Callable[[DeviceProgram, Target], str]] = {
    "cuda": lambda source, _: cuda_text(source),
    "ptx": lambda source, target: compile_ptx(cuda_text(source), target.arch),
    "sass": lambda source, target: disassemble(compile_cubin(cuda_text(source), target.arch).image),
}
