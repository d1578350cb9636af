"""What `ansorc show` prints of a CUDA text: itself, PTX, SASS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ansorc.codegen.cuda.toolkit import compile_cubin, compile_ptx, disassemble
from ansorc.target import Target

LISTINGS: Mapping[str, Callable[[str, Target], str]] = {
    "cuda": lambda text, _: text,
    "ptx": lambda text, target: compile_ptx(text, target.arch),
    "sass": lambda text, target: disassemble(compile_cubin(text, target.arch).image),
}
