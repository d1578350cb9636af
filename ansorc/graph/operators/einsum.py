"""Sums of products over the letters of an equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansorc.errors import LanguageError
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName
from ansorc.lang.operators.shapes import require
from ansorc.lang.reduction import Reduction, reduce_axis, sum
from ansorc.lang.scalar import const
from ansorc.lang.scalar_type import Scalar, as_scalar
from ansorc.lang.tensor import Tensor


def einsum(tensors: Sequence[Tensor], equation: str, scale: float = 1.0, dtype: str = "") -> Tensor:
    """Return numpy.einsum(equation, *tensors) * scale, in one sum of products.

    Factors are cast to `dtype` first, if it is given. Extents of 1 are broadcast. Raise
    LanguageError where the equation does not fit the shapes.
    """
    terms, result = _parse(equation, tensors)
    extents: dict[str, int] = {}
    for letters, tensor in zip(terms, tensors, strict=True):
        for letter, extent in zip(letters, tensor.shape, strict=True):
            known = extents.get(letter, 1)
            fits = known == extent or 1 in (known, extent)
            require(fits, "einsum", *tensors, need=f"'{letter}' is both {known} and {extent}")
            extents[letter] = extent if known == 1 else known
    summed = {x: reduce_axis(extents[x], f"r{n}") for n, x in enumerate(extents) if x not in result}

    def body(*indices: Scalar) -> Scalar | Reduction:
        places: dict[str, Scalar] = {**dict(zip(result, indices, strict=True)), **summed}
        product: Scalar | None = None
        for letters, tensor in zip(terms, tensors, strict=True):
            pairs = zip(letters, tensor.shape, strict=True)
            operand_indices = tuple(const(0, "int64") if n == 1 else places[x] for x, n in pairs)
            factor = as_scalar(tensor[operand_indices])
            factor = factor.astype(dtype) if dtype else factor
            product = factor if product is None else product * factor
        term = as_scalar(0 if product is None else product)
        term = term * scale if scale != 1 else term
        return sum(term, axis=list(summed.values())) if summed else term

    shape = [extents[letter] for letter in result]
    return compute(shape, body, AutoName("einsum"), axes=[f"i{d}" for d in range(len(shape))])


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The letters of the dimensions of each tensor, and of the result; "..." as "0", "1", …."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    need = f"'{equation}' has {len(terms)} terms"
    require(len(terms) == len(tensors) > 0, "einsum", *tensors, need=need)
    spare = [len(t.shape) - len(x.replace("...", "")) for x, t in zip(terms, tensors, strict=True)]
    most = max((n for x, n in zip(terms, spare, strict=True) if "..." in x), default=0)
    letters_of: list[list[str]] = []
    for term, tensor, rest in zip(terms, tensors, spare, strict=True):
        fits = rest >= 0 if "..." in term else rest == 0
        require(fits, "einsum", tensor, need=f"'{term}' does not fit its dimensions")
        letters_of.append(_letters(term, [str(d) for d in range(most - rest, most)]))
    dots = [str(d) for d in range(most)]
    if not arrow:
        flat = [letter for letters in letters_of for letter in letters if not letter.isdigit()]
        return letters_of, dots + sorted(letter for letter in set(flat) if flat.count(letter) == 1)
    result = _letters(right, dots)
    known = {letter for letters in letters_of for letter in letters}
    if len(set(result)) < len(result) or not set(result) <= known:
        raise LanguageError(f"einsum: the result of '{equation}' has letters twice, or new ones")
    return letters_of, result


def _letters(term: str, dots: Sequence[str]) -> list[str]:
    before, ellipsis, after = term.partition("...")
    letters = [*before, *(dots if ellipsis else ()), *after]
    if not all(letter.isalnum() for letter in letters):
        raise LanguageError(f"einsum: '{term}' is no list of letters")
    return letters


EINSUM: Mapping[str, Callable[..., Tensor]] = {"einsum": einsum}
"""Definitions by the name of their operator."""
