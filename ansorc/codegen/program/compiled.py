"""The machine code of one kernel: `Compiled`."""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.codegen.package.signature import Signature
from ansorc.target.units import seconds_text


@dataclass(frozen=True)
class Compiled:
    """The code of a kernel, and what it took to make it."""

    code: bytes
    signature: Signature
    passes_s: float
    emit_s: float
    compile_s: float

    def __repr__(self) -> str:
        return f"<Compiled {self.signature.name}: {len(self.code)} bytes of code>"

    def __str__(self) -> str:
        times = self.passes_s, self.emit_s, self.compile_s
        passes, emit, compiler = (seconds_text(seconds, 3) for seconds in times)
        return f"{len(self.code)} bytes of code; passes {passes}, text {emit}, compiler {compiler}"
