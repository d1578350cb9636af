"""The machine code of one kernel: `Compiled`."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.codegen.package.signature import Signature


@dataclass(frozen=True)
class Compiled:
    """The code of a kernel, and what it took to make it."""

    code: bytes
    signature: Signature
    passes_s: float
    emit_s: float
    compile_s: float
