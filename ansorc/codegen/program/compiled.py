"""The machine code of a program: `CompiledProgram`; of one kernel, with its costs: `Compiled`."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass

from ansorc.codegen.package.signature import Signature
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError
from ansorc.target.units import seconds_text

_MAGIC = b"ansorc program 1\n"


@dataclass(frozen=True)
class CompiledProgram:
    """The result of a back end's compiler."""

    image: bytes
    """An object file, or what a device's driver loads; empty for a kernel that is compiled
    together with the others of its network."""
    source: DeviceProgram | None = None
    """The program that it was made from, for a device; None for a CPU."""

    @property
    def device_program(self) -> DeviceProgram:
        """Return what it was made of; raise BuildError if it is not for a device."""
        if self.source is None:
            raise BuildError("this code is for a CPU: it says no launches for a device")
        return self.source

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        kernels = () if self.source is None else self.source.kernels
        return len(self.image) + sum(len(str(line)) for kernel in kernels for line in kernel.lines)

    def to_bytes(self) -> bytes:
        """Return all of it, for another process; `from_bytes` reads it back."""
        source = b""
        if self.source is not None:
            source = zlib.compress(json.dumps(asdict(self.source)).encode())
        return b"%s%d\n%s%s" % (_MAGIC, len(source), source, self.image)

    @staticmethod
    def from_bytes(data: bytes) -> CompiledProgram:
        """Return what `to_bytes` wrote; raise BuildError for other bytes."""
        if not data.startswith(_MAGIC):
            raise BuildError(
                "these bytes are not a compiled program of this ansorc; use one version of ansorc "
                "in all processes, and compile again"
            )
        size, _, rest = data.removeprefix(_MAGIC).partition(b"\n")
        source, image = rest[: int(size)], rest[int(size) :]
        if not source:
            return CompiledProgram(image)
        return CompiledProgram(image, DeviceProgram.from_json(json.loads(zlib.decompress(source))))


@dataclass(frozen=True)
class Compiled:
    """The code of a kernel, and what it took to make it."""

    code: CompiledProgram
    signature: Signature
    passes_s: float
    emit_s: float
    compile_s: float

    def __repr__(self) -> str:
        return f"<Compiled {self.signature.name}: {len(self.code.image)} bytes of code>"

    def __str__(self) -> str:
        times = self.passes_s, self.emit_s, self.compile_s
        passes, emit, compiler = (seconds_text(seconds, 3) for seconds in times)
        size = len(self.code.image)
        return f"{size} bytes of code; passes {passes}, text {emit}, compiler {compiler}"
