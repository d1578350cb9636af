"""What a kernel is called with: `Signature`, read off a function of the IR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ansorc.codegen.llvm.storage import is_parallel, workspace_bytes
from ansorc.codegen.package.c_names import c_names, packer_name, require_c_name
from ansorc.ir.dtype import DType
from ansorc.ir.node import walk
from ansorc.ir.packing import Packing
from ansorc.ir.stmt import Function, Store


@dataclass(frozen=True)
class Param:
    """One array: row-major, densely packed, aligned to its element."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    is_output: bool
    constant: bool = False
    """Holds the same values at every call (a weight)."""
    packing: Packing | None = None
    """How a weight becomes the array of `shape` that the kernel reads; for constants alone."""

    @property
    def source_shape(self) -> tuple[int, ...]:
        """The shape of a weight before it is packed, of any other array `shape`."""
        return self.shape if self.packing is None else self.packing.source.shape

    @property
    def is_rewritten(self) -> bool:
        """Whether the kernel reads it in another order than the caller has it."""
        return self.packing is not None and not self.packing.is_plain

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Signature:
    """The C interface of a kernel: its name, its arrays in call order, and what else it needs."""

    name: str
    params: tuple[Param, ...]
    workspace_bytes: int
    parallel: bool
    """Has a parallel loop, so it calls the runtime's thread pool."""
    flops: float | None = None
    """Floating-point operations of one call, if known."""


def signature_of(
    function: Function, flops: float | None = None, packings: Sequence[Packing] = ()
) -> Signature:
    """Return the signature of `function`, whose weights are packed as `packings` say.

    Raise BuildError if C cannot call it by its name.
    """
    require_c_name(function.name)
    parts = list(walk(function.body))
    stored = {part.buffer.name for part in parts if isinstance(part, Store)}
    packed = {packing.source.name: packing for packing in packings}
    params = tuple(
        Param(
            b.name, b.shape, b.dtype, b.name in stored, b.constant,
            packed.get(b.name, Packing.plain(b) if b.constant else None),
        )
        for b in function.params
    )  # fmt: skip
    parallel = any(is_parallel(part) for part in parts)
    return Signature(function.name, params, workspace_bytes(function), parallel, flops)


def packing_functions(signature: Signature) -> list[Function]:
    """Return the programs that pack the weights of a kernel, by their names in C.

    There is one for each constant, also where the layout stays as it is: so programs that pack
    all weights fit every schedule of the kernel.
    """
    names = c_names([param.name for param in signature.params])
    return [
        param.packing.function(packer_name(signature.name, name))
        for param, name in zip(signature.params, names, strict=True)
        if param.packing is not None
    ]
