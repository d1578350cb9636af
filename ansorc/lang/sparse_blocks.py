"""SparseBlocks: a constant matrix as its blocks that are not zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansorc.errors import LanguageError
from ansorc.ir.aligned import Array
from ansorc.lang.literal import short_text
from ansorc.lang.naming import AutoName
from ansorc.lang.tensor import Tensor, placeholder

_WEIGHT = AutoName("weight")
LENGTHS = (2, 4, 8, 16, 32, 64)
"""The columns that a block may have."""


@dataclass(frozen=True, eq=False)
class SparseBlocks:
    """A matrix [k, n] as blocks of 1 x b elements, in the order of their columns, then rows."""

    shape: tuple[int, int]
    values: Array
    """The blocks that are not zero, [blocks, b]; one of zeros if there is no other."""
    rows: Array
    """The row of each block, int32."""
    begins: Array
    """The number of the first block of each b columns, and that of all blocks, int32."""

    @property
    def length(self) -> int:
        """The columns of a block."""
        return self.values.shape[1]

    @property
    def share(self) -> float:
        """The part of all elements that is stored, 0 to 1."""
        return self.values.size / (self.shape[0] * self.shape[1])

    def placeholders(self, name: str = _WEIGHT) -> tuple[Tensor, Tensor, Tensor]:
        """Return constant inputs for values, rows and begins: `<name>`, `<name>.rows`, ….

        The number of blocks is a part of the program; which they are is data of a call.
        """
        count, k = len(self.values), self.shape[0]
        return (
            placeholder(self.values.shape, str(name), self.values.dtype, constant=True),
            placeholder(count, f"{name}.rows", "int32", constant=True, range=(0, k - 1)),
            placeholder(
                len(self.begins), f"{name}.begins", "int32", constant=True, range=(0, count),
                sorted=True,
            ),
        )  # fmt: skip

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """What the placeholders are called with, in their order."""
        return self.values, self.rows, self.begins


def sparse_blocks(weight: Array, length: int = 8) -> SparseBlocks:
    """Return the matrix `weight` [k, n] as its blocks of `length` columns that are not all zero.

    A product is `ac.ops.sparse_matmul(x, *blocks.placeholders())`; x[…, k]. Raise LanguageError for
    what is no matrix of numbers, and for a length that is none of 2, 4, 8, …, 64 or does not divide
    n: pad with columns of zeros.
    """
    is_matrix = isinstance(weight, np.ndarray) and weight.ndim == 2 and weight.size > 0  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_matrix or weight.dtype.kind not in "fiuV":
        raise LanguageError(
            f"ac.sparse_blocks takes a NumPy matrix of numbers, not {short_text(weight)}"
        )
    k, n = weight.shape
    if length not in LENGTHS or n % length:
        known = ", ".join(map(str, LENGTHS))
        raise LanguageError(
            f"ac.sparse_blocks has no blocks of {short_text(length)} of {n} columns: use one of "
            f"{known} that divides {n}, or pad with columns of zeros"
        )
    blocks = weight.reshape(k, n // length, length)
    groups, rows = np.nonzero(np.any(blocks != 0, axis=-1).T)
    counts = np.bincount(groups, minlength=n // length)
    if not len(rows):
        rows, groups = np.zeros(1, np.int64), np.zeros(1, np.int64)
        counts[-1] = 1
    begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return SparseBlocks(
        (k, n), np.ascontiguousarray(blocks[rows, groups]), rows.astype(np.int32), begins
    )
