"""Functions that make complex elements and take them apart."""

from __future__ import annotations

from ansorc.errors import LanguageError
from ansorc.ir.dtype import FLOAT32
from ansorc.lang.complex_type import Complex, require_float
from ansorc.lang.scalar_type import Scalar, ScalarLike, as_scalar


def complex(real: ScalarLike, imag: ScalarLike) -> Complex:
    """Return the complex element `real + imag i` of two floats of one dtype, or of numbers.

    Raise LanguageError for other dtypes.
    """
    parts = [each for each in (real, imag) if isinstance(each, Scalar)]
    like = parts[0].dtype if parts else FLOAT32
    a, b = as_scalar(real, like), as_scalar(imag, like)
    for part in (a, b):
        require_float("a part of a complex number", part)
    if a.dtype != b.dtype:
        raise LanguageError(f"the parts of a complex number are {a.dtype} and {b.dtype}; cast one")
    return Complex(a, b)


def real(z: ScalarLike) -> Scalar:
    """Return the real part of a complex element; a real one is its own."""
    return as_scalar(z).real


def imag(z: ScalarLike) -> Scalar:
    """Return the imaginary part of a complex element, 0 of a real one."""
    return as_scalar(z).imag


def conj(z: ScalarLike) -> Scalar:
    """Return the conjugate of a complex element; a real one is its own."""
    return as_scalar(z).conj()
