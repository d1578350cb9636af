"""The arguments that a kernel is called with: `Signature`, read off a function of the IR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ansorc.codegen.package.c_names import c_names, packer_name, require_c_name
from ansorc.ir.buffer import Buffer, extents_of
from ansorc.ir.dim import Dim, Size, SizeLike, parse_dim, parse_size, value_of
from ansorc.ir.dtype import INT64, DType, dtype
from ansorc.ir.fault import FaultKind, FaultSite
from ansorc.ir.packing import Packing
from ansorc.ir.stmt import (
    For,
    Function,
    LoopKind,
    Stmt,
    fault_sites,
    statements,
    written_buffers,
)

OUT_OF_MEMORY, LACKS_FEATURES = 1, 2
"""The status of a kernel instead of 0 where there is no memory for its buffers, and on a machine
without the features that it was compiled for."""
NOT_OPEN = 3
"""The status of a network whose weights are in a file, before the file is opened."""
NO_SUCH_SHAPE = 6
"""The status of networks for several shapes that have none for the extents of a call."""
FAULT_STATUS: Mapping[FaultKind, int] = {
    FaultKind.INDEX: 7, FaultKind.DIVISION: 8, FaultKind.ASSERTION: 9, FaultKind.VALUE: 10,
}  # fmt: skip
"""The status of a kernel that refuses its data."""
FAULT_RECORD = Buffer("!fault", (8,), INT64)
"""The record of a kernel with checks at the beginning of its workspace: 0, or which check
failed, counted from 1, and the integers that it tells. No other buffer has such a name."""


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
    is_updated: bool = False
    """Whether the kernel writes the new values of this input to it."""
    is_complex: bool = False
    """Whether the caller's elements are complex: pairs of neighbours along the last dimension."""
    sizes: tuple[Size | None, ...] = ()
    """As `Buffer.sizes`: the extents that follow from dimensions. `shape` holds the largest."""

    @property
    def extents(self) -> tuple[SizeLike, ...]:
        """The extents: numbers, and sizes that follow from dimensions."""
        return extents_of(self.shape, self.sizes)

    @property
    def is_written(self) -> bool:
        """Whether the kernel writes to it."""
        return self.is_output or self.is_updated

    @property
    def source_shape(self) -> tuple[int, ...]:
        """The shape of a weight before it is packed, of any other array `shape`."""
        return self.shape if self.packing is None else self.packing.source.shape

    @property
    def caller_shape(self) -> tuple[int, ...]:
        """The shape of the caller's array: in complex numbers, if it has such."""
        shape = self.source_shape
        return (*shape[:-1], shape[-1] // 2) if self.is_complex else shape

    @property
    def caller_dtype(self) -> np.dtype[Any]:
        """The type of the caller's elements in NumPy."""
        kind = self.dtype.numpy
        return np.dtype(f"c{2 * kind.itemsize}") if self.is_complex else kind

    @property
    def caller_type(self) -> str:
        """The dtype and the shape of the caller's array as text: `complex64[4, 8]`."""
        kind = self.caller_dtype.name if self.is_complex else self.dtype.name
        return f"{kind}{list(self.extents if self.sizes else self.caller_shape)}"

    @property
    def is_rewritten(self) -> bool:
        """Whether the kernel reads it in another order than the caller has it."""
        return self.packing is not None and not self.packing.is_plain

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The bytes of what the kernel reads or writes."""
        return self.elements * self.dtype.bytes

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads back, and what a program in C has to know besides."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
            "layout": "row-major",
            "alignment": self.dtype.bytes,
            "output": self.is_output,
            "constant": self.constant,
            "packing": self.packing.to_json() if self.packing is not None else None,
            **({"updated": True} if self.is_updated else {}),
            **({"complex": True} if self.is_complex else {}),
            **({"extents": list(map(str, self.extents))} if self.sizes else {}),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any], dims: Mapping[str, Dim]) -> Param:
        """Return the parameter that `to_json` wrote, of a kernel with these dimensions."""
        packing = fields["packing"]
        sizes = [parse_size(text, dims) for text in fields.get("extents", ())]
        return Param(
            str(fields["name"]),
            tuple(int(extent) for extent in fields["shape"]),
            dtype(fields["dtype"]),
            bool(fields["output"]),
            bool(fields["constant"]),
            Packing.from_json(packing) if packing is not None else None,
            bool(fields.get("updated", False)),  # only those have it that are
            bool(fields.get("complex", False)),
            tuple(size if isinstance(size, Size) else None for size in sizes),
        )


@dataclass(frozen=True)
class MeasuredProgram:
    """The record that a kernel was built from, for those who want to know years later."""

    task: str
    """The key of the task, as `ansorc records list` shows the first letters of."""
    program: str
    """The key of the program."""
    median_s: float
    cpu: str
    """Where it was measured."""
    seed: int
    version: str
    """The ansorc and compiler that measured."""

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> MeasuredProgram:
        """Return what a manifest says."""
        return MeasuredProgram(
            str(fields["task"]), str(fields["program"]), float(fields["median_s"]),
            str(fields["cpu"]), int(fields["seed"]), str(fields["version"]),
        )  # fmt: skip


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
    records: tuple[MeasuredProgram, ...] = ()
    """The measured programs that it was built from, each once; none for untuned schedules."""
    threads: int = 0
    """The most that work on a call, with which it was the fastest; 0: as many as allowed."""
    faults: tuple[FaultSite, ...] = ()
    """The subjects of its checks."""
    fault_place: int = 0
    """Where in the workspace it says which of them failed, in bytes; see `FAULT_RECORD`."""
    dims: tuple[Dim, ...] = ()
    """The dimensions whose sizes the caller gives after the arrays, in this order."""

    def at(self, sizes: Mapping[str, int]) -> Signature:
        """Return the interface for these sizes of the dimensions, which are not given any more."""
        params = tuple(
            replace(p, shape=tuple(value_of(e, sizes) for e in p.extents), sizes=())
            for p in self.params
        )
        return replace(self, params=params, dims=())

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` reads back."""
        return {
            "name": self.name,
            "parameters": [param.to_json() for param in self.params],
            "workspace_bytes": self.workspace_bytes,
            "parallel": self.parallel,
            "flops": self.flops,
            "records": [asdict(record) for record in self.records],
            "threads": self.threads,
            "faults": [site.to_json() for site in self.faults],
            "fault_place": self.fault_place,
            **({"dimensions": list(map(str, self.dims))} if self.dims else {}),
        }

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> Signature:
        """Return the signature that `to_json` wrote; raise KeyError or ValueError for others."""
        dims = tuple(map(parse_dim, fields.get("dimensions", ())))
        by_name = {dim.name: dim for dim in dims}
        return Signature(
            str(fields["name"]),
            tuple(Param.from_json(param, by_name) for param in fields["parameters"]),
            int(fields["workspace_bytes"]),
            bool(fields["parallel"]),
            None if fields["flops"] is None else float(fields["flops"]),
            tuple(map(MeasuredProgram.from_json, fields.get("records", ()))),
            int(fields.get("threads", 0)),  # a manifest of an earlier version has none of these
            tuple(map(FaultSite.from_json, fields.get("faults", ()))),
            int(fields.get("fault_place", 0)),
            dims,
        )


def is_parallel(loop: Stmt) -> bool:
    """Whether `loop` is run by several threads (if no loop around it is)."""
    return isinstance(loop, For) and loop.kind is LoopKind.PARALLEL and loop.extent > 1


def signature_of(
    function: Function,
    workspace_bytes: int,
    flops: float | None = None,
    packings: Sequence[Packing] = (),
    *,
    has_threads: bool = True,
    declared: Sequence[Buffer] = (),
) -> Signature:
    """Return the signature of `function`, whose weights are packed as `packings` say.

    `declared` are its parameters as the caller has them, where passes changed their shapes.
    `has_threads`: whether parallel loops run in threads. Raise BuildError if C cannot call it by
    its name.
    """
    require_c_name(function.name)
    parts = list(statements(function.body))
    stored = {buffer.name for buffer in written_buffers(function.body)}
    packed = {packing.source.name: packing for packing in packings}
    params = tuple(
        Param(
            b.name, b.shape, b.dtype, b.name in stored and not b.is_updated, b.constant,
            packed.get(b.name, Packing.plain(b) if b.constant else None), b.is_updated,
            b.is_complex, b.sizes,
        )
        for b in declared or function.params
    )  # fmt: skip
    parallel = has_threads and any(map(is_parallel, parts))
    return Signature(
        function.name, params, workspace_bytes, parallel, flops, threads=function.threads,
        faults=fault_sites(function.body), dims=function.dims,
    )  # fmt: skip


def without_plain_packings(signature: Signature) -> Signature:
    """Return the signature of the same kernel whose constants nobody packs, where none has to."""
    params = (p if p.is_rewritten else replace(p, packing=None) for p in signature.params)
    return replace(signature, params=tuple(params))


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
