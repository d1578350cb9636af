"""The matrix units of CPUs: which tiles they multiply, and the features they need.

A unit adds to a tile of sums the products of a tile of rows and a tile of columns. The elements of
a column lie in groups, as for dot products: `columns[k // group, j, k % group]`. All sums of
integers are exact; those of bfloat16 and float16 are float32, rounded in another order than one
after another, with numbers below 2^-126 as 0 (Intel, "Architecture Instruction Set Extensions").
"""

from __future__ import annotations

from dataclasses import dataclass

from ansorc.target.machine import Target


@dataclass(frozen=True)
class MatrixUnit:
    """One instruction that multiplies tiles; `left` and `right` are names of dtypes."""

    function: str
    """The name of the function in a schedule (`ansorc.ir.operator.MATRIX_FUNCTIONS`)."""
    left: str
    """The elements of the rows."""
    right: str
    """The elements of the columns."""
    group: int
    """Neighbouring products that make up one step of the sum."""
    llvm: str
    """The intrinsic of LLVM, without its `llvm.`."""
    features: tuple[str, ...]
    """Instruction sets, all of which it needs."""
    rows: int = 16
    """The most rows of a tile, and the most groups of its columns."""
    row_bytes: int = 64
    """The most bytes of a row of any tile."""
    tiles: int = 8
    """Tile registers, for sums, rows and columns together."""
    cycles: int = 16
    """Cycles from one instruction to the next (Intel, "Optimization Reference Manual")."""
    latency: int = 52
    """Cycles until a tile of sums can be added to again (the same)."""

    @property
    def columns(self) -> int:
        """The most columns of a tile of sums, of 4 bytes each."""
        return self.row_bytes // 4

    def is_on(self, target: Target) -> bool:
        """Return whether `target` has the unit."""
        return target.is_x86 and set(self.features) <= set(target.features)


_BYTES = ("amx-tile", "amx-int8")

MATRIX_UNITS = (
    MatrixUnit("tile_bf16", "bfloat16", "bfloat16", 2, "x86.tdpbf16ps", ("amx-tile", "amx-bf16")),
    MatrixUnit("tile_f16", "float16", "float16", 2, "x86.tdpfp16ps", ("amx-tile", "amx-fp16")),
    MatrixUnit("tile_i8", "int8", "int8", 4, "x86.tdpbssd", _BYTES),
    MatrixUnit("tile_i8", "int8", "uint8", 4, "x86.tdpbsud", _BYTES),
    MatrixUnit("tile_i8", "uint8", "int8", 4, "x86.tdpbusd", _BYTES),
    MatrixUnit("tile_i8", "uint8", "uint8", 4, "x86.tdpbuud", _BYTES),
)
"""All of them."""


def find_matrix_unit(left: str, right: str) -> MatrixUnit | None:
    """Return the unit that multiplies such rows and columns, whatever the machine."""
    return next((u for u in MATRIX_UNITS if (u.left, u.right) == (left, right)), None)


def matrix_unit(target: Target, left: str, right: str) -> MatrixUnit | None:
    """Return the unit of `target` for such rows and columns, None if it has none."""
    unit = find_matrix_unit(left, right)
    return unit if unit is not None and unit.is_on(target) else None
