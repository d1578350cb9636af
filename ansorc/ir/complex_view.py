"""Arrays of complex numbers as arrays of their parts, in the same memory, and back."""

from __future__ import annotations

import numpy as np

from ansorc.ir.aligned import Array


def is_complex_array(array: Array) -> bool:
    """Return whether the elements of an array are complex numbers."""
    return array.dtype.kind == "c"


def view_parts(array: Array) -> Array:
    """Return complex numbers [..., n] as real and imaginary parts [..., 2 n].

    The last dimension must be contiguous.
    """
    return array.view(np.dtype(f"f{array.dtype.itemsize // 2}"))


def view_complex(array: Array) -> Array:
    """Return real and imaginary parts [..., 2 n] as complex numbers [..., n]."""
    return array.view(np.dtype(f"c{2 * array.dtype.itemsize}"))
